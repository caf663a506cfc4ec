# SPDX-License-Identifier: GPL-2.0-only
"""Which features carried a recognition: exact Shapley values of the boosted trees, from an artefact's own arrays.

Path-dependent TreeSHAP (Lundberg and others, 2020), the same values as XGBoost's `predict(pred_contribs=True)`: what a
tree expects when some features are not known is weighed by the training rows that went each way (`trees.cover`). Each
leaf is a game of its own whose players are the features on the way to it, so all leaves are computed side by side, a
column for each step of the way. Off the hot path: `asa explain` asks for one frame.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import factorial

import numpy as np

from asa.core.errors import ModelError
from models.artefact import Array, Trees
from models.trees import spread


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ways:
    """The ways from the roots to all L leaves, D steps each; a shorter one is filled by steps without effect."""

    feature: Array  # intp (L, D), F where there is no step
    slot: Array  # intp (L, D): input that the step compares, 3F where there is none
    threshold: Array  # float32 (L, D)
    left: Array  # bool (L, D): the leaf lies left of the step
    share: Array  # float64 (L, D): of the training rows at the step that went the leaf's way, 1 where there is none
    value: Array  # float64 (L,): margin
    group: Array  # intp (L,)


class Attributor:
    """Attributions of one head's boosted trees; `fill` is the artefact's.

    Raises ModelError for an artefact that was made without covers.
    """

    def __init__(self, trees: Trees, fill: Array) -> None:
        cover = getattr(trees, "cover", None)
        if cover is None:
            raise ModelError(
                "this model does not keep how many rows went each way; train it again to have it explained"
            )
        self._features = len(fill)
        self._fill = fill
        self._base = trees.base.astype(np.float64)
        self._ways = _ways(trees, len(fill), np.asarray(cover, dtype=np.float64))

    def contributions(self, values: Array, classes: Sequence[int] | None = None) -> Array:
        """Of one frame's values (F,), float64 (K, F + 1): what each feature adds to each class's margin; last the bias.

        A row's sum is the class's margin; rows of classes that are not among `classes` stay 0. Raises ModelError for a
        wrong number of values.
        """
        count = self._features
        if len(values) != count:
            raise ModelError(f"{len(values)} values for {count} features; derive the frame again")
        known = values.astype(np.float32)
        missing = np.isnan(known)
        inputs = np.concatenate(
            [
                np.where(missing, np.float32(-np.inf), known),  # by slot, as `artefact.Trees` has it
                np.where(missing, np.float32(np.inf), known),
                np.where(missing, self._fill, known),
                np.zeros(1, dtype=np.float32),
            ]
        )
        ways = self._ways if classes is None else _of(self._ways, classes)
        empty = ways.feature == count
        goes = ((inputs[ways.slot] < ways.threshold) == ways.left) | empty
        feature, share, on_way = _merged(ways.feature, ways.share, goes.astype(np.float64), count)
        gains = _games(share, on_way) * ways.value[:, None]
        found = np.zeros((len(self._base), count + 1))
        np.add.at(found, (np.broadcast_to(ways.group[:, None], feature.shape), feature), gains)
        expected = np.bincount(ways.group, weights=ways.value * share.prod(axis=1), minlength=len(self._base))
        asked = slice(None) if classes is None else list(classes)
        found[asked, count] = (self._base + expected)[asked]  # the steps that are none added 0 to it
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One feature's part in a class being preferred to another one."""

    feature: int
    value: float | None  # in the frame, None where unknown
    weight: float  # log odds: e**weight times as likely with what is known of it as without; negative: against


