# SPDX-License-Identifier: GPL-2.0-only
"""What a controller did in the course of a trial, and how that is told in the trial's result. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from asa.core.decision import EEVDF
from scenarios.runner_plan import THEN


@dataclass(slots=True, kw_only=True)
class Course:
    """Filled while the controller works. Times are CLOCK_MONOTONIC ns."""

    held: list[tuple[int, str]] = field(default_factory=list)
    """Since when which scheduler has been in force, in order; before the first the kernel's own."""
    classes: list[tuple[int, str]] = field(default_factory=list)
    """The class in force at each tick that had one."""
    cpu: list[tuple[int, int]] = field(default_factory=list)
    """Processor time of the controller in ns, looked at now and then."""
    costs: list[tuple[int, float, float]] = field(default_factory=list)
    """Of ticks of the agent that had something to judge by: when, ms of the model, ms of the rest of the decision."""
    facts: dict[str, object] = field(default_factory=dict)
    """What is told as it is."""


def told(course: Course, windows: Sequence[tuple[int, int]]) -> dict[str, object]:
    """For a result. `windows` are the measured ones: when each began and ended.

    `switched` is [seconds since the first window began, scheduler now in force]; negative before it. Of the first
    window there are `held_s` (seconds that each scheduler was in force), `classes` (ticks of each), `switches`, and
    `cpu_pct` (the controller's processor time in per cent of one CPU, None where that is unknown), and `inference_ms`
    and `decision_ms` of its ticks where they are known; `then` has those of the second.
    """
    starts = [windows[0][0]] if windows else [at_ns for at_ns, _ in course.held[:1]]
    switched = [[round((at_ns - start) / 1e9, 3), name] for start in starts for at_ns, name in changes(course)]
    phases = [_phase(course, start_ns, end_ns) for start_ns, end_ns in windows]
    first, then = (phases[0] if phases else {}), ({THEN: phases[1]} if len(phases) > 1 else {})
    return {"switched": switched, **course.facts, **first, **then}


def changes(course: Course) -> list[tuple[int, str]]:
    """Of the scheduler in force, in order; the first is what was not the kernel's own."""
    found, before = [], str(EEVDF)
    for at_ns, name in course.held:
        if name != before:
            found.append((at_ns, name))
        before = name
    return found


def _phase(course: Course, start_ns: int, end_ns: int) -> dict[str, object]:
    found = changes(course)
    marks = [(0, str(EEVDF)), *found, (end_ns, "")]
    held: Counter[str] = Counter()
    for (at_ns, name), (until_ns, _) in pairwise(marks):
        inside_ns = min(until_ns, end_ns) - max(at_ns, start_ns)
        if inside_ns > 0:
            held[name] += inside_ns
    ticks = [(model_ms, rest_ms) for at_ns, model_ms, rest_ms in course.costs if start_ns <= at_ns < end_ns]
    times = {"inference_ms": [one for one, _ in ticks], "decision_ms": [one for _, one in ticks]} if ticks else {}
    return {
        "held_s": {name: round(inside_ns / 1e9, 3) for name, inside_ns in held.items()},
        "classes": dict(Counter(name for at_ns, name in course.classes if start_ns <= at_ns < end_ns)),
        "switches": sum(1 for at_ns, _ in found if start_ns <= at_ns < end_ns),
        "cpu_pct": _cpu_pct([look for look in course.cpu if start_ns <= look[0] <= end_ns]),
        **times,
    }


def _cpu_pct(looks: Sequence[tuple[int, int]]) -> float | None:
    if len(looks) < 2 or looks[-1][0] == looks[0][0]:
        return None
    return round(100.0 * (looks[-1][1] - looks[0][1]) / (looks[-1][0] - looks[0][0]), 3)
