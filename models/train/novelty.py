# SPDX-License-Identifier: GPL-2.0-only
"""The open world: how often a model takes a use that it has never seen for one that it knows.

A program at a time is kept out of training with all sessions that it plays in, and its ticks are then judged. A tick is
accepted when it reaches the threshold of the measure that the model goes by; both were chosen on training rows alone
(`models.train.cost`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.artefact import IDLE, Array
from models.train import evaluation
from models.train.dataset import Dataset
from models.train.factored import Kind
from models.train.held_out import Outcome, Task

LEAST_CLASSES = 4
"""Of a dataset: with fewer, what is left when one is kept away tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelty:
    """Share of a new program's ticks that is accepted, 0..1, by program."""

    accepted: Mapping[str, float]

    @property
    def programs(self) -> tuple[str, ...]:
        """Those that were kept out."""
        return tuple(self.accepted)

    @property
    def by_program_pct(self) -> dict[str, float]:
        """Accepted, in per cent."""
        return {name: share * 100 for name, share in self.accepted.items()}

    @property
    def false_accept_pct(self) -> float | None:
        """Mean over the programs; None without any."""
        found = self.by_program_pct
        return sum(found.values()) / len(found) if found else None


def tasks(data: Dataset, kind: Kind, most: int | None = None) -> dict[str, Task]:
    """A training for each program behind, then in front, at most so many; for each class where programs are unknown."""
    made: dict[str, Task] = {}
    for name, there in _programs(data).items():
        sessions = np.unique(data.session[there])
        train = ~np.isin(data.session, sessions)
        if len(np.unique(data.y[train])) < LEAST_CLASSES - 1 or (most is not None and len(made) >= most):
            continue
        test = there & evaluation.running(data)
        made[name] = Task(name=f"without {name}", train=train, test=test, kinds=(kind,))
    return made


def judged(done: Mapping[str, Outcome]) -> Novelty:
    """What became of `tasks`."""
    return Novelty(accepted={name: float(one.known.mean()) for name, one in done.items()})


def _programs(data: Dataset) -> dict[str, Array]:
    def there(names: Sequence[str], numbers: Array) -> dict[str, Array]:
        return {name: numbers == number for number, name in enumerate(names) if name}

    if len(data.interactives) > 1 and len(data.backgrounds) > 1:
        return there(data.backgrounds, data.background) | there(data.interactives, data.interactive)
    return {name: data.y == number for number, name in enumerate(data.classes) if name != IDLE}
