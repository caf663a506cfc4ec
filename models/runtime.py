# SPDX-License-Identifier: GPL-2.0-only
"""Inference: an artefact's heads evaluated on one frame, blended, calibrated, joined to whole labels, and judged.

Reads a checked `Artefact`, makes a `Judgement`. The members are evaluated by the compiled engine where it was built,
by NumPy where not; both say the same. It does no training and imports no training library.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from asa.core.decision import FeatureFrame, Judgement, Probabilities, Workload
from asa.core.errors import ModelError
from models import artefact, features, runtime_compiled
from models.artefact import Array, Artefact, Part, Score
from models.runtime_numpy import NumpyMembers, seen
from models.taught import Lessons


class Engine(Protocol):
    """Evaluates the members on the inputs that it was made with."""

    name: str

    def members(self) -> Array:
        """Distributions by boosted trees, forest and machine, float64 (3, K), the heads' classes side by side."""
        ...

    def energy(self) -> float:
        """`Score.ENERGY` of the last frame."""
        ...

    def kinship(self) -> float:
        """`Score.KINSHIP` of the last frame."""
        ...


class Ensemble:
    """A `Classifier` over an artefact. Not for several threads at once: it works in its own buffers."""

    def __init__(self, model: Artefact, library: Path | None = runtime_compiled.LIBRARY) -> None:
        """`library`: the compiled evaluator; None, or one that cannot be loaded: NumPy."""
        self.schema = model.header.schema
        self.classes = tuple(Workload(name) for name in model.header.classes)
        self.parts = model.header.parts
        self.places = artefact.places(self.parts, model.header.classes)
        """Where each class stands among the combinations of the heads' classes, the last head's changing fastest."""
        self.hint_weight = model.header.hint_weight or 0.0
        """How much the desktop's hints count against it (`asa.decide.evidence`)."""
        self.fields = features.fields_of(_asked(model))
        """Of `collectors.rates.Rates`: without the others it judges the same."""
        self._open_world = model.header.open_world
        self._features = len(model.fill)
        self._pick = features.pick(model.header.features)
        self._width = len(features.NAMES)  # of a frame
        # by slot; the last one is the leaves'
        self._inputs = np.zeros(3 * self._features + 1, dtype=np.float32)
        self._thrice = self._inputs[:-1].reshape(3, self._features)
        self._unknown = np.stack([np.full(self._features, end, np.float32) for end in (-np.inf, np.inf)] + [model.fill])
        function = None if library is None else runtime_compiled.load(library)
        self.engine: Engine
        if function is None:
            self.engine = NumpyMembers(model, self._inputs)
        else:
            self.engine = runtime_compiled.CompiledMembers(function, model, self._inputs)
        self._blend = _Blend(self.parts, self.places)
        self._lessons = Lessons(model, self._thrice[2]) if model.taught is not None else None

    @classmethod
    def load(cls, path: Path) -> "Ensemble":
        """From an artefact file. Raises ModelError."""
        return cls(artefact.load(path))

    def predict(self, frame: FeatureFrame) -> Probabilities:
        """Distribution over `classes` for one frame. Raises ModelError for a frame of another schema."""
        return self.judge(frame).probabilities

    def judge(self, frame: FeatureFrame) -> Judgement:
        """Distribution, and whether the frame looks like anything the model knows. Raises ModelError as `predict`."""
        shares = self._joined(frame)
        probabilities = Probabilities(classes=self.classes, values=_normalised(shares))
        if self._open_world is None:
            judged = Judgement(probabilities=probabilities, score=None, known=True)
        else:
            score = self._score(self._open_world.score, shares)
            known = self._open_world.knows(score, max(probabilities.values))
            judged = Judgement(probabilities=probabilities, score=score, known=known)
        return judged if self._lessons is None else self._lessons.over(judged, self.engine.kinship())

    def _joined(self, frame: FeatureFrame) -> Array:
        # of all combinations, those that are classes
        self._fill_in(frame)
        return self._blend.joined(self.engine.members())

    def factors(self, frame: FeatureFrame) -> list[Array]:
        """Distributions of the heads, (K,) each, in the order of `parts`. Raises ModelError as `predict`."""
        self._fill_in(frame)
        return self._blend.split(self._blend.factors(self.engine.members()))

    def members(self, frame: FeatureFrame) -> list[Array]:
        """Distributions of the single members of each head, float64 (3, K) in the order of `artefact.MEMBERS`.

        Overwritten by the next call. Raises ModelError as `predict`.
        """
        self._fill_in(frame)
        return self._blend.split(self.engine.members())

    def scores(self, frame: FeatureFrame) -> dict[Score, float]:
        """All measures of how familiar a frame is, to choose one and its threshold by. Raises ModelError."""
        shares = self._joined(frame)
        return {score: self._score(score, shares) for score in Score}

    def _score(self, score: Score, shares: Array) -> float:
        match score:
            case Score.PROBABILITY:
                return float(shares.max())
            case Score.ENERGY:
                return self.engine.energy()
            case Score.KINSHIP:
                return self.engine.kinship()

    def _fill_in(self, frame: FeatureFrame) -> None:
        if frame.schema != self.schema or len(frame.values) != self._width:
            raise ModelError(f"frame of schema {frame.schema!r}: the model knows {self.schema!r}; derive it again")
        values = np.asarray(frame.values, dtype=np.float32)
        if self._pick is not None:
            values = values[self._pick]
        self._thrice[:] = values
        np.copyto(self._thrice, self._unknown, where=np.isnan(values))


def _asked(model: Artefact) -> list[str]:
    # the columns that a split or the kernel looks at
    count = len(model.fill)
    asked = np.zeros(count, dtype=bool)
    asked[seen(model.heads[0].machine)] = True
    for head in model.heads:
        slot = head.trees.slot
        asked[slot[slot < 3 * count] % count] = True
    return [name for name, one in zip(model.header.features, asked.tolist(), strict=True) if one]


class _Blend:
    """From what the members say to whole labels; the heads' classes lie side by side, so that all are one step."""

    def __init__(self, parts: Sequence[Part], places: Array) -> None:
        sizes = [len(part.classes) for part in parts]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._head = np.repeat(np.arange(len(parts)), sizes)  # of each of their classes
        self._weights = np.array([part.weights for part in parts]).T[:, self._head]  # (members, K)
        self._hardness = np.array([1.0 / part.temperature for part in parts])[self._head]
        self._least = np.where(self._hardness == 1.0, 0.0, 1e-12)
        self._factors = np.array(np.unravel_index(places, sizes)) + self._starts[:, None]  # (heads, labels)

    def factors(self, members: Array) -> Array:
        """Distributions of the heads, (K,)."""
        blended: Array = np.add.reduce(members * self._weights)
        np.maximum(blended, self._least, out=blended)
        np.power(blended, self._hardness, out=blended)
        blended /= np.add.reduceat(blended, self._starts)[self._head]
        return blended

    def joined(self, members: Array) -> Array:
        """Each label's share: the product of its factors'."""
        shares: Array = np.multiply.reduce(self.factors(members)[self._factors])
        return shares

    def split(self, found: Array) -> list[Array]:
        """By head, along the last axis."""
        return np.split(found, self._starts[1:], axis=-1)


def _normalised(shares: Array) -> tuple[float, ...]:
    total = np.add.reduce(shares)  # the function that `sum` calls, as everywhere on this way: half the time
    values: list[float] = (shares / total if total > 0.0 else np.full(len(shares), 1.0 / len(shares))).tolist()
    return tuple(values)
