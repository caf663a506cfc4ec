# SPDX-License-Identifier: GPL-2.0-only
"""Are differences of pairs above a value? A sequential test of their signs, and an interval by it. Pure.

The order within each pair was drawn by a coin. Where the two sides are alike, the same coin drew the sign of each
difference, whatever its size: load that drifts, values that depend on each other and rare large ones do not change
that. So the sizes are taken as they are, and the chance is that of the signs alone (Fisher 1935; for experiments that
switch back and forth: Bojinov, Simchi-Levi and Zhao, Management Science 69, 2023).

Each pair has a score by its size, and the statistic is the sum of the signed scores. Its distribution is counted out
after each pair, without the courses that were stopped before, and is cut where the error that may be spent until then
is spent (Lan and DeMets, Biometrika 70, 1983). So the error holds over all looks together, exactly. The reasons, and
what else was considered: docs/trials.md.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

MOST_PAIRS = 24
"""After so many no more are made. At `trial_budget`'s twelve switches an hour they take three hours."""
_UNIT, _MOST_SCORE = 3, 9  # scores of the median size, and of what is three times as large or more
_HALVINGS = 16  # of the range in which an end of the interval is looked for
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How improbable is enough: the chance of an error in all looks together, and how soon it may be spent."""

    error: float  # one-sided
    first: int  # pairs at the first look
    share: float  # of the error, that may be spent there; the rest grows with the pairs

    def spent(self, pairs: int) -> float:
        """How much of the error may have been spent after so many pairs."""
        if pairs < self.first:
            return 0.0
        grown = (pairs - self.first) / (MOST_PAIRS - self.first)
        return self.error * min(1.0, self.share + (1.0 - self.share) * grown)


SURE = Level(error=0.008, first=8, share=0.5)
"""For what is then done. Eight of the same sign have a chance of 1 in 256: fewer pairs cannot be sure enough."""
LIKELY = Level(error=0.05, first=5, share=0.7)
"""For what is then left undone. Five of the same sign have a chance of 1 in 32."""


def above(differences: Sequence[float], level: Level, than: float = 0.0) -> bool:
    """Was it shown at any look, the last included, that differences lie above `than`? At most MOST_PAIRS count.

    If they do not, this is true with a probability of `level.error` at most, however often one looks.
    """
    alive, total, spent = {0: 1.0}, 0, 0.0
    sizes: list[float] = []
    for count, difference in enumerate(differences[:MOST_PAIRS], start=1):
        rest = difference - than
        insort(sizes, abs(rest))
        score = _score(abs(rest), sizes)
        total += score if rest > 0.0 else -score
        alive = _one_more(alive, score)
        least, mass = _cut(alive, level.spent(count) - spent)
        if least is None:
            continue
        if total >= least:
            return True
        spent += mass
        alive = {value: chance for value, chance in alive.items() if value < least}
    return False


def below(differences: Sequence[float], level: Level, than: float = 0.0) -> bool:
    """The same for differences that lie below `than`."""
    return above([-difference for difference in differences], level, -than)


def interval(differences: Sequence[float], level: Level) -> tuple[float | None, float | None]:
    """From where to where the middle of differences lies: what `above` and `below` do not rule out.

    It holds at all looks together with a confidence of 1 - 2 x `level.error`, and has `middle` in it. None: so few
    tell nothing of that end.
    """
    low = _end(differences, level)
    high = _end([-difference for difference in differences], level)
    if low is None or high is None:
        return None, None
    within = middle(differences)
    return min(low, within), max(-high, within)


def middle(differences: Sequence[float]) -> float:
    """The median of the means of all two of them, each with itself too (Hodges and Lehmann 1963). Not of none."""
    means = sorted((one + other) / 2.0 for at, one in enumerate(differences) for other in differences[at:])
    half = len(means) // 2
    return means[half] if len(means) % 2 else (means[half - 1] + means[half]) / 2.0


def _score(size: float, sizes: Sequence[float]) -> int:
    """Of one size among those until then, it included: a large one counts more, but not without bound."""
    if not size:
        return 0
    usual = sizes[len(sizes) // 2]
    return _MOST_SCORE if size >= 3.0 * usual else max(1, round(_UNIT * size / usual))


def _one_more(alive: dict[int, float], score: int) -> dict[int, float]:
    following: dict[int, float] = {}
    for value, chance in alive.items():
        for sum_ in (value + score, value - score):
            following[sum_] = following.get(sum_, 0.0) + chance / 2.0
    return following


def _cut(alive: dict[int, float], room: float) -> tuple[int | None, float]:
    """The least sum such that it and all larger ones together have at most a chance of `room`; and that chance."""
    least, mass = None, 0.0
    for value in sorted(alive, reverse=True):
        if mass + alive[value] > room + _ROUNDING:
            break
        least, mass = value, mass + alive[value]
    return least, mass


def _end(differences: Sequence[float], level: Level) -> float | None:
    """The largest value that differences are shown to lie above."""
    if len(differences) < level.first:
        return None
    low, high = min(differences), max(differences)
    low -= (high - low) or abs(low) or 1.0  # all lie above it, by more than they differ
    if not above(differences, level, low):
        return None
    for _ in range(_HALVINGS):
        between = (low + high) / 2.0
        low, high = (between, high) if above(differences, level, between) else (low, between)
    return low
