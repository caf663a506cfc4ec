# SPDX-License-Identifier: GPL-2.0-only
"""The members of all heads by NumPy alone: what the compiled evaluator is measured against, and its stand-in.

The trees of all heads and both kinds walk down together, one vectorised step a level; buffers are made once.
"""

from dataclasses import dataclass

import numpy as np

from models import artefact
from models.artefact import Array, Artefact, Machine, Trees
from models.trees import spread

FARTHEST = 1e12
"""Standard deviations from the mean beyond which a value is no farther: sums of squares stay finite in float32."""

UNSEEN = 1e30
"""Scale from which on a column is left out of the kernel: it never moved in training, or tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    """Buffers of one step down, cut to the trees that are that deep (trees lie in order of falling depth)."""

    node: Array  # intp, a view: where each tree stands
    slot: Array  # intp
    value: Array  # float32
    threshold: Array  # float32
    right: Array  # intp
    left_wins: Array  # bool


class _Walk:
    """All trees of all heads, laid out to go down at once."""

    def __init__(self, forests: tuple[Trees, ...], features: int) -> None:
        first = np.cumsum([0, *(len(trees.slot) for trees in forests)])
        child = np.concatenate(
            [np.where(t.slot < 3 * features, t.child + at, 0) for t, at in zip(forests, first, strict=False)]
        )
        root = np.concatenate([trees.root + at for trees, at in zip(forests, first, strict=False)])
        slot = np.concatenate([trees.slot for trees in forests])
        split = slot < 3 * features
        _, depth = spread(child, split, root)
        order = np.argsort(-depth, kind="stable")
        self.place = np.argsort(order)  # of each tree, as the heads list them, in the walk's order
        # A leaf always goes left, and left is itself: trees that have ended stand still while deeper ones walk on.
        self._slot = slot.astype(np.intp)
        threshold = np.concatenate([trees.threshold for trees in forests])
        self._threshold = np.where(split, threshold, np.float32(np.inf))
        self._right = np.where(split, child, np.arange(len(split))).astype(np.intp) + 1
        self._root = root[order].astype(np.intp)
        self._node = np.empty_like(self._root)
        buffers = [np.empty(len(root), dtype=kind) for kind in (np.intp, "f4", "f4", np.intp, bool)]
        self._levels = []
        for level in range(int(depth.max())):
            active = int((depth > level).sum())
            where, value, bound, right, left_wins = (buffer[:active] for buffer in buffers)
            self._levels.append(
                _Level(
                    node=self._node[:active],
                    slot=where,
                    value=value,
                    threshold=bound,
                    right=right,
                    left_wins=left_wins,
                )
            )

    def ends(self, inputs: Array) -> Array:
        """The leaf that each tree comes to, intp (T,), in the walk's order; overwritten by the next call."""
        np.copyto(self._node, self._root)
        # mode="clip" lets take write straight into the buffer; the indices were checked when the artefact was loaded
        for level in self._levels:
            np.take(self._slot, level.node, out=level.slot, mode="clip")
            np.take(inputs, level.slot, out=level.value, mode="clip")
            np.take(self._threshold, level.node, out=level.threshold, mode="clip")
            np.take(self._right, level.node, out=level.right, mode="clip")
            np.less(level.value, level.threshold, out=level.left_wins)
            np.subtract(level.right, level.left_wins, out=level.node)
        return self._node


def seen(machine: Machine) -> Array:
    """The columns that the kernel is made of, int32, rising."""
    return np.flatnonzero(machine.scale < UNSEEN).astype(np.int32)


class Space:
    """Where the kernel measures: the columns that it sees, in the machine's units."""

    def __init__(self, machine: Machine) -> None:
        self.columns = seen(machine)
        self._mean, self._scale = machine.mean[self.columns], machine.scale[self.columns]

    def z(self, filled: Array) -> Array:
        """Of rows without missing values, (..., F): float32 (..., columns)."""
        return np.asarray(
            ((filled[..., self.columns] - self._mean) / self._scale).clip(-FARTHEST, FARTHEST).astype(np.float32)
        )


