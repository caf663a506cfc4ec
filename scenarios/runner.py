# SPDX-License-Identifier: GPL-2.0-only
"""Plays the trials of a benchmark's plan on this machine, one after another (in a guest: `python -m scenarios.runner`).

A trial: the scheduler in force, the interactive application and then the background load, both ready, a warm-up that
does not count, the measured window, the end. A second phase follows under the same scheduler where the trial has one:
what played ends, what plays then starts, and is measured as soon as it works, since a warm-up would hide how long
somebody takes to follow the change. What fails is a result with the program's own words, never the end of the run. Does
not decide what is played (`scenarios.runner_plan`) and scores nothing.
"""

import math
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import msgspec

import asa
from asa import paths, wire
from asa.act.forcing import Check, Forcing
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from scenarios import conditions, energy, runner_folder
from scenarios.application import Application, ApplicationError, Failure, Measurement, Tier
from scenarios.catalogue import applications
from scenarios.conditions import Conditions
from scenarios.energy import Energy, Idling, Power
from scenarios.noise import Noise, Scan, between
from scenarios.runner_plan import CONTROLLER, Outcome, Result, Series, Trial
from scenarios.session import Session, default_folder, place_for
from scenarios.session import prepare as prepare_one

_LOOK_S = 0.25
SCHEDULER = "scheduler"
"""The failure of a trial whose scheduler did not come up, or was lost."""


Windows: TypeAlias = Sequence[tuple[int, int]]
"""Of each phase that was measured to its end: when that began and ended, CLOCK_MONOTONIC ns."""

Told: TypeAlias = Callable[[Windows], Mapping[str, object]]
"""What a scheduler that is a controller did in the trial that has just ended, as of `runner_plan.CONTROLLER`; nothing
of others."""


