# SPDX-License-Identifier: GPL-2.0-only
"""Sums over pairs of the fleet's runs, with what chance leaves open: shares, gains, and tests. Pure.

A block counts once in means, however many runs it has. Machines play a scenario with the same parameters, so what
differs from scenario to scenario differs alike on all of them: the scenarios are what is independent, and where there
is one alone, the draws of its parameters. Intervals of means are the jackknife's over these (Tukey, 1958; t quantiles),
those of shares are Wilson's (1927), which take the runs for independent. Both hold 95 %.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from calibration.fleet.figures.pairs import FLOOR, LEAST_SCORE, MARGIN, Pairs
from calibration.paired import LEAST_PAIRS, LEVEL, Paired, holm, paired

Sums: TypeAlias = tuple[float, float, float]
"""Of some runs: ours, theirs, and how many blocks they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many in a hundred, with Wilson's interval."""

    hits: int
    count: int
    pct: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure. The interval is None of fewer than LEAST_PAIRS independent ones, and where without one of them there is
    no such figure."""

    value: float
    low: float | None = None
    high: float | None = None


def share(hits: int, count: int) -> Share | None:
    """None of nothing."""
    if not count:
        return None
    low, high = (100.0 * float(end) for end in proportion_confint(hits, count, LEVEL, method="wilson"))
    return Share(hits=hits, count=count, pct=100.0 * hits / count, low=low, high=high)


def among_best(ranks: Sequence[float], most: int, schedulers: int) -> Share | None:
    """Ranks among the best so many; None of none, and where no more schedulers were played, so that each is one."""
    return share(sum(one <= most for one in ranks), len(ranks) if schedulers > most else 0)


def not_worse(found: Sequence[Pairs], margin: float = MARGIN) -> Share | None:
    """Runs that are behind by no more than the margin; one that failed is behind."""
    count = sum(len(one.ours) + one.lost for one in found)
    # what a difference of two floats adds to the margin itself is no loss
    hits = sum(difference >= -margin - 1e-9 for one in found for difference in one.differences)
    return share(hits, count)


def better(found: Sequence[Pairs], margin: float = MARGIN) -> Share | None:
    """Runs that are ahead by more than the margin."""
    count = sum(len(one.ours) + one.lost for one in found)
    return share(sum(difference > margin + 1e-9 for one in found for difference in one.differences), count)


def gain(found: Sequence[Pairs]) -> Estimate | None:
    """How far the mean of ours is above the mean of theirs, % of theirs; None where theirs is 0."""
    return _estimate([_sums(found)], lambda sides: _gain(sides[0]))


def geometric(found: Sequence[Pairs]) -> Estimate | None:
    """The geometric mean of the ratios of ours to theirs, as % above 1; scores below LEAST_SCORE are taken as that."""
    logs = _sums(found, lambda score: math.log(max(score, LEAST_SCORE)))
    return _estimate([logs], lambda sides: 100.0 * math.expm1((sides[0][0] - sides[0][1]) / sides[0][2]))


def points(found: Sequence[Pairs]) -> Estimate | None:
    """The mean difference, in hundredths of the score."""
    return _estimate([_sums(found)], lambda sides: 100.0 * (sides[0][0] - sides[0][1]) / sides[0][2])


def regret(found: Sequence[Pairs]) -> Estimate | None:
    """How far the mean of ours is below the mean of theirs, % of theirs."""
    up = gain(found)
    if up is None or up.low is None or up.high is None:
        return up and Estimate(value=-up.value)
    return Estimate(value=-up.value, low=-up.high, high=-up.low)


def gap(first: Sequence[Pairs], second: Sequence[Pairs]) -> Estimate | None:
    """The gain of the first less that of the second, percentage points. What both sides play is left out of both."""
    sides = [_by_scenario(found) for found in (first, second)]
    if not all(sides):
        return None
    return _estimate(sides, lambda ends: _gain(ends[0]) - _gain(ends[1]))


def judged(found: Sequence[Pairs]) -> list[tuple[Pairs, Paired, float | None]]:
    """Each block's t test of its repeats, with Holm's p over all blocks that could be tested."""
    tests = [(one, test) for one in found if (test := paired(one.differences, FLOOR)) is not None]
    places = [place for place, (_, test) in enumerate(tests) if test.p is not None]
    adjusted = dict(zip(places, holm([tests[place][1].p or 0.0 for place in places]), strict=True))
    return [(one, test, adjusted.get(place)) for place, (one, test) in enumerate(tests)]


def least_effect(tests: int, repeats: int) -> float | None:
    """By how many standard deviations a block must be ahead to be the first of so many that Holm lets through."""
    if not tests or repeats < LEAST_PAIRS:
        return None
    return float(stats.t.ppf(1.0 - LEVEL / (2.0 * tests), repeats - 1)) / math.sqrt(repeats)


def significant(found: Sequence[Pairs], sign: float) -> Share | None:
    """Runs of blocks whose test says so, ahead (1.0) or behind (-1.0); None when no block has enough repeats."""
    tests = judged(found)
    if all(adjusted is None for *_, adjusted in tests):
        return None
    count = sum(len(one.ours) + one.lost for one in found)
    sure = [one for one, test, p in tests if p is not None and p < LEVEL and test.mean * sign > 0.0]
    return share(sum(len(one.ours) for one in sure), count)


def overall(found: Sequence[Pairs]) -> Paired | None:
    """The t test of the mean differences of what is independent: is one column ahead of the other on the whole?"""
    return paired([(ours - theirs) / count for ours, theirs, count in _sums(found).values()], FLOOR)


def _sums(found: Sequence[Pairs], of: Callable[[float], float] = float) -> dict[Hashable, Sums]:
    """What is independent, and the sums of its runs; all blocks have the same weight, as have a block's runs."""
    scenarios = _by_scenario(found, of)
    return scenarios if len(scenarios) > 1 else _added(found, of, lambda one, place: one.drawn[place])


