# SPDX-License-Identifier: GPL-2.0-only
"""Predictions for rows that a model has not seen: the same model trained again and again, each time without some.

A `Task` says which rows are learnt from and which are predicted; `run` does all of them, in several processes of one
thread each, and keeps what comes out by everything that it depends on (dataset, code, seed, rows), so that nothing is
trained twice. Refuses tasks with a session on both sides. It chooses no split and makes no figure:
`models.train.evaluation`.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import joblib
import numpy as np

from asa import files
from asa.core.errors import ModelError
from asa.core.mark import Phase
from models import features
from models.artefact import MEMBERS, SURE, Array, Score
from models.train import cost, dataset, ensemble, factored
from models.train.dataset import Dataset, deal
from models.train.ensemble import Away, Recipe, Rows
from models.train.factored import Kind, Labels, Model
from models.train.programs import Split, partition, plays, splits

MOST_INNER = 3
"""Inner folds: what is chosen is chosen on sessions, or thirds of sessions where there is one of each label."""

AWAY = 4
"""Trainings without some kinds and some programs of others, to choose by what unknown use looks like."""

MOST_TICKS = 160
"""Of one choice of programs with one label on one machine, so many ticks at most are learnt from, evenly: ticks of a
session are much alike, and each choice counts the same, whatever it has of them."""

BLIND_EVERY = 3
"""Of the training rows with eBPF's columns, one in so many is learnt from without them too."""

Tell = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One training. Where several kinds of model are tried, validation rows decide which of them is asked."""

    name: str  # for people
    train: Array  # bool (n,)
    test: Array  # bool (n,)
    kinds: tuple[Kind, ...] = (Kind.FLAT,)
    hidden: tuple[str, ...] = ()  # of `features.SOURCES`: the test rows are predicted without each of them, too
    by_rows: bool = False  # rows of one session may lie on both sides: what flatters, never to choose by
    by_program: bool = False  # all that is chosen is chosen on programs that were kept away, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the m test rows. Classes that no training row had have probability 0."""

    kind: Kind  # preferred on validation rows
    of: Mapping[Kind, Array]  # float32 (m, K)
    by_member: Array  # float32 (3, m, K), of the preferred kind, as all that follows
    hidden: Mapping[str, Array]  # float32 (m, K)
    score: Score  # that the preferred kind goes by
    known: Array  # bool (m,)
    weights: Array  # (heads, 3)
    temperature: Array  # (heads,)
    validation_pct: Mapping[Kind, float]

    @property
    def blended(self) -> Array:
        """Predictions by the preferred kind, float32 (m, K)."""
        return self.of[self.kind]


