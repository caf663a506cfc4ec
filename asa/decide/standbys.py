# SPDX-License-Identifier: GPL-2.0-only
"""Which schedulers to keep loaded for their turn: the most probable next ones, within a budget. Pure.

A scheduler's score is how probable the classes are that it would serve: mostly in the last seconds, partly by what this
machine has been used for in the last half hour, and a little by how many classes want it, which decides while nothing
else is known. Loading one costs seconds of processor time, so whoever stands by stays until another has been clearly
more probable for some seconds. It starts and stops nothing.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from asa.core.decision import EEVDF, Probabilities, SchedulerName, Workload

BUDGET_MB = 48.0
"""Memory that they may take together: four of the largest that were measured for the design (3 to 12 MB)."""
SETTLE_S = 5.0
"""How long one must have been wanted before it is loaded: that takes seconds of processor time. A first choice."""
MARGIN = 0.05
"""How much more probable a newcomer must be than the one whose place it takes. A first choice."""
PRESSURE_SHARE = 0.1
"""All are let go when tasks wait for memory for more than this share of a tick. A first choice."""
CALM_S = 60.0
"""And loaded again after so long without such waits. A first choice."""
_UNKNOWN_BYTES = 12_000_000  # the largest of those measured for the design (3 to 12 MB)
_HABIT_S = 1800.0
_PARTNER = 2.0  # more than any score and MARGIN
_NOW_WEIGHT, _HABIT_WEIGHT, _TABLE_WEIGHT = 0.6, 0.35, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What the choice remembers from tick to tick. Times are CLOCK_MONOTONIC in ns."""

    chosen: tuple[SchedulerName, ...] = ()  # the most wanted first
    newcomers: tuple[tuple[SchedulerName, int], ...] = ()  # wanted without a break since then
    classes: tuple[Workload, ...] = ()
    now: tuple[float, ...] = ()  # smoothed probabilities by class: of the voting window
    habit: tuple[float, ...] = ()  # and of the last half hour
    seen_ns: int = 0  # when they were last brought up to date
    pressed_ns: int | None = None  # when memory was last short
    sizes: Mapping[SchedulerName, int] = field(default_factory=dict)  # bytes, as last known


def observe(state: Readiness, probabilities: Probabilities | None, now_ns: int, window_s: float) -> Readiness:
    """Take in one tick's distribution. Nothing to judge by changes nothing."""
    if probabilities is None:
        return state
    if probabilities.classes != state.classes:
        values = probabilities.values
        return replace(state, classes=probabilities.classes, now=values, habit=values, seen_ns=now_ns)
    elapsed_s = max(0.0, (now_ns - state.seen_ns) / 1e9)
    new, habit = -math.expm1(-elapsed_s / window_s), -math.expm1(-elapsed_s / _HABIT_S)
    return replace(
        state,
        now=tuple([old + new * (value - old) for old, value in zip(state.now, probabilities.values, strict=True)]),
        habit=tuple(
            [old + habit * (value - old) for old, value in zip(state.habit, probabilities.values, strict=True)]
        ),
        seen_ns=now_ns,
    )


def scores(state: Readiness, served: Mapping[Workload, SchedulerName]) -> dict[SchedulerName, float]:
    """How probable each scheduler is, EEVDF too; they sum to 1 where `served` names one for every class."""
    found: dict[SchedulerName, float] = {}
    if not state.classes:
        return found
    share = _TABLE_WEIGHT / len(state.classes)
    for workload, now, habit in zip(state.classes, state.now, state.habit, strict=True):
        scheduler = served.get(workload)
        if scheduler is not None:
            found[scheduler] = found.get(scheduler, 0.0) + _NOW_WEIGHT * now + _HABIT_WEIGHT * habit + share
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What the machine is about in this tick."""

    running: SchedulerName | None
    pending: SchedulerName | None  # a switch to it is under way
    memory_pressure: float | None  # share of the tick in which tasks were stalled for memory
    spare: bool  # False: nothing shall stand by (no gate, on hold, the battery is to be saved)
    partner: SchedulerName | None = None  # takes turns with the one in force: comes first, and at once


def choose(
    state: Readiness,
    *,
    now_ns: int,
    served: Mapping[Workload, SchedulerName],
    scene: Scene,
    count: int,
) -> Readiness:
    """One tick's choice, in `chosen`.

    `served`: the scheduler that each class would get now. While a switch is pending nobody new is loaded and the one
    switched to stays, for it may be among them. `count`: how many at most.
    """
    memory_pressure = scene.memory_pressure
    if memory_pressure is not None and memory_pressure > PRESSURE_SHARE:
        state = replace(state, pressed_ns=now_ns)
    pressed = state.pressed_ns is not None and now_ns - state.pressed_ns < CALM_S * 1e9
    if not scene.spare or pressed or not count:
        return replace(state, chosen=(), newcomers=()) if state.chosen or state.newcomers else state
    if scene.pending is not None:  # it would load beside the switch, and what is awaited may be one of them
        return state
    found = scores(state, served)
    found = {name: score for name, score in found.items() if name not in (EEVDF, scene.running)}
    for name in state.chosen:
        if name in found:
            found[name] += MARGIN
    if scene.partner not in (None, EEVDF, scene.running):
        found[scene.partner] = _PARTNER
    ranked = sorted(found, key=found.__getitem__, reverse=True)  # stable: ties stand as in the table
    wanted = _fit(ranked, state.sizes, count)
    if wanted == state.chosen and not state.newcomers:
        return state
    since = dict(state.newcomers)
    newcomers = tuple((name, since.get(name, now_ns)) for name in wanted if name not in state.chosen)
    ripe = {name for name, since_ns in newcomers if name == scene.partner or now_ns - since_ns >= SETTLE_S * 1e9}
    first = [name for name in wanted if name in state.chosen or name in ripe]
    staying = [name for name in ranked if name in state.chosen and name not in wanted]
    return replace(
        state,
        chosen=_fit([*first, *staying], state.sizes, count),
        newcomers=tuple(one for one in newcomers if one[0] not in ripe),
    )


def weigh(state: Readiness, sizes: Mapping[SchedulerName, int]) -> Readiness:
    """Take note of how large schedulers turned out to be, in bytes."""
    if all(state.sizes.get(name) == size for name, size in sizes.items()):
        return state
    return replace(state, sizes={**state.sizes, **sizes})


def _fit(names: Collection[SchedulerName], sizes: Mapping[SchedulerName, int], count: int) -> tuple[SchedulerName, ...]:
    left_bytes, fitting = BUDGET_MB * 1e6, list[SchedulerName]()
    for name in names:
        size = sizes.get(name, _UNKNOWN_BYTES)
        if len(fitting) < count and size <= left_bytes:
            left_bytes -= size
            fitting.append(name)
    return tuple(fitting)
