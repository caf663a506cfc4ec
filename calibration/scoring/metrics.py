# SPDX-License-Identifier: GPL-2.0-only
"""What is scored: a metric with its constants, and an application with its metrics.

Types alone; the figures are in `calibration.scoring.table`, the curves in `calibration.scoring.curves`.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from calibration.scoring.curves import Direction, ScoreError
from scenarios.application import Role

K_VALUE = math.log(9.0)
"""Puts 0.9 and 0.1 at the two edges of the sweet spot (gamma 1)."""


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
    sources: tuple[str, ...]  # keys of table.SOURCES
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One of the eleven; the weights of its metrics add up to 1."""

    name: str
    title: str
    role: Role
    metrics: tuple[Metric, ...]
