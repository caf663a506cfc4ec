# SPDX-License-Identifier: GPL-2.0-only
"""The matrix as a plan: which machines play which scenarios with which schedulers, in which order, at what cost. Pure.

A step is a part of it that answers something by itself; steps stand by what they tell for what they cost. Within a step
runs are in an order in which each beginning is a small picture of the whole. Runs of two steps on one machine, scenario
and seed are the same draw of the scenario with other schedulers.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from calibration.controllers.columns import AGENT, FRESH, INSIDE, LEARNT, Given, is_controller
from calibration.oracle import shapes
from calibration.switchback import play
from calibration.switchback.intensity import Level
from calibration.switchback.play import Work
from calibration.switchback.samples import STATES, Orders, Run
from scenarios import catalogue
from scenarios.catalogue import BACKGROUND, INTERACTIVE, PAIRS, Scenario

FIRST_MACHINE = "vm120"
MACHINES = (FIRST_MACHINE, "laptop-hybrid", "vm122", "vm124", "vm128", "vm129")
"""4 CPUs; 8, hybrid; 6; 4 in two clusters; 12 threads of 6 cores; 12, hybrid."""

PROMISING = (str(EEVDF), "scx_flash", "scx_bpfland", "scx_cosmos", "scx_simple")
"""Those that were better than the kernel's own in a metric of docs/scale.md and load within 10 s; it is compared with
itself, too."""

_SLOWER = ("scx_p2dq", "scx_rusty")
_SLOWEST = "scx_lavd"  # loads for a minute, each round
_ROUNDS, _FEW_ROUNDS = 4, 3
_SMALL = (str(EEVDF), "scx_simple", "scx_flash")  # loaded soonest; the kernel's own beside itself
_SMALL_SEED = 3  # the small step adds to the others, and is none of their runs
_WINDOWS = 6  # of a classic run
_STRETCH_S, _HOURS_SEED, _VISITS = 900.0, 11, 3  # four pairs three times: three hours
_LASTING: Mapping[str, Any] = {"standby": {"count": 0}, "realtime": False}
"""Settings of an agent for hours in a guest: as shipped, but for what a guest's slowness would show too large."""
_SINGLES = tuple(one for one in catalogue.PAPER if bool(one.interactive) != bool(one.background))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """`modes`: also all modes of these schedulers. `classic`: each in guests of its own, `rounds` windows in each.

    `lasts_s`: an agent at work for so long in each run, and each goes on with what it had learnt in the one before.
    `learnt_in`: the step whose last run has what agents begin with. What `tells` is for people.
    """

    name: str
    tells: str
    machines: tuple[str, ...]
    scenarios: tuple[Scenario, ...]
    schedulers: tuple[str, ...]
    rounds: int = _ROUNDS
    seed: int = 1
    seeds: int = 1
    modes: bool = False
    classic: bool = False
    lasts_s: float = 0.0
    learnt_in: str = ""
    part: str = ""


def balanced(pairs: Sequence[Scenario]) -> tuple[Scenario, ...]:
    """In an order in which each four have four interactive applications, and each seven of them all loads."""

    def place(one: Scenario) -> tuple[int, int]:
        front, back = INTERACTIVE.index(one.interactive), BACKGROUND.index(one.background)
        return (back - 2 * front) % len(BACKGROUND), front

    return tuple(sorted(pairs, key=place))


_ALL = balanced(PAIRS)
_OTHERS = MACHINES[1:]

