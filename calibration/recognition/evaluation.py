# SPDX-License-Identifier: GPL-2.0-only
"""What recognition is worth: all figures of `asa lab evaluate model`, from trainings that each kept something away.

Plans the trainings (`models.train.held_out` does them and keeps what comes out), and makes one `Result` of them, that
can be
written, read and printed again. What the split of a figure is stands beside it: whole seeds for most of them, whole
sessions, a whole place, a whole program, or rows at random as a warning. It chooses nothing that it reports.
"""

import itertools
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asa.config import Voting
from asa.core.errors import ModelError
from calibration.recognition import figures as evaluate_model_figures
from calibration.recognition import following as evaluate_model_voting
from calibration.recognition import tuned as evaluate_model_tuned
from calibration.recognition.figures import Curve, Place, RecognitionFigure, Result
from calibration.recognition.runtimes import KEPT
from models import features
from models.artefact import Array
from models.train import ensemble, evaluation, held_out, novelty
from models.train.dataset import Dataset
from models.train.ensemble import Recipe
from models.train.evaluation import HeldOut
from models.train.factored import Kind
from models.train.held_out import Kept, Outcome, Task, Tell
from models.train.novelty import Novelty

QUICK = Recipe(rounds=15, forest_trees=30, vectors=300)
"""The recipe of `--quick`: the figures are there to see that all works, and are worse than the model's."""

