# SPDX-License-Identifier: GPL-2.0-only
"""Training, offline: gradient-boosted trees, a random forest and a support vector machine, and how much each counts.

Takes arrays, makes a `Fitted` ensemble. Whole sessions are held out wherever something is chosen: the sigmoids that
turn the machine's scores into probabilities, and the weights of the members. It measures nothing for the reader
(`models.evaluation` does) and writes no file (`models.export` makes the artefact). Imports the training libraries, so
the agent never imports this module. One thread each: a few thousand rows are done in seconds, and the sums always
run in the same order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from models.artefact import Array

_GRID = 20  # weights are multiples of 1 / 20
# The members are there for each other's blind spots (paper 3.3), and a handful of validation sessions cannot show that
# one of them has none. Chosen after free weights had done worse on held-out sessions: README.md, Limits of today.
_LEAST = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Hyperparameters. Sizes are bounded so that the artefact stays small and one prediction fast."""

    rounds: int = 60
    boosted_depth: int = 4
    learning_rate: float = 0.15
    forest_trees: int = 100
    forest_depth: int = 10
    penalty: float = 5.0  # the machine's C
    spread: float = 1.0  # the machine's gamma is spread / features


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Training rows: n rows of F features."""

    x: Array  # float32 (n, F), NaN where unknown
    y: Array  # intp (n,), class by number
    weight: Array  # float64 (n,)
    fold: Array  # intp (n,), inner fold; rows of one session share it
    classes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The three members without calibration."""

    booster: Any  # xgboost.Booster
    forest: Any  # sklearn RandomForestClassifier
    machines: tuple[Any, ...]  # one sklearn SVC a class, that class against the rest
    gamma: float
    mean: Array  # float64 (F,)
    scale: Array  # float64 (F,)
    fill: Array  # float32 (F,)

    def boosted(self, x: Array) -> Array:
        """Distributions by the boosted trees, (n, K)."""
        return np.asarray(self.booster.predict(xgboost.DMatrix(x, nthread=1)), dtype=np.float64)

    def forested(self, x: Array) -> Array:
        """Distributions by the forest, (n, K)."""
        return np.asarray(self.forest.predict_proba(self._filled(x)), dtype=np.float64)

    def scores(self, x: Array) -> Array:
        """Uncalibrated scores of the machines, (n, K)."""
        z = self.standardised(x)
        return np.stack([machine.decision_function(z) for machine in self.machines], axis=1)

    def standardised(self, x: Array) -> Array:
        """What the machines see, rounded to float32 so that support vectors can be stored exactly."""
        z = (self._filled(x) - self.mean) / self.scale
        return z.astype(np.float32).astype(np.float64)

    def _filled(self, x: Array) -> Array:
        return np.where(np.isnan(x), self.fill, x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A whole ensemble: members, the machine's sigmoids (K, 2), and the members' weights, sum 1."""

    members: Members
    sigmoid: Array
    weights: tuple[float, ...]

    def by_member(self, x: Array) -> Array:
        """Distributions of every member, (3, n, K)."""
        machine = calibrated(self.members.scores(x), self.sigmoid)
        return np.stack([self.members.boosted(x), self.members.forested(x), machine])

    def probabilities(self, x: Array) -> Array:
        """Blended distributions, (n, K)."""
        return blend(self.by_member(x), self.weights)


def fit(rows: Rows, recipe: Recipe, seed: int) -> Fitted:
    """Train on all rows, with sigmoids and weights from predictions on sessions that were held out in turn.

    The sigmoid that calibrates a fold for the choice of weights is fitted on the other folds' scores.
    """
    shape = (len(rows.y), rows.classes)
    boosted, forested, scores, machine = (np.zeros(shape) for _ in range(4))
    for fold in np.unique(rows.fold):
        out = rows.fold == fold
        members = train(rows, ~out, recipe, seed)
        boosted[out], forested[out] = members.boosted(rows.x[out]), members.forested(rows.x[out])
        scores[out] = members.scores(rows.x[out])
    for fold in np.unique(rows.fold):
        out = rows.fold == fold
        machine[out] = calibrated(scores[out], _sigmoid(scores[~out], rows, ~out))
    weights = choose_weights(np.stack([boosted, forested, machine]), rows.y, rows.weight)
    everything = np.ones(len(rows.y), dtype=bool)
    return Fitted(
        members=train(rows, everything, recipe, seed), sigmoid=_sigmoid(scores, rows, everything), weights=weights
    )


def train(rows: Rows, use: Array, recipe: Recipe, seed: int) -> Members:
    """Train the three members on the rows that `use` (bool, (n,)) selects."""
    x, y, weight = rows.x[use], rows.y[use], rows.weight[use]
    fill = _medians(x)
    filled = np.where(np.isnan(x), fill, x)
    booster = xgboost.train(
        {
            "objective": "multi:softprob",
            "num_class": rows.classes,
            "base_score": 0.0,
            "tree_method": "hist",
            "max_depth": recipe.boosted_depth,
            "eta": recipe.learning_rate,
            "subsample": 0.8,
            "colsample_bytree": 0.6,
            "min_child_weight": 2.0,
            "seed": seed,
            "nthread": 1,
            "verbosity": 0,
        },
        xgboost.DMatrix(x, label=y, weight=weight, nthread=1),
        num_boost_round=recipe.rounds,
    )
    forest = RandomForestClassifier(
        n_estimators=recipe.forest_trees,
        max_depth=recipe.forest_depth,
        min_samples_leaf=2,
        random_state=seed,
    ).fit(filled, y, sample_weight=weight)
    mean = filled.mean(axis=0, dtype=np.float64)
    deviation = filled.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 1e-6, deviation, 1.0)
    z = ((filled - mean) / scale).astype(np.float32).astype(np.float64)
    gamma = recipe.spread / x.shape[1]
    machines = tuple(
        SVC(C=recipe.penalty, gamma=gamma, kernel="rbf").fit(z, y == number, sample_weight=weight)
        for number in range(rows.classes)
    )
    return Members(booster=booster, forest=forest, machines=machines, gamma=gamma, mean=mean, scale=scale, fill=fill)


def calibrated(scores: Array, sigmoid: Array) -> Array:
    """Scores (n, K) to distributions: 1 / (1 + exp(a f + b)) by class, then divided by their sum."""
    shares = np.maximum(0.5 - 0.5 * np.tanh(0.5 * (scores * sigmoid[:, 0] + sigmoid[:, 1])), 1e-9)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def blend(by_member: Array, weights: tuple[float, ...]) -> Array:
    """Weighted mean of distributions, (members, n, K) to (n, K)."""
    return np.asarray(np.einsum("m,mnk->nk", np.array(weights), by_member))


def choose_weights(by_member: Array, y: Array, weight: Array) -> tuple[float, ...]:
    """Weights from a grid over the simplex with the least log loss, none below `_LEAST`; the first of equals."""
    of_truth = by_member[:, np.arange(len(y)), y]
    steps = range(_GRID, -1, -1)
    grid = np.array([(i, j, _GRID - i - j) for i in steps for j in steps if i + j <= _GRID]) / _GRID
    grid = grid[grid.min(axis=1) >= _LEAST]
    losses = -np.log(np.maximum(grid @ of_truth, 1e-9)) @ weight
    return tuple(float(share) for share in grid[losses.argmin()])


def _medians(x: Array) -> Array:
    # a feature that is unknown in every row (no PSI in this kernel) gets 0: any constant will do there
    known = np.where(np.isnan(x).all(axis=0), np.float32(0), x)
    return np.asarray(np.nanmedian(known, axis=0), dtype=np.float32)


def _sigmoid(scores: Array, rows: Rows, use: Array) -> Array:
    def of(number: int) -> tuple[float, float]:
        model = LogisticRegression(C=10.0)
        model.fit(scores[:, [number]], rows.y[use] == number, sample_weight=rows.weight[use])
        return -float(model.coef_[0, 0]), -float(model.intercept_[0])

    return np.array([of(number) for number in range(rows.classes)])