STEPS = (
    Step(
        name="small",
        tells="four pairs on two machines of 4 CPUs, two schedulers: the headline figures in two hours of a processor",
        machines=(FIRST_MACHINE, "vm124"),
        scenarios=_ALL[:4],
        schedulers=_SMALL,
        rounds=_FEW_ROUNDS,
        seed=_SMALL_SEED,
    ),
    Step(
        name="classic",
        tells="the same pairs with one scheduler a guest: whether turns and whole guests tell the same",
        machines=(FIRST_MACHINE,),
        scenarios=_ALL[:4],
        schedulers=_SMALL,
        rounds=_WINDOWS,
        seed=_SMALL_SEED,
        classic=True,
        part="classic",
    ),
    Step(
        name="first",
        tells="all pairs on 4 CPUs, the promising schedulers",
        machines=(FIRST_MACHINE,),
        scenarios=_ALL,
        schedulers=PROMISING,
    ),
    Step(
        name="shapes",
        tells="the same on five other machines",
        machines=_OTHERS,
        scenarios=_ALL,
        schedulers=PROMISING,
        rounds=_FEW_ROUNDS,
    ),
    Step(
        name="again",
        tells="all pairs with a second seed: what is chosen by one is judged by the other",
        machines=MACHINES,
        scenarios=_ALL,
        schedulers=PROMISING,
        rounds=_FEW_ROUNDS,
        seed=2,
    ),
    Step(
        name="others",
        tells="schedulers that load longer",
        machines=MACHINES,
        scenarios=_ALL,
        schedulers=_SLOWER,
        rounds=_FEW_ROUNDS,
        part="others",
    ),
    Step(
        name="lavd",
        tells="scx_lavd, which loads for a minute of a guest",
        machines=MACHINES,
        scenarios=_ALL,
        schedulers=(_SLOWEST,),
        rounds=_FEW_ROUNDS,
        part="lavd",
    ),
    Step(
        name="modes",
        tells="all modes but those of scx_lavd",
        machines=MACHINES,
        scenarios=_ALL,
        schedulers=(*PROMISING[1:], *_SLOWER),
        rounds=_FEW_ROUNDS,
        modes=True,
        part="modes",
    ),
    Step(
        name="agent",
        tells="the agent, and that of a fresh installation, beside EEVDF",
        machines=MACHINES,
        scenarios=_ALL,
        schedulers=(AGENT, FRESH),
        rounds=_FEW_ROUNDS,
        part="agent",
    ),
    Step(
        name="inside",
        tells="the agent at the guest's speed, as it was played before",
        machines=(FIRST_MACHINE,),
        scenarios=_ALL[:4],
        schedulers=(AGENT, INSIDE),
        rounds=_FEW_ROUNDS,
        part="inside",
    ),
    Step(
        name="hours",
        tells="a fresh agent for three hours in the pairs of the small step, a quarter of an hour each",
        machines=(FIRST_MACHINE,),
        scenarios=_ALL[:4],
        schedulers=(LEARNT,),
        rounds=1,
        seed=_HOURS_SEED,
        seeds=_VISITS,
        lasts_s=_STRETCH_S,
        part="hours",
    ),
    Step(
        name="learnt",
        tells="what that agent takes afterwards, beside EEVDF",
        machines=(FIRST_MACHINE,),
        scenarios=_ALL[:4],
        schedulers=(LEARNT,),
        rounds=_FEW_ROUNDS,
        seed=_SMALL_SEED,
        learnt_in="hours",
        part="learnt",
    ),
    Step(
        name="lavd-modes",
        tells="the modes of scx_lavd",
        machines=MACHINES,
        scenarios=_ALL,
        schedulers=(_SLOWEST,),
        rounds=_FEW_ROUNDS,
        modes=True,
        part="lavd-modes",
    ),
    Step(
        name="singles",
        tells="each application alone",
        machines=MACHINES,
        scenarios=_SINGLES,
        schedulers=PROMISING,
        rounds=_FEW_ROUNDS,
    ),
    Step(
        name="tick",
        tells="all pairs with a kernel of 250 Hz",
        machines=(f"{FIRST_MACHINE}{shapes.SLOW_TICK}",),
        scenarios=_ALL,
        schedulers=PROMISING,
        rounds=_FEW_ROUNDS,
    ),
)


_QUICK_MACHINES = ("vm125",)
_QUICK_SCENARIOS = tuple(one for one in _ALL if one.label in {"web+kernel", "office+disk"})

QUICK = (
    Step(
        name="quick",
        tells="two pairs on 2 CPUs, two schedulers",
        machines=_QUICK_MACHINES,
        scenarios=_QUICK_SCENARIOS,
        schedulers=(str(EEVDF), "scx_simple", "scx_flash"),
        rounds=_FEW_ROUNDS,
    ),
    Step(
        name="quick-agent",
        tells="the agent in the same pairs",
        machines=_QUICK_MACHINES,
        scenarios=_QUICK_SCENARIOS,
        schedulers=(AGENT,),
        rounds=_FEW_ROUNDS,
        part="agent",
    ),
)
"""Two small steps, to see in minutes that all of it works; no part of the matrix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of a step's runs on one machine, in seconds of a processor of this host."""

    step: str
    machine: str
    runs: int
    played: int
    left_s: float