def compare(attributor: Attributor, values: Array, one: int, other: int) -> tuple[tuple[Part, ...], float]:
    """Parts in the log odds of class `one` against `other` (their places in the head), the strongest first, and the
    log odds when nothing is known.

    What adds to all classes alike decides nothing, so a class's own margin would mislead. Parts of 0 are left out.
    """
    found = attributor.contributions(values, (one, other))
    weights = found[one] - found[other]
    order = np.argsort(-np.abs(weights[:-1]), kind="stable").tolist()
    told = [None if math.isnan(value) else value for value in values.tolist()]
    parts = tuple(
        Part(feature=place, value=told[place], weight=float(weights[place])) for place in order if weights[place]
    )
    return parts, float(weights[-1])


def _ways(trees: Trees, count: int, cover: Array) -> _Ways:
    classes = len(trees.base)
    split = trees.slot < 3 * count
    tree_of, depth = spread(trees.child, split, trees.root)
    boosted = (trees.group < classes)[tree_of]
    above = np.full(len(split), -1, dtype=np.intp)  # parent of each node
    inner = np.flatnonzero(split & boosted)
    above[trees.child[inner]] = inner
    above[trees.child[inner] + 1] = inner
    leaves = np.flatnonzero(~split & boosted)
    steps = int(depth[trees.group < classes].max(initial=0))
    shape = (len(leaves), max(1, steps))
    feature = np.full(shape, count, dtype=np.intp)
    slot = np.full(shape, 3 * count, dtype=np.intp)
    threshold, left, share = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool), np.ones(shape)
    node = leaves.copy()
    for step in range(steps):
        row = np.flatnonzero(above[node] >= 0)
        here = node[row]
        parent = above[here]
        if (cover[parent] <= 0).any():
            raise ModelError("this model's counts of rows that went each way are damaged; train it again")
        slot[row, step] = trees.slot[parent]
        feature[row, step] = trees.slot[parent].astype(np.intp) % count
        threshold[row, step] = trees.threshold[parent]
        left[row, step] = trees.child[parent] == here
        share[row, step] = cover[here] / cover[parent]
        node[row] = parent
    return _Ways(
        feature=feature,
        slot=slot,
        threshold=threshold,
        left=left,
        share=share,
        value=trees.boosted_leaf[trees.child[leaves]].astype(np.float64),
        group=trees.group[tree_of[leaves]].astype(np.intp),
    )


def _of(ways: _Ways, classes: Sequence[int]) -> _Ways:
    asked = np.isin(ways.group, classes)
    return _Ways(**{field.name: getattr(ways, field.name)[asked] for field in fields(_Ways)})


def _merged(feature: Array, share: Array, on_way: Array, none: int) -> tuple[Array, Array, Array]:
    # A feature that is asked twice on a way is one player: its shares multiply, and it has to pass both times.
    feature, share, on_way = feature.copy(), share.copy(), on_way.copy()
    for first in range(feature.shape[1]):
        for later in range(first + 1, feature.shape[1]):
            same = (feature[:, first] == feature[:, later]) & (feature[:, first] != none)
            share[same, first] *= share[same, later]
            on_way[same, first] *= on_way[same, later]
            feature[same, later], share[same, later], on_way[same, later] = none, 1.0, 1.0
    return feature, share, on_way


def _games(share: Array, on_way: Array) -> Array:
    """Shapley values (L, D) of L games: a coalition is worth the product of its players' `on_way`, the others' `share`.

    Player i gets (on_way - share) times the mean over coalitions of the rest, by size: coefficients of the polynomial
    with a factor share + on_way t for each other player. A player with both 1 gets 0 and changes nobody's part.
    """
    games, players = share.shape
    weights = [factorial(size) * factorial(players - 1 - size) / factorial(players) for size in range(players)]
    found = np.empty_like(share)
    for player in range(players):
        sizes = np.zeros((games, players))
        sizes[:, 0] = 1.0
        for other in range(players):
            if other != player:
                shifted = sizes[:, :-1] * on_way[:, [other]]
                sizes *= share[:, [other]]
                sizes[:, 1:] += shifted
        found[:, player] = (on_way[:, player] - share[:, player]) * (sizes @ weights)
    return found
