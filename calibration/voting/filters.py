# SPDX-License-Identifier: GPL-2.0-only
"""The paper's voting and six alternatives behind one protocol, for the benchmark that compares them. Pure.

The agent has the paper's alone, and none (`asa.decide.voting`); the two are the same here. A filter keeps nothing
itself: what it remembers is one immutable `Memory`, so that a replay comes to the same votes. A tick that fits no class
carries its mass on the class `unknown` (`open_world`): it takes part as any other class, and where it wins nobody does,
so that the current class stays (the policy ends it after a dwell, which is no matter of voting). A tick without a
distribution says nothing. Time is CLOCK_MONOTONIC in ns.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Protocol, TypeAlias

from asa.core.decision import Probabilities, Vote, Workload
from asa.decide import voting
from asa.decide.voting import UNKNOWN, best, known

_NOTHING = Vote(workload=None, confidence=0.0)
_FORGET_S = 10.0  # what a change-point test has gathered is worth nothing after so long without a tick


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a filter hands from tick to tick. Each uses the part that it needs, and `values` only of the same rule."""

    window: voting.Window = field(default_factory=voting.Window)  # distributions not yet too old
    rule: "Filter | None" = None  # whose `values` these are
    classes: tuple[Workload, ...] = ()  # of `values`
    values: tuple[float, ...] = ()  # a smoothed distribution, or what speaks for each class
    at_ns: int = 0  # when `values` were brought up to date
    vote: Vote = _NOTHING  # the result


class Filter(Protocol):
    """A way to steady classes."""

    def push(
        self, memory: Memory, now_ns: int, probabilities: Probabilities | None, standing: Workload | None
    ) -> Memory:
        """Take in one tick; the result is in `vote`. `standing` is the last winner, None before the first."""
        ...


