# SPDX-License-Identifier: GPL-2.0-only
"""From the training libraries' own models to the arrays of an artefact, without changing what they say.

Reads a `Fitted` ensemble, makes an `Artefact`. Comparisons are carried over exactly: XGBoost goes left on
`float32 < float32`; scikit-learn goes left on `float32 <= float64`, which is `float32 < t'` with t' the next float32
above the threshold rounded down.
"""

import json
from collections.abc import Sequence

import numpy as np

from asa.core.errors import ModelError
from models.artefact import Array, Artefact, Head, Header, Machine, Trees
from models.train.ensemble import Fitted, Members, Space


class _Forest:
    """Collects trees into flat arrays, children side by side."""

    def __init__(self, features: int) -> None:
        self.leaf = 3 * features
        self.slot: list[int] = []
        self.threshold: list[float] = []
        self.child: list[int] = []
        self.cover: list[float] = []
        self.root: list[int] = []
        self.group: list[int] = []

    def add(
        self,
        group: int,
        left: Array,
        right: Array,
        slot: Array,
        threshold: Array,
        row: Array,
        cover: Array | None = None,
    ) -> None:
        """Append one tree given by its library's arrays; `left` is -1 at a leaf, `row` its row in the leaf table."""
        self.root.append(len(self.slot))
        self.group.append(group)
        queue = [0]
        self._reserve(1)
        for position, node in enumerate(queue, start=self.root[-1]):  # the queue grows while it is read
            self.cover[position] = 0.0 if cover is None else float(cover[node])
            if left[node] < 0:
                self.slot[position], self.child[position] = self.leaf, int(row[node])
                continue
            self.slot[position], self.threshold[position] = int(slot[node]), float(threshold[node])
            self.child[position] = self._reserve(2)
            queue += [int(left[node]), int(right[node])]

    def _reserve(self, count: int) -> int:
        first = len(self.slot)
        self.slot += [0] * count
        self.threshold += [0.0] * count
        self.child += [0] * count
        self.cover += [0.0] * count
        return first


def to_artefact(fitted: Fitted, header: Header) -> Artefact:
    """Arrays of a flat ensemble; `header` says the rest (its weights must be `fitted.weights`)."""
    return factored_artefact((fitted,), header)


def factored_artefact(fitted: Sequence[Fitted], header: Header) -> Artefact:
    """Arrays of one ensemble a head, in the order of `header.parts`; all trained on the same rows' features."""
    first = fitted[0].members.space
    for name in ("fill", "mean", "scale", "vectors", "gamma"):
        if any(not np.array_equal(getattr(first, name), getattr(other.members.space, name)) for other in fitted):
            raise ModelError(f"the heads differ in {name}, which they share: train them on the same rows, by one seed")
    heads = [
        Head(trees=_trees(one.members, len(part.classes)), machine=_machine(one, first))
        for one, part in zip(fitted, header.parts, strict=True)
    ]
    return Artefact(header=header, fill=first.fill, heads=tuple(heads))


def _trees(members: Members, classes: int) -> Trees:
    forest = _Forest(len(members.space.fill))
    base, boosted_leaf = _add_boosted(forest, members)
    forest_leaf = _add_forest(forest, members, classes)
    return Trees(
        slot=np.array(forest.slot, dtype=np.uint16),
        threshold=np.array(forest.threshold, dtype=np.float32),
        child=np.array(forest.child, dtype=np.int32),
        cover=np.array(forest.cover, dtype=np.float32),
        root=np.array(forest.root, dtype=np.int32),
        group=np.array(forest.group, dtype=np.uint8),
        base=base,
        boosted_leaf=boosted_leaf,
        forest_leaf=forest_leaf,
    )


def _add_boosted(forest: _Forest, members: Members) -> tuple[Array, Array]:
    learner = json.loads(members.booster.save_raw("json"))["learner"]
    model = learner["gradient_booster"]["model"]
    base = np.array(json.loads(learner["learner_model_param"]["base_score"]), dtype=np.float32)
    trees = model["trees"]
    values = [np.array(tree["split_conditions"], dtype=np.float32) for tree in trees]  # at leaves: the leaf's margin
    ends = [np.array(tree["left_children"]) < 0 for tree in trees]
    leaves = np.unique(np.concatenate([value[end] for value, end in zip(values, ends, strict=True)]))
    features = len(members.space.fill)
    for group, tree, value in zip(model["tree_info"], trees, values, strict=True):
        goes_left = np.array(tree["default_left"], dtype=bool)
        slot = np.array(tree["split_indices"]) + np.where(goes_left, 0, features)
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        cover = np.array(tree["sum_hessian"], dtype=np.float32)
        forest.add(group, left, right, slot, value, np.searchsorted(leaves, value), cover)
    return base, leaves


def _add_forest(forest: _Forest, members: Members, classes: int) -> Array:
    trees = [tree.tree_ for tree in members.forest.estimators_]
    ends = np.concatenate([tree.children_left < 0 for tree in trees])
    counts = np.concatenate([tree.value[:, 0, :] for tree in trees])[ends]
    shares = np.zeros((len(counts), classes), dtype=np.float32)  # a class that it was not shown has none
    shares[:, members.forest.classes_] = counts / counts.sum(axis=1, keepdims=True)
    table, of_leaf = np.unique(shares, axis=0, return_inverse=True)
    rows = np.zeros(len(ends), dtype=np.intp)
    rows[ends] = of_leaf.ravel()
    start = 0
    for tree in trees:
        of_tree = rows[start : start + tree.node_count]
        slot = tree.feature + 2 * len(members.space.fill)
        forest.add(classes, tree.children_left, tree.children_right, slot, _strict(tree.threshold), of_tree)
        start += tree.node_count
    return table


def _strict(threshold: Array) -> Array:
    # x <= t for float32 x and float64 t is x < t', exactly
    rounded = threshold.astype(np.float32)
    down = np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return np.asarray(np.nextafter(down, np.float32(np.inf)))


def _machine(fitted: Fitted, shared: Space) -> Machine:
    return Machine(
        mean=shared.mean,
        scale=shared.scale,
        vectors=shared.vectors,
        coefficients=fitted.members.coefficients,
        intercept=fitted.members.intercept,
        gamma=np.array([shared.gamma]),
        sigmoid=fitted.sigmoid,
    )