class Kept:
    """Outcomes in a folder, by the hash of what they depend on. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, key: str) -> dict[str, Array] | None:
        """None where there is none, or none that can be read."""
        if self._folder is None:
            return None
        try:
            with np.load(self._folder / f"{key}.npz", allow_pickle=False) as stored:
                return dict(stored)
        except (OSError, ValueError, EOFError, LookupError, TypeError, RuntimeError, zlib.error, zipfile.BadZipFile):
            return None

    def put(self, key: str, arrays: Mapping[str, Array]) -> None:
        """Whole or not at all. Raises ModelError."""
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with files.fresh(self._folder / f"{key}.npz", mode=0o600) as file:
                np.savez_compressed(file, **dict(arrays))  # type: ignore[arg-type]  # its stubs take allow_pickle for one of them
        except OSError as error:
            raise ModelError(f"{self._folder}: nothing can be kept there: {error.strerror}; name another") from error


def run(
    data: Dataset,
    tasks: Sequence[Task],
    *,
    recipe: Recipe,
    seed: int,
    jobs: int = 1,
    kept: Kept | None = None,
    tell: Tell = lambda _what, _share: None,
) -> list[Outcome]:
    """All tasks, in their order. Raises ModelError for leaked sessions."""
    kept = kept or Kept(None)
    for task in tasks:
        if not task.by_rows:
            apart(data, task.train, task.test)
    keys = [key_of(data, task, recipe, seed) for task in tasks]
    found = {key: kept.get(key) for key in keys}
    missing = {key: task for key, task in zip(keys, tasks, strict=True) if found[key] is None}
    lean = slim(data)
    calls = (joblib.delayed(_keyed)(key, lean, task, recipe, seed) for key, task in missing.items())
    with joblib.parallel_config(backend="loky", inner_max_num_threads=1):
        done = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(calls)
        for number, (key, arrays) in enumerate(done, start=1):
            kept.put(key, arrays)
            found[key] = arrays
            tell(f"{missing[key].name} ({number} of {len(missing)})", number / len(missing))
    return [_outcome(found[key] or {}, task) for key, task in zip(keys, tasks, strict=True)]


def key_of(data: Dataset, task: Task, recipe: Recipe, seed: int) -> str:
    """Hash of all that an outcome depends on."""
    facts = (ensemble.TRAINING, features.SCHEMA, data.sha256, data.classes, recipe, seed, task.kinds, task.hidden)
    settings = (MOST_INNER, AWAY, MOST_TICKS, BLIND_EVERY, cost.KNOWN_SHARE, dataset.OLD_WORTH, data.served)
    total = hashlib.sha256(repr((facts, task.by_rows, settings)).encode())
    if task.by_program:
        played = [tuple(dataset.programs_of(session).items()) for session in data.sessions]
        total.update(repr(("by program", played)).encode())
    for mask in (task.train, task.test):
        total.update(np.packbits(mask).tobytes() + b"|")
    return total.hexdigest()[:32]


def apart(data: Dataset, train: Array, test: Array) -> None:
    """Raises ModelError when a session is on both sides, by its number or by its first sample."""

    def starts(numbers: Array) -> dict[object, int]:
        found: dict[object, int] = {}
        for number in numbers.tolist():
            session = data.sessions[number]
            first = session.samples[0] if session.samples else None
            found[number if first is None else (session.place, first.wall_ns, first.monotonic_ns)] = number
        return found

    known, asked = starts(np.unique(data.session[train])), starts(np.unique(data.session[test]))
    shared = sorted(known[key] for key in known.keys() & asked.keys())
    if shared:
        session = data.sessions[shared[0]]
        name = f"its session of {session.label!r}, seed {session.seed}"
        raise ModelError(f"{session.source}: {name}, is on both sides: what is learnt from cannot judge; split anew")


def slim(data: Dataset) -> Dataset:
    """Without the samples, of which training needs none: it goes to other processes."""
    return replace(data, sessions=tuple(replace(session, samples=(), marks=()) for session in data.sessions))


def thinned(data: Dataset, use: Array) -> Array:
    """Those of these rows (bool (n,)) that are learnt from, bool (n,): `MOST_TICKS`."""
    cell = data.played()
    place = np.zeros(len(use), dtype=np.intp)  # of a row among the rows of its cell
    order = np.flatnonzero(use)[np.argsort(cell[use], kind="stable")]
    _, first, count = np.unique(cell[order], return_index=True, return_counts=True)
    place[order] = np.arange(len(order)) - np.repeat(first, count)
    many = np.ones(len(use), dtype=np.intp)
    many[order] = np.repeat(count, count)
    few = np.minimum(many, MOST_TICKS)
    return np.asarray(use & ((place + 1) * few // many > place * few // many))


def rows_of(data: Dataset, use: Array, *, by_program: bool = False) -> Rows:
    """Training rows that `use` (bool, (n,)) selects, dealt into inner folds by session.

    Where a label has one session, its thirds are the folds: a poor judge, but one that has seen no test row. Weights
    are those of `Dataset.balanced` among these rows, but for what follows. One row in `BLIND_EVERY` that knows what
    eBPF tells stands there a second time without it, at the end.

    `by_program`: inner folds keep programs away (`models.train.programs`), where some kind has two. Of a choice of
    programs every second session is judged by a training that knows them: as `Recipe.new_share`, half are new.
    """
    fold, learnt, familiar = _program_folds(data, use) if by_program else (None, None, None)
    sighted = Rows(
        x=data.x[use],
        y=data.y[use],
        weight=data.select(use).balanced(),
        fold=_inner_folds(data, use) if fold is None else fold,
        learnt=learnt,
        familiar=familiar,
        classes=len(data.classes),
        served=_served(data),
        away=tuple(_away(data, use)),
    )
    return _with_blind(sighted)


def _served(data: Dataset) -> Array | None:
    # a table that serves all alike says nothing of what a wrong class costs under another one
    found: Array = np.unique(data.served, return_inverse=True)[1]
    return found if len(data.served) and found.any() else None


def _away(data: Dataset, use: Array) -> Iterator[Away]:
    """Some kinds, and some programs of the others, kept out in turn, with all sessions that they play in.

    A kind of which there is one program is only kept out as a whole. Judged are rows in which all of a session works.
    """
    numbers = np.unique(data.session[use]).tolist()
    of_session = {number: dataset.programs_of(data.sessions[number]) for number in numbers}
    by_kind: dict[str, set[str]] = {}
    for programs in of_session.values():
        for program, kind in programs.items():
            by_kind.setdefault(kind, set()).add(program)
    kind_out = {kind: place % AWAY for place, kind in enumerate(sorted(by_kind))}
    program_out = {
        program: (kind_out[kind] + 1 + place % (AWAY - 1)) % AWAY
        for kind, programs in by_kind.items()
        for place, program in enumerate(sorted(programs))
        if len(programs) > 1
    }
    session, whole = data.session[use], (data.phase == dataset.PHASES.index(Phase.RUNNING))[use]
    for fold in range(AWAY):
        strange = [one for one in numbers if any(kind_out[kind] == fold for kind in of_session[one].values())]
        new = [one for one in numbers if any(program_out.get(name) == fold for name in of_session[one])]
        of_none, of_new = np.isin(session, strange), np.isin(session, new)
        if ((of_none | of_new) & whole).any():
            yield Away(learnt=~of_none & ~of_new, new=of_new & ~of_none & whole, no_kind=of_none & whole)


def _program_folds(data: Dataset, use: Array) -> tuple[Array | None, Array | None, Array | None]:
    # the fold that judges each row, what each fold learns from, and which rows are of programs that it knows
    # sessions of programs that are never kept away (idle, too) are judged with the fold that their turn gives them
    parts = splits(data, use, MOST_INNER)
    if not parts:
        return None, None, None
    fold = _familiar(data, partition(data, parts), parts)
    rest = deal(data, use & (fold < 0), len(parts)) if (use & (fold < 0)).any() else fold
    fold = np.where(fold < 0, rest, fold)
    learnt = np.array([one.learnt & (fold != number) for number, one in enumerate(parts)])
    known = np.ones(len(fold), dtype=bool)
    for number, one in enumerate(parts):
        known[(fold == number) & plays(data, one.away)] = False
    return fold[use], learnt[:, use], known[use]


def _familiar(data: Dataset, fold: Array, parts: Sequence[Split]) -> Array:
    # every second session is judged by a training that knows its programs by others: a user's are known, and new, too
    fold, turn = fold.copy(), dict[frozenset[str], int]()
    for number in np.unique(data.session[fold >= 0]).tolist():
        played = frozenset(dataset.programs_of(data.sessions[number]))
        turn[played] = turn.get(played, 0) + 1
        if turn[played] % 2:
            continue
        known = [place for place, one in enumerate(parts) if one.away.isdisjoint(played)]
        if known:
            fold[data.session == number] = known[turn[played] // 2 % len(known)]
    return fold


def _inner_folds(data: Dataset, use: Array) -> Array:
    fold, session = deal(data, use, MOST_INNER)[use], data.session[use]
    _, first, count = np.unique(session, return_index=True, return_counts=True)
    thirds = (np.arange(len(fold)) - np.repeat(first, count)) * MOST_INNER // np.repeat(count, count)
    label = np.array([one.label for one in data.sessions])[session]
    for name in np.unique(label):
        of_label = label == name
        if len(np.unique(fold[of_label])) == 1:  # else it would be judged by members that never saw it
            fold[of_label] = thirds[of_label]
    return fold


def _with_blind(rows: Rows) -> Rows:
    # some rows once more as a machine sees them that has no eBPF: without them, trees and vectors lean on it alone
    probes = features.columns(features.SOURCES["ebpf"])
    copied = np.flatnonzero(np.isfinite(rows.x[:, probes]).any(axis=1))[::BLIND_EVERY]
    x = rows.x[copied]
    x[:, probes] = np.nan
    weight = np.concatenate([rows.weight, rows.weight[copied]])
    return Rows(
        x=np.concatenate([rows.x, x]),
        y=np.concatenate([rows.y, rows.y[copied]]),
        weight=weight / weight.mean(),
        fold=np.concatenate([rows.fold, rows.fold[copied]]),
        classes=rows.classes,
        served=rows.served,
        away=tuple(one.with_copies(copied) for one in rows.away),
        learnt=None if rows.learnt is None else np.concatenate([rows.learnt, rows.learnt[:, copied]], axis=1),
        familiar=None if rows.familiar is None else np.concatenate([rows.familiar, rows.familiar[copied]]),
    )


def trained(data: Dataset, use: Array, kinds: Sequence[Kind], recipe: Recipe, seed: int) -> dict[Kind, Model]:
    """Models of these kinds, all trained on the same rows; what is chosen is chosen on programs that were kept away."""
    rows, names = rows_of(data, thinned(data, use), by_program=True), factored.labels_of(data)
    return {kind: factored.fit(kind, rows, names, recipe, seed) for kind in kinds}


def choose(models: Mapping[Kind, Model], rows: Rows) -> Kind:
    """The kind that the validation rows prefer."""
    return factored.preferred(tuple(models.values()), rows).kind


def _keyed(key: str, data: Dataset, task: Task, recipe: Recipe, seed: int) -> tuple[str, dict[str, Array]]:
    return key, _arrays(data, task, recipe, seed)


def model_of(data: Dataset, task: Task, recipe: Recipe, seed: int) -> Model:
    """The model of the preferred kind that a task trains."""
    models, rows, _present = _models(data, task, recipe, seed)
    return models[choose(models, rows)]


def _models(data: Dataset, task: Task, recipe: Recipe, seed: int) -> tuple[dict[Kind, Model], Rows, Array]:
    rows, names = _rows(data, task, seed)
    present, rows, names = _present(rows, names, joined=task.by_program)
    return {kind: factored.fit(kind, rows, names, recipe, seed) for kind in _possible(task.kinds, names)}, rows, present


def _arrays(data: Dataset, task: Task, recipe: Recipe, seed: int) -> dict[str, Array]:
    models, rows, present = _models(data, task, recipe, seed)
    kind = choose(models, rows)
    model, x = models[kind], data.x[task.test]
    by_head = model.by_head(x)
    of = {one: other.blended(by_head) if one is kind else other.probabilities(x) for one, other in models.items()}
    made = {f"of.{one}": _wide(values, present, data) for one, values in of.items()}
    made["by_member"] = np.stack([_wide(values, present, data) for values in model.by_member(by_head)])
    for name in task.hidden:
        blind = data.select(task.test).without(features.SOURCES[name]).x
        made[f"hidden.{name}"] = _wide(model.probabilities(blind), present, data)
    opened = model.open_world()
    made["score"] = np.array(str(opened.score))
    made["known"] = model.scores(x, by_head)[opened.score] >= opened.least
    made |= {
        f"validation.{one}": np.array(factored.judged(other.validation, rows.y, rows.weight)[0])
        for one, other in models.items()
    }
    made["kind"] = np.array(str(kind))
    made["weights"] = np.array([part.weights for part in model.parts])
    made["temperature"] = np.array([part.temperature for part in model.parts])
    return made


def _rows(data: Dataset, task: Task, seed: int) -> tuple[Rows, Labels]:
    rows = rows_of(data, thinned(data, task.train), by_program=task.by_program)
    if task.by_rows:
        chance = np.random.default_rng(seed)
        rows = replace(rows, fold=chance.permutation(len(rows.y)) % MOST_INNER)
    return rows, factored.labels_of(data)


def _present(rows: Rows, names: Labels, *, joined: bool) -> tuple[Array, Rows, Labels]:
    # a label that is kept away as a whole is no class of the model: classes and factors of the rest, numbered anew;
    # joined: but one whose two factors are both known, as a model of factors can say it
    present = np.unique(rows.y)
    if joined and (names.factors >= 0).all():
        known = [np.isin(names.factors[:, side], names.factors[present, side]) for side in (0, 1)]
        present = np.flatnonzero(known[0] & known[1])
    if len(present) == len(names.classes):
        return present, rows, names
    factors = names.factors[present]
    kept = [np.unique(factors[:, side]) for side in (0, 1)]
    numbered = np.stack([np.searchsorted(of, factors[:, side]) for side, of in enumerate(kept)], axis=1)
    fronts, backs = (
        tuple(all_of[number] for number in of.tolist() if number >= 0)
        for of, all_of in zip(kept, (names.interactives, names.backgrounds), strict=True)
    )
    fewer = Labels(
        classes=tuple(names.classes[number] for number in present.tolist()),
        factors=numbered if (factors >= 0).all() else factors,
        interactives=fronts,
        backgrounds=backs,
    )
    served = None if rows.served is None else rows.served[present]
    return present, replace(rows, y=np.searchsorted(present, rows.y), classes=len(present), served=served), fewer


def _possible(kinds: Sequence[Kind], names: Labels) -> list[Kind]:
    found = [kind for kind in kinds if kind in names.kinds()]
    return found or [Kind.FLAT]


def _wide(values: Array, present: Array, data: Dataset) -> Array:
    made = np.zeros((len(values), len(data.classes)), dtype=np.float32)
    made[:, present] = values
    return made


def _outcome(arrays: Mapping[str, Array], task: Task) -> Outcome:
    def part(prefix: str) -> Iterator[tuple[str, Array]]:
        return ((name.removeprefix(prefix), value) for name, value in arrays.items() if name.startswith(prefix))

    found = Outcome(
        kind=Kind(str(arrays["kind"])),
        of={Kind(name): value for name, value in part("of.")},
        by_member=arrays["by_member"],
        hidden=dict(part("hidden.")),
        score=Score(str(arrays["score"])),
        known=arrays["known"] | (arrays[f"of.{arrays['kind']}"].max(axis=1) >= SURE),  # as `OpenWorld.knows`
        weights=arrays["weights"],
        temperature=arrays["temperature"],
        validation_pct={Kind(name): float(value) for name, value in part("validation.")},
    )
    if found.by_member.shape[:2] != (len(MEMBERS), int(task.test.sum())):
        raise ModelError(f"what was kept of {task.name!r} is of other rows; remove the folder of kept results")
    return found
