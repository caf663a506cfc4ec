# SPDX-License-Identifier: GPL-2.0-only
"""Particle swarm optimisation as the study of CFS has it (docs/tuning.md): 20 particles, at most 30 iterations. Pure.

    v <- w v + phi_p r_p (p - x) + phi_g r_g (g - x),   x <- x + v

with r drawn anew for each particle and dimension, and starts drawn evenly. The study does not say how a particle begins
to move, nor what becomes of one that leaves the space: here it begins at rest, and stops at the border.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[np.float64]
PARTICLES, ITERATIONS = 20, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Inertia, and the pull of a particle's own best place and of the swarm's. The study's by default."""

    inertia: float = 0.4365
    own: float = 3.020
    swarm: float = 3.020


@dataclass(frozen=True, slots=True, kw_only=True)
class Swarmed:
    """The best place, its cost, and after how many evaluations it was found of how many."""

    best: tuple[float, ...]
    cost: float
    found_after: int
    evaluations: int


def search(
    costs: Callable[[Sequence[Sequence[float]]], Sequence[float]],
    dimensions: int,
    evaluations: int,
    seed: int,
    coefficients: Coefficients | None = None,
) -> Swarmed:
    """The smallest cost in the cube 0..1; `costs` takes all particles of an iteration at once. One evaluation at least.

    What cannot be evaluated costs infinity.
    """
    given = coefficients or Coefficients()
    random = np.random.default_rng(seed)
    size = min(PARTICLES, evaluations)
    places = random.random((size, dimensions))
    moves = np.zeros_like(places)
    own, own_costs = places.copy(), np.full(size, np.inf)
    best, best_cost, found_after, done = places[0].copy(), np.inf, 0, 0
    for _ in range(ITERATIONS):
        count = min(size, evaluations - done)
        if not count:
            break
        told = np.full(size, np.inf)
        told[:count] = costs([tuple(place) for place in places[:count].tolist()])
        better = told < own_costs
        own[better], own_costs[better] = places[better], told[better]
        first = int(np.argmin(told))
        if told[first] < best_cost:
            best, best_cost, found_after = places[first].copy(), told[first], done + first + 1
        done += count
        moves = (
            given.inertia * moves
            + given.own * random.random(places.shape) * (own - places)
            + given.swarm * random.random(places.shape) * (best - places)
        )
        places, moves = _kept_inside(places + moves, moves)
    return Swarmed(best=tuple(best.tolist()), cost=float(best_cost), found_after=found_after, evaluations=done)


def _kept_inside(places: _Array, moves: _Array) -> tuple[_Array, _Array]:
    inside = np.clip(places, 0.0, 1.0)
    return inside, np.where(inside == places, moves, 0.0)
