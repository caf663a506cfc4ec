# SPDX-License-Identifier: GPL-2.0-only
"""From runs to comparisons: each scheduler against the kernel's own, within the run, by every probe and the score.

Pure. A change is 2 (b - a) / (a + b) in per cent, of figures pooled over rounds: the same size whichever is called the
first, and known where one is 0. Its interval is by leaving out one round at a time (the jackknife), with Student's t:
rounds are what is independent, samples of a block are not. The kernel's own is its first and last block of each round
together, so that a load that grows evenly drops out.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import special

from asa.core.decision import EEVDF
from calibration.switchback.probes import PROBES, Probe, judged
from calibration.switchback.samples import Block, Run, Samples
from calibration.switchback.scored import by_application, score_all
from scenarios.metric import Direction

SCORE, POWER = "score", "power_w"
LEAST_ROUNDS = 3
DIFFERENCE_PCT = 3.0
LEVEL, _POWER = 0.05, 0.8
_MOST_REPEATS = 10_000
_OWN = (1, 2)  # copies of the kernel's own that all are compared with


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Of one scheduler against the kernel's own by one figure; `value` and `own` in its unit, the rest in per cent.

    `scatter_pct` is the standard deviation of one round's change. `low`, `high` and it are None of fewer than three
    rounds.
    """

    run: str
    label: str
    scheduler: str
    copy: int
    probe: str
    unit: str
    better: Direction
    rounds: int
    value: float
    own: float
    pct: float
    low: float | None = None
    high: float | None = None
    scatter_pct: float | None = None

    @property
    def against_itself(self) -> bool:
        """Is it the kernel's own, compared with itself?"""
        return self.scheduler == EEVDF

    @property
    def verdict(self) -> str:
        """better, worse, or "" while the interval holds 0."""
        if self.low is None or self.high is None or self.low <= 0.0 <= self.high:
            return ""
        return "better" if (self.pct > 0.0) == (self.better is Direction.LARGER) else "worse"


def change_pct(own: float, other: float) -> float:
    """From -200 to 200."""
    return 200.0 * (other - own) / (own + other) if own != other else 0.0


def repeats_for(scatter_pct: float, difference_pct: float = DIFFERENCE_PCT) -> int | None:
    """Rounds that a difference needs to be seen at 5 % in four of five runs, three at least; None beyond 10,000."""
    for count in range(LEAST_ROUNDS, _MOST_REPEATS):
        sure = float(special.stdtrit(count - 1, 1.0 - LEVEL / 2.0)) + float(special.stdtrit(count - 1, _POWER))
        if sure * scatter_pct / math.sqrt(count) <= difference_pct:
            return count
    return None


_Side = Sequence[Block]


def paired_blocks(run: Run) -> dict[tuple[str, int], list[tuple[_Side, _Side]]]:
    """(scheduler, copy) -> of each round the kernel's own two blocks, and the scheduler's.

    Rounds that lack one of them are left out.
    """
    turns: dict[tuple[str, int], dict[int, list[Block]]] = defaultdict(lambda: defaultdict(list))
    for block in run.blocks:
        if not block.trouble:
            copy = 0 if block.scheduler == EEVDF and block.copy in _OWN else block.copy
            turns[block.scheduler, copy][block.round].append(block)
    own = turns.pop((EEVDF, 0), {})
    return {
        key: [(own[number], other[number]) for number in sorted(other) if len(own.get(number, ())) == len(_OWN)]
        for key, other in sorted(turns.items())
    }


def changes(run: Run) -> list[Change]:
    """Every scheduler by the score, by power, and by each probe of both applications."""
    wanted = measures(run)
    return [
        made
        for (scheduler, copy), pairs in paired_blocks(run).items()
        for measure in wanted
        if (made := _change(run, scheduler, copy, pairs, measure)) is not None
    ]