def steps(names: str) -> tuple[Step, ...]:
    """By a list with commas; all for `all`. Raises AsaError."""
    known = {one.name: one for one in (*STEPS, *QUICK)}
    wanted = [one.name for one in STEPS] if names == "all" else [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            raise AsaError(f"--step: {name!r} is no step of the matrix; the steps are {', '.join(known)}")
    return tuple(one for one in known.values() if one.name in wanted)


def works(
    wanted: Sequence[Step],
    out: Path,
    modes: Mapping[str, Sequence[str]],
    kept: Sequence[Run] = (),
    machines: Sequence[str] = (),
    given: Given | None = None,
) -> list[tuple[Step, Work]]:
    """All runs of these steps, in their order. `modes`: of each scheduler that is installed; others are left out.

    `given` is the agent's. A scenario is as hard as in the runs of its machine that are `kept`. `machines`: these
    alone; none for all.
    """
    levels = {(one.machine, one.orders.label): (one.orders.crowd, one.orders.effort) for one in kept}
    found = []
    for step in wanted:
        options = play.Options(
            machines=tuple(shapes.machine(name) for name in step.machines if not machines or name in machines),
            scenarios=step.scenarios,
            schedulers=_schedulers(step, modes),
            rounds=step.rounds,
            seed=step.seed,
            seeds=step.seeds,
            part=step.part,
            lasts_s=step.lasts_s,
            classic=step.classic,
            given=given if given is not None and any(map(is_controller, step.schedulers)) else Given(),
        )
        if options.machines and options.schedulers:
            planned = _learning(step, play.planned(options, out), out)
            found += [(step, _as_hard(work, levels)) for work in planned]
    return found


def _learning(step: Step, planned: Sequence[Work], out: Path) -> list[Work]:
    """The same, with where each agent's state comes from and goes to."""
    states = (out / STATES).resolve()
    last: dict[str, str] = {}
    if step.learnt_in:
        (other,) = steps(step.learnt_in)
        for name in step.machines:
            orders = Orders(
                label=other.scenarios[-1].label,
                seed=other.seed + other.seeds - 1,
                schedulers=other.schedulers,
                rounds=other.rounds,
                out="",
                part=other.part,
            )
            last[name] = str(states / orders.of(name))
    found = []
    for work in planned:
        given = msgspec.structs.replace(work.orders.given, state=last.get(work.machine.name, ""))
        if step.lasts_s:
            keep = str(Path(work.orders.out) / "state")
            given = msgspec.structs.replace(given, settings=dict(_LASTING), keep=keep)
            last[work.machine.name] = str(states / work.id)
        found.append(replace(work, orders=msgspec.structs.replace(work.orders, given=given)))
    return found


def _as_hard(work: Work, levels: Mapping[tuple[str, str], Level]) -> Work:
    level = levels.get((work.machine.name, work.orders.label))
    if level is None:
        return work
    return replace(work, orders=msgspec.structs.replace(work.orders, crowd=level[0], effort=level[1]))


def _schedulers(step: Step, modes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    here = [name for name in step.schedulers if name in modes or is_controller(name)]
    if not step.modes:
        return tuple(here)
    return tuple(str(SchedulerName.of(name, mode)) for name in here for mode in modes[name][1:])


# Seconds of a guest until a scheduler waits loaded, by docs/design.md, Facts; of others the median.
_LOADS_S: Mapping[str, float] = {
    "eevdf": 0.0,
    "scx_simple": 2.0,
    "scx_flash": 5.6,
    "scx_bpfland": 6.7,
    "scx_rusty": 9.8,
    "scx_p2dq": 9.8,
    "scx_lavd": 59.0,
}
_LOAD_S = statistics.median(_LOADS_S.values())
_START_S, _WINDOW_S = 15.0, 9.0  # seen in vm120's searches; a window is 5 to 20 s
_BUSY = 0.8  # of a guest's processors, seconds of this host for one of a guest; 0.76 in nine searches on vm120


def guest_s(orders: Orders) -> float:
    """Seconds of a guest that a run takes, without knowing the window that its pilot will choose."""
    begin_s = _START_S + 2.0 * (orders.settle_s + orders.alone_s) + orders.pilot_s
    window_s = orders.window_s or _WINDOW_S
    if orders.lasts_s:
        return _START_S + orders.lasts_s
    if orders.classic:
        (name,) = orders.schedulers
        load_s = _LOADS_S.get(SchedulerName(name).bare, _LOAD_S)
        return begin_s + load_s + orders.rounds * (orders.settle_s + window_s) + 2.0 * orders.settle_s
    turns = len(orders.schedulers) + 2
    leads_s = orders.lead_s * sum(map(is_controller, orders.schedulers))
    loaded = [name for name in orders.schedulers if not is_controller(name)]
    loads_s = leads_s + sum(_LOADS_S.get(SchedulerName(name).bare, _LOAD_S) for name in loaded)
    round_s = loads_s + turns * (orders.settle_s + window_s) + 2.0 * orders.settle_s
    return begin_s + orders.rounds * round_s


def expected_s(work: Work) -> float:
    """Seconds of a host's processor, before any run is kept."""
    return guest_s(work.orders) * work.machine.cpus * _BUSY


def factors(kept: Sequence[Run]) -> dict[str, float]:
    """How much more than expected runs took, by machine; "" for all of them. Empty while none is kept."""
    found: dict[str, list[float]] = {}
    for run in kept:
        if run.host_cpu_s > 0.0:
            work = Work(machine=shapes.machine(run.machine), orders=run.orders)
            ratio = run.host_cpu_s / expected_s(work)
            found.setdefault(run.machine, []).append(ratio)
            found.setdefault("", []).append(ratio)
    return {name: statistics.fmean(values) for name, values in found.items()}


def costs(planned: Sequence[tuple[Step, Work]], kept: Sequence[Run]) -> list[Cost]:
    """By step and machine; what is left is told by what kept runs took."""
    known, by = {one.id for one in kept}, factors(kept)
    groups: dict[tuple[str, str], list[Work]] = {}
    for step, work in planned:
        groups.setdefault((step.name, work.machine.name), []).append(work)
    return [
        Cost(
            step=step,
            machine=machine,
            runs=len(group),
            played=sum(one.id in known for one in group),
            left_s=sum(expected_s(one) * by.get(machine, by.get("", 1.0)) for one in group if one.id not in known),
        )
        for (step, machine), group in groups.items()
    ]