_QUICK_FOLDS, _QUICK_PROGRAMS = 2, 2
_CURVE_FOLDS = 2
_LAB = "the lab"  # all of its guests together
_WORST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to do and with what."""

    recipe: Recipe
    seed: int
    quick: bool
    jobs: int
    kept: Kept
    model: Path  # artefact whose evaluation is timed, and that judges recorded sequences
    sequences: tuple[Path, ...] = ()  # journals of `asa lab record --sequence`; without any, sequences are spliced


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """What was held out, and what became of it."""

    base: HeldOut  # whole seeds where there are several
    sessions: HeldOut
    words: str  # what `base` held out
    seeds: bool


def evaluate(data: Dataset, options: Options, tell: Tell) -> Result:
    """All of it. Raises ModelError for a dataset that would make the figures worthless."""
    began_s = time.monotonic()
    evaluation.check(data)
    splits = _splits(data, options, tell)
    kind = Counter(splits.base.kinds).most_common(1)[0][0]
    places = place_tasks(data, kind)
    curve = curve_tasks(data, splits.base.fold, kind) if not options.quick else {}
    programs = novelty.tasks(data, kind, most=_QUICK_PROGRAMS if options.quick else None)
    random = evaluation.random_rows(data, options.seed, kind)
    tasks = [random, *places.values(), *curve.values(), *programs.values()]
    done = held_out.run(
        data, tasks, recipe=options.recipe, seed=options.seed, jobs=options.jobs, kept=options.kept, tell=tell
    )
    by_task = dict(zip([id(task) for task in tasks], done, strict=True))
    new = novelty.judged({name: by_task[id(task)] for name, task in programs.items()})
    tuned = evaluate_model_tuned.tuned(
        data, kind, options.recipe, options.seed, jobs=options.jobs, kept=options.kept, tell=tell
    )
    known = splits.base.known
    voting = evaluate_model_voting.figures(
        data, splits.base, known, model=options.model, sequences=options.sequences, quick=options.quick, tell=tell
    )
    timed = evaluate_model_figures.runtime(options.model, quick=options.quick, tell=tell)
    found = _judged(data, splits)
    found |= {
        RecognitionFigure.RANDOM: _accuracy(done[0].blended, data, random.test, _scenarios(data)),
        RecognitionFigure.TUNED: tuned,
        RecognitionFigure.VOTED: evaluation.voted_pct(
            data, splits.base.blended, Voting(), use=_scenarios(data, splits.base), known=known
        ),
        RecognitionFigure.UNKNOWN: new.false_accept_pct,
        **timed,
        **voting,
    }
    by_place = _places(data, splits.base, places, by_task)
    found[RecognitionFigure.PLACE_DROP] = max(
        (one.drop_points for one in by_place if one.drop_points is not None), default=None
    )
    return _result(data, options, splits, kind, found, by_place, _curve(data, curve, by_task), new, began_s)


def place_tasks(data: Dataset, kind: Kind) -> dict[str, Task]:
    """Each place left out in turn, and all guests of the lab together where there are others."""
    places = data.places()
    place = np.array([session.place for session in data.sessions])[data.session]
    groups = {name: place == name for name in places}
    lab = np.array([name.startswith("lab") for name in places])
    if lab.sum() > 1 and not lab.all():
        groups[_LAB] = np.isin(place, [name for name in places if name.startswith("lab")])
    if len(places) < 2:
        return {}
    made = {}
    for name, there in groups.items():
        known = np.isin(data.y, np.unique(data.y[~there]))  # of what the other places never had nothing can be said
        made[name] = Task(name=f"without {name}", train=~there, test=there & known, kinds=(kind,))
    return {name: task for name, task in made.items() if task.test.any()}


def curve_tasks(data: Dataset, fold: Array, kind: Kind) -> dict[tuple[int, int], Task]:
    """By (sessions of each label and place that are learnt from, fold): one, twice as many, and so on up to all.

    Of sessions of one sort alone, the best there is (`evaluation.judged`): others would blur what a session brings.
    """
    judged = evaluation.judged(data)
    alike = np.isin(data.session, np.unique(data.session[judged]))
    folds = [one for one in np.unique(fold[judged]).tolist() if one >= 0][:_CURVE_FOLDS]
    ranks = {number: data.turns((fold != number) & alike) for number in folds}
    most = min((int(rank.max()) + 1 for rank in ranks.values()), default=0)
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count < most] + [most] * (most > 0)
    made = {}
    for count, (number, rank) in itertools.product(counts, ranks.items()):
        own = rank[data.session]
        use = alike & (fold != number) & (own >= 0) & (own < count)
        name = f"{count} sessions, fold {number + 1}"
        made[count, number] = Task(name=name, train=use, test=judged & (fold == number), kinds=(kind,))
    return made


def _splits(data: Dataset, options: Options, tell: Tell) -> Splits:
    most = _QUICK_FOLDS if options.quick else None

    def away(fold: Array, name: str, kinds: tuple[Kind, ...] = tuple(Kind)) -> HeldOut:
        return evaluation.hold_out(
            data,
            fold,
            recipe=options.recipe,
            seed=options.seed,
            kinds=kinds,
            hidden=tuple(features.SOURCES),
            jobs=options.jobs,
            kept=options.kept,
            tell=tell,
            name=name,
            most=most,
        )

    by_sessions = evaluation.by_sessions(data)
    try:
        by_seeds = evaluation.by_seeds(data)
    except ModelError:
        found = away(by_sessions, "sessions, fold")
        return Splits(base=found, sessions=found, words="whole sessions", seeds=False)
    base = away(by_seeds, "seeds, fold")
    if np.array_equal(by_seeds, by_sessions):
        return Splits(base=base, sessions=base, words="whole seeds", seeds=True)
    kind = Counter(base.kinds).most_common(1)[0][0]
    sessions = away(by_sessions, "sessions, fold", (kind,))
    return Splits(base=base, sessions=sessions, words="whole seeds", seeds=True)


def _judged(data: Dataset, splits: Splits) -> dict[RecognitionFigure, float | None]:
    base, pairs, all_pairs = splits.base, _scenarios(data, splits.base), _pairs(data, splits.base)
    all_of = evaluation.judged(data) & (base.fold >= 0)
    lab = evaluation.in_place(data, lambda session: session.in_lab)
    table = evaluation.confusion(data, base.blended, all_of)
    ece = evaluation.reliability(base.blended[all_of], data.y[all_of]).error
    return {
        RecognitionFigure.BASE: _accuracy(base.blended, data, pairs),
        RecognitionFigure.BASE_SESSIONS: _accuracy(splits.sessions.blended, data, _scenarios(data, splits.sessions)),
        RecognitionFigure.BASE_40: _accuracy(base.blended, data, all_of),
        RecognitionFigure.HOST: _accuracy(base.blended, data, all_pairs & ~lab),
        RecognitionFigure.LAB: _accuracy(base.blended, data, all_pairs & lab),
        RecognitionFigure.FLAT: _accuracy(base.of.get(Kind.FLAT), data, pairs),
        RecognitionFigure.FACTORED: _accuracy(base.of.get(Kind.FACTORED), data, pairs),
        RecognitionFigure.WITHOUT_EBPF: _accuracy(base.hidden.get("ebpf"), data, pairs),
        RecognitionFigure.WITHOUT_GNOME: _accuracy(base.hidden.get("gnome"), data, pairs),
        RecognitionFigure.WITHOUT_PSI: _accuracy(base.hidden.get("psi"), data, pairs),
        RecognitionFigure.WITHOUT_PROCESSES: _accuracy(base.hidden.get("processes"), data, pairs),
        RecognitionFigure.OLDER: _accuracy(base.blended, data, all_pairs & ~lab & ~data.knows_processes()),
        RecognitionFigure.WORST: float(np.nanmin(evaluation.recall_pct(table))) if all_of.any() else None,
        RecognitionFigure.ECE: ece if all_of.any() else None,
    }


def _result(
    data: Dataset,
    options: Options,
    splits: Splits,
    kind: Kind,
    found: Mapping[RecognitionFigure, float | None],
    places: tuple[Place, ...],
    curve: tuple[Curve, ...],
    new: Novelty,
    began_s: float,
) -> Result:
    base = splits.base
    all_of = evaluation.judged(data) & (base.fold >= 0)
    table = evaluation.confusion(data, base.blended, all_of)
    certain = evaluation.reliability(base.blended[all_of], data.y[all_of])
    sessions = Counter(session.place for session in data.sessions)
    reasons = _reasons(data, found)
    return Result(
        dataset_sha256=data.sha256,
        schema=features.SCHEMA,
        training=ensemble.TRAINING,
        seed=options.seed,
        quick=options.quick,
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        took_s=round(time.monotonic() - began_s, 1),
        recipe=repr(options.recipe),
        rows=len(data.y),
        sessions=dict(sorted(sessions.items())),
        seeds=sorted({session.seed for session in data.sessions if session.seed is not None}),
        held_out=splits.words,
        folds=len(base.kinds),
        kind=str(kind),
        kinds=[str(one) for one in base.kinds],
        lacks=evaluation.lacks(data),
        figures={str(name): value for name, value in found.items()},
        reasons={str(name): text for name, text in reasons.items()},
        classes=list(data.classes),
        confusion=table.tolist(),
        worst=_worst(data, table),
        reliability=[certain.rows.tolist(), certain.confidence.tolist(), certain.right.tolist()],
        places=list(places),
        curve=list(curve),
        unknown_pct=new.by_program_pct,
        unknown_score=str(Counter(base.scores).most_common(1)[0][0]),
    )


def _worst(data: Dataset, table: Array) -> list[tuple[str, str, int]]:
    apart = table.copy()
    np.fill_diagonal(apart, 0)
    order = np.argsort(-apart, axis=None, kind="stable")[:_WORST]
    cells = [np.unravel_index(number, apart.shape) for number in order]
    return [(data.classes[int(i)], data.classes[int(j)], int(apart[i, j])) for i, j in cells if apart[i, j]]


def _reasons(data: Dataset, found: Mapping[RecognitionFigure, float | None]) -> dict[RecognitionFigure, str]:
    # of figures without a value: what the data lack
    pairs = "no row of two programs was held out"
    parts = "no label has both something in front and something behind"
    why = {
        RecognitionFigure.TUNED: evaluate_model_tuned.WHY,
        RecognitionFigure.VOTED: "no session is as long as the voting's window",
        RecognitionFigure.UNKNOWN: "too few labels to keep a program out",
        RecognitionFigure.PLACE_DROP: f"all recordings are of {data.places()[0]!r}",
        RecognitionFigure.HOST: "no recordings of two programs on the host",
        RecognitionFigure.OLDER: "no recordings of two programs on the host from before single processes were told",
        RecognitionFigure.LAB: "no recordings of two programs in the lab",
        RecognitionFigure.FACTORED: parts,
        RecognitionFigure.REACTION: "too few sessions, or no sound model, to make sequences of",
        **dict.fromkeys(
            (RecognitionFigure.MEAN, RecognitionFigure.P99, RecognitionFigure.RSS),
            f"no model, no {KEPT} evaluator or no recording to time",
        ),
    }
    why[RecognitionFigure.VOTING_ERROR] = why[RecognitionFigure.REACTION]
    return {name: why.get(name, pairs) for name, value in found.items() if value is None}


def _places(data: Dataset, base: HeldOut, tasks: Mapping[str, Task], done: Mapping[int, Outcome]) -> tuple[Place, ...]:
    made = []
    for name, task in tasks.items():
        use = task.test & evaluation.running(data)
        pairs = use & evaluation.pairs(data)
        use = pairs if pairs.any() else use
        inside = _accuracy(base.blended, data, use & (base.fold >= 0))
        outside = _accuracy(done[id(task)].blended, data, task.test, use)
        drop = None if inside is None or outside is None else inside - outside
        made.append(Place(name=name, rows=int(use.sum()), known_pct=inside, left_out_pct=outside, drop_points=drop))
    return tuple(made)


def _curve(data: Dataset, tasks: Mapping[tuple[int, int], Task], done: Mapping[int, Outcome]) -> tuple[Curve, ...]:
    made, pairs = [], evaluation.pairs(data)
    for count in sorted({count for count, _ in tasks}):
        right: dict[bool, list[Array]] = {True: [], False: []}
        for (of_count, _), task in tasks.items():
            if of_count == count:
                hit = done[id(task)].blended.argmax(axis=1) == data.y[task.test]
                right[False].append(hit)
                right[True].append(hit[pairs[task.test]])
        shares = [_share(right[of_pairs]) for of_pairs in (True, False)]
        made.append(Curve(sessions=count, accuracy_28_pct=shares[0], accuracy_40_pct=shares[1]))
    return tuple(made)


def _pairs(data: Dataset, found: HeldOut) -> Array:
    return np.asarray(evaluation.pairs(data) & (found.fold >= 0))


def _scenarios(data: Dataset, found: HeldOut | None = None) -> Array:
    # rows of two programs that the first figures are made of
    use = evaluation.pairs(data) & evaluation.judged(data)
    return np.asarray(use if found is None else use & (found.fold >= 0))


def _share(parts: list[Array]) -> float | None:
    joined = np.concatenate(parts)
    return float(joined.mean() * 100) if len(joined) else None


def _accuracy(probabilities: Array | None, data: Dataset, rows: Array, use: Array | None = None) -> float | None:
    """Of predictions for all rows, of which `rows` count; with `use`, of those for `rows`, of which `use` count."""
    if probabilities is None or not rows.any():
        return None
    if use is None:
        return evaluation.accuracy_pct(probabilities[rows], data.y[rows])
    counted = use[rows]
    return evaluation.accuracy_pct(probabilities[counted], data.y[rows][counted]) if counted.any() else None
