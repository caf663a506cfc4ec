# SPDX-License-Identifier: GPL-2.0-only
"""The fleet's runs in pairs: a column beside another, or beside the best scheduler of the block, and ranks in a block.

Pure. Pairs are of one machine, scenario and repeat, so both played the same parameters.
"""

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from calibration.controllers.columns import AGENT
from calibration.fleet.figures.blocks import Block, Repeat

MARGIN = 0.02
"""A run is not worse while its score is not behind by more than this, of a score from 0 to 1. Where the curves are the
steepest that is 1 to 4 % of what was measured, by the constants of calibration/scoring/table.py, and people tell times
apart from 20 % on (`seow` there): nobody feels it. It was chosen before any run of the fleet was looked at."""

FLOOR = MARGIN / 10.0
"""Scores that are no farther apart are equal: in rankings, and as the least standard deviation of a test."""

LEAST_SCORE = 0.05
"""What is below counts as this in ratios: one of two that are nearly zero says nothing (docs/scoring.md)."""

LEAST_OTHERS = 2
"""Repeats, to choose the best scheduler for another one by."""

Reference: TypeAlias = Callable[[Block, Repeat], float | None]
"""What a run is compared with; None where there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """A block's runs, ours beside theirs, and by what their parameters were drawn, which is the same on all machines.

    `lost` are those that we failed and they did not.
    """

    block: Block
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    drawn: tuple[Hashable, ...]
    lost: int = 0

    @property
    def differences(self) -> tuple[float, ...]:
        """Ours less theirs."""
        return tuple(one - other for one, other in zip(self.ours, self.theirs, strict=True))


def pairs(blocks: Iterable[Block], column: str, reference: Reference, instead: Reference | None = None) -> list[Pairs]:
    """Of each block in which both played. A run without a reference is left out; `unmatched` counts them.

    `instead` of the column's own score: that of another run, left out where there is none.
    """
    found = []
    ours_of = instead or of_column(column)
    for block in blocks:
        ours, theirs, drawn, lost = [], [], [], 0
        for repeat in sorted(block.runs.get(column, {})):
            other, own = reference(block, repeat), ours_of(block, repeat)
            if other is None or (instead is not None and own is None):
                continue
            if own is None:
                lost += 1
                continue
            ours.append(own)
            theirs.append(other)
            drawn.append(block.drawn(repeat))
        if ours or lost:
            found.append(Pairs(block=block, ours=tuple(ours), theirs=tuple(theirs), drawn=tuple(drawn), lost=lost))
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
    """The one that was best by its mean over the other repeats, of which there must be two and more.

    It is not chosen by the run that it is judged in; by a single other run it would be chosen by chance.
    """
    others = [one for one in block.repeats if one != repeat]
    order = ranking(block, others) if len(others) >= LEAST_OTHERS else []
    known = [name for name, _ in order if block.score(name, repeat) is not None]
    return block.score(known[0], repeat) if known else None


def drawn(block: Block, repeat: Repeat) -> float | None:
    """A random router's, as expected: the mean of the schedulers that it would draw from; None of fewer than two."""
    known = [score for name in block.statics if (score := block.score(name, repeat)) is not None]
    return statistics.fmean(known) if len(known) > 1 else None


def ranking(block: Block, repeats: Sequence[Repeat] | None = None) -> list[tuple[str, float]]:
    """Schedulers with their mean over these repeats, the best first; those with fewer than half of the runs are out.

    Means are over the repeats that all of the others have (`shared`), so that nobody is ahead by an easy one.
    """
    wanted = block.repeats if repeats is None else repeats
    names = _ranked(block, wanted)
    common = shared(block, wanted)
    found = []
    for name in names:
        known = [score for repeat in common if (score := block.score(name, repeat)) is not None]
        if known:
            found.append((name, statistics.fmean(known)))
    return sorted(found, key=lambda one: (-one[1], one[0]))


def shared(block: Block, repeats: Sequence[Repeat]) -> list[Repeat]:
    """Those in which all schedulers that are ranked have a score; all of them where there is none."""
    names = _ranked(block, repeats)
    common = [repeat for repeat in repeats if all(block.score(name, repeat) is not None for name in names)]
    return common or list(repeats)


def _ranked(block: Block, repeats: Sequence[Repeat]) -> list[str]:
    known = {name: sum(block.score(name, repeat) is not None for repeat in repeats) for name in block.statics}
    return [name for name, count in known.items() if count and 2 * count >= len(repeats)]


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