def _change(
    run: Run, scheduler: str, copy: int, pairs: Sequence[tuple[_Side, _Side]], measure: "Measure"
) -> Change | None:
    made = _jackknife(pairs, measure) if pairs else None
    if made is None:
        return None
    value, own, pct, scatter = made
    half = None
    if scatter is not None:
        half = float(special.stdtrit(len(pairs) - 1, 1.0 - LEVEL / 2.0)) * scatter / math.sqrt(len(pairs))
    return Change(
        run=run.id,
        label=run.orders.label,
        scheduler=scheduler,
        copy=copy,
        probe=measure.name,
        unit=measure.unit,
        better=measure.better,
        rounds=len(pairs),
        value=value,
        own=own,
        pct=pct,
        low=None if half is None else pct - half,
        high=None if half is None else pct + half,
        scatter_pct=scatter,
    )


def pair_score(run: Run, own: _Side, other: _Side) -> tuple[float, float] | None:
    """The scores of two sides, each with the samples of all its blocks together; None where one measured too little."""
    found = score_all(run.interactive, run.background, run.alone, [_together(own), _together(other)])
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def own_score(run: Run) -> float | None:
    """The kernel's own, with the samples of all its blocks together; None where it measured too little."""
    blocks = [one for one in run.blocks if one.scheduler == EEVDF and not one.trouble]
    (found,) = score_all(run.interactive, run.background, run.alone, [_together(blocks)])
    return found


def power_w(blocks: Sequence[Block]) -> float | None:
    """What the machine drew in these blocks, by its description; None where that is unknown."""
    return _mean([None if block.energy is None else block.energy.watts for block in blocks])


def block_figure(run: Run) -> Callable[[Block], float | None]:
    """A block's own figure by which carry-over is judged: the mean of its first application's main metric."""
    name = run.parts[0]
    metric = judged(name)[0]

    def of(block: Block) -> float | None:
        return _mean(by_application(block.series).get(name, {}).get(metric, ()))

    return of


_Pair = tuple[_Side, _Side]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure of the two sides of a pair, the kernel's own first."""

    name: str
    unit: str
    better: Direction
    of: Callable[[_Side, _Side], tuple[float, float] | None]


def measures(run: Run) -> list[Measure]:
    """The score, power, and each probe of both applications, of two sides of blocks."""

    def score(own: _Side, other: _Side) -> tuple[float, float] | None:
        return pair_score(run, own, other)

    probes = [one for name in run.parts for one in PROBES[name]]
    return [
        Measure(name=SCORE, unit="", better=Direction.LARGER, of=score),
        Measure(name=POWER, unit="W", better=Direction.SMALLER, of=_each(power_w)),
        *(Measure(name=one.key, unit=one.unit, better=one.better, of=_each(_pooled(one, run))) for one in probes),
    ]


def _each(of: Callable[[_Side], float | None]) -> Callable[[_Side, _Side], tuple[float, float] | None]:
    def both(own: _Side, other: _Side) -> tuple[float, float] | None:
        one, two = of(own), of(other)
        return None if one is None or two is None else (one, two)

    return both


def _pooled(probe: Probe, run: Run) -> Callable[[_Side], float | None]:
    given = run.parameters.get(probe.application, {})

    def of(blocks: _Side) -> float | None:
        values = [
            value
            for one in _together(blocks)
            if (one.application, one.metric) == (probe.application, probe.metric)
            for value in one.values
        ]
        return probe.figure(values, given)

    return of


def _jackknife(pairs: Sequence[_Pair], measure: Measure) -> tuple[float, float, float, float | None] | None:
    """Value, the kernel's own, change, and one round's scatter; None where it cannot be told of all rounds together."""

    def told(chosen: Sequence[_Pair]) -> tuple[float, float] | None:
        return measure.of([one for own, _ in chosen for one in own], [one for _, other in chosen for one in other])

    whole = told(pairs)
    if whole is None:
        return None
    pct, count = change_pct(*whole), len(pairs)
    left_out = [told([*pairs[:place], *pairs[place + 1 :]]) for place in range(count)]
    if count < LEAST_ROUNDS or None in left_out:
        return whole[1], whole[0], pct, None
    pseudo = [count * pct - (count - 1) * change_pct(*one) for one in left_out if one is not None]
    return whole[1], whole[0], pct, statistics.stdev(pseudo)


def _together(blocks: _Side) -> list[Samples]:
    """The samples of all of them, by application and metric."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for block in blocks:
        for one in block.series:
            found[one.application, one.metric] += one.values
    return [Samples(application=key[0], metric=key[1], at_s=[], values=values) for key, values in found.items()]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
