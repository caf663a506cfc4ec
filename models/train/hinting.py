# SPDX-License-Identifier: GPL-2.0-only
"""How much hints count beside the model: one weight, chosen on programs that were held out.

The rule is that of `asa.decide.evidence.pooled`, here over arrays.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from asa.core import kinds
from asa.core.evidence import MOST_WEIGHT
from asa.decide import evidence
from asa.decide.hints import Hints
from models.artefact import Array
from models.train.dataset import Dataset
from models.train.factored import normalised

_STEPS = 81  # of the weight, from 0 to the largest
_LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the hints say of n rows and K classes."""

    speaks: Array  # float64 (n, K): how much for each class, the sum over its two halves
    agrees: Array  # bool (n, K): the class is what is told

    def select(self, use: Array) -> "Told":
        """These rows: bool (n,), or their numbers."""
        return Told(speaks=self.speaks[use], agrees=self.agrees[use])

    def over(self, shares: Array, known: Array, weight: float) -> tuple[Array, Array]:
        """The model's shares (n, K) and what it knows, bool (n,), together with the hints."""
        if not weight:
            return shares, known
        both = pooled(shares, self.speaks, weight)
        return both, known | np.take_along_axis(self.agrees, both.argmax(axis=1)[:, None], axis=1)[:, 0]


def told(data: Dataset, hints: Hints) -> Told:
    """Of each row. `data` with its samples."""
    of_class = [kinds.halves(name) for name in data.classes]
    speaks = np.zeros((len(data.y), len(data.classes)))
    agrees = np.zeros(speaks.shape, dtype=bool)
    for number in np.unique(data.session).tolist():
        samples = data.sessions[number].samples
        rows = {int(data.at_ns[row]): row for row in np.flatnonzero(data.session == number).tolist()}
        recent: evidence.Uses = ()
        for before, sample in itertools.pairwise(samples):
            recent = evidence.at_work(recent, sample)
            row = rows.get(sample.monotonic_ns, -1)
            found = evidence.of_tick(before, sample, hints, recent) if row >= 0 else None
            if found is not None and (found.interactive or found.background):
                by_kind = {**found.interactive, **found.background}
                speaks[row] = [sum(by_kind.get(kind, 0.0) for kind in both if kind) for both in of_class]
                agrees[row] = [evidence.agrees(both, found) for both in of_class]
    return Told(speaks=speaks, agrees=agrees)


def pooled(shares: Array, speaks: Array, weight: float) -> Array:
    """The model's shares (n, K) together with what speaks for each class (n, K)."""
    return normalised(shares * np.exp(weight * speaks))


def chosen(shares: Array, speaks: Array, y: Array) -> float:
    """The weight with the least log loss on rows that the model has not seen; of several the smallest."""
    truth = np.arange(len(y)), y
    weights = np.linspace(0.0, MOST_WEIGHT, _STEPS)
    losses = [-np.log(np.maximum(pooled(shares, speaks, one)[truth], _LEAST)).mean() for one in weights.tolist()]
    return float(weights[int(np.argmin(losses))])
