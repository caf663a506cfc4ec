# SPDX-License-Identifier: GPL-2.0-only
"""What is scored: a metric of an application with its constants.

A background load declares its metrics in its own module, mostly by `speed` and `duration`; those of the four
interactive applications are in `calibration.scoring.table`, the curves in `calibration.scoring.curves`.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from asa.core.errors import AsaError

K_VALUE = math.log(9.0)
"""Puts 0.9 and 0.1 at the two edges of the sweet spot (gamma 1)."""


class Direction(StrEnum):
    """Which figures a person likes better."""

    SMALLER = "smaller"
    LARGER = "larger"


class ScoreError(AsaError):
    """A figure or a constant that no score can be made of: not finite, negative, or of something that is not scored.

    `what` names it, `value` is what it was.
    """

    def __init__(self, *, what: str, value: object, allowed: str) -> None:
        super().__init__(f"{what}: {value!r} cannot be scored; allowed: {allowed}")
        self.what = what
        self.value = value
        self.allowed = allowed


class Summary(StrEnum):
    """Which one figure stands for all samples of a run."""

    MEAN = "mean"
    P95 = "p95"
    P99 = "p99"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric and how it is scored.

    `good` and `bad` are the edges of the sweet spot: from `good` on nobody feels that it gets better, from `bad` on it
    is not usable any more, whatever it does. They are in the metric's unit; of a `relative` metric they are shares of
    the speed that the same load reaches alone on the same machine, so that more is better whatever the unit.

    `spread` is the standard deviation at which the stability score is 1/2, on the same scale; None where nobody feels
    the spread (then `stability_weight` is 0). `weight` is its part in its application. `unit` ends `name`.
    """

    name: str
    unit: str
    sentence: str
    direction: Direction  # of the figure itself
    summary: Summary
    good: float
    bad: float
    weight: float
    reason: str
    sources: tuple[str, ...]  # keys of calibration.scoring.table.SOURCES
    relative: bool = False
    spread: float | None = None
    stability_weight: float = 0.0
    k_value: float = K_VALUE
    gamma_value: float = 1.0
    gamma_stability: float = 2.0

    def __post_init__(self) -> None:
        better = Direction.LARGER if self.relative else self.direction
        if self.good == self.bad or self.curve is not better:
            raise ScoreError(what=f"{self.name}.good", value=self.good, allowed=f"{better} than bad ({self.bad!r})")
        if (self.spread is None) is not (self.stability_weight == 0.0) or not 0.0 <= self.stability_weight < 1.0:
            allowed = "from 0 to less than 1, and 0 exactly where there is no spread"
            raise ScoreError(what=f"{self.name}.stability_weight", value=self.stability_weight, allowed=allowed)
        if self.spread is not None and (self.spread <= 0.0 or (self.relative and self.direction is Direction.SMALLER)):
            allowed = "above 0; None for a time that is scored as a speed"
            raise ScoreError(what=f"{self.name}.spread", value=self.spread, allowed=allowed)

    @property
    def curve(self) -> Direction:
        """Which way the value score rises."""
        return Direction.LARGER if self.good > self.bad else Direction.SMALLER

    @property
    def theta(self) -> float:
        """Middle of the sweet spot: value score 1/2."""
        return (self.good + self.bad) / 2.0

    @property
    def f(self) -> float:
        """Half of the sweet spot's width."""
        return abs(self.good - self.bad) / 2.0

    @property
    def k_stability(self) -> float | None:
        """In the scale's unit to the power of minus `gamma_stability`; None where spread does not count."""
        return None if self.spread is None else self.spread**-self.gamma_stability

    @property
    def scale(self) -> str:
        """The unit of `good`, `bad`, `theta`, `f` and `spread`."""
        return "of alone" if self.relative else self.unit


_RELATIVE = (
    "No absolute figure would fit two machines, so it is the share of the speed that it has alone. Down to 0.8 nobody "
    "notices; at 0.2 it takes five times as long, and a person comes back later anyway."
)


def speed(name: str, unit: str, sentence: str, weight: float, *, steady: bool = False) -> Metric:
    """Work done in a time; more is better."""
    return Metric(
        name=name,
        unit=unit,
        sentence=sentence,
        direction=Direction.LARGER,
        summary=Summary.MEAN,
        good=0.8,
        bad=0.2,
        weight=weight,
        relative=True,
        spread=0.3 if steady else None,
        stability_weight=0.2 if steady else 0.0,
        reason=_RELATIVE + (" It is watched as it flows, so its steadiness counts." if steady else ""),
        sources=("seow", "ours"),
    )


def duration(name: str, unit: str, sentence: str, weight: float, summary: Summary = Summary.MEAN) -> Metric:
    """How long work takes; less is better."""
    return Metric(
        name=name,
        unit=unit,
        sentence=sentence,
        direction=Direction.SMALLER,
        summary=summary,
        good=0.8,
        bad=0.2,
        weight=weight,
        relative=True,
        reason=_RELATIVE,
        sources=("seow", "ours"),
    )
