# SPDX-License-Identifier: GPL-2.0-only
"""A made-up dataset of the 40 labels with few rows, for tests of training and of its evaluation."""

import itertools

import numpy as np

from asa.core.mark import Phase
from asa.core.sample import RawSample
from models import features
from models.train.dataset import PHASES, Dataset, Recording
from models.train.ensemble import Recipe
from scenarios.catalogue import PAIRS

HOST, LAB = "host, made up, 2 CPUs", "lab, made up, 4 CPUs"
SMALL = Recipe(rounds=4, boosted_depth=3, forest_trees=12, vectors=150)
FRONTS = ("", *sorted({one.interactive for one in PAIRS}))
BACKS = ("", *sorted({one.background for one in PAIRS}))


def label_of(front: str, back: str) -> str:
    return "+".join(part for part in (front, back) if part) or "idle"


def forty(
    *,
    seeds: int = 3,
    places: tuple[str, ...] = (HOST,),
    ticks: int = 5,
    noise: float = 0.3,
    fronts: tuple[str, ...] = FRONTS,
    backs: tuple[str, ...] = BACKS,
) -> Dataset:
    """Each application has columns of its own; each session and each place shift some; two ticks of rest come first."""
    chance = np.random.default_rng(7)
    combinations = sorted(itertools.product(fronts, backs), key=lambda both: label_of(*both))
    classes = tuple(label_of(*both) for both in combinations)
    x, y, front, back, phase, session, at_ns, sessions = [], [], [], [], [], [], [], []
    for (first, second), place, seed in itertools.product(combinations, places, range(seeds)):
        start_ns = len(sessions) * 1_000_000_000_000
        # a session's first sample is enough to tell it from others
        samples = (RawSample(monotonic_ns=start_ns, wall_ns=start_ns + 1),)
        sessions.append(
            Recording(
                source=f"{label_of(first, second)}-{seed}.journal.xz",
                label=label_of(first, second),
                place=place,
                seed=seed,
                started_ns=start_ns,
                parameters="",
                samples=samples,
                tier="lab" if place.startswith("lab") else "real",
            )
        )
        shift = 0.2 * chance.normal(size=len(features.NAMES))
        for tick in range(ticks + 2):
            there = (first, second) if tick >= 2 else ("", "")
            row = shift + noise * chance.normal(size=len(features.NAMES))
            for side, (names, name) in enumerate(zip((FRONTS, BACKS), there, strict=True)):
                columns = np.arange(6) + 6 * names.index(name) + 60 * side
                row[columns] += 3.0 if name else 0.0
            row[-3] += 5.0 * places.index(place)
            x.append(row)
            y.append(classes.index(label_of(*there)))
            front.append(fronts.index(there[0]))
            back.append(backs.index(there[1]))
            phase.append(PHASES.index(Phase.RUNNING if tick >= 2 else Phase.BEFORE))
            session.append(len(sessions) - 1)
            at_ns.append(start_ns + (tick + 1 + 4 * (tick >= 2)) * 1_000_000_000)
    return Dataset(
        x=np.array(x, dtype=np.float32),
        y=np.array(y, dtype=np.intp),
        interactive=np.array(front, dtype=np.intp),
        background=np.array(back, dtype=np.intp),
        phase=np.array(phase, dtype=np.uint8),
        session=np.array(session, dtype=np.intp),
        at_ns=np.array(at_ns, dtype=np.int64),
        classes=classes,
        interactives=fronts,
        backgrounds=backs,
        sessions=tuple(sessions),
        sha256="cd" * 32,
    )
