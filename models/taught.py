# SPDX-License-Identifier: GPL-2.0-only
"""What a person taught with some minutes of a program of their own: its ticks are kept beside the model's vectors.

A tick is taken for the nearest taught one where it is within that lesson's reach, and either nearer than all vectors
that the model learnt, or of no class that the model knows: nearest neighbours with a reject (Dubuisson and Masson,
Pattern Recognition 26, 1993), in the space and by the kernel of the support vector machine. Then its label has the
kernel's share of the two nearest, and half at least.
Everything else is judged as before. `models.teaching` makes lessons.
"""

from dataclasses import replace

import numpy as np

from asa.core.decision import Judgement, Probabilities
from models.artefact import Array, Artefact
from models.runtime_numpy import Space, Vectors

LOOSE = 1.5
"""Where the model knows nothing like a tick, its nearest vector may be nearer than the lesson by so much, squared.

Of 1, 1.2, 1.5 and 2, on seven of the paper's programs, each kept out of a small model; `taught_program_pct` has others.
"""


class Lessons:
    """All lessons of a model. `filled` is a view of the frame's columns with missing ones filled, float32 (F,)."""

    def __init__(self, model: Artefact, filled: Array) -> None:
        assert model.taught is not None  # noqa: S101  # its owner looked
        machine, told = model.heads[0].machine, model.header.taught or ()
        self._filled, self._gamma = filled, float(machine.gamma[0])
        self._space = Space(machine)
        self._rows = Vectors(model.taught[:, self._space.columns])
        counts = [one.rows for one in told]
        self._reach = np.repeat([one.reach for one in told], counts)
        self._place = np.repeat([model.header.classes.index(one.label) for one in told], counts)

    def over(self, judged: Judgement, kinship: float) -> Judgement:
        """The model's word, or the lesson's. `kinship`: the kernel's value for the model's vector that is nearest."""
        distances = self._rows.distances(self._space.z(self._filled))
        distances[distances > self._reach] = np.inf
        row = int(distances.argmin())
        near = float(np.exp(-self._gamma * distances[row]))
        if not near or near < kinship ** (1.0 if judged.known else LOOSE):
            return judged
        share = max(0.5, near / (near + kinship))
        values = [value * (1.0 - share) for value in judged.probabilities.values]
        values[int(self._place[row])] += share
        told = Probabilities(classes=judged.probabilities.classes, values=tuple(values))
        return replace(judged, probabilities=told, known=True)
