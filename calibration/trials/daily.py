# SPDX-License-Identifier: GPL-2.0-only
"""How the agent compared schedulers before it had trials: by minutes of daily use at a like load. Pure.

What was measured of a use under two schedulers is one comparison: won, lost or alike, by what the guard counts as felt.
A sequential sign test says when one has won often enough. The agent does not use it any more; trials are measured
against it.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import comb

from asa.decide.signals import SIGNALS, Values, felt, offered_more

ALIKE, ALPHA = 0.6, 0.01
"""Winning so often says nothing; the test's error, however long one looks."""
MOST_COUNTED = 200
"""Comparisons that were not alike; what they have not settled stays open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWindow:
    """What was measured of a use under a scheduler without a break: medians of its blocks, None for unknown."""

    medians: Values


def compare(one: SampleWindow, other: SampleWindow, worse_by: float) -> int | None:
    """1: `one` was better, -1: worse, 0: alike, or better in one signal and worse in another.

    Only differences count that the guard would count (`felt`; `worse_by` as there). None: no signal
    is known of both, or far more was asked of what was worse (`offered_more`).
    """
    known = better = worse = False
    for signal, mine, its in zip(SIGNALS, one.medians, other.medians, strict=False):  # the load comes after them
        if mine is not None and its is not None:
            known = True
            better = better or felt(signal, its, mine, worse_by)
            worse = worse or felt(signal, mine, its, worse_by)
    lost, won = (one, other) if worse else (other, one)
    if better != worse and offered_more(lost.medians, won.medians):
        return None
    return better - worse if known else None


@lru_cache(maxsize=1024)
def evidence(won: int, lost: int) -> float:
    """That the one who won is the better one: a test martingale of the sign test, 1 at the start.

    The likelihood where each is won with a probability between ALIKE and 1, all alike probable, over the likelihood at
    ALIKE (the mixture of Robbins, Ann. Math. Statist. 41, 1970). It reaches 1 / ALPHA by chance with a probability of
    ALPHA at most, however long one goes on (Ville 1939).
    """
    count = won + lost + 1
    tail = sum(comb(count, k) * ALIKE**k * (1.0 - ALIKE) ** (count - k) for k in range(won + 1))
    beta = 1.0 / (count * comb(count - 1, won))
    return beta * tail / ((1.0 - ALIKE) * ALIKE**won * (1.0 - ALIKE) ** lost)
