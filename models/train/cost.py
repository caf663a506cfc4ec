# SPDX-License-Identifier: GPL-2.0-only
"""The threshold of the unknown by what it costs. Pure.

What is accepted and right costs nothing, what is refused costs one tick in which nothing is chosen. What is accepted
and would get another scheduler than its right class costs `Recipe.wrong_cost` of them. Known uses, programs that were
kept out of training and kinds that were kept out count by `Recipe.new_share` and `no_kind_share`. All rows are training
rows, predicted by members that had not seen them (`models.train.factored`): nothing is chosen on what a figure is made
of.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.artefact import Array, Score
from models.train.ensemble import Recipe, Rows

KNOWN_SHARE = 0.7
"""Of the validation rows of known programs so many are known at least, whatever it costs: a vote is of six ticks, most
of which must be known. Single ticks say too much of the cost: few wrong ones win a vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """From which value of a score on a row is known."""

    least: float
    cost: float | None = None  # of a row, in refused ones; None: it was not chosen by cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What members said of n rows that they had not seen."""

    scores: Mapping[Score, Array]  # (n,)
    wrong: Array  # bool (n,): what they said has another scheduler than the truth
    weight: Array  # (n,)

    def select(self, use: Array) -> "Verdicts":
        """These rows alone, bool (n,)."""
        scores = {score: of[use] for score, of in self.scores.items()}
        return Verdicts(scores=scores, wrong=self.wrong[use], weight=self.weight[use])


def thresholds(
    known: Verdicts, new: Sequence[Verdicts], no_kind: Sequence[Verdicts], recipe: Recipe
) -> dict[Score, Threshold]:
    """Of each score the cheapest that knows `KNOWN_SHARE`. `new`: of rows whose program the members never saw,
    `no_kind`: whose kind."""
    most = {score: float(np.quantile(of, 1.0 - KNOWN_SHARE)) for score, of in known.scores.items()}
    if not new and not no_kind:
        return {score: Threshold(least=least) for score, least in most.items()}
    parts = (
        (1.0 - recipe.new_share - recipe.no_kind_share, [known]),
        (recipe.new_share, new),
        (recipe.no_kind_share, no_kind),
    )
    every = [one for _, some in parts for one in some]
    weight = np.concatenate(
        [share * one.weight / sum(each.weight.sum() for each in some) for share, some in parts for one in some]
    )
    wrong = np.concatenate([one.wrong for one in every])
    return {
        score: _bounded(np.concatenate([one.scores[score] for one in every]), wrong, weight, recipe.wrong_cost, least)
        for score, least in most.items()
    }


def _bounded(scores: Array, wrong: Array, weight: Array, wrong_cost: float, most: float) -> Threshold:
    found = cheapest(scores, wrong, weight, wrong_cost)
    if found.least <= most:
        return found
    each = np.where(scores < most, 1.0, np.where(wrong, wrong_cost, 0.0))
    return Threshold(least=most, cost=float(np.average(each, weights=weight)))


def cheapest(scores: Array, wrong: Array, weight: Array, wrong_cost: float) -> Threshold:
    """The threshold under which the mean cost of a row is least; of several the highest.

    It lies in the middle between the last score that is known and the first that is not.
    """
    order = np.argsort(-scores, kind="stable")
    falling, share = scores[order], weight[order] / weight.sum()
    gained = np.cumsum(share * (np.where(wrong[order], wrong_cost, 0.0) - 1.0))
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))  # rows of one score are known together
    best = ends[int(np.argmin(gained[ends]))]
    if gained[best] >= 0.0:  # nothing is worth being known
        return Threshold(least=float(np.nextafter(falling[0], np.inf)), cost=1.0)
    following = falling[best + 1] if best + 1 < len(falling) else falling[best]
    return Threshold(least=float((falling[best] + following) / 2.0), cost=float(1.0 + gained[best]))


def wrong(rows: Rows, truth: Array, said: Array) -> Array:
    """Whether what was said (class by number, (n,)) has another scheduler than the truth, bool (n,)."""
    if rows.served is None:
        return np.asarray(truth != said)
    return np.asarray(rows.served[truth] != rows.served[said])
