# SPDX-License-Identifier: GPL-2.0-only
"""Response surfaces: a Box-Behnken design of three factors, a second-order model of what it showed, its best point.

Pure. So the study of CFS chose the swarm's coefficients (docs/tuning.md).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibration.tuning import swarm
from calibration.tuning.swarm import Coefficients

_Array: TypeAlias = NDArray[np.float64]
_STEPS = 41  # of a grid over each factor, where the model has no minimum inside

MIDDLES, HALVES = (0.45, 2.0, 2.0), (0.45, 2.0, 2.0)
"""Of inertia, the particle's own pull and the swarm's, as in the study: 0, 0.45, 0.9 and 0, 2, 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """A second-order model of coded factors (-1..1): where its slope is 0, the curvatures there, the least inside."""

    stationary: tuple[float, ...]
    curvatures: tuple[float, ...]
    best: tuple[float, ...]

    @property
    def minimum(self) -> bool:
        """Is the stationary point one? Else it is a saddle, or a maximum."""
        return min(self.curvatures) > 0.0


def box_behnken() -> list[tuple[float, float, float]]:
    """The 14 runs of three factors: the middles of a cube's edges, and its centre twice."""
    found = []
    for left_out in (2, 1, 0):
        for one, two in product((-1.0, 1.0), repeat=2):
            rest = iter((two, one))  # the first factor changes fastest
            found.append(tuple(0.0 if axis == left_out else next(rest) for axis in range(3)))
    return [(a, b, c) for a, b, c in found] + [(0.0, 0.0, 0.0)] * 2


def fitted(points: Sequence[Sequence[float]], responses: Sequence[float]) -> Surface:
    """By least squares. Raises ValueError where the points do not tell all of the model's parts."""
    coded = np.array(points, dtype=np.float64)
    factors = coded.shape[1]
    design = _design(coded)
    if np.linalg.matrix_rank(design) < design.shape[1]:
        raise ValueError(f"{len(points)} points do not tell the {design.shape[1]} parts of a second-order model")
    values = np.array(responses, dtype=np.float64)
    parts = np.linalg.lstsq(design, values - values.min(), rcond=None)[0]
    slopes, curved = parts[1 : factors + 1], np.zeros((factors, factors))
    for part, (one, two) in zip(parts[factors + 1 :], combinations_with_replacement(range(factors), 2), strict=True):
        curved[one, two] += part / 2.0
        curved[two, one] += part / 2.0
    stationary = -0.5 * np.linalg.solve(curved, slopes)
    curvatures = np.linalg.eigvalsh(curved)
    best = stationary
    if curvatures.min() <= 0.0 or np.abs(stationary).max() > 1.0:
        grid = np.array(list(product(np.linspace(-1.0, 1.0, _STEPS), repeat=factors)))
        best = grid[int(np.argmin(_design(grid) @ parts))]
    return Surface(
        stationary=tuple(stationary.tolist()), curvatures=tuple(curvatures.tolist()), best=tuple(best.tolist())
    )


def coefficients(cost: Callable[[Coefficients], float]) -> Coefficients:
    """The swarm's, by 14 runs of `cost`, which is a whole search's: the model's least within the factors' ranges."""
    points = box_behnken()
    best = fitted(points, [cost(_uncoded(point)) for point in points]).best
    return _uncoded(best)


def search_cost(
    costs: Callable[[Sequence[Sequence[float]]], Sequence[float]], dimensions: int, seed: int
) -> Callable[[Coefficients], float]:
    """Of a function to be searched: what a swarm finds plus the iterations until then, as the study adds them up."""

    def cost(given: Coefficients) -> float:
        found = swarm.search(costs, dimensions, swarm.PARTICLES * swarm.ITERATIONS, seed, given)
        return found.cost + found.found_after / swarm.PARTICLES

    return cost


def _uncoded(point: Sequence[float]) -> Coefficients:
    inertia, own, pull = (middle + half * one for middle, half, one in zip(MIDDLES, HALVES, point, strict=True))
    return Coefficients(inertia=inertia, own=own, swarm=pull)


def _design(coded: _Array) -> _Array:
    squares = combinations_with_replacement(range(coded.shape[1]), 2)
    products = [coded[:, one] * coded[:, two] for one, two in squares]
    return np.column_stack([np.ones(len(coded)), coded, *products])
