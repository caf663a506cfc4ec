# SPDX-License-Identifier: GPL-2.0-only
"""Inference with NumPy alone: the three members of an artefact, evaluated on one frame and blended.

Reads a checked `Artefact`, makes `Probabilities`. It does no training and imports no training library. All trees of
both kinds walk down together, one vectorised step a level; buffers are made once.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asa.core.decision import FeatureFrame, Probabilities, Workload
from asa.core.errors import ModelError
from models import artefact
from models.artefact import Array, Artefact


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """Buffers of one step down, cut to the trees that are that deep (trees lie in order of falling depth)."""

    node: Array  # intp, a view: where each tree stands
    slot: Array  # intp
    value: Array  # float32
    threshold: Array  # float32
    right: Array  # intp
    left_wins: Array  # bool


class NumpyEnsemble:
    """A `Classifier` over an artefact. Not for several threads at once: it works in its own buffers."""

    def __init__(self, model: Artefact) -> None:
        self.schema = model.header.schema
        self.classes = tuple(Workload(name) for name in model.header.classes)
        self._weights = np.array(model.header.weights)
        self._fill = model.fill
        self._features = len(model.fill)
        self._inputs = np.zeros(3 * self._features + 1, dtype=np.float32)  # by slot; the last one is the leaves'
        self._lay_out_trees(model)
        self._lay_out_machine(model)

    @classmethod
    def load(cls, path: Path) -> "NumpyEnsemble":
        """From an artefact file. Raises ModelError."""
        return cls(artefact.load(path))

    def predict(self, frame: FeatureFrame) -> Probabilities:
        """Blend of the members for one frame. Raises ModelError for a frame of another schema."""
        blended = self._weights @ self.members(frame)
        blended /= blended.sum()
        return Probabilities(classes=self.classes, values=tuple(blended.tolist()))

    def members(self, frame: FeatureFrame) -> Array:
        """Distributions of the single members, float64 (3, K) in the order of `artefact.MEMBERS`."""
        if frame.schema != self.schema or len(frame.values) != self._features:
            raise ModelError(f"frame of schema {frame.schema!r}: the model knows {self.schema!r}; derive it again")
        values = np.array(frame.values, dtype=np.float64).astype(np.float32)  # None becomes NaN
        missing = np.isnan(values)
        count, inputs = self._features, self._inputs
        filled = inputs[2 * count : 3 * count]
        np.copyto(filled, values)
        if missing.any():
            np.copyto(filled, self._fill, where=missing)
            np.copyto(inputs[:count], values)
            inputs[:count][missing] = -np.inf
            np.copyto(inputs[count : 2 * count], values)
            inputs[count : 2 * count][missing] = np.inf
        else:
            np.copyto(inputs[:count], values)
            np.copyto(inputs[count : 2 * count], values)
        self._walk()
        return np.stack([self._boosted(), self._forest(), self._machine(filled)])

    def _lay_out_trees(self, model: Artefact) -> None:
        trees, classes = model.trees, len(self.classes)
        leaf = 3 * self._features
        split = trees.slot < leaf
        _, depth = artefact.spread(trees.child, split, trees.root)
        order = np.argsort(-depth, kind="stable")
        nodes = np.arange(len(split))
        self._slot = trees.slot.astype(np.intp)
        # a leaf always goes left, and left is itself: trees that have ended stand still while deeper ones walk on
        self._threshold = np.where(split, trees.threshold, np.float32(np.inf))
        self._right = np.where(split, trees.child, nodes).astype(np.intp) + 1
        self._row = np.where(split, 0, trees.child).astype(np.intp)
        self._root = trees.root[order].astype(np.intp)
        group = trees.group[order].astype(np.intp)
        self._forest_at = np.flatnonzero(group == classes)
        self._boosted_at = np.flatnonzero(group < classes)
        self._boosted_class = group[self._boosted_at]
        self._base = trees.base.astype(np.float64)
        self._boosted_leaf, self._forest_leaf = trees.boosted_leaf.astype(np.float64), trees.forest_leaf
        self._node = np.empty_like(self._root)
        buffers = [np.empty(len(self._root), dtype=kind) for kind in (np.intp, "f4", "f4", np.intp, bool)]
        self._levels = []
        for level in range(int(depth.max())):
            active = int((depth > level).sum())
            slot, value, threshold, right, left_wins = (buffer[:active] for buffer in buffers)
            self._levels.append(
                _Level(
                    node=self._node[:active],
                    slot=slot,
                    value=value,
                    threshold=threshold,
                    right=right,
                    left_wins=left_wins,
                )
            )

    def _lay_out_machine(self, model: Artefact) -> None:
        machine = model.machine
        self._mean, self._scale = machine.mean, machine.scale
        self._vectors = machine.vectors.astype(np.float64)
        self._squares = np.einsum("sf,sf->s", self._vectors, self._vectors)
        self._coefficients, self._intercept = machine.coefficients, machine.intercept
        self._gamma = float(machine.gamma[0])
        self._slope, self._offset = machine.sigmoid[:, 0], machine.sigmoid[:, 1]

    def _walk(self) -> None:
        np.copyto(self._node, self._root)
        # mode="clip" lets take write straight into the buffer; the indices were checked when the artefact was loaded
        for level in self._levels:
            np.take(self._slot, level.node, out=level.slot, mode="clip")
            np.take(self._inputs, level.slot, out=level.value, mode="clip")
            np.take(self._threshold, level.node, out=level.threshold, mode="clip")
            np.take(self._right, level.node, out=level.right, mode="clip")
            np.less(level.value, level.threshold, out=level.left_wins)
            np.subtract(level.right, level.left_wins, out=level.node)

    def _boosted(self) -> Array:
        leaves = self._boosted_leaf[self._row[self._node[self._boosted_at]]]
        margins = self._base + np.bincount(self._boosted_class, weights=leaves, minlength=len(self._base))
        powers = np.exp(margins - margins.max())
        return np.asarray(powers / powers.sum())

    def _forest(self) -> Array:
        leaves = self._forest_leaf[self._row[self._node[self._forest_at]]]
        return np.asarray(leaves.mean(axis=0, dtype=np.float64))

    def _machine(self, filled: Array) -> Array:
        z = ((filled - self._mean) / self._scale).astype(np.float32).astype(np.float64)
        # einsum, not @: BLAS would wake its threads for a product this small
        distances = self._squares + z @ z - 2.0 * np.einsum("sf,f->s", self._vectors, z)
        kernel = np.exp(-self._gamma * distances)
        scores = np.einsum("ks,s->k", self._coefficients, kernel) + self._intercept
        # the tanh form of 1 / (1 + exp(t)) does not overflow; the floor keeps a sum to divide by
        shares = np.maximum(0.5 - 0.5 * np.tanh(0.5 * (self._slope * scores + self._offset)), 1e-9)
        return np.asarray(shares / shares.sum())
