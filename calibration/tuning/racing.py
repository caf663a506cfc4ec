# SPDX-License-Identifier: GPL-2.0-only
"""Racing: is a candidate better than the one it is to replace? In pairs of one seed, until it is sure. Pure.

Looks after 3, 4, ... 9 pairs, each by a t test at a seventh of 5 % (Bonferroni): the chance of taking one that is no
better is below 5 % over all looks together. A candidate that is surely worse is let go by the same test.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from scipy import special

LEAST, MOST = 3, 9
_ALPHA = 0.05 / (MOST - LEAST + 1)


class Verdict(StrEnum):
    """How a race ended."""

    BETTER = "better"
    WORSE = "worse"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """The mean difference (candidate's gain) with the interval of the last look, in the differences' unit."""

    verdict: Verdict
    pairs: int
    mean: float
    low: float
    high: float


def race(difference: Callable[[int], float], floor: float = 0.0, most: int = MOST) -> Race:
    """`difference(n)` plays pair n, from 0: the candidate's figure minus the other's, more is better.

    A standard deviation below `floor` counts as `floor`, the smallest one that means anything. It ends after `most`
    pairs, LEAST to MOST.
    """
    found: list[float] = []
    while True:
        found.append(difference(len(found)))
        if len(found) < LEAST:
            continue
        mean = statistics.fmean(found)
        error = max(statistics.stdev(found), floor) / len(found) ** 0.5
        half = float(special.stdtrit(len(found) - 1, 1.0 - _ALPHA / 2.0)) * error
        sure = Verdict.BETTER if mean > half else Verdict.WORSE if mean < -half else Verdict.NEITHER
        if sure is not Verdict.NEITHER or len(found) >= most:
            return Race(verdict=sure, pairs=len(found), mean=mean, low=mean - half, high=mean + half)