class Forces(Protocol):
    """What a trial needs of `asa.act.forcing.Forcing`."""

    def hold(self, scheduler: SchedulerName) -> AbstractContextManager[Check]:
        """Inside, it is in force."""
        ...

    def version(self, scheduler: SchedulerName) -> str:
        """Of its program."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where, how and under what trials are played. `again` is how often a disturbed one is repeated."""

    applications: Mapping[str, Application]
    tier: Tier
    cache: Path
    scratch: Path
    forcing: Forces
    seconds: float
    warm_up_s: float
    under: Conditions = field(default_factory=conditions.here)
    power: Power | None = None  # None: nobody knows what this machine draws
    again: int = 2
    proc: Path = Path("/proc")
    told: Told = lambda _windows: {}
    mark: Callable[[str], None] = lambda _step: None  # told the steps that are done, as they are


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What is played in a guest, for `main`."""

    trials: tuple[Trial, ...]
    seconds: float
    warm_up_s: float
    out: str
    power: Power | None = None


def play_all(
    trials: Sequence[Trial],
    stage: Stage,
    keep: Callable[[Result], None],
    begin: Callable[[Trial, int], None] = lambda _trial, _attempt: None,
) -> None:
    """Play them in turn; `begin` is called before each attempt, `keep` with each result as it comes."""
    for trial in trials:
        attempt = 1
        while True:
            begin(trial, attempt)
            result = play(trial, stage, attempt)
            if result.outcome is not Outcome.DISTURBED or attempt > stage.again:
                break
            attempt += 1
        keep(result)


def play(trial: Trial, stage: Stage, attempt: int = 1) -> Result:
    """One attempt. Never raises for what went wrong with scheduler or applications: that is in the result."""
    found = _Found(phases=[_Phase(names=names) for names in trial.phases])
    started_ns, begin_s = time.time_ns(), time.monotonic()
    outcome, reason, failure, application, words = Outcome.DONE, "", "", "", ""
    try:
        with ExitStack() as stack:
            _play(trial, stage, found, stack)
        series = found.series()
        if found.noise is not None and stage.tier is Tier.REAL:
            reason = found.noise.complaint()
            if reason:
                outcome, failure = Outcome.DISTURBED, Failure.DISTURBED
    except ApplicationError as error:
        outcome, failure, application = Outcome.FAILED, error.failure, error.application
        reason, words, series = error.reason, error.last_words, []
    except AsaError as error:
        outcome, failure, reason, series = Outcome.FAILED, SCHEDULER, str(error), []
    windows = [phase.window_ns for phase in found.phases if phase.window_ns is not None]
    windows_s = [round((end_ns - start_ns) / 1e9, 6) for start_ns, end_ns in windows]
    told = dict(stage.told(windows))
    sessions = [session for phase in found.phases for session in phase.sessions]
    parameters: dict[str, dict[str, object]] = {one.application.name: dict(one.parameters) for one in sessions}
    if told:
        parameters[CONTROLLER] = told
    return Result(
        trial=trial,
        outcome=outcome,
        attempts=attempt,
        started_ns=started_ns,
        took_s=round(time.monotonic() - begin_s, 3),
        window_s=windows_s[0] if windows_s else None,
        then_window_s=windows_s[1] if len(windows_s) > 1 else None,
        under=stage.under,
        energy=tuple(phase.energy for phase in found.phases if phase.energy is not None),
        host=socket.gethostname(),
        kernel=os.uname().release,
        cpus=len(os.sched_getaffinity(0)),
        asa_version=asa.__version__,
        scheduler_version=found.scheduler_version,
        versions={one.application.name: dict(one.versions) for one in sessions},
        parameters=parameters,
        noise=found.noise,
        series=series,
        failure=failure,
        application=application,
        reason=reason,
        last_words=words,
    )


@dataclass(slots=True, kw_only=True)
class _Phase:
    """What plays together."""

    names: Sequence[str]
    sessions: list[Session] = field(default_factory=list)
    window_ns: tuple[int, int] | None = None
    energy: Energy | None = None

    def members(self) -> list[int]:
        return [pid for session in self.sessions for pid in session.members()]

    def series(self, number: int) -> list[Series]:
        """Of the window. Raises ApplicationError for figures that cannot be."""
        assert self.window_ns is not None  # noqa: S101  # set before a trial ends well
        start_ns, end_ns = self.window_ns
        found = []
        for session in self.sessions:
            name = session.application.name
            taken: dict[str, list[Measurement]] = {metric: [] for metric in session.application.metrics}
            for one in session.measurements():
                if start_ns <= one.at_ns < end_ns:
                    taken[one.metric].append(one)
                    if not (math.isfinite(one.value) and one.value >= 0.0):
                        reason = f"measured {one.value!r} of {one.metric}"
                        raise ApplicationError(application=name, failure=Failure.CRASHED, reason=reason)
            found += [
                Series(
                    application=name,
                    metric=metric,
                    at_s=[round((one.at_ns - start_ns) / 1e9, 6) for one in samples],
                    values=[one.value for one in samples],
                    phase=number,
                )
                for metric, samples in taken.items()
            ]
        return found


@dataclass(slots=True, kw_only=True)
class _Found:
    """What a trial has given so far."""

    phases: Sequence[_Phase]
    scheduler_version: str = ""
    noise: Noise | None = None

    def series(self) -> list[Series]:
        """Of all phases. Raises ApplicationError."""
        return [one for number, phase in enumerate(self.phases, 1) for one in phase.series(number)]


def _play(trial: Trial, stage: Stage, found: _Found, stack: ExitStack) -> None:
    scheduler = SchedulerName(trial.scheduler)
    in_force = stack.enter_context(stage.forcing.hold(scheduler))
    found.scheduler_version = stage.forcing.version(scheduler)
    stage.mark("scheduler")
    before: Scan | None = None
    for phase in found.phases:
        with ExitStack() as playing:
            check = _begin(trial, phase, stage, in_force, playing)
            stage.mark("applications")
            if before is None:
                _last(stage.warm_up_s, check)
                stage.mark("warm-up")
                before = Scan.take(phase.members(), stage.proc)
            idling, start_ns = Idling.take(stage.proc), time.monotonic_ns()
            _last(stage.seconds, check)
            phase.window_ns = start_ns, time.monotonic_ns()
            phase.energy = energy.between(idling, Idling.take(stage.proc), stage.power)
            found.noise = between(before, Scan.take(phase.members(), stage.proc))
            stage.mark("window")


def _begin(
    trial: Trial, phase: _Phase, stage: Stage, in_force: Callable[[], None], playing: ExitStack
) -> Callable[[], None]:
    """Start what plays together; gives what has to be asked again and again."""

    def check() -> None:
        in_force()
        for session in phase.sessions:
            session.check()

    for name in phase.names:
        application = stage.applications[name]
        place = place_for(application, cache=stage.cache, tier=stage.tier)
        session = Session.start(application, seed=trial.seed, place=place, folder=stage.scratch)
        playing.enter_context(session)
        phase.sessions.append(session)
        session.await_ready(also=check)
    return check


def _last(seconds: float, check: Callable[[], None]) -> None:
    end_s = time.monotonic() + seconds
    check()
    while (left_s := end_s - time.monotonic()) > 0.0:
        time.sleep(min(_LOOK_S, left_s))
        check()


def prepare(names: Sequence[str], stage: Stage, report: Callable[[str], None]) -> None:
    """Make what the applications need before the first trial. One that cannot be made fails its own trials later."""
    for name in names:
        application = stage.applications[name]
        report(f"{name} is prepared")
        with suppress(ApplicationError):
            prepare_one(application, place_for(application, cache=stage.cache, tier=stage.tier), report)


def serve(
    orders: Orders,
    places: paths.Places,
    forcing: Forces,
    attend: Callable[[Trial], None] = lambda _trial: None,
    told: Told = lambda _windows: {},
) -> None:
    """In a guest: play what is ordered; says `begin ID`, `step NAME`, and `end ID` once the result lies in its folder.

    `attend` is called before each trial.
    """
    stage = Stage(
        applications=applications(Tier.LAB),
        tier=Tier.LAB,
        cache=places.cache,
        scratch=default_folder(places.cache, lab=True),
        forcing=forcing,
        seconds=orders.seconds,
        warm_up_s=orders.warm_up_s,
        power=orders.power,
        again=0,
        told=told,
        mark=lambda step: print(f"step {step}", flush=True),
    )

    def begin(trial: Trial, _attempt: int) -> None:
        attend(trial)
        print(f"begin {trial.id}", flush=True)

    def keep(result: Result) -> None:
        runner_folder.write(Path(orders.out) / f"{result.trial.id}.json", result)
        print(f"end {result.trial.id}", flush=True)

    play_all(orders.trials, stage, keep, begin)


def read_orders(path: Path) -> Orders:
    """What the host has written for a guest."""
    return wire.from_json(path.read_bytes(), Orders)


def main(words: Sequence[str]) -> int:
    """In a guest: play what a file orders."""
    places = paths.default()
    with Forcing(places, owners=[places.cache.stat().st_uid]) as forcing:  # who built the schedulers on the host
        serve(read_orders(Path(words[0])), places, forcing)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