class Method(StrEnum):
    """The filters by name."""

    NONE = "none"
    MEAN = "mean"
    MAJORITY = "majority"
    SMOOTHING = "smoothing"
    TIME_WEIGHTED = "time-weighted"  # the paper's
    MARKOV = "markov"
    CHANGE_POINT = "change-point"


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """No filter: the most probable class of the newest tick."""

    def push(
        self,
        memory: Memory,
        now_ns: int,  # noqa: ARG002  # what the protocol asks for
        probabilities: Probabilities | None,
        standing: Workload | None,
    ) -> Memory:
        """See `Filter`."""
        return replace(memory, vote=voting.newest(probabilities, current=standing))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWeighted:
    """The paper's Algorithm 1, `asa.decide.voting`."""

    window_s: float = 6.0
    threshold: float = 0.3
    decay: float = 0.8

    def push(
        self, memory: Memory, now_ns: int, probabilities: Probabilities | None, standing: Workload | None
    ) -> Memory:
        """See `Filter`."""
        window = voting.push(memory.window, now_ns, probabilities, self.window_s)
        vote = voting.vote(window, threshold=self.threshold, decay=self.decay, current=standing)
        return replace(memory, window=window, vote=known(vote))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The class with the largest mean probability in the window, however small it is."""

    window_s: float = 6.0

    def push(
        self, memory: Memory, now_ns: int, probabilities: Probabilities | None, standing: Workload | None
    ) -> Memory:
        """See `Filter`."""
        window = voting.push(memory.window, now_ns, probabilities, self.window_s)
        return replace(
            memory, window=window, vote=known(voting.vote(window, threshold=0.0, decay=1.0, current=standing))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Majority:
    """The class that was the most probable one at most ticks of the window; confidence is the share of those."""

    window_s: float = 6.0

    def push(
        self, memory: Memory, now_ns: int, probabilities: Probabilities | None, standing: Workload | None
    ) -> Memory:
        """See `Filter`. A tie goes to the standing class, else to the one seen last."""
        window = voting.push(memory.window, now_ns, probabilities, self.window_s)
        if not window.entries:
            return replace(memory, window=window, vote=_NOTHING)
        classes = window.entries[-1][1].classes
        seen = [classes[one.values.index(max(one.values))] for _, one in reversed(window.entries)]
        counts = Counter(seen)  # in the order of their first sight: the newest first
        most = max(counts.values())
        tied = [name for name, count in counts.items() if count == most]
        winner = standing if standing is not None and standing in tied else tied[0]
        return replace(memory, window=window, vote=known(Vote(workload=winner, confidence=most / len(seen))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoothing:
    """Exponential smoothing by elapsed time: after `memory_s` a distribution counts for 1/e of what it did."""

    memory_s: float = 3.0

    def push(
        self, memory: Memory, now_ns: int, probabilities: Probabilities | None, standing: Workload | None
    ) -> Memory:
        """See `Filter`."""
        if probabilities is None:
            return memory
        values = probabilities.values
        elapsed_s = _elapsed_s(memory, self, now_ns, probabilities.classes)
        if elapsed_s is not None:
            new = -math.expm1(-elapsed_s / self.memory_s)
            values = tuple([old + new * (one - old) for old, one in zip(memory.values, values, strict=True)])
        vote = best(probabilities.classes, values, standing)
        return Memory(rule=self, classes=probabilities.classes, values=values, at_ns=now_ns, vote=vote)


@dataclass(frozen=True, slots=True, kw_only=True)
class Markov:
    """A hidden Markov filter: what runs stays for `dwell_s` on average, then becomes any other class alike.

    The emission is the calibrated distribution (of a model trained on balanced classes, so the prior cancels), at least
    `least`, which bounds what a single tick can say, to the power `trust`: neighbouring ticks err together, so that
    each says less than it would alone. A class wins when the filter believes in it by `certainty`; until then the
    standing one does.
    """

    dwell_s: float = 120.0
    trust: float = 0.5
    least: float = 0.01
    certainty: float = 0.8

    def push(
        self, memory: Memory, now_ns: int, probabilities: Probabilities | None, standing: Workload | None
    ) -> Memory:
        """See `Filter`."""
        if probabilities is None:
            return memory
        classes, count = probabilities.classes, len(probabilities.classes)
        elapsed_s = _elapsed_s(memory, self, now_ns, classes)
        before: Sequence[float] = (1.0 / count,) * count
        if elapsed_s is not None and count > 1:
            stays = math.exp(-elapsed_s / self.dwell_s)
            comes = (1.0 - stays) / (count - 1)
            stays -= comes
            before = [comes + stays * old for old in memory.values]
        belief = [
            old * max(value, self.least) ** self.trust for old, value in zip(before, probabilities.values, strict=True)
        ]
        total = sum(belief)
        values = tuple([one / total for one in belief])
        vote = best(classes, values, standing)
        if vote.confidence < self.certainty:
            vote = _stay(classes, values, standing)
        return Memory(rule=self, classes=classes, values=values, at_ns=now_ns, vote=vote)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """A change-point test (CUSUM) of each class against the standing one.

    Every tick adds the logarithm of their ratio, less `drift`, never below zero; a class that reaches `bound` (in
    nats) wins. Certain ticks are over it in two or three, doubtful ones never. `least` is the smallest probability
    taken seriously: it bounds what a single tick can say. The confidence is what the nearest rival lacks, as a share
    of the bound. Before the first winner each tick's best is tested against its second.
    """

    bound: float = 6.0
    drift: float = 0.5
    least: float = 0.01

    def push(
        self, memory: Memory, now_ns: int, probabilities: Probabilities | None, standing: Workload | None
    ) -> Memory:
        """See `Filter`."""
        if probabilities is None:
            return memory
        classes = probabilities.classes
        elapsed_s = _elapsed_s(memory, self, now_ns, classes)
        sums = memory.values if elapsed_s is not None and elapsed_s <= _FORGET_S else (0.0,) * len(classes)
        second = sorted(probabilities.values)[-2:][0]
        against = max(self.least, probabilities.of(standing) if standing in classes else second)
        cost = math.log(against) + self.drift
        values = tuple(
            [
                0.0 if name == standing else min(self.bound, max(0.0, old + math.log(max(self.least, value)) - cost))
                for name, old, value in zip(classes, sums, probabilities.values, strict=True)
            ]
        )
        most = max(values)
        if most < self.bound:
            vote = Vote(workload=standing if standing in classes else None, confidence=1.0 - most / self.bound)
            return Memory(rule=self, classes=classes, values=values, at_ns=now_ns, vote=vote)
        reached = [
            value if total >= self.bound else -1.0 for total, value in zip(values, probabilities.values, strict=True)
        ]
        winner = classes[reached.index(max(reached))]
        if winner != UNKNOWN:  # it stands from now on, so all are tested anew; unknown never stands
            values = (0.0,) * len(classes)
        vote = known(Vote(workload=winner, confidence=1.0))
        return Memory(rule=self, classes=classes, values=values, at_ns=now_ns, vote=vote)


_Any: TypeAlias = Newest | TimeWeighted | Mean | Majority | Smoothing | Markov | ChangePoint

_MADE: Mapping[Method, type[_Any]] = {
    Method.NONE: Newest,
    Method.MEAN: Mean,
    Method.MAJORITY: Majority,
    Method.SMOOTHING: Smoothing,
    Method.TIME_WEIGHTED: TimeWeighted,
    Method.MARKOV: Markov,
    Method.CHANGE_POINT: ChangePoint,
}


def parameters(method: Method) -> Mapping[str, float]:
    """What can be set of a filter, with its default values."""
    return {one.name: getattr(_MADE[method](), one.name) for one in fields(_MADE[method])}


def make(method: Method, **values: float) -> Filter:
    """A filter by name; what is not given keeps its default. Raises TypeError for a parameter it does not have."""
    return _MADE[method](**values)


def run(
    rule: Filter, ticks: Sequence[tuple[int, Probabilities | None]], standing: Workload | None = None
) -> list[Workload | None]:
    """The standing class after each of these ticks, as the agent would have it."""
    memory, stood = Memory(), []
    for now_ns, probabilities in ticks:
        memory = rule.push(memory, now_ns, probabilities, standing)
        standing = memory.vote.workload or standing
        stood.append(standing)
    return stood


def _elapsed_s(memory: Memory, rule: Filter, now_ns: int, classes: tuple[Workload, ...]) -> float | None:
    # None: nothing to go on from: the first tick, other settings or classes, or a clock that went back
    if memory.rule != rule or memory.classes != classes or now_ns < memory.at_ns:
        return None
    return (now_ns - memory.at_ns) / 1e9


def _stay(classes: Sequence[Workload], values: Sequence[float], standing: Workload | None) -> Vote:
    if standing is None or standing not in classes:
        return _NOTHING
    return Vote(workload=standing, confidence=min(1.0, values[classes.index(standing)]))
