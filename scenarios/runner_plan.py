# SPDX-License-Identifier: GPL-2.0-only
"""A run of the benchmark as values: what was asked for, the trials in their order, and what became of each.

Pure. Runs are paired: within a repeat all schedulers play the same parameters, in random order, scenario by scenario,
and each application is played once alone under the kernel's own scheduler, which relative metrics are compared with.
A trial may have a second phase, with other applications under the same scheduler; for scores and tables `split` makes
two trials of it.
"""

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from asa.core.decision import EEVDF
from scenarios.application import Tier
from scenarios.catalogue import CHANGE, IDLE, SCENARIOS, Scenario
from scenarios.conditions import Conditions, of_old
from scenarios.energy import Energy
from scenarios.noise import Noise

_ALONE = {one.label: one for one in SCENARIOS if not (one.interactive and one.background)}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What decides a plan. A scheduler that is named twice is played twice: it is then compared with itself.

    Of a plan without a clock, guests played under the serial one, at 250 Hz. `machine` is a description's name.
    """

    tier: Tier
    scenarios: tuple[str, ...]  # labels
    schedulers: tuple[str, ...]
    repeats: int
    seed: int
    seconds: float
    warm_up_s: float
    cpus: int
    clock: str = ""
    tick_hz: int | None = None  # of a guest's kernel; None on a machine
    machine: str = ""

    def __post_init__(self) -> None:
        if not self.clock:
            old = of_old(lab=self.tier is Tier.LAB)
            msgspec.structs.force_setattr(self, "clock", old.clock)
            msgspec.structs.force_setattr(self, "tick_hz", old.tick_hz)

    @property
    def under(self) -> Conditions:
        """What its trials are played under."""
        return Conditions(clock=self.clock, tick_hz=self.tick_hz, machine=self.machine)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario played once under one scheduler. `id` is a file's name too."""

    id: str
    order: int  # from 1
    repeat: int  # from 1
    scenario: str  # S16, or the label of what has no number
    interactive: str
    background: str
    scheduler: str
    copy: int  # 1, and counted up where a scheduler was asked for more than once
    seed: int  # of its applications
    then: tuple[str, str] | None = None  # interactive and background of its second phase

    @property
    def label(self) -> str:
        """`web+blender`, `web`, `blender`, `idle`, or `web+blender~game+kernel`."""
        return CHANGE.join("+".join(names) or IDLE for names in self.phases)

    @property
    def phases(self) -> tuple[tuple[str, ...], ...]:
        """The applications of each phase, the interactive one first."""
        pairs = ((self.interactive, self.background), *(() if self.then is None else (self.then,)))
        return tuple(tuple(filter(None, pair)) for pair in pairs)

    @property
    def applications(self) -> tuple[str, ...]:
        """Of all phases, each once."""
        return tuple(dict.fromkeys(name for names in self.phases for name in names))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `run` is its name in results, drawn when it began."""

    version: int = 1
    run: str
    asked: Asked
    trials: tuple[Trial, ...]


class Outcome(StrEnum):
    """What became of a trial."""

    DONE = "done"
    DISTURBED = "disturbed"  # measured, but the machine was busy with something else each time
    FAILED = "failed"


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """All samples of a metric in the measured window of a phase; times since its start."""

    application: str
    metric: str
    at_s: list[float]
    values: list[float]
    phase: int = 1


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A trial as it went. `failure` is one of scenarios.application.Failure, "scheduler" or "guest"; "" for none."""

    trial: Trial
    outcome: Outcome
    attempts: int
    started_ns: int  # of the last attempt, CLOCK_REALTIME
    took_s: float  # with starts and stops
    window_s: float | None = None
    then_window_s: float | None = None  # of the second phase
    under: Conditions | None = None  # None: as its plan says, where nothing was played
    energy: tuple[Energy, ...] = ()  # of each phase that was measured
    host: str = ""
    kernel: str = ""
    cpus: int = 0
    asa_version: str = ""
    scheduler_version: str = ""
    versions: dict[str, dict[str, str]] = {}  # application -> program -> version
    # application -> what the seed drew; CONTROLLER -> what it did, of a scheduler that is one
    parameters: dict[str, dict[str, object]] = {}
    noise: Noise | None = None
    series: list[Series] = []
    failure: str = ""
    application: str = ""  # that failed
    reason: str = ""
    last_words: str = ""