def _by_scenario(found: Sequence[Pairs], of: Callable[[float], float] = float) -> dict[Hashable, Sums]:
    return _added(found, of, lambda one, _: (one.block.scenario, one.block.label))


def _added(
    found: Sequence[Pairs], of: Callable[[float], float], key: Callable[[Pairs, int], Hashable]
) -> dict[Hashable, Sums]:
    whole: dict[Hashable, Sums] = defaultdict(lambda: (0.0, 0.0, 0.0))
    for one in found:
        for place, (ours, theirs) in enumerate(zip(one.ours, one.theirs, strict=True)):
            known, part = whole[key(one, place)], 1.0 / len(one.ours)
            whole[key(one, place)] = (known[0] + part * of(ours), known[1] + part * of(theirs), known[2] + part)
    return dict(whole)


def _estimate(
    sides: Sequence[Mapping[Hashable, Sums]], statistic: Callable[[Sequence[Sums]], float]
) -> Estimate | None:
    """The statistic of all, and the jackknife's interval; None of nothing, and where it is no number."""
    keys = list(dict.fromkeys(key for side in sides for key in side))

    def without(left: Hashable) -> float:
        rest = [[sums for key, sums in side.items() if key != left] for side in sides]
        if not all(rest):
            return math.nan
        return statistic([_total(side) for side in rest])

    value = without(None)
    if not math.isfinite(value):
        return None
    count = len(keys)
    values = [without(key) for key in keys]
    if count < LEAST_PAIRS or not all(map(math.isfinite, values)):
        return Estimate(value=value)
    error = math.sqrt((count - 1) * statistics.pvariance(values))
    half = float(stats.t.ppf(1.0 - LEVEL / 2.0, count - 1)) * error
    return Estimate(value=value, low=value - half, high=value + half)


def _total(sums: Sequence[Sums]) -> Sums:
    ours, theirs, count = (math.fsum(part) for part in zip(*sums, strict=True))
    return ours, theirs, count


def _gain(sums: Sums) -> float:
    return 100.0 * (sums[0] / sums[1] - 1.0) if sums[1] else math.nan  # of 0 there is nothing in a hundred
