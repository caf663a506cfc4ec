# SPDX-License-Identifier: GPL-2.0-only
"""Is one scheduler better than another, by runs in pairs? Tests, corrections for many of them, sizes of effects. Pure.

The t test of the differences within pairs: a pair played the same parameters, so what differs between pairs drops out.
With few pairs a rank test could not reach 5 % at all (five pairs: 6 %).
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special, stats
from statsmodels.stats.multitest import multipletests

LEAST_PAIRS = 3
LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Differences b - a of some pairs, in their own unit. `low` to `high` hold the mean with 95 % confidence.

    `effect` is Cohen's d of pairs, the mean in standard deviations: 0.2 is small, 0.8 large. `p` is two-sided. All
    three are None of fewer than LEAST_PAIRS pairs.
    """

    pairs: int
    mean: float
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    p: float | None = None


def paired(differences: Sequence[float], floor: float) -> Paired | None:
    """The t test; None of nothing.

    A standard deviation below `floor` counts as `floor`, the smallest one that means anything: two runs of a figure
    that has reached its end are equal, and would make any third one significant.
    """
    count = len(differences)
    if not count:
        return None
    mean = statistics.fmean(differences)
    if count < LEAST_PAIRS:
        return Paired(pairs=count, mean=mean)
    deviation = max(statistics.stdev(differences), floor)
    error = deviation / math.sqrt(count)
    half = float(special.stdtrit(count - 1, 1.0 - LEVEL / 2.0)) * error
    return Paired(
        pairs=count,
        mean=mean,
        low=mean - half,
        high=mean + half,
        effect=mean / deviation,
        p=float(2.0 * special.stdtr(count - 1, -abs(mean) / error)),
    )


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p: below 5 % anywhere, where nothing differs, in one evaluation of twenty (Holm, 1979).

    It is for a claim about all of them, such as that a scheduler does not differ from itself.
    """
    return _adjusted(ps, "holm")


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Adjusted p: of those below 5 %, one in twenty differs by chance (Benjamini and Hochberg, 1995).

    It is for a list to look through, in which a few wrong lines do no harm.
    """
    return _adjusted(ps, "fdr_bh")


def overall(means: Sequence[float]) -> float | None:
    """Two-sided p of Wilcoxon's signed ranks over scenarios: do they lean to one side? None where nothing differs."""
    leaning = [mean for mean in means if mean != 0.0]
    return float(stats.wilcoxon(leaning).pvalue) if leaning else None


def _adjusted(ps: Sequence[float], method: str) -> list[float]:
    return [float(p) for p in multipletests(ps, method=method)[1]] if ps else []