class Vectors:
    """Rows of a `Space`, (S, columns), and how far a tick is from each."""

    def __init__(self, rows: Array) -> None:
        # float32: distances keep six digits, of which the kernel needs four
        self._rows = np.ascontiguousarray(rows)
        self._squares = np.einsum("sf,sf->s", self._rows, self._rows, dtype=np.float64)

    def distances(self, z: Array) -> Array:
        """Squared, float64 (S,)."""
        wide = z.astype(np.float64)
        # einsum, not @: BLAS would wake its threads for a product this small
        return np.asarray(np.fmax(self._squares + wide @ wide - 2.0 * np.einsum("sf,f->s", self._rows, z), 0.0))


class _Kernel:
    """What the heads' support vector machines share."""

    def __init__(self, machine: Machine) -> None:
        self._space = Space(machine)
        self._vectors = Vectors(machine.vectors[:, self._space.columns])
        self._gamma = float(machine.gamma[0])
        self.kinship = 0.0  # of the last frame

    def near(self, filled: Array) -> Array:
        """The kernel's value for each vector, (S,)."""
        kernel = np.exp(-self._gamma * self._vectors.distances(self._space.z(filled)))
        self.kinship = float(kernel.max())
        return np.asarray(kernel)


class _Head:
    """Where a head's trees stand in the common walk, and what it makes of their leaves and of the kernel."""

    def __init__(self, head: artefact.Head, place: Array, first_node: int) -> None:
        trees, machine, classes = head.trees, head.machine, len(head.trees.base)
        group = trees.group.astype(np.intp)
        self._boosted_at, self._forest_at = place[group < classes], place[group == classes]
        self._boosted_class = group[group < classes]
        self._row = np.where(trees.slot == 3 * len(machine.mean), trees.child, 0).astype(np.int32)
        self._first_node = first_node
        self._base = trees.base.astype(np.float64)
        self._boosted_leaf, self._forest_leaf = trees.boosted_leaf.astype(np.float64), trees.forest_leaf
        self._coefficients, self._intercept = machine.coefficients, machine.intercept
        self._slope, self._offset = machine.sigmoid[:, 0], machine.sigmoid[:, 1]
        self.energy = 0.0  # of the last frame

    def members(self, ends: Array, near: Array) -> Array:
        leaves = self._boosted_leaf[self._row[ends[self._boosted_at] - self._first_node]]
        margins = self._base + np.bincount(self._boosted_class, weights=leaves, minlength=len(self._base))
        most = margins.max()
        powers = np.exp(margins - most)
        total = powers.sum()
        self.energy = float(most + np.log(total))
        forest = self._forest_leaf[self._row[ends[self._forest_at] - self._first_node]]
        return np.stack([powers / total, forest.mean(axis=0, dtype=np.float64), self._machine(near)])

    def _machine(self, near: Array) -> Array:
        scores = np.einsum("ks,s->k", self._coefficients, near) + self._intercept
        # the tanh form of 1 / (1 + exp(t)) does not overflow; the floor keeps a sum to divide by, also of no number
        shares = np.fmax(0.5 - 0.5 * np.tanh(0.5 * (self._slope * scores + self._offset)), 1e-9)
        return np.asarray(shares / shares.sum())


class NumpyMembers:
    """An `Engine` of `models.runtime`. Not for several threads at once: it works in its own buffers."""

    name = "numpy"

    def __init__(self, model: Artefact, inputs: Array) -> None:
        """`inputs` by slot, float32 (3F + 1,), read anew by every call."""
        count = len(model.fill)
        self._inputs, self._filled = inputs, inputs[2 * count : 3 * count]
        self._walk = _Walk(tuple(head.trees for head in model.heads), count)
        self._kernel = _Kernel(model.heads[0].machine)
        self._heads = []
        tree = node = 0
        for head in model.heads:
            self._heads.append(_Head(head, self._walk.place[tree : tree + len(head.trees.root)], node))
            tree, node = tree + len(head.trees.root), node + len(head.trees.slot)

    def members(self) -> Array:
        """Distributions by boosted trees, forest and machine, float64 (3, K), the heads' classes side by side."""
        ends, near = self._walk.ends(self._inputs), self._kernel.near(self._filled)
        return np.concatenate([head.members(ends, near) for head in self._heads], axis=1)

    def energy(self) -> float:
        """Least of the heads, for the last frame."""
        return min(head.energy for head in self._heads)

    def kinship(self) -> float:
        """For the last frame."""
        return self._kernel.kinship
