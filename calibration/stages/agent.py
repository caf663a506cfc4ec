# SPDX-License-Identifier: GPL-2.0-only
"""Columns of the calibration's stages: a scheduler with the agent at work beside it, live or as a shadow.

`live:scx_lavd` is the agent whose table names scx_lavd for whatever it recognises: it brings it into force itself.
`shadow:scx_lavd` is the agent in its shadow mode, whose table names scx_lavd and eevdf by turns: in each turn it loads
scx_lavd and has it verified, and attaches nothing. What that costs becomes a part of the trial's result. All other
names go to `calibration.controllers`. With a folder for recordings every trial is recorded too, as what a model is
trained from. Blocks; for offline work.
"""

import os
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from asa import config, paths, status, wire
from asa.act.forcing import Check, Forcing
from asa.act.kernel import sched_ext_state, scheduler_in_force
from asa.act.portfolio import Portfolio
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome
from asa.core.errors import SchedulerError
from asa.journal import Journal
from calibration.controllers import agent as controllers_agent
from calibration.controllers import course as controllers_course
from calibration.controllers.columns import Controllers, Given
from calibration.controllers.course import Course
from calibration.stages.columns import LIVE, SHADOW
from calibration.stages.record import Recording
from models import versions
from models.runtime import Ensemble
from scenarios import planted
from scenarios.runner import Windows
from scenarios.runner_plan import Trial

SHADOWED = "shadow"
"""What a shadow cost, in `Result.parameters[CONTROLLER]`: a `Shadowed`."""

SETTINGS: controllers_agent.Settings = {  # the agent does at once what its table says, and only that
    "voting": {"threshold": 0.01, "open_world": False},
    "policy": {"cooldown_s": 0, "dwell_s": 0, "weigh_cost": False, "learn": "off"},
    "guard": {"enabled": False},
}
_TURN_S = 5.0  # of a shadow's turns: some seconds of a load under emulation, and several in a window
_IN_FORCE_LIMIT_S = 180.0
_LOOK_S = 0.05


class Shadowed(msgspec.Struct, frozen=True, kw_only=True):
    """What a shadow's trial cost. Processor times of single loads, means of ticks, the agent's own over all of it."""

    loads_ms: list[float]  # processor time of each load with its verification
    walls_ms: list[float]  # and how long it took
    refused: list[str]  # why it did not load, in its own words
    ticks: int
    tick_ms: float | None  # collection, inference, decision, order; None of no tick
    inference_ms: float | None
    agent_pct: float | None  # the agent's processor time, % of one CPU; None of fewer than two ticks
    cpus: int


@dataclass(slots=True)
class _Turns:
    """Changes a shadow's table by turns."""

    table: Path
    scheduler: SchedulerName
    classes: Sequence[str]
    run: Path
    since_s: float = field(default_factory=time.monotonic)
    wants: bool = True

    def look(self) -> None:
        if time.monotonic() - self.since_s < _TURN_S:
            return
        self.since_s, self.wants = time.monotonic(), not self.wants
        write_table(self.table, self.scheduler if self.wants else EEVDF, self.classes)
        agent = status.read(self.run)
        if agent is not None:
            with suppress(ProcessLookupError):
                os.kill(agent.pid, signal.SIGHUP)


