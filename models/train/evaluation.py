# SPDX-License-Identifier: GPL-2.0-only
"""How well a model does on whole sessions, or whole seeds, that it has never seen, by nested folds.

Each outer fold keeps sessions away from everything: training, calibration, and every choice. What comes out are
predictions for every row by a model that knew nothing of its session, and figures over them. Also the figure that
flatters (rows dealt at random), to warn with. Says what a dataset lacks, and refuses one that would make figures
worthless.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from asa.config import PolicySettings, Voting
from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.errors import ModelError
from asa.core.kinds import OF_APPLICATION
from asa.core.mark import Phase
from asa.decide import voting
from models import features
from models.artefact import MEMBERS, Array, Score
from models.train import held_out
from models.train.dataset import LEAST_SESSIONS, PHASES, Dataset, Recording, deal, deal_seeds, programs_of
from models.train.ensemble import Recipe
from models.train.factored import Kind, labels_of
from models.train.held_out import Kept, Outcome, Task, Tell, rows_of

__all__ = ["HeldOut", "check", "hold_out", "rows_of"]

MOST_OUTER = 6
BINS = 15
"""Of the reliability diagram and of the calibration error, by equal steps of confidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Predictions for n rows, each by a model trained without the row's session. `fold` is -1 in rows without."""

    by_member: Array  # (3, n, K)
    blended: Array  # (n, K), by the kind that each fold's validation sessions preferred
    of: dict[Kind, Array]  # (n, K)
    hidden: dict[str, Array]  # (n, K): as a machine sees the rows that lacks a source
    known: Array  # bool (n,): by the measure and the threshold of the row's fold
    scores: tuple[Score, ...]  # the measure of each fold
    fold: Array  # intp (n,)
    kinds: tuple[Kind, ...]  # preferred in each fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How often a model is right where it is so sure: for each bin rows, mean confidence and share of right ones."""

    rows: Array  # (BINS,)
    confidence: Array
    right: Array

    @property
    def error(self) -> float:
        """Expected calibration error, 0..1: by rows, how far confidence is from the share of right ones."""
        return float((self.rows * np.abs(self.confidence - self.right)).sum() / max(1, self.rows.sum()))


def check(data: Dataset) -> None:
    """Raises ModelError for columns of another version, numbers that are none, rows without any value, and labels of
    which one session is all there is. Of a pair one is enough where each of its halves is in two."""
    if data.x.ndim != 2 or data.x.shape[1] != len(features.NAMES):
        raise ModelError(
            f"the dataset has {data.x.shape[-1]} columns, features of schema {features.SCHEMA} are "
            f"{len(features.NAMES)}; make it again from the recordings"
        )
    if (data.y < 0).any():
        raise ModelError("the dataset has rows whose class is not certain; make it of settled phases alone")
    infinite, empty = np.isinf(data.x).any(axis=1), np.isnan(data.x).all(axis=1)
    for bad, what in ((infinite, "a value that is no number"), (empty, "a row without any value")):
        if bad.any():
            session = data.sessions[int(data.session[bad.argmax()])]
            raise ModelError(f"{session.source}: {what} in its session of {session.label!r}; record it again")
    labels = data.table().label
    count, parts = labels.value_counts(), labels.str.split("+").explode().value_counts()
    alone = sorted(name for name in count.index[count < 2] if min(parts[half] for half in name.split("+")) < 2)
    if alone:
        names = ", ".join(alone[:5]) + (f" and {len(alone) - 5} more" if len(alone) > 5 else "")
        raise ModelError(f"one session of {names}: one to learn from and one to judge by are needed; record more")


def lacks(data: Dataset) -> str:
    """One line about labels with fewer sessions in a place than are to be had, "" when there are none."""
    count = data.table().value_counts(["place", "label"])
    few = count[count < LEAST_SESSIONS]
    if few.empty:
        return ""
    labels = few.index.unique("label").size
    places = ", ".join(map(repr, sorted(few.index.unique("place"))))
    return (
        f"{labels} labels have fewer than {LEAST_SESSIONS} sessions in {places} (the fewest {few.min()}): "
        "what is chosen there is chosen on little; record more"
    )


