# SPDX-License-Identifier: GPL-2.0-only
"""A made-up model of 40 labels of a given size: trees, vectors and weights are random; it recognises nothing."""

from dataclasses import dataclass

import numpy as np

from models import artefact, features
from models.artefact import Array, Artefact, Head, Header, Machine, OpenWorld, Part, Score, Trees

_FRONT = ("", "game", "office", "web", "audio")
_BEHIND = ("", "archive", "blender", "kernel", "llm", "disk", "network", "video")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Of each head."""

    rounds: int
    boosted_leaves: int  # of a tree of depth 5
    forest_trees: int
    forest_leaves: int
    depth: int = 12
    vectors: int


def made_up(size: Size, seed: int) -> Artefact:
    """An artefact with two heads, of 5 and of 8 classes: 40 labels."""
    chance = np.random.default_rng(seed)
    parts = tuple(
        Part(name=name, classes=classes, weights=(0.4, 0.3, 0.3), temperature=1.2)
        for name, classes in (("interactive", _FRONT), ("background", _BEHIND))
    )
    header = Header(
        format=artefact.FORMAT,
        schema=features.SCHEMA,
        features=features.NAMES,
        classes=artefact.labels(parts),
        heads=parts,
        open_world=OpenWorld(score=Score.KINSHIP, least=0.01),
        trained="",
        seed=seed,
        dataset_sha256="0" * 64,
        versions={"made up": "1"},
    )
    vectors = chance.normal(size=(size.vectors, len(features.NAMES))).astype(np.float32)
    heads = tuple(
        Head(trees=_trees(size, len(part.classes), chance), machine=_machine(vectors, len(part.classes), chance))
        for part in parts
    )
    return Artefact(header=header, fill=np.zeros(len(features.NAMES), dtype=np.float32), heads=heads)


def _trees(size: Size, classes: int, chance: np.random.Generator) -> Trees:
    width = len(features.NAMES)
    slot: list[int] = []
    child: list[int] = []
    root: list[int] = []
    boosted, forest = size.rounds * classes, size.forest_trees
    for number in range(boosted + forest):
        first = 0 if number < boosted else 2 * width  # a forest's splits see filled values
        leaves, depth = (size.boosted_leaves, 5) if number < boosted else (size.forest_leaves, size.depth)
        root.append(len(slot))
        open_ends = [(len(slot), 0)]  # leaves that may still split, with their depth
        slot.append(3 * width)
        child.append(0)
        while open_ends and (len(slot) - root[-1] + 1) // 2 < leaves:
            place, at = open_ends.pop(int(chance.integers(len(open_ends))))
            slot[place], child[place] = first + int(chance.integers(width)), len(slot)
            open_ends += [(len(slot) + side, at + 1) for side in (0, 1) if at + 1 < depth]
            slot += [3 * width] * 2
            child += [0, 0]
    slots, children = np.array(slot, dtype=np.uint16), np.array(child, dtype=np.int32)
    ends = slots == 3 * width
    children[ends] = chance.integers(1_000, size=int(ends.sum()))
    distributions = chance.dirichlet(np.full(classes, 0.3), size=1_000)
    return Trees(
        slot=slots,
        threshold=np.where(ends, 0.0, chance.normal(size=len(slots))).astype(np.float32),
        child=children,
        cover=np.ones(len(slots), dtype=np.float32),
        root=np.array(root, dtype=np.int32),
        group=np.array([*(number % classes for number in range(boosted)), *[classes] * forest], dtype=np.uint8),
        base=np.zeros(classes, dtype=np.float32),
        boosted_leaf=(0.05 * chance.normal(size=1_000)).astype(np.float32),
        forest_leaf=distributions.astype(np.float32),
    )


def _machine(vectors: Array, classes: int, chance: np.random.Generator) -> Machine:
    count, width = vectors.shape
    return Machine(
        mean=np.zeros(width),
        scale=np.ones(width),
        vectors=vectors,
        coefficients=chance.normal(size=(classes, count)),
        intercept=np.zeros(classes),
        gamma=np.array([1.0 / width]),
        sigmoid=np.tile([-2.0, 0.0], (classes, 1)),
    )
