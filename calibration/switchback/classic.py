# SPDX-License-Identifier: GPL-2.0-only
"""Do classic runs, one scheduler a guest, tell what schedulers in turns tell? Pure.

A classic difference is of two guests that play one scenario with one seed: one under the kernel's own throughout, one
under another. Windows are left out one at a time (the jackknife), on each side by itself; the interval has Student's t
of the side with fewer windows. It knows nothing of what differs between two guests of one scheduler. A difference in
turns is confirmed where the two lie no further apart than both intervals together, and, where the one in turns is sure,
have the same sign.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy import special

from asa.core.decision import EEVDF
from asa.core.errors import ModelError
from calibration.switchback.figures import LEVEL, SCORE, Change, change_pct, changes, measures
from calibration.switchback.probes import MAIN_PROBE
from calibration.switchback.samples import Block, Run

LEAST_WINDOWS = 3
PLAY = "`asa lab bench matrix --step small,classic` plays both"
_MAIN = (SCORE, *MAIN_PROBE.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One difference in turns, and the classic one in per cent with half its interval of 95 %."""

    turns: Change
    pct: float
    half_pct: float

    @property
    def within(self) -> bool:
        """Are they no further apart than both intervals together?"""
        half = 0.0 if self.turns.high is None else self.turns.high - self.turns.pct
        return abs(self.turns.pct - self.pct) <= math.hypot(half, self.half_pct)

    @property
    def same_sign(self) -> bool:
        """True, too, where the one in turns may be 0."""
        return not self.turns.verdict or self.turns.pct * self.pct > 0.0

    @property
    def words(self) -> str:
        """For a list of those that were not confirmed."""
        return f"{self.turns.run} {self.turns.scheduler} {self.turns.probe} {self.turns.pct:+.1f} and {self.pct:+.1f} %"


def confirmed(runs: Sequence[Run]) -> tuple[float, str]:
    """Of the differences that both kinds of runs have, by score and main figure: those that agree, %.

    Raises ModelError where there are none.
    """
    found = beside(runs)
    if not found:
        raise ModelError(f"no classic run stands beside one in turns; {PLAY}")
    good = [one for one in found if one.within and one.same_sign]
    sure = [one for one in found if one.turns.verdict]
    signs = sum(one.same_sign for one in sure)
    words = f"{len(good)} of {len(found)} lie within both intervals; {signs} of {len(sure)} that are sure have one sign"
    lost = "".join(f"; not {one.words}" for one in found if one not in good)
    return 100.0 * len(good) / len(found), words + lost


def beside(runs: Sequence[Run]) -> list[Beside]:
    """Each difference in turns that has an interval and its like among classic runs, by score and main figure."""
    whole = {(*_key(run), run.orders.schedulers[0]): run for run in runs if run.orders.classic}
    found = []
    for run in runs:
        own = whole.get((*_key(run), str(EEVDF)))
        for one in changes(run) if own is not None and not run.orders.classic else ():
            other = whole.get((*_key(run), one.scheduler))
            if own is None or other is None or one.against_itself or one.low is None or one.probe not in _MAIN:
                continue
            told = _difference(own, other, one.probe)
            if told is not None:
                found.append(Beside(turns=one, pct=told[0], half_pct=told[1]))
    return found


def _key(run: Run) -> tuple[str, str, int]:
    return run.machine, run.orders.label, run.orders.seed


def _difference(own: Run, other: Run, probe: str) -> tuple[float, float] | None:
    """The change in per cent and half its interval; None where a side has too few windows or lacks the figure."""
    sides = [[block for block in run.blocks if not block.trouble] for run in (own, other)]
    # relative metrics of both are shares of what was measured alone in the guest of the kernel's own
    of = next(one.of for one in measures(own) if one.name == probe)
    fewest = min(map(len, sides))
    told = of(*sides)
    if fewest < LEAST_WINDOWS or told is None:
        return None
    variances = [
        _variance(sides[0], lambda one: of(one, sides[1])),
        _variance(sides[1], lambda one: of(sides[0], one)),
    ]
    if None in variances:
        return None
    t = float(special.stdtrit(fewest - 1, 1.0 - LEVEL / 2.0))
    return change_pct(*told), t * math.sqrt(sum(one for one in variances if one is not None))


def _variance(blocks: Sequence[Block], told: Callable[[Sequence[Block]], tuple[float, float] | None]) -> float | None:
    """Of the change, by leaving out one of these blocks at a time."""
    left_out = [told([*blocks[:place], *blocks[place + 1 :]]) for place in range(len(blocks))]
    values = [change_pct(*one) for one in left_out if one is not None]
    count = len(blocks)
    if len(values) < count:
        return None
    return (count - 1) ** 2 / count * statistics.variance(values)
