# SPDX-License-Identifier: GPL-2.0-only
"""Numbers out of repeated measurements: the slope of a line, and the middle of some values with their spread.

Pure arithmetic over plain numbers; it knows nothing of what was measured.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Growth of y for each unit of x, and its standard error (which takes the points for independent)."""

    value: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median of some values, the least and the greatest of them, in the values' own unit."""

    median: float
    least: float
    greatest: float
    count: int


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Least squares through (x, y). None for fewer than three points, or when all have the same x.

    The error is that of simple linear regression: sqrt(sum of squared residuals / (n - 2) / sum of squared x).
    """
    count = len(points)
    if count < 3:
        return None
    mean_x = math.fsum(x for x, _ in points) / count
    mean_y = math.fsum(y for _, y in points) / count
    width = math.fsum((x - mean_x) ** 2 for x, _ in points)
    if width == 0.0:
        return None
    value = math.fsum((x - mean_x) * (y - mean_y) for x, y in points) / width
    rest = math.fsum((y - mean_y - value * (x - mean_x)) ** 2 for x, y in points)
    return Slope(value=value, error=math.sqrt(rest / (count - 2) / width))


def spread(values: Sequence[float]) -> Spread | None:
    """The middle of `values`; None when there are none."""
    if not values:
        return None
    return Spread(median=statistics.median(values), least=min(values), greatest=max(values), count=len(values))
