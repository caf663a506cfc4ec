# SPDX-License-Identifier: GPL-2.0-only
"""The fleet's runs in pairs: a column beside another, or beside the best scheduler of the block, and sums of that.

Pure. Pairs are of one machine, scenario and repeat, so both played the same parameters. A block counts once in means,
however many runs it has. Intervals of means come from drawing blocks anew (percentile bootstrap), those of shares are
Wilson's; both hold 95 %.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from calibration.controllers import AGENT
from calibration.fleet_figures_read import Block, Repeat
from calibration.paired import LEAST_PAIRS, LEVEL, Paired, holm, paired

MARGIN = 0.02
"""A run is not worse while its score is not behind by more than this, of a score from 0 to 1. Where the curves are the
steepest that is 1 to 4 % of what was measured, by the constants of calibration/scoring/table.py, and people tell times
apart from 20 % on (`seow` there): nobody feels it. It was chosen before any run of the fleet was looked at."""

FLOOR = MARGIN / 10.0
"""Scores that are no farther apart are equal: in rankings, and as the least standard deviation of a test."""

LEAST_SCORE = 0.05
"""What is below counts as this in ratios: one of two that are nearly zero says nothing (docs/scoring.md)."""

_DRAWS, _SEED = 2000, 8
_Z = 1.959964  # of the normal distribution, 97.5 %

Array: TypeAlias = npt.NDArray[np.float64]
Reference: TypeAlias = Callable[[Block, Repeat], float | None]
"""What a run is compared with; None where there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """A block's runs, ours beside theirs. `lost` are those that we failed and they did not."""

    block: Block
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    lost: int = 0

    @property
    def differences(self) -> tuple[float, ...]:
        """Ours less theirs."""
        return tuple(one - other for one, other in zip(self.ours, self.theirs, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many in a hundred, with Wilson's interval (Wilson, 1927), which takes the runs for independent."""

    hits: int
    count: int
    pct: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure; the interval is None of fewer than two blocks, and where a draw of them has no such figure."""

    value: float
    low: float | None = None
    high: float | None = None


def pairs(blocks: Iterable[Block], column: str, reference: Reference, instead: Reference | None = None) -> list[Pairs]:
    """Of each block in which both played. A run without a reference is left out; `unmatched` counts them.

    `instead` of the column's own score: that of another run, left out where there is none.
    """
    found = []
    ours_of = instead or of_column(column)
    for block in blocks:
        ours, theirs, lost = [], [], 0
        for repeat in sorted(block.runs.get(column, {})):
            other, own = reference(block, repeat), ours_of(block, repeat)
            if other is None or (instead is not None and own is None):
                continue
            if own is None:
                lost += 1
                continue
            ours.append(own)
            theirs.append(other)
        if ours or lost:
            found.append(Pairs(block=block, ours=tuple(ours), theirs=tuple(theirs), lost=lost))
    return found


def unmatched(blocks: Iterable[Block], column: str, reference: Reference) -> int:
    """Runs that are in no pair, since what they are compared with failed or measured too little: nobody lost these."""
    return sum(reference(block, repeat) is None for block in blocks for repeat in block.runs.get(column, {}))


def held_share(blocks: Iterable[Block], column: str, scheduler: str) -> float | None:
    """For how much of its measured time a controller had this scheduler in force, 0 to 1; None: not kept."""
    runs = [run for block in blocks for run in block.runs.get(column, {}).values()]
    held = [item for run in runs for one in run.controlled for item in one.held_s.items()]
    whole_s = sum(seconds for _, seconds in held)
    return sum(seconds for name, seconds in held if name == scheduler) / whole_s if whole_s else None


def of_column(name: str) -> Reference:
    """That column's own run in the same repeat."""
    return lambda block, repeat: block.score(name, repeat)


def held(block: Block, repeat: Repeat) -> float | None:
    """Of the scheduler that the agent held the longest in that repeat, its own run in it."""
    run = block.runs.get(AGENT, {}).get(repeat)
    name = None if run is None else run.chosen()
    return None if name is None else block.score(name, repeat)


def hindsight(block: Block, repeat: Repeat) -> float | None:
    """Static-Oracle as the paper has it: the scheduler that was best in the block by its mean over all repeats."""
    order = ranking(block)
    return block.score(order[0][0], repeat) if order else None


def foresight(block: Block, repeat: Repeat) -> float | None:
    """The one that was best by its mean over the other repeats. It is not chosen by the run that it is judged in."""
    others = [one for one in block.repeats if one != repeat]
    order = [name for name, _ in ranking(block, others) if block.score(name, repeat) is not None] if others else []
    return block.score(order[0], repeat) if order else None


def drawn(block: Block, repeat: Repeat) -> float | None:
    """A random router's, as expected: the mean of the schedulers that it would draw from; None of fewer than two."""
    known = [score for name in block.statics if (score := block.score(name, repeat)) is not None]
    return statistics.fmean(known) if len(known) > 1 else None


def ranking(block: Block, repeats: Sequence[Repeat] | None = None) -> list[tuple[str, float]]:
    """Schedulers with their mean over these repeats, the best first; those with fewer than half of the runs are out."""
    wanted = block.repeats if repeats is None else repeats
    found = []
    for name in block.statics:
        known = [score for repeat in wanted if (score := block.score(name, repeat)) is not None]
        if known and 2 * len(known) >= len(wanted):
            found.append((name, statistics.fmean(known)))
    return sorted(found, key=lambda one: (-one[1], one[0]))


def rank(score: float, others: Iterable[float]) -> int:
    """1 and one more for each that is better; what is equal (FLOOR) is not better."""
    return 1 + sum(other > score + FLOOR for other in others)


def chosen_ranks(blocks: Iterable[Block], column: str) -> tuple[list[float], int]:
    """Of the scheduler that each run held longest, in the block's ranking in hindsight; and the runs without one.

    The rank of a scheduler that is not in the ranking is infinite: nothing shows that it is among the best.
    """
    ranks: list[float] = []
    unknown = 0
    for block in blocks:
        order = dict(ranking(block))
        for run in block.runs.get(column, {}).values():
            name = run.chosen()
            if name is None or not order:
                unknown += 1
            else:
                ranks.append(rank(order[name], order.values()) if name in order else math.inf)
    return ranks, unknown


def score_ranks(blocks: Iterable[Block], column: str) -> list[float]:
    """Of each run's own score among the schedulers' in the same repeat: the paper's Top-K. Infinite of a failed run."""
    ranks = []
    for block in blocks:
        for repeat, run in block.runs.get(column, {}).items():
            others = [score for name in block.statics if (score := block.score(name, repeat)) is not None]
            if others:
                ranks.append(math.inf if run.score is None else rank(run.score, others))
    return ranks


def share(hits: int, count: int) -> Share | None:
    """None of nothing."""
    if not count:
        return None
    part, square = hits / count, _Z * _Z
    middle = (part + square / (2.0 * count)) / (1.0 + square / count)
    half = _Z * math.sqrt(part * (1.0 - part) / count + square / (4.0 * count * count)) / (1.0 + square / count)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return Share(hits=hits, count=count, pct=100.0 * part, low=100.0 * low, high=100.0 * high)


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
    return estimate(_means(found), _gain)


def geometric(found: Sequence[Pairs]) -> Estimate | None:
    """The geometric mean of the blocks' ratios, as % above 1."""

    def mean(ours: Array, theirs: Array) -> Array:
        logs = np.log(np.maximum(ours, LEAST_SCORE)) - np.log(np.maximum(theirs, LEAST_SCORE))
        return np.asarray(100.0 * np.expm1(logs.mean(-1)))

    return estimate(_means(found), mean)


def points(found: Sequence[Pairs]) -> Estimate | None:
    """The mean difference, in hundredths of the score."""
    return estimate(_means(found), lambda ours, theirs: 100.0 * (ours - theirs).mean(-1))


def regret(found: Sequence[Pairs]) -> Estimate | None:
    """How far the mean of ours is below the mean of theirs, % of theirs."""
    up = gain(found)
    if up is None or up.low is None or up.high is None:
        return up and Estimate(value=-up.value)
    return Estimate(value=-up.value, low=-up.high, high=-up.low)


def gap(first: Sequence[Pairs], second: Sequence[Pairs]) -> Estimate | None:
    """The gain of the first less that of the second, percentage points; both are drawn anew, apart."""
    ends = [_means(found) for found in (first, second)]
    if not all(len(means) for means in ends):
        return None

    first_pct, second_pct = (float(_gain(means[:, 0], means[:, 1])) for means in ends)
    value = first_pct - second_pct
    if not math.isfinite(value):
        return None
    if min(map(len, ends)) < 2:
        return Estimate(value=value)
    rng = np.random.default_rng(_SEED)
    places = [rng.integers(len(means), size=(_DRAWS, len(means))) for means in ends]
    drawn = [_gain(means[place, 0], means[place, 1]) for means, place in zip(ends, places, strict=True)]
    return _with(value, drawn[0] - drawn[1])


def estimate(means: Array, statistic: Callable[[Array, Array], Array]) -> Estimate | None:
    """`means` has shape (blocks, 2), ours and theirs; the statistic is taken over the last axis.

    None of no block, and where the statistic is no number.
    """
    if not len(means):
        return None
    value = float(statistic(means[:, 0], means[:, 1]))
    if not math.isfinite(value):
        return None
    if len(means) < 2:
        return Estimate(value=value)
    places = np.random.default_rng(_SEED).integers(len(means), size=(_DRAWS, len(means)))
    return _with(value, statistic(means[places, 0], means[places, 1]))


def judged(found: Sequence[Pairs], *, pooled: bool = True) -> list[tuple[Pairs, Paired, float | None]]:
    """Each block's t test of its repeats, with Holm's p over all blocks that could be tested.

    A block has few repeats, so the standard deviation is that of its scenario on all machines (`pooled`): a scenario is
    taken to be as noisy on one machine as on another. Without, each block has its own.
    """
    noise = _noise(found) if pooled else {}
    tests = []
    for one in found:
        known = noise.get((one.block.scenario, one.block.label))
        test = paired(one.differences, FLOOR) if known is None else _test(one.differences, *known)
        if test is not None:
            tests.append((one, test))
    places = [place for place, (_, test) in enumerate(tests) if test.p is not None]
    adjusted = dict(zip(places, holm([tests[place][1].p or 0.0 for place in places]), strict=True))
    return [(one, test, adjusted.get(place)) for place, (one, test) in enumerate(tests)]


def significant(found: Sequence[Pairs], sign: float, *, pooled: bool = True) -> Share | None:
    """Runs of blocks whose test says so, ahead (1.0) or behind (-1.0); None when no block has enough repeats."""
    tests = judged(found, pooled=pooled)
    if all(adjusted is None for *_, adjusted in tests):
        return None
    count = sum(len(one.ours) + one.lost for one in found)
    sure = [one for one, test, p in tests if p is not None and p < LEVEL and test.mean * sign > 0.0]
    return share(sum(len(one.ours) for one in sure), count)


def over_blocks(found: Sequence[Pairs]) -> Paired | None:
    """The t test of the blocks' mean differences: is one column ahead of the other on the whole?"""
    return paired([statistics.fmean(one.differences) for one in found if one.ours], FLOOR)


def _noise(found: Sequence[Pairs]) -> dict[tuple[str, str], tuple[float, int]]:
    """Scenario -> standard deviation of its differences around their block's mean, and its degrees of freedom."""
    squares: dict[tuple[str, str], float] = defaultdict(float)
    freedom: dict[tuple[str, str], int] = defaultdict(int)
    for one in found:
        if len(one.ours) > 1:
            key = (one.block.scenario, one.block.label)
            squares[key] += statistics.variance(one.differences) * (len(one.ours) - 1)
            freedom[key] += len(one.ours) - 1
    return {key: (math.sqrt(squares[key] / count), count) for key, count in freedom.items() if count >= LEAST_PAIRS - 1}


def _test(differences: Sequence[float], deviation: float, freedom: int) -> Paired | None:
    """As `paired`, with a deviation from elsewhere. A single difference is not tested."""
    count = len(differences)
    if count < 2:
        return paired(differences, FLOOR)
    mean, deviation = statistics.fmean(differences), max(deviation, FLOOR)
    error = deviation / math.sqrt(count)
    half = float(stats.t.ppf(1.0 - LEVEL / 2.0, freedom)) * error
    p = float(2.0 * stats.t.sf(abs(mean) / error, freedom))
    return Paired(pairs=count, mean=mean, low=mean - half, high=mean + half, effect=mean / deviation, p=p)


def _gain(ours: Array, theirs: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # a mean of 0 has nothing in a hundred: see `estimate`
        return np.asarray(100.0 * (ours.mean(-1) / theirs.mean(-1) - 1.0))


def _with(value: float, drawn: Array) -> Estimate:
    if not np.isfinite(drawn).all():
        return Estimate(value=value)
    low, high = np.quantile(drawn, (LEVEL / 2.0, 1.0 - LEVEL / 2.0))
    return Estimate(value=value, low=float(low), high=float(high))


def _means(found: Sequence[Pairs]) -> Array:
    rows = [(statistics.fmean(one.ours), statistics.fmean(one.theirs)) for one in found if one.ours]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)
