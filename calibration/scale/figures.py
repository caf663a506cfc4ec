# SPDX-License-Identifier: GPL-2.0-only
"""From turns to figures: for each metric, core count and scheduler the mean of the turns, with its confidence interval.

Pure arithmetic over what guests recorded; it measures nothing.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy import stats

from calibration.paired import LEVEL
from calibration.scale.samples import METRICS, Found, Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """A metric of one scheduler in one guest, in the metric's base unit. None is unknown."""

    metric: Metric
    guest: str  # its label
    cpus: int
    scheduler: str
    value: float | None  # mean of the turns
    error: float | None  # half the width of the 95 % confidence interval; None for fewer than two turns
    turns: int


def mean(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean, and half the width of its 95 % confidence interval by Student's t (which takes values for normal)."""
    if not values:
        return None, None
    if len(values) < 2:
        return values[0], None
    quantile = float(stats.t.ppf(1.0 - LEVEL / 2.0, len(values) - 1))
    return statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values))


def schedulers(found: Iterable[Found]) -> tuple[str, ...]:
    """Those that any guest was asked for, in the order in which they were named."""
    return tuple(dict.fromkeys(name for one in found for name in one.versions))


def figures(found: Sequence[Found], metrics: Sequence[Metric] = METRICS) -> list[Average]:
    """All of them, metric by metric."""
    return [
        _figure(metric, one, scheduler)
        for metric in metrics
        for one in found
        for scheduler in schedulers(found)
        if scheduler in one.versions
    ]


def _figure(metric: Metric, found: Found, scheduler: str) -> Average:
    readings = [turn.readings.get(metric.mode, {}) for turn in found.turns if turn.scheduler == scheduler]
    values = [value for reading in readings if (value := metric.value(reading)) is not None]
    value, error = mean(values)
    return Average(
        metric=metric,
        guest=found.label,
        cpus=found.cpus,
        scheduler=scheduler,
        value=value,
        error=error,
        turns=len(values),
    )


def differs(one: Average, other: Average) -> bool:
    """Do their intervals lie apart? A stricter question than a test of the difference at 5 %."""
    if one.value is None or one.error is None or other.value is None or other.error is None:
        return False
    return abs(one.value - other.value) > one.error + other.error


def better(one: Average, other: Average) -> bool:
    """Is the first one's value on the better side of the other's?"""
    if one.value is None or other.value is None:
        return False
    return one.value > other.value if one.metric.more_is_better else one.value < other.value
