# SPDX-License-Identifier: GPL-2.0-only
"""The open world: how often a model takes a use that it has never seen for one that it knows, and by which score least.

A program at a time is kept out of training with all sessions that it plays in, and its ticks are then judged. A tick is
accepted when its score reaches the threshold that most validation rows of known uses reach. Which of the scores a model
goes by is chosen here; what is reported of a program was not chosen by it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.artefact import IDLE, Array, Score
from models.train import evaluation
from models.train.dataset import Dataset
from models.train.factored import Kind
from models.train.held_out import Outcome, Task

LEAST_CLASSES = 4
"""Of a dataset: with fewer, what is left when one is kept away tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Novelty:
    """Share of a new program's ticks that is accepted, 0..1, by score and program."""

    accepted: Mapping[Score, Mapping[str, float]]

    def chosen(self, without: str = "") -> Score:
        """The score that accepts least over all programs but one; the simplest where nothing is known."""
        programs = [name for name in self.programs if name != without]
        if not programs:
            return Score.PROBABILITY
        return min(Score, key=lambda score: sum(self.accepted[score][name] for name in programs))

    @property
    def programs(self) -> tuple[str, ...]:
        """Those that were kept out."""
        return tuple(self.accepted[Score.PROBABILITY])

    @property
    def by_program_pct(self) -> dict[str, float]:
        """Accepted, in per cent, each by the score that the others choose."""
        return {name: self.accepted[self.chosen(name)][name] * 100 for name in self.programs}

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
    return Novelty(
        accepted={
            score: {name: float((one.scores[score] >= one.least[score]).mean()) for name, one in done.items()}
            for score in Score
        }
    )


def _programs(data: Dataset) -> dict[str, Array]:
    def there(names: Sequence[str], numbers: Array) -> dict[str, Array]:
        return {name: numbers == number for number, name in enumerate(names) if name}

    if len(data.interactives) > 1 and len(data.backgrounds) > 1:
        return there(data.backgrounds, data.background) | there(data.interactives, data.interactive)
    return {name: data.y == number for number, name in enumerate(data.classes) if name != IDLE}
