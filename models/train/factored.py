# SPDX-License-Identifier: GPL-2.0-only
"""Training of a whole model, offline: one head for whole labels, or one for what is in front and one for what works
behind, whichever the validation sessions prefer.

Takes training rows with whole labels, makes a `Model`: its heads, each with its temperature, and from which score on it
knows what it sees. All of it is chosen on predictions for inner folds, that the members had not seen. Writes no file
(`models.train.export` makes the artefact's arrays).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from asa.core.errors import ModelError
from models.artefact import WHOLE, Array, OpenWorld, Part, Score, places
from models.train import cost, ensemble
from models.train.cost import Threshold, Verdicts
from models.train.dataset import Dataset
from models.train.ensemble import Fitted, Recipe, Rows

FACTORS = ("interactive", "background")
"""Names of the heads of a factored model."""

_TEMPERATURES = np.exp(np.linspace(np.log(0.2), np.log(5.0), 81))
_SMALLEST = 1e-12  # as the runtime


class Kind(StrEnum):
    """How a model is built."""

    FLAT = "flat"
    FACTORED = "factored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The classes, and what each is made of."""

    classes: tuple[str, ...]
    factors: Array  # intp (K, 2), into the next two; -1 where unknown
    interactives: tuple[str, ...]  # "" is none
    backgrounds: tuple[str, ...]

    @property
    def parts(self) -> tuple[Part, Part]:
        """Heads that know these factors, not yet weighed."""
        names = (self.interactives, self.backgrounds)
        front, behind = (
            Part(name=name, classes=classes, weights=()) for name, classes in zip(FACTORS, names, strict=True)
        )
        return front, behind

    def kinds(self) -> tuple[Kind, ...]:
        """What can be built: factored where each class is a combination of two factors, and some class has both."""
        several = min(len(self.interactives), len(self.backgrounds)) >= 2 and bool((self.factors >= 0).all())
        return (Kind.FLAT, Kind.FACTORED) if several and bool((self.factors > 0).all(axis=1).any()) else (Kind.FLAT,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A trained model. `columns` are the classes' places among the combinations of its heads' classes, of which it may
    know only some: their shares are then divided by their sum."""

    kind: Kind
    classes: tuple[str, ...]  # of the dataset
    heads: tuple[Fitted, ...]
    parts: tuple[Part, ...]  # with weights and temperatures, in the heads' order
    columns: Array  # intp (K,)
    validation: Array  # (n, K): the training rows, by inner folds
    familiar: Mapping[Score, Array]  # (n,): their scores, likewise
    thresholds: Mapping[Score, Threshold]

    def by_head(self, x: Array) -> list[Array]:
        """Distributions of boosted trees, forest and machine of each head, (3, n, K of the head)."""
        return [one.by_member(x) for one in self.heads]

    def probabilities(self, x: Array) -> Array:
        """Distributions over `classes`, (n, F) to (n, K)."""
        return self.blended(self.by_head(x))

    def blended(self, by_head: Sequence[Array]) -> Array:
        """The same from what `by_head` gave."""
        return normalised(self._joined(by_head))

    def _joined(self, by_head: Sequence[Array]) -> Array:
        shares = [ensemble.blend(of, part.weights) for of, part in zip(by_head, self.parts, strict=True)]
        return joined(shares, self.parts, calibrate=True)[:, self.columns]

    def by_member(self, by_head: Sequence[Array]) -> Array:
        """Distributions over `classes` by each member alone, (3, n, K), not calibrated."""
        members = [[of[place] for of in by_head] for place in range(len(by_head[0]))]
        return np.stack([normalised(joined(one, self.parts, calibrate=False)[:, self.columns]) for one in members])

    def scores(self, x: Array, by_head: Sequence[Array]) -> dict[Score, Array]:
        """How familiar each row is, (n,) by each measure, as the runtime has them; `by_head` as of these rows."""
        return {
            Score.PROBABILITY: self._joined(by_head).max(axis=1),
            Score.ENERGY: np.min([one.members.energy(x) for one in self.heads], axis=0),
            Score.KINSHIP: self.heads[0].members.kinship(x),  # the heads share their vectors
        }

    @property
    def score(self) -> Score:
        """The measure that costs least; the simplest where costs are not known."""
        costs = {score: one.cost for score, one in self.thresholds.items() if one.cost is not None}
        return min(costs, key=costs.__getitem__, default=Score.PROBABILITY)

    def open_world(self, score: Score | None = None) -> OpenWorld:
        """By this score; None: the one that costs least."""
        score = score or self.score
        return OpenWorld(score=score, least=self.thresholds[score].least)


def labels_of(data: Dataset) -> Labels:
    """What the classes of a dataset are made of."""
    return Labels(
        classes=data.classes,
        factors=data.factors(),
        interactives=data.interactives,
        backgrounds=data.backgrounds,
    )


def fit(kind: Kind, rows: Rows, names: Labels, recipe: Recipe, seed: int) -> Model:
    """Train one kind of model on rows with whole labels. Raises ModelError where the labels have no such factors."""
    known = ensemble.spaces(rows, recipe, seed)  # heads share them: the runtime evaluates one kernel
    if kind is Kind.FLAT:
        heads: tuple[Fitted, ...] = (ensemble.fit(rows, known, recipe, seed),)
        parts: tuple[Part, ...] = (Part(name=WHOLE, classes=names.classes, weights=()),)
        truths = (rows.y,)
        columns = np.arange(len(names.classes))
    else:
        if kind not in names.kinds():
            raise ModelError("the labels are not combinations of two factors: train a flat model")
        parts = names.parts
        truths = tuple(names.factors[rows.y].T)
        heads = tuple(
            ensemble.fit(replace(rows, y=truth, classes=len(part.classes)), known, recipe, seed)
            for truth, part in zip(truths, parts, strict=True)
        )
        columns = places(parts, names.classes)
    shares = [one.validation.blended for one in heads]
    parts = tuple(
        Part(
            name=part.name,
            classes=part.classes,
            weights=one.weights,
            temperature=temperature(share, truth, rows.weight),
        )
        for part, one, share, truth in zip(parts, heads, shares, truths, strict=True)
    )
    among = joined(shares, parts, calibrate=True)[:, columns]
    validation = normalised(among)
    model = Model(
        kind=kind,
        classes=names.classes,
        heads=heads,
        parts=parts,
        columns=columns,
        validation=validation,
        familiar={
            Score.PROBABILITY: among.max(axis=1),
            Score.ENERGY: np.min([one.validation.energy for one in heads], axis=0),
            Score.KINSHIP: np.min([one.validation.kinship for one in heads], axis=0),
        },
        thresholds={},
    )
    learnt = Verdicts(
        scores=model.familiar, wrong=cost.wrong(rows, rows.y, validation.argmax(axis=1)), weight=rows.weight
    )
    if rows.familiar is not None:  # what is new has verdicts of its own
        learnt = learnt.select(rows.familiar)
    return replace(model, thresholds=cost.thresholds(learnt, *_unknown(model, rows, truths, recipe, seed), recipe))


def _unknown(
    model: Model, rows: Rows, truths: Sequence[Array], recipe: Recipe, seed: int
) -> tuple[list[Verdicts], list[Verdicts]]:
    """What is said of programs, and of kinds, that were kept out, by members trained without them; weights and
    calibration are the model's."""
    new, no_kind = list[Verdicts](), list[Verdicts]()
    for away in rows.away:
        if any(len(np.unique(truth[away.learnt])) < 2 for truth in truths):
            continue  # what is left tells nothing apart
        space = ensemble.space(rows, away.learnt, recipe, seed)
        heads = tuple(
            replace(
                one,
                members=ensemble.train(
                    replace(rows, y=truth, classes=len(part.classes)), away.learnt, space, recipe, seed
                ),
            )
            for one, truth, part in zip(model.heads, truths, model.parts, strict=True)
        )
        without = replace(model, heads=heads)
        for judged, found in ((away.new, new), (away.no_kind, no_kind)):
            if judged.any():
                found.append(_verdicts(without, rows, judged))
    return new, no_kind


def _verdicts(model: Model, rows: Rows, judged: Array) -> Verdicts:
    x = rows.x[judged]
    by_head = model.by_head(x)
    said = model.blended(by_head).argmax(axis=1)
    wrong = cost.wrong(rows, rows.y[judged], said)
    return Verdicts(scores=model.scores(x, by_head), wrong=wrong, weight=rows.weight[judged])


def preferred(models: Sequence[Model], rows: Rows) -> Model:
    """The one that is right most often on validation rows by their weight, else the surer one, else the first."""

    def worth(model: Model) -> tuple[float, float]:
        accuracy, loss = judged(model.validation, rows.y, rows.weight)
        return -accuracy, loss

    return min(models, key=worth)


def judged(probabilities: Array, y: Array, weight: Array) -> tuple[float, float]:
    """Accuracy in per cent and log loss by the rows' weights."""
    right = probabilities.argmax(axis=1) == y
    of_truth = np.maximum(probabilities[np.arange(len(y)), y], 1e-9)
    return float(np.average(right, weights=weight) * 100), float(np.average(-np.log(of_truth), weights=weight))


def temperature(shares: Array, y: Array, weight: Array) -> float:
    """Of a blend: the one with the least log loss on validation rows, of a grid from 0.2 to 5."""
    logs = np.log(np.maximum(shares, _SMALLEST))
    truth = np.arange(len(y)), y
    losses = [
        float(weight @ (np.logaddexp.reduce(logs / one, axis=1) - logs[truth] / one)) for one in _TEMPERATURES.tolist()
    ]
    return round(float(_TEMPERATURES[int(np.argmin(losses))]), 4)


def hardened(shares: Array, heat: float) -> Array:
    """Shares (n, K) at a temperature, as the runtime does it."""
    if heat == 1.0:
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))
    powers = np.maximum(shares, _SMALLEST) ** (1.0 / heat)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def normalised(shares: Array) -> Array:
    """Divided by their sum, as the runtime does it; all equal where that is 0."""
    sums = shares.sum(axis=1, keepdims=True)
    return np.where(sums > 0.0, shares / np.where(sums > 0.0, sums, 1.0), 1.0 / shares.shape[1])


def joined(shares: Sequence[Array], parts: Sequence[Part], *, calibrate: bool) -> Array:
    """Of the heads' shares, (n, K of the head) each: all combinations, the last head's class changing fastest."""
    joint, *others = (
        hardened(share, part.temperature if calibrate else 1.0) for share, part in zip(shares, parts, strict=True)
    )
    for share in others:
        joint = (joint[:, :, None] * share[:, None, :]).reshape(len(joint), -1)
    return joint
