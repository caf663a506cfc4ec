# SPDX-License-Identifier: GPL-2.0-only
"""The flat arrays of an artefact's trees: whether they are trees at all, and where in them each node stands.

What passes `check` can be walked down from every root without leaving the arrays, in at most `MOST_DEPTH` steps, by the
compiled evaluator too. Nothing is evaluated here, and no file is read.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MOST_DEPTH = 64
"""Splits above a leaf; ours are at most 12 deep. A chain of a million would be a tree too, and stop the agent."""


def spread(child: Array, split: Array, root: Array) -> tuple[Array, Array]:
    """Tree of each node (N,) and depth of each tree (T,), found level by level; the nodes must form separate trees.

    Raises ValueError for a tree that is deeper than `MOST_DEPTH`.
    """
    tree = np.zeros(len(child), dtype=np.intp)
    depth = np.zeros(len(root), dtype=np.intp)
    nodes, owner = root.astype(np.intp), np.arange(len(root))
    for _ in range(MOST_DEPTH + 1):
        tree[nodes] = owner
        inner = split[nodes]
        nodes, owner = nodes[inner], owner[inner]
        if not len(nodes):
            return tree, depth
        depth[owner] += 1
        nodes, owner = np.concatenate([child[nodes], child[nodes] + 1]), np.concatenate([owner, owner])
    raise ValueError(f"a tree is more than {MOST_DEPTH} splits deep")


def check(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
    """Of a head's arrays, by the names and the letters of `models.artefact.LAYOUT`. Raises ValueError."""
    slot, root = arrays["trees.slot"], arrays["trees.root"].astype(np.int64)
    child = arrays["trees.child"].astype(np.int64)  # one more than the largest int32 would be negative
    leaf = 3 * sizes["F"]
    if (slot > leaf).any() or (arrays["trees.group"] > sizes["K"]).any():
        raise ValueError("a tree names a feature or class that is not there")
    nodes = np.arange(len(slot))
    split = slot < leaf
    # children after their parent: no cycle; each node entered once: neither loops nor trees that share branches
    if (child[split] <= nodes[split]).any() or (child[split] + 1 >= len(slot)).any():
        raise ValueError("a child index is out of range or before its parent")
    if len(root) == 0 or (root < 0).any() or (root >= len(slot)).any():
        raise ValueError("a root index is out of range")
    entered = np.bincount(np.concatenate([root, child[split], child[split] + 1]), minlength=len(slot))
    if (entered != 1).any():
        raise ValueError("the nodes do not form separate trees")
    tree_of, _ = spread(child, split, root)
    forest = arrays["trees.group"] == sizes["K"]
    if not forest.any():
        raise ValueError("it has no forest")
    rows = np.where(forest, sizes["M"], sizes["L"])[tree_of]
    ends = ~split
    if (child[ends] < 0).any() or (child[ends] >= rows[ends]).any():
        raise ValueError("a leaf names a row that is not in its table")