def by_sessions(data: Dataset) -> Array:
    """Outer fold of each row: whole sessions, at most one of a label and place in a fold."""
    return deal(data, np.ones(len(data.y), dtype=bool), MOST_OUTER)


def by_seeds(data: Dataset) -> Array:
    """Outer fold of each row: whole seeds, of every label and place. Raises ModelError where there are too few."""
    return deal_seeds(data, np.ones(len(data.y), dtype=bool), MOST_OUTER)


def hold_out(
    data: Dataset,
    fold: Array,
    *,
    recipe: Recipe,
    seed: int,
    kinds: Sequence[Kind] = tuple(Kind),
    hidden: Sequence[str] = (),
    by_program: bool = False,
    jobs: int = 1,
    kept: Kept | None = None,
    tell: Tell = lambda _what, _share: None,
    name: str = "fold",
    most: int | None = None,
) -> HeldOut:
    """Predict every row of a fold by a model that has not seen it. Rows of fold -1 are neither learnt nor predicted.

    `most`: only so many folds are predicted, the others always learnt from.
    """
    possible = tuple(kind for kind in kinds if kind in labels_of(data).kinds()) or (Kind.FLAT,)
    numbers = [number for number in np.unique(fold).tolist() if number >= 0]
    tasks = [
        Task(
            name=f"{name} {number + 1} of {len(numbers)}",
            train=(fold != number) & (fold >= 0),
            test=fold == number,
            kinds=possible,
            hidden=tuple(hidden),
            by_program=by_program,
        )
        for number in numbers[:most]
    ]
    done = held_out.run(data, tasks, recipe=recipe, seed=seed, jobs=jobs, kept=kept, tell=tell)
    return gathered(data, np.where(np.isin(fold, numbers[:most]), fold, -1), tasks, done)


def gathered(data: Dataset, fold: Array, tasks: Sequence[Task], done: Sequence[Outcome]) -> HeldOut:
    """What became of a split's tasks, by row of the dataset."""
    rows, classes = len(data.y), len(data.classes)
    by_member = np.zeros((len(MEMBERS), rows, classes))
    blended = np.zeros((rows, classes))
    of = {kind: np.zeros((rows, classes)) for kind in done[0].of}
    hidden = {name: np.zeros((rows, classes)) for name in done[0].hidden}
    known = np.zeros(rows, dtype=bool)
    for task, one in zip(tasks, done, strict=True):
        by_member[:, task.test], blended[task.test] = one.by_member, one.blended
        known[task.test] = one.known
        for kind, values in of.items():
            values[task.test] = one.of[kind]
        for name, values in hidden.items():
            values[task.test] = one.hidden[name]
    kinds = tuple(one.kind for one in done)
    return HeldOut(
        by_member=by_member,
        blended=blended,
        of=of,
        hidden=hidden,
        known=known,
        scores=tuple(one.score for one in done),
        fold=fold,
        kinds=kinds,
    )


def random_rows(data: Dataset, seed: int, kind: Kind) -> Task:
    """A third of the rows taken at random is asked, neighbours of training rows: what flatters."""
    third = np.random.default_rng(seed).permutation(len(data.y)) % 3
    return Task(name="rows at random", train=third != 0, test=third == 0, kinds=(kind,), by_rows=True)


def running(data: Dataset) -> Array:
    """Rows in which all of a session's label works, bool (n,): what figures are made of."""
    return np.asarray(data.phase == PHASES.index(Phase.RUNNING))


def pairs(data: Dataset) -> Array:
    """Rows of `running` with one of the paper's applications in front and one behind, bool (n,): the 28 scenarios."""
    both = np.asarray((data.factors() > 0).all(axis=1))
    papers = np.array([programs_of(one).keys() <= OF_APPLICATION.keys() for one in data.sessions], dtype=bool)
    return np.asarray(running(data) & both[data.y] & papers[data.session])