class Stages:
    """Implements `scenarios.runner.Forces`; `attend` and `told` as of `Controllers`."""

    def __init__(
        self,
        places: paths.Places,
        given: Given,
        scratch: Path,
        owners: Collection[int] = (),
        record: Callable[[], Recording] | None = None,
    ) -> None:
        """`record` begins a recording; it is asked before each trial that is to be recorded."""
        self._places = places
        self._given = given
        self._scratch = scratch
        self._owners = tuple(owners)
        self._controllers = Controllers(places, given, scratch, owners)
        self._portfolio = Portfolio.load(paths.manifest(), places.schedulers, owners=self._owners)
        self._record = record
        self._recording: Recording | None = None
        self._trial: Trial | None = None
        self._course: Course | None = None
        self._shadowed: Shadowed | None = None

    def attend(self, trial: Trial) -> None:
        """The trial that comes next."""
        self._trial, self._course, self._shadowed = trial, None, None
        self._controllers.attend(trial)

    def told(self, windows: Windows) -> dict[str, object]:
        """What the agent did and cost. A recording of the trial is kept here, if it was measured to its end."""
        if self._recording is not None and self._trial is not None:
            self._recording.keep(self._trial, windows)
        self._recording = None
        if self._course is None:
            return self._controllers.told(windows)
        shadowed = {} if self._shadowed is None else {SHADOWED: wire.plain(self._shadowed)}
        return {**controllers_course.told(self._course, windows), **shadowed}

    def version(self, scheduler: SchedulerName) -> str:
        """Of its program, else the start of its hash. Raises SchedulerError."""
        return self._controllers.version(SchedulerName(scheduler.removeprefix(LIVE).removeprefix(SHADOW)))

    @contextmanager
    def hold(self, scheduler: SchedulerName) -> Iterator[Check]:
        """Inside, it is at work. Raises SchedulerError."""
        self._recording = None if self._record is None else self._record()
        with self._recording or nullcontext():
            for prefix, at_work in ((LIVE, self._live), (SHADOW, self._shadow)):
                if scheduler.startswith(prefix):
                    with at_work(SchedulerName(scheduler.removeprefix(prefix))) as check:
                        yield check
                    return
            with self._controllers.hold(scheduler) as check:
                yield check

    @contextmanager
    def _live(self, scheduler: SchedulerName) -> Iterator[Check]:
        with self._folder() as folder, self._agent(folder, scheduler, ()) as alive:
            name = scheduler.bare

            def check() -> None:
                alive()
                if self._in_force() != name:
                    raise SchedulerError(scheduler=scheduler, reason="is in force no more")

            end_s = time.monotonic() + _IN_FORCE_LIMIT_S
            while self._in_force() != name:
                alive()
                self._refused(scheduler)
                if time.monotonic() > end_s:
                    reason = f"the agent did not bring it into force within {_IN_FORCE_LIMIT_S:.0f} s"
                    raise SchedulerError(scheduler=scheduler, reason=reason)
                time.sleep(_LOOK_S)
            yield check

    def _refused(self, scheduler: SchedulerName) -> None:
        """Raise SchedulerError once the agent's switch to it has failed: it would try again, later and later."""
        agent = status.read(self._places.run)
        for one in () if agent is None else agent.lately:
            if one.new == scheduler and one.outcome in (SwitchOutcome.FAILED, SwitchOutcome.REFUSED):
                reason = one.ended or one.detail or f"the agent's switch to it was {one.outcome}"
                raise SchedulerError(scheduler=scheduler, reason=reason)

    @contextmanager
    def _shadow(self, scheduler: SchedulerName) -> Iterator[Check]:
        with self._folder() as folder:
            journal = folder / "shadow.sqlite"
            with self._agent(folder, scheduler, ("--shadow", "--journal", str(journal))) as alive:
                turns = _Turns(folder / "table.yaml", scheduler, self._classes(), self._places.run)

                def check() -> None:
                    alive()
                    turns.look()

                yield check
            with Journal.look(journal) as found:
                self._shadowed = shadowed(found, scheduler)

    @contextmanager
    def _agent(self, folder: Path, scheduler: SchedulerName, words: Sequence[str]) -> Iterator[Check]:
        if scheduler != EEVDF:
            with Forcing(self._places, self._owners) as forcing:
                forcing.check_usable(scheduler)
        table = folder / "table.yaml"
        write_table(table, scheduler, self._classes())
        named = {**SETTINGS, "table": str(table)}  # by its path: it is written anew while the agent is at work
        job = controllers_agent.Job(model=self._model(), settings=named, owners=self._owners)
        command = (*controllers_agent.COMMAND[:-1], *words, controllers_agent.COMMAND[-1])
        self._course = Course()
        with controllers_agent.running(job, self._places, self._scratch, self._course, command) as alive:
            yield alive

    def _in_force(self) -> SchedulerName | None:
        return scheduler_in_force(sched_ext_state(self._places.sys), self._portfolio.name_of_ops)

    def _classes(self) -> tuple[str, ...]:
        return Ensemble.load(Path(self._model())).classes

    def _model(self) -> str:
        """This machine's: the trial's agent has a state of its own, in which it would find none."""
        settings = config.load(self._places.config)
        return self._given.model or settings.model or str(versions.in_use(versions.folder(self._places)))

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        self._scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="asa-stage-", dir=self._scratch))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def write_table(path: Path, name: SchedulerName, classes: Sequence[str]) -> None:
    """A table that names one scheduler for every class, as a whole. Raises AsaError."""
    planted.write(path, {key: [planted.entry(name, why="what this trial is of")] for key in classes})


def shadowed(journal: Journal, scheduler: str) -> Shadowed:
    """What a journal of the shadow mode says of a scheduler. Raises JournalError."""
    sessions = [session.number for session in journal.sessions()]
    events = [one for number in sessions for one in journal.events(number) if one.new == scheduler]
    loads = [one.load for one in events if one.outcome is SwitchOutcome.SHADOWED and one.load is not None]
    costs = [one for number in sessions for one in journal.costs(number)]
    ticks = [one.collection_us + (one.inference_us or 0.0) + one.decision_us + one.action_us for one in costs]
    inferences = [one.inference_us for one in costs if one.inference_us is not None]
    passed_ns = costs[-1].monotonic_ns - costs[0].monotonic_ns if costs else 0
    return Shadowed(
        loads_ms=[round((load.user_ns + load.system_ns) / 1e6, 3) for load in loads],
        walls_ms=[round(load.wall_ns / 1e6, 3) for load in loads],
        refused=[one.detail for one in events if one.outcome is SwitchOutcome.REFUSED],
        ticks=len(ticks),
        tick_ms=round(statistics.fmean(ticks) / 1e3, 4) if ticks else None,
        inference_ms=round(statistics.fmean(inferences) / 1e3, 4) if inferences else None,
        agent_pct=round(100.0 * (costs[-1].cpu_ns - costs[0].cpu_ns) / passed_ns, 4) if passed_ns else None,
        cpus=len(os.sched_getaffinity(0)),
    )
