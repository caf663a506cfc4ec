# SPDX-License-Identifier: GPL-2.0-only
"""Is one series larger than another? The one-sided Mann-Whitney U test, with ties and with serial dependence. Pure.

The test as printed in textbooks takes independent values; what is measured every second is not. Two things are done:

- without dependence the p-value is exact for small samples without ties, else the normal approximation with the
  correction for ties and for continuity (Mann and Whitney 1947; Lehmann, Nonparametrics, 1975, section 1.2);
- positive dependence within a series widens the distribution of U: its variance is multiplied by (1 + r) / (1 - r),
  r being the lag-1 autocorrelation of the ranks within their own series, corrected for its bias in short series
  (Marriott and Pope 1954: r is too small by (1 + 3 r) / n) and raised by half a standard error, because it is only an
  estimate: without that, 1.8 % of the guard's trials with r = 0.5 from second to second were false alarms at
  alpha = 1 %, with it 0.9 % (tests/decide/test_guard.py simulates it again). That U stays normal under such
  dependence, its variance wider, is shown by Dedecker and Sauliere (Math. Methods of Statistics 26, 2017,
  arXiv 1611.06828).

The larger of the two p-values counts.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from math import erfc, sqrt

_EXACT_MOST = 20  # values in a series up to which p is exact
_DOUBT = 0.5  # standard errors that are added to the estimate of r
_R_MOST = 0.95  # beyond it two such series tell nothing, whatever their length here


def larger(values: Sequence[float], than: Sequence[float]) -> float:
    """p-value, 0..1, of "`values` are not larger than `than`"; both in their order of time, neither empty."""
    ranks, ties = _ranks([*values, *than])
    n, m = len(values), len(than)
    alone = _independent(ranks, ties, n)
    inflation = _inflation(ranks[:n], ranks[n:])
    return alone if inflation <= 1.0 else max(alone, _normal(_u(ranks, n), n, m, ties, inflation))


def independent(values: Sequence[float], than: Sequence[float]) -> float:
    """The same for values that do not depend on each other: the test of the textbooks."""
    ranks, ties = _ranks([*values, *than])
    return _independent(ranks, ties, len(values))


def _independent(ranks: Sequence[float], ties: int, n: int) -> float:
    m = len(ranks) - n
    if not ties and max(n, m) <= _EXACT_MOST:
        return _tail(n, m)[round(_u(ranks, n))]
    return _normal(_u(ranks, n), n, m, ties, 1.0)


def _u(ranks: Sequence[float], n: int) -> float:
    """Pairs in which one of the first n is the larger; half a pair for each tie."""
    return sum(ranks[:n]) - n * (n + 1) / 2


def _ranks(values: Sequence[float]) -> tuple[list[float], int]:
    """Ranks from 1, ties share their mean; and the sum of t^3 - t over groups of t equal values."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    ties = start = 0
    for end in range(1, len(order) + 1):
        if end < len(order) and values[order[end]] == values[order[start]]:
            continue
        size = end - start
        for place in order[start:end]:
            ranks[place] = (start + 1 + end) / 2
        ties += size**3 - size
        start = end
    return ranks, ties


@lru_cache(maxsize=64)  # a look has few sizes; the largest takes 10 ms to count and 13 kB to keep
def _tail(n: int, m: int) -> tuple[float, ...]:
    """P(U >= u) for u = 0..n*m, without ties: each of the (n + m choose n) orders is as likely as the others."""
    # counts[k][u]: orders of k values among those looked at so far with k smaller-than pairs adding up to u
    counts = [[0] * (n * m + 1) for _ in range(n + 1)]
    counts[0][0] = 1
    for place in range(n + m):
        for k in range(min(place + 1, n), 0, -1):
            below = place - k + 1  # of the other series, if the value at this place is the k-th of this one
            if below > m:
                continue
            source, target = counts[k - 1], counts[k]
            for u in range(below, n * m + 1):
                target[u] += source[u - below]
    tail = list(accumulate(reversed(counts[n])))
    return tuple(part / tail[-1] for part in reversed(tail))


def _normal(u: float, n: int, m: int, ties: int, inflation: float) -> float:
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1))) * inflation
    if variance <= 0.0:
        return 1.0  # all values are equal
    z = (u - n * m / 2 - 0.5) / sqrt(variance)
    return min(1.0, erfc(z / sqrt(2)) / 2)


def _inflation(*series: Sequence[float]) -> float:
    """By how much serial dependence within the series widens U's variance; below 1 for series that alternate."""
    products = squares = 0.0
    for ranks in series:
        mean = sum(ranks) / len(ranks)
        products += sum((a - mean) * (b - mean) for a, b in pairwise(ranks))
        squares += sum((a - mean) ** 2 for a in ranks)
    if squares <= 0.0:
        return 1.0
    count = sum(map(len, series))
    r = products / squares
    r += (1 + 3 * r) * len(series) / count
    r += _DOUBT * sqrt(max(0.0, 1 - r * r) / count)
    r = min(r, _R_MOST)
    return (1 + r) / (1 - r)