def judged(data: Dataset) -> Array:
    """Those of `running` that the first figures are made of, bool (n,): no stand-ins, and recordings that tell what
    single processes do. Stand-ins and older recordings count where there are no others."""
    use = running(data)
    for better in (~data.tier_is("lab"), data.knows_processes()):
        use = use & better if (use & better).any() else use
    return np.asarray(use)


def accuracy_pct(probabilities: Array, y: Array) -> float:
    """Share of rows whose most probable class is the true one, in per cent."""
    return float((probabilities.argmax(axis=1) == y).mean() * 100)


def confusion(data: Dataset, probabilities: Array, use: Array) -> Array:
    """Rows by true class (down) and recognised class (across), (K, K), of the rows `use` (bool (n,))."""
    table = np.zeros((len(data.classes), len(data.classes)), dtype=np.int64)
    np.add.at(table, (data.y[use], probabilities[use].argmax(axis=1)), 1)
    return table


def recall_pct(table: Array) -> Array:
    """Share of each true class that was recognised, in per cent, (K,); NaN where there is none of it."""
    count = table.sum(axis=1)
    return np.where(count > 0, table.diagonal() / np.maximum(count, 1) * 100, np.nan)


def reliability(probabilities: Array, y: Array) -> Reliability:
    """Of the most probable class, by `BINS` bins of its probability."""
    sure = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == y
    place = np.minimum((sure * BINS).astype(np.intp), BINS - 1)
    rows = np.bincount(place, minlength=BINS)
    count = np.maximum(rows, 1)
    return Reliability(
        rows=rows,
        confidence=np.bincount(place, weights=sure, minlength=BINS) / count,
        right=np.bincount(place, weights=right, minlength=BINS) / count,
    )


def in_place(data: Dataset, accept: Callable[[Recording], bool]) -> Array:
    """Rows of the sessions that `accept` takes, bool (n,)."""
    return np.array([accept(session) for session in data.sessions], dtype=bool)[data.session]


def voted_pct(
    data: Dataset, probabilities: Array, settings: Voting, *, use: Array | None = None, known: Array | None = None
) -> float | None:
    """Share of ticks at which the voting names the true class, in per cent, over those ticks of `use` (bool (n,), None:
    all) whose class has stood for a window's length; None when there are none.

    `known` (bool (n,)): ticks of which the model knows what they are; None: all.
    """
    current, stood = decided(data, probabilities, settings, known=known)
    counted = stood if use is None else stood & use
    return float((current == data.y)[counted].mean() * 100) if counted.any() else None


def decided(
    data: Dataset, probabilities: Array, settings: Voting, *, known: Array | None = None
) -> tuple[Array, Array]:
    """Of each tick the class that the voting has decided on by then, intp (n,), -1 before the first and once nobody has
    won for a dwell (`asa.decide.policy`); and whether the true class has stood for a window's length, bool (n,).
    `known` as of `voted_pct`."""
    dwell_ns = int(PolicySettings().dwell_s * 1e9)
    classes = tuple(Workload(name) for name in data.classes)
    numbers = {name: number for number, name in enumerate(classes)}
    made, stood = np.full(len(data.y), -1, dtype=np.intp), np.zeros(len(data.y), dtype=bool)
    for number in np.unique(data.session).tolist():
        votes, current, truth, since_ns = voting.FilterState(), None, -1, 0
        nobody_ns: int | None = None  # since when nobody has won
        for row in np.flatnonzero(data.session == number).tolist():
            now_ns = int(data.at_ns[row])
            if data.y[row] != truth:
                truth, since_ns = int(data.y[row]), now_ns
            seen = Probabilities(classes=classes, values=tuple(probabilities[row].tolist()))
            judged = Judgement(probabilities=seen, score=None, known=known is None or bool(known[row]))
            votes = voting.take(votes, settings, now_ns, judged, current=current)
            winner = votes.vote.workload
            nobody_ns = None if winner else now_ns if nobody_ns is None else nobody_ns
            current = None if nobody_ns is not None and now_ns - nobody_ns >= dwell_ns else winner or current
            made[row] = -1 if current is None else numbers[current]
            stood[row] = now_ns >= since_ns + int((settings.window_s - 1) * 1e9)
    return made, stood
