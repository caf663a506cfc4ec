# SPDX-License-Identifier: GPL-2.0-only
"""Response surfaces: a Box-Behnken design of three factors, a second-order model of what it showed, its best point.

Pure. So the study of CFS chose the swarm's coefficients (docs/tuning.md).
"""

import math
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

STUDY = (
    (0.0, 0.0, 2.0, 4294667318, 5),
    (0.9, 0.0, 2.0, 4294667318, 4),
    (0.0, 4.0, 2.0, 4294667318, 29),
    (0.9, 4.0, 2.0, 4294667318, 30),
    (0.0, 2.0, 0.0, 4294668048, 31),
    (0.9, 2.0, 0.0, 4294669150, 31),
    (0.0, 2.0, 4.0, 4294667315, 7),
    (0.9, 2.0, 4.0, 4294667315, 6),
    (0.45, 0.0, 0.0, 4294669038, 31),
    (0.45, 4.0, 0.0, 4294668498, 31),
    (0.45, 0.0, 4.0, 4294667315, 5),
    (0.45, 4.0, 4.0, 4294667315, 5),
    (0.45, 2.0, 2.0, 4294667315, 18),
    (0.45, 2.0, 2.0, 4294667315, 16),
)
"""Table I of the study of CFS: inertia, own pull, swarm's pull, least response in jiffies, iterations until it."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """One search with some coefficients: the least cost that it found, and after how many iterations."""

    coefficients: Coefficients
    cost: float
    iterations: int

    @property
    def response(self) -> float:
        """What is to be small, as the study adds both up."""
        return self.cost + self.iterations


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The design's searches, in its order, the model of them, and its least within the factors' ranges."""

    runs: tuple[Searched, ...]
    surface: Surface
    best: Coefficients


def choose(search: Callable[[Coefficients], Searched]) -> Chosen:
    """The swarm's coefficients, by 14 searches."""
    points = box_behnken()
    runs = tuple(search(_uncoded(point)) for point in points)
    surface = fitted(points, [run.response for run in runs])
    return Chosen(runs=runs, surface=surface, best=_uncoded(surface.best))


def searching(
    costs: Callable[[Sequence[Sequence[float]]], Sequence[float]], dimensions: int, seed: int
) -> Callable[[Coefficients], Searched]:
    """Of a function to be searched: a whole search of 20 particles and 30 iterations."""

    def search(given: Coefficients) -> Searched:
        found = swarm.search(costs, dimensions, swarm.PARTICLES * swarm.ITERATIONS, seed, given)
        return Searched(coefficients=given, cost=found.cost, iterations=math.ceil(found.found_after / swarm.PARTICLES))

    return search


def _uncoded(point: Sequence[float]) -> Coefficients:
    inertia, own, pull = (middle + half * one for middle, half, one in zip(MIDDLES, HALVES, point, strict=True))
    return Coefficients(inertia=inertia, own=own, swarm=pull)


def _design(coded: _Array) -> _Array:
    squares = combinations_with_replacement(range(coded.shape[1]), 2)
    products = [coded[:, one] * coded[:, two] for one, two in squares]
    return np.column_stack([np.ones(len(coded)), coded, *products])
