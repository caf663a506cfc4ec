# SPDX-License-Identifier: GPL-2.0-only
"""Screening by Plackett and Burman: which of up to eight flags matter, by twelve trials. Pure.

Plackett and Burman, Biometrika 33 (1946): the design of twelve runs has eleven columns. Flags have eight at most; the
columns that are left measure noise, and by them each effect is judged. Effects of pairs of flags are spread over all
columns: what a screening finds is a first guess.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

MOST = 8
RUNS = 12
_FIRST = (1, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
_LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Of a flag from its low to its high level, in the response's unit; `p` is two-sided."""

    flag: str
    effect: float
    p: float

    @property
    def matters(self) -> bool:
        """At 5 %, without a correction: a flag too many costs trials, one too few costs the gain."""
        return self.p < _LEVEL


def design() -> list[tuple[int, ...]]:
    """Twelve rows of eleven levels, -1 and 1: ten turns of the first row, and all low."""
    rows = [_FIRST[-turn:] + _FIRST[:-turn] if turn else _FIRST for turn in range(RUNS - 1)]
    return [*rows, (-1,) * (RUNS - 1)]


def effects(flags: Sequence[str], responses: Sequence[float]) -> list[Effect]:
    """Of each flag, the largest first; `responses` are those of `design`'s rows.

    Raises ValueError for too many flags.
    """
    if not 1 <= len(flags) <= MOST:
        raise ValueError(f"{len(flags)} flags: a screening takes 1 to {MOST}")
    columns = [
        sum(row[place] * value for row, value in zip(design(), responses, strict=True)) / (RUNS / 2)
        for place in range(RUNS - 1)
    ]
    idle = columns[len(flags) :]
    scatter = math.sqrt(sum(value * value for value in idle) / len(idle))
    found = [
        Effect(flag=flag, effect=value, p=_p(value, scatter, len(idle)))
        for flag, value in zip(flags, columns, strict=False)
    ]
    return sorted(found, key=lambda one: -abs(one.effect))


def _p(value: float, scatter: float, free: int) -> float:
    if not scatter:
        return 1.0 if not value else 0.0
    return float(2.0 * special.stdtr(free, -abs(value) / scatter))
