# SPDX-License-Identifier: GPL-2.0-only
"""Golden section: the smallest value of a function with one valley, one new evaluation a step. Pure.

As the study of CFS has it (docs/tuning.md): the interval shrinks to 0.618 of it a step. Noise may send it the wrong
way, and nothing in the method notices.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

RATIO = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """Where the smallest value was left: between `low` and `high`; `best` is the best point that was evaluated."""

    low: float
    high: float
    best: float
    evaluations: int


def search(costs_of: Callable[[Sequence[float]], Sequence[float]], evaluations: int) -> Bracket:
    """Between 0 and 1, with two evaluations at least. After n the valley's bottom is within 0.618**(n - 1).

    `costs_of` takes the first two points at once, then one at a time: each depends on those before.
    """
    low, high = 0.0, 1.0
    left, right = high - RATIO, low + RATIO
    costs = dict(zip((left, right), costs_of((left, right)), strict=True))
    for _ in range(evaluations - 2):
        if costs[left] < costs[right]:
            high, right = right, left
            left = high - RATIO * (high - low)
            (costs[left],) = costs_of((left,))
        else:
            low, left = left, right
            right = low + RATIO * (high - low)
            (costs[right],) = costs_of((right,))
    low, high = (low, right) if costs[left] < costs[right] else (left, high)
    return Bracket(low=low, high=high, best=min(costs, key=lambda one: costs[one]), evaluations=len(costs))
