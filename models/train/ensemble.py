# SPDX-License-Identifier: GPL-2.0-only
"""Training of one head, offline: boosted trees, a random forest and a support vector machine, and how they count.

Takes arrays, makes a `Fitted` ensemble. Whole sessions are held out wherever something is chosen: the sigmoids that
turn the machine's scores into probabilities, and the weights of the members. What the held-out folds were predicted
as is handed on (`Validation`), so that a whole model (`models.train.factored`) can choose by it too. It measures
nothing for
the reader (`models.train.evaluation` does) and writes no file (`models.train.export` makes the artefact). Imports the
training
libraries, so the agent never imports this module. One thread each, so that the sums always run in the same order.

The machine is one of least squares (Suykens and Vandewalle 1999), one class against the rest, over at most
`Recipe.vectors` means of rows that all classes share (Nystroem's way, by k-means: Zhang, Tsang and Kwok 2008) and the
`Recipe.columns` columns that tell the classes best: all rows are learnt from, the time of a prediction has a bound.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from models.artefact import Array
from models.runtime_numpy import FARTHEST, UNSEEN

TRAINING = 15
"""Of how a model is trained: what was kept of another number is not used. Change it when figures would change."""

_GRID = 20  # weights are multiples of 1 / 20
# The members are there for each other's blind spots (paper 3.3), and a handful of validation sessions cannot show that
# one of them has none. Chosen after free weights had done worse on held-out sessions: README.md, Limits of today.
_LEAST = 0.2
_JITTER = 1e-3  # added to the vectors' own kernel, so that vectors close together do not get huge opposite weights
_AT_ONCE = 2048  # rows whose kernel is in memory
_STEEP = (-3.0, 0.0)  # sigmoid of a class that held-out folds say nothing about


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Hyperparameters. Sizes are bounded so that the artefact stays small and one prediction fast.

    There are many rows of few sessions, so that what tells the sessions apart is soon learnt by heart: trees see few
    columns and rows at a time, the machine's kernel is wide. The trees' part was chosen on seeds 0 and 1, each held out
    from the other, of one host; the machine's on seeds 3 to 6, two of them held out at a time: of their pairs it alone
    knew 92.7 % with 1000 rows drawn as vectors and all columns, 93.7 with means, 94.7 with means and 250 columns.
    """

    rounds: int = 60
    boosted_depth: int = 3
    boosted_rows: float = 0.5  # share of the rows that a round sees
    boosted_columns: float = 0.1  # share of the columns that a split sees
    learning_rate: float = 0.15
    forest_trees: int = 100
    forest_depth: int = 10
    forest_leaf: int = 5  # rows, at least
    penalty: float = 200.0  # the machine's C
    spread: float = 0.1  # the machine's gamma is spread / the mean square of what it sees
    vectors: int = 1000  # of a machine, at most
    columns: int = 250  # that it sees, at most
    # A tick under a scheduler that is another class's, in ticks of doing nothing. Of the published figures
    # (mapping_tables/evidence.yaml) that have EEVDF and two of the table's schedulers or more, the best of these is
    # 0.19 above EEVDF (mean of logs), the others are 0.99 below the best: 5.2 times as much.
    wrong_cost: float = 5.0
    # Of the time: programs of known kinds that were not learnt, and uses of no kind. Nobody knows. A laptop has
    # hundreds of programs, some sixty can be learnt; what is no kind (an update, a backup) takes minutes of a day.
    new_share: float = 0.5
    no_kind_share: float = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """Rows, bool (n,), of a training without some kinds and without some programs of the others."""

    learnt: Array  # of neither
    new: Array  # to be judged: of such a program
    no_kind: Array  # to be judged: of such a kind

    def with_copies(self, of: Array) -> "Away":
        """The same where rows (intp) stand at the end once more."""
        return Away(
            learnt=np.concatenate([self.learnt, self.learnt[of]]),
            new=np.concatenate([self.new, self.new[of]]),
            no_kind=np.concatenate([self.no_kind, self.no_kind[of]]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Training rows: n rows of F features."""

    x: Array  # float32 (n, F), NaN where unknown
    y: Array  # intp (n,), class by number
    weight: Array  # float64 (n,)
    fold: Array  # intp (n,), inner fold; rows of one session share it
    classes: int
    served: Array | None = None  # intp (K,): classes of one number have one scheduler; None: each has its own
    away: tuple[Away, ...] = ()
    learnt: Array | None = None  # bool (folds, n): what is learnt from to judge each fold; None: all other folds' rows

    familiar: Array | None = None  # bool (n,): judged by a training that knows its programs; None: all are

    def without(self, fold: int) -> Array:
        """What is learnt from to judge this fold, bool (n,)."""
        return np.asarray(self.fold != fold) if self.learnt is None else np.asarray(self.learnt[fold])


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What the machine makes of a row, and the vectors that it compares it with: the same for all heads."""

    fill: Array  # float32 (F,): what stands for a missing value
    mean: Array  # float64 (F,)
    scale: Array  # float64 (F,), UNSEEN where a column is left out
    vectors: Array  # float32 (S, F), standardised
    gamma: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The three members without calibration."""

    booster: Any  # xgboost.Booster
    forest: Any  # sklearn RandomForestClassifier
    space: Space
    coefficients: Array  # float64 (K, S)
    intercept: Array  # float64 (K,)

    def boosted(self, x: Array) -> Array:
        """Distributions by the boosted trees, (n, K)."""
        return np.asarray(self.booster.predict(xgboost.DMatrix(x, nthread=1)), dtype=np.float64)

    def energy(self, x: Array) -> Array:
        """Log of the sum of exp(margin) over the boosted trees' classes, (n,)."""
        margins = self.booster.predict(xgboost.DMatrix(x, nthread=1), output_margin=True)
        return np.asarray(np.logaddexp.reduce(np.asarray(margins, dtype=np.float64), axis=1))

    def forested(self, x: Array) -> Array:
        """Distributions by the forest, (n, K); a class that it was not shown has none."""
        found = np.zeros((len(x), len(self.intercept)))
        found[:, self.forest.classes_] = self.forest.predict_proba(self._filled(x))
        return found

    def scores(self, x: Array) -> Array:
        """Uncalibrated scores of the machine, (n, K)."""
        return self._over_kernel(x, lambda near: near @ self.coefficients.T + self.intercept)

    def kinship(self, x: Array) -> Array:
        """The kernel's value for the nearest vector, (n,)."""
        return self._over_kernel(x, lambda near: near.max(axis=1))

    def standardised(self, x: Array) -> Array:
        """What the machine sees, rounded to float32 so that its vectors can be stored exactly."""
        return _standardised(self._filled(x), self.space.mean, self.space.scale).astype(np.float64)

    def _over_kernel(self, x: Array, of: Any) -> Array:
        z, vectors, gamma = self.standardised(x), self.space.vectors, self.space.gamma
        parts = [of(_kernel(z[at : at + _AT_ONCE], vectors, gamma)) for at in range(0, len(z), _AT_ONCE)]
        return np.concatenate(parts) if parts else np.asarray(of(np.zeros((0, len(vectors)))))

    def _filled(self, x: Array) -> Array:
        return np.where(np.isnan(x), self.space.fill, x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Every training row as it was predicted by members that had not seen its inner fold."""

    blended: Array  # (n, K), by the chosen weights
    energy: Array  # (n,)
    kinship: Array  # (n,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A head: members, the machine's sigmoids (K, 2), and the members' weights, sum 1."""

    members: Members
    sigmoid: Array
    weights: tuple[float, ...]
    validation: Validation

    def by_member(self, x: Array) -> Array:
        """Distributions of every member, (3, n, K)."""
        machine = calibrated(self.members.scores(x), self.sigmoid)
        return np.stack([self.members.boosted(x), self.members.forested(x), machine])

    def probabilities(self, x: Array) -> Array:
        """Blended distributions, (n, K)."""
        return blend(self.by_member(x), self.weights)


def spaces(rows: Rows, recipe: Recipe, seed: int) -> tuple[Space, ...]:
    """By whole labels: of the rows outside each inner fold, in rising order of folds, then of all rows."""
    masks = [rows.without(fold) for fold in np.unique(rows.fold).tolist()]
    return tuple(space(rows, use, recipe, seed) for use in (*masks, np.ones(len(rows.y), dtype=bool)))


def fit(rows: Rows, known: tuple[Space, ...], recipe: Recipe, seed: int) -> Fitted:
    """Train on all rows, with sigmoids and weights from predictions on sessions that were held out in turn.

    `known`: of `spaces`, of the same rows with whole labels. The sigmoid that calibrates a fold for the choice of
    weights is fitted on the other folds' scores. At least two folds are needed.
    """
    shape = (len(rows.y), rows.classes)
    boosted, forested, scores, machine = (np.zeros(shape) for _ in range(4))
    energy, kinship = np.zeros(len(rows.y)), np.zeros(len(rows.y))
    for fold, of_fold in zip(np.unique(rows.fold).tolist(), known[:-1], strict=True):
        out = rows.fold == fold
        members = train(rows, rows.without(fold), of_fold, recipe, seed)
        boosted[out], forested[out] = members.boosted(rows.x[out]), members.forested(rows.x[out])
        scores[out] = members.scores(rows.x[out])
        energy[out], kinship[out] = members.energy(rows.x[out]), members.kinship(rows.x[out])
    for fold in np.unique(rows.fold):
        out = rows.fold == fold
        machine[out] = calibrated(scores[out], _sigmoid(scores[~out], rows, ~out))
    by_member = np.stack([boosted, forested, machine])
    weights = choose_weights(by_member, rows.y, rows.weight)
    everything = np.ones(len(rows.y), dtype=bool)
    return Fitted(
        members=train(rows, everything, known[-1], recipe, seed),
        sigmoid=_sigmoid(scores, rows, everything),
        weights=weights,
        validation=Validation(blended=blend(by_member, weights), energy=energy, kinship=kinship),
    )


def space(rows: Rows, use: Array, recipe: Recipe, seed: int) -> Space:
    """Columns and vectors by the rows that `use` (bool, (n,)) selects, and their labels."""
    x, y, weight = rows.x[use], rows.y[use], rows.weight[use]
    fill = _medians(x)
    filled = np.where(np.isnan(x), fill, x)
    mean = filled.mean(axis=0, dtype=np.float64)
    deviation = filled.std(axis=0, dtype=np.float64)
    scale = np.where(deviation > 1e-6, deviation, UNSEEN)
    z = _standardised(filled, mean, scale)
    dull = np.argsort(-_telling(z, y, weight), kind="stable")[recipe.columns :]
    scale[dull], z[:, dull] = UNSEEN, 0.0
    square = float(np.average(np.einsum("nf,nf->n", z, z, dtype=np.float64), weights=weight))
    vectors = _vectors(z, y, weight, recipe.vectors, seed)
    return Space(fill=fill, mean=mean, scale=scale, vectors=vectors, gamma=recipe.spread / max(1e-9, square))


def train(rows: Rows, use: Array, of: Space, recipe: Recipe, seed: int) -> Members:
    """Train the three members on the rows that `use` (bool, (n,)) selects."""
    x, y, weight = rows.x[use], rows.y[use], rows.weight[use]
    filled = np.where(np.isnan(x), of.fill, x)
    booster = xgboost.train(
        {
            "objective": "multi:softprob",
            "num_class": rows.classes,
            "base_score": 0.0,
            "tree_method": "hist",
            "max_depth": recipe.boosted_depth,
            "eta": recipe.learning_rate,
            "subsample": recipe.boosted_rows,
            "colsample_bynode": recipe.boosted_columns,
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
        min_samples_leaf=recipe.forest_leaf,
        random_state=seed,
    ).fit(filled, y, sample_weight=weight)
    z = _standardised(filled, of.mean, of.scale)
    coefficients, intercept = _machine(z, of.vectors, y, weight, rows.classes, of.gamma, recipe.penalty)
    return Members(booster=booster, forest=forest, space=of, coefficients=coefficients, intercept=intercept)


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


def _standardised(filled: Array, mean: Array, scale: Array) -> Array:
    return np.asarray(((filled - mean) / scale).clip(-FARTHEST, FARTHEST).astype(np.float32))


def _telling(z: Array, y: Array, weight: Array) -> Array:
    # of each column: variance of the classes' means over variance within the classes
    classes = np.unique(y)
    shares = np.array([weight[y == one].sum() for one in classes])
    means = np.array([np.average(z[y == one], axis=0, weights=weight[y == one]) for one in classes])
    place = np.searchsorted(classes, y)
    within = np.average((z - means[place]) ** 2, axis=0, weights=weight)
    between = np.average((means - np.average(means, axis=0, weights=shares)) ** 2, axis=0, weights=shares)
    return np.asarray(between / np.maximum(within, 1e-6))


def _vectors(z: Array, y: Array, weight: Array, most: int, seed: int) -> Array:
    # means of a class's rows that lie together; as many of each class as its rows count
    if len(weight) <= most:
        return z
    made = []
    for one in np.unique(y):
        own = y == one
        count = min(int(own.sum()), max(1, int(most * weight[own].sum() / weight.sum())))
        groups = MiniBatchKMeans(count, random_state=seed, batch_size=1024, n_init=1, max_iter=20)
        made.append(groups.fit(z[own], sample_weight=weight[own]).cluster_centers_)
    return np.concatenate(made).astype(np.float32)[:most]


def _kernel(z: Array, vectors: Array, gamma: float) -> Array:
    rows, others = z.astype(np.float64), vectors.astype(np.float64)
    distances = (rows * rows).sum(axis=1)[:, None] + (others * others).sum(axis=1) - 2.0 * (rows @ others.T)
    return np.asarray(np.exp(-gamma * np.fmax(distances, 0.0)))


def _machine(
    z: Array, vectors: Array, y: Array, weight: Array, classes: int, gamma: float, penalty: float
) -> tuple[Array, Array]:
    # least of a'(K + jitter)a / 2 + C sum w (t - k'a - b)^2 / 2, t = 1 for the class and -1 for the others
    count = len(vectors)
    matrix = np.zeros((count + 1, count + 1))
    right = np.zeros((count + 1, classes))
    for at in range(0, len(z), _AT_ONCE):
        part = slice(at, at + _AT_ONCE)
        near = _kernel(z[part], vectors, gamma)
        near = np.concatenate([near, np.ones((len(near), 1))], axis=1)
        weighed = near * (penalty * weight[part])[:, None]
        matrix += weighed.T @ near
        right += weighed.T @ np.where(y[part][:, None] == np.arange(classes), 1.0, -1.0)
    matrix[:count, :count] += _kernel(vectors, vectors, gamma) + _JITTER * np.eye(count)
    found = np.linalg.solve(matrix, right)
    return np.ascontiguousarray(found[:count].T), found[count]


def _sigmoid(scores: Array, rows: Rows, use: Array) -> Array:
    def of(number: int) -> tuple[float, float]:
        truth = rows.y[use] == number
        if truth.all() or not truth.any():
            return _STEEP
        model = LogisticRegression(C=10.0)
        model.fit(scores[:, [number]], truth, sample_weight=rows.weight[use])
        return -float(model.coef_[0, 0]), -float(model.intercept_[0])

    return np.array([of(number) for number in range(rows.classes)])
