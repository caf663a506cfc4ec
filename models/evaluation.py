# SPDX-License-Identifier: GPL-2.0-only
"""How well an ensemble does on whole sessions it has never seen, by nested folds.

Each outer fold keeps one session of every label and place away from everything: training, calibration, and the choice
of weights. What comes out are predictions for every row by an ensemble that knew nothing of its session, and figures
over them. Also the figure that flatters (rows dealt at random), to warn with.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from asa.config import Voting
from asa.core.decision import Probabilities, Workload
from asa.decide import voting
from models import ensemble
from models.artefact import MEMBERS, Array
from models.dataset import Dataset, Recording, deal
from models.ensemble import Fitted, Recipe, Rows

MOST_OUTER = 6
MOST_INNER = 3

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Predictions for all n rows, each by an ensemble trained without the row's session."""

    by_member: Array  # (3, n, K)
    blended: Array  # (n, K)
    fold: Array  # intp (n,)
    fold_weights: tuple[tuple[float, ...], ...]  # chosen in each outer fold

    @property
    def weights(self) -> tuple[float, ...]:
        """Mean of the folds' weights, to the fourth decimal; sum 1."""
        mean = np.array(self.fold_weights).mean(axis=0).round(4)
        mean[np.argmax(mean)] += 1.0 - mean.sum()
        return tuple(float(share) for share in mean)


def rows_of(data: Dataset, use: Array) -> Rows:
    """Training rows that `use` (bool, (n,)) selects, dealt into inner folds by session."""
    return Rows(
        x=data.x[use],
        y=data.y[use],
        weight=data.balanced()[use],
        fold=deal(data, use, MOST_INNER)[use],
        classes=len(data.classes),
    )


def hold_out(data: Dataset, recipe: Recipe, seed: int, say: Say) -> HeldOut:
    """Predict every session by an ensemble that has not seen it."""
    everything = np.ones(len(data.y), dtype=bool)
    fold = deal(data, everything, MOST_OUTER)
    by_member = np.zeros((len(MEMBERS), len(data.y), len(data.classes)))
    blended = np.zeros((len(data.y), len(data.classes)))
    weights = []
    for number in range(int(fold.max()) + 1):
        out = fold == number
        fitted = ensemble.fit(rows_of(data, ~out), recipe, seed)
        by_member[:, out] = fitted.by_member(data.x[out])
        blended[out] = ensemble.blend(by_member[:, out], fitted.weights)
        weights.append(fitted.weights)
        right = accuracy_pct(blended[out], data.y[out])
        say(f"fold {number + 1} of {int(fold.max()) + 1}: {right:.2f} % of {int(out.sum())} rows in sessions held out")
    return HeldOut(by_member=by_member, blended=blended, fold=fold, fold_weights=tuple(weights))


def random_rows_pct(data: Dataset, recipe: Recipe, seed: int) -> float:
    """Accuracy on a third of the rows taken at random, neighbours of training rows: what flatters."""
    chance = np.random.default_rng(seed)
    third = chance.permutation(len(data.y)) % 3
    train, out = third != 0, third == 0
    rows = Rows(
        x=data.x[train], y=data.y[train], weight=data.balanced()[train], fold=third[train], classes=len(data.classes)
    )
    return accuracy_pct(ensemble.fit(rows, recipe, seed).probabilities(data.x[out]), data.y[out])


def final(data: Dataset, weights: tuple[float, ...], recipe: Recipe, seed: int) -> Fitted:
    """The ensemble to ship: trained on all sessions, with the weights that the outer folds chose on average."""
    fitted = ensemble.fit(rows_of(data, np.ones(len(data.y), dtype=bool)), recipe, seed)
    return Fitted(members=fitted.members, sigmoid=fitted.sigmoid, weights=weights)


def accuracy_pct(probabilities: Array, y: Array) -> float:
    """Share of rows whose most probable class is the true one, in per cent."""
    return float((probabilities.argmax(axis=1) == y).mean() * 100)


def confusion(data: Dataset, held_out: HeldOut) -> Array:
    """Rows by true class (down) and recognised class (across), (K, K)."""
    table = np.zeros((len(data.classes), len(data.classes)), dtype=np.int64)
    np.add.at(table, (data.y, held_out.blended.argmax(axis=1)), 1)
    return table


def recall_pct(table: Array) -> Array:
    """Share of each true class that was recognised, in per cent, (K,)."""
    return np.asarray(table.diagonal() / table.sum(axis=1) * 100)


def in_place(data: Dataset, accept: Callable[[Recording], bool]) -> Array:
    """Rows of the sessions that `accept` takes, bool (n,)."""
    return np.array([accept(session) for session in data.sessions], dtype=bool)[data.session]


def voted_pct(data: Dataset, held_out: HeldOut, settings: Voting) -> float | None:
    """Share of ticks at which the voting window names the true class, over ticks with a full window, in per cent;
    None when no session is as long as the window."""
    classes = tuple(Workload(name) for name in data.classes)
    right = []
    for number, session in enumerate(data.sessions):
        window, standing = voting.Window(), None
        rows = np.flatnonzero(data.session == number)
        full_ns = data.at_ns[rows[0]] + int((settings.window_s - 1) * 1e9)
        for row in rows:
            distribution = Probabilities(classes=classes, values=tuple(held_out.blended[row].tolist()))
            now_ns = int(data.at_ns[row])
            window = voting.push(window, now_ns, distribution, settings.window_s)
            won = voting.vote(window, threshold=settings.threshold, decay=settings.decay, standing=standing)
            standing = won.workload or standing
            if now_ns >= full_ns:
                right.append(standing == session.label)
    return float(np.mean(right) * 100) if right else None