CONTROLLER = "controller"
"""Among a result's parameters: what a scheduler that is a controller did. Under THEN is what it did in the second
phase, in place of what stands beside it."""
THEN = "then"


def make(asked: Asked, scenarios: Sequence[Scenario], run: str) -> Plan:
    """The trials of `scenarios`; the same request and scenarios give the same trials in the same order."""
    rng = random.Random(asked.seed)  # noqa: S311
    trials: list[Trial] = []
    for repeat in range(1, asked.repeats + 1):
        blocks = _blocks(asked.schedulers, scenarios)
        rng.shuffle(blocks)
        for scenario, played in blocks:
            rng.shuffle(played)
            for scheduler, copy in played:
                trials.append(_trial(asked, scenario, scheduler, copy, repeat, len(trials) + 1))
    return Plan(run=run, asked=asked, trials=tuple(trials))


def split(plan: Plan, results: Mapping[str, Result]) -> tuple[Plan, dict[str, Result]]:
    """The same run with a trial of its own for each phase, its scenario named `P1/1` and `P1/2`."""
    trials = tuple(one for trial in plan.trials for one in _apart(trial))
    parts = {part.trial.id: part for result in results.values() for part in _parts(result)}
    return msgspec.structs.replace(plan, trials=trials), parts


def _apart(trial: Trial) -> tuple[Trial, ...]:
    if trial.then is None:
        return (trial,)
    pairs = (trial.interactive, trial.background), trial.then
    return tuple(
        msgspec.structs.replace(
            trial,
            id=f"{trial.id}.{phase}",
            scenario=f"{trial.scenario}/{phase}",
            interactive=pair[0],
            background=pair[1],
            then=None,
        )
        for phase, pair in enumerate(pairs, 1)
    )


def _parts(result: Result) -> tuple[Result, ...]:
    if result.trial.then is None:
        return (result,)
    return tuple(
        msgspec.structs.replace(
            result,
            trial=trial,
            window_s=window_s,
            then_window_s=None,
            energy=result.energy[phase - 1 : phase],
            parameters=_parameters(result, trial, phase),
            versions={name: found for name, found in result.versions.items() if name in trial.applications},
            series=[msgspec.structs.replace(one, phase=1) for one in result.series if one.phase == phase],
        )
        for phase, (trial, window_s) in enumerate(
            zip(_apart(result.trial), (result.window_s, result.then_window_s), strict=True), 1
        )
    )


def _parameters(result: Result, trial: Trial, phase: int) -> dict[str, dict[str, object]]:
    found = {name: drawn for name, drawn in result.parameters.items() if name in trial.applications}
    if CONTROLLER in result.parameters:
        told = dict(result.parameters[CONTROLLER])
        then = told.pop(THEN, None)
        found[CONTROLLER] = told | then if phase > 1 and isinstance(then, dict) else told
    return found


def session_seed(seed: int, repeat: int) -> int:
    """Of all applications of one repeat: the same whatever they play beside, and under which scheduler."""
    return random.Random(f"{seed} {repeat}").getrandbits(31)  # noqa: S311


def _blocks(schedulers: Sequence[str], scenarios: Sequence[Scenario]) -> list[tuple[Scenario, list[tuple[str, int]]]]:
    asked = [(name, schedulers[: place + 1].count(name)) for place, name in enumerate(schedulers)]
    blocks = {one.label: (one, list(asked)) for one in scenarios}
    for one in scenarios:
        then = (one.then.interactive, one.then.background) if one.then is not None else ()
        for part in filter(None, (one.interactive, one.background, *then)):
            played = blocks.setdefault(part, (_ALONE[part], []))[1]
            if (EEVDF, 1) not in played:
                played.append((EEVDF, 1))
    return list(blocks.values())


def _trial(asked: Asked, scenario: Scenario, scheduler: str, copy: int, repeat: int, order: int) -> Trial:
    again = f"-{copy}" if copy > 1 else ""
    return Trial(
        id=f"{repeat:03}-{scenario.label}-{scheduler.replace(':', '.')}{again}",
        order=order,
        repeat=repeat,
        scenario=scenario.name,
        interactive=scenario.interactive,
        background=scenario.background,
        scheduler=scheduler,
        copy=copy,
        seed=session_seed(asked.seed, repeat),
        then=None if scenario.then is None else (scenario.then.interactive, scenario.then.background),
    )
