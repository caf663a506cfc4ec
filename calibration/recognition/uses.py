# SPDX-License-Identifier: GPL-2.0-only
"""Figures of kinds of use, on programs that were held out: arithmetic over predictions, and the trainings it needs.

Each program is kept away once, with all sessions that it plays in; the ticks of those that were recorded as the agent
sees them (`judges`) are judged. A session of two programs may be judged twice, by two trainings. A figure is the mean
over the programs that were kept away. `models.train.programs` deals; nothing is chosen here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from asa.config import Voting
from asa.core.decision import EEVDF, FeatureFrame
from asa.core.errors import AsaError
from asa.core.kinds import OTHER, Kind
from asa.core.kinds import halves as halves_of
from calibration.goals import Named
from models import features, teaching
from models.artefact import Array, Artefact
from models.train import evaluation, programs
from models.train.dataset import Dataset, programs_of
from models.train.factored import Kind as ModelKind
from models.train.held_out import Outcome, Task
from models.train.programs import Split

CURVE = (1, 2, 3, 5)
"""Programs a kind of the learning curve."""

TAUGHT_TICKS = 120
"""Two minutes."""

LEAST_SITUATIONS = 12


class UseFigure(Named):
    """The figures, each with its goal."""

    RIGHT = "kind_right_voted_pct", "%", "both halves right after voting, programs held out", ">=", 85.0
    PLAIN = "kind_right_voted_without_hints_pct", "%", "the same without hints"
    BACKGROUND = "kind_background_pct", "%", "ticks whose background kind is right, its program held out", ">=", 90.0
    DESKTOP = "kind_interactive_pct", "%", "ticks whose interactive kind is right, its program held out", ">=", 90.0
    NO_DESKTOP = "kind_interactive_without_desktop_pct", "%", "the same where no desktop tells anything", ">=", 75.0
    WRONG = "wrong_kind_pct", "%", "ticks of a wrong kind that is taken for known", "<=", 4.0
    UNKNOWN = "unknown_pct", "%", "ticks that fit no kind", "<=", 12.0
    SCHEDULER = "wrong_scheduler_pct", "%", "ticks after voting under a scheduler of another kind", "<=", 2.0
    NO_LABEL = "no_label_wrong_scheduler_pct", "%", "of no kind: ticks after voting under any scheduler", "<=", 2.0
    MACHINE = (
        "leave_machine_out_drop_points",
        "points",
        "lost on a machine that was not learnt from, the most",
        "<=",
        4.0,
    )
    GAIN = (
        "desktop_gain_points",
        "points",
        "interactive kinds that are right with the desktop, less those without",
        ">",
        0.0,
    )
    HINT = "hint_gain_points", "points", "ticks right with hints beside the model, less without", ">", 0.0
    HARM = "hint_harm_points", "points", "lost where the hints are another tick's", "<=", 0.5
    TAUGHT = (
        "taught_program_pct",
        "%",
        "a held-out program's ticks that are right once two minutes are taught",
        ">=",
        95.0,
    )
    CURVE_1 = "kind_right_1_program_pct", "%", "both halves right, one program a kind learnt"
    CURVE_2 = "kind_right_2_programs_pct", "%", "two programs a kind learnt"
    CURVE_3 = "kind_right_3_programs_pct", "%", "three programs a kind learnt"
    CURVE_5 = "kind_right_5_programs_pct", "%", "five programs a kind learnt"
    PAPERS = "accuracy_base_28_pct", "%", "the paper's 28 scenarios, whole seeds held out", ">=", 97.0
    PAPERS_VOTED = "accuracy_voted_28_pct", "%", "the same after voting", ">=", 99.0
    PAPERS_TUNED = "accuracy_tuned_28_pct", "%", "the same after fine-tuning with two sessions a label", ">=", 99.5
    MEAN = "inference_mean_ms", "ms", "from sample to probabilities, mean", "<=", 0.2
    P99 = "inference_p99_ms", "ms", "the same, 99th percentile", "<=", 0.4
    REACTION = "reaction_median_s", "s", "from a true change to the right decision, median", "<=", 2.0
    VOTING_ERROR = "voting_error_pct", "%", "ticks on a wrong class after voting", "<=", 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A training, the programs that it did not see, and what it said of its test rows."""

    away: frozenset[str]
    test: Array  # bool (n,)
    outcome: Outcome


def task(split: Split, name: str) -> Task:
    """The training of a split, asked without a desktop, too; by factors, as no other model can say a new pair."""
    kinds = (ModelKind.FACTORED,)
    return Task(name=name, train=split.learnt, test=split.test, kinds=kinds, hidden=("gnome",), by_program=True)


def judges(data: Dataset) -> Array:
    """Rows of the sessions that programs are judged by, bool (n,): where packages were asked for, as the agent asks.

    A program that has no such session is judged by all that it has.
    """
    asked = [any(sample.hints and sample.hints.packages is not None for sample in one.samples) for one in data.sessions]
    played = [programs_of(one).keys() for one in data.sessions]
    told = {name for names, there in zip(played, asked, strict=True) if there for name in names}
    of_session = [there or told.isdisjoint(names) for names, there in zip(played, asked, strict=True)]
    return np.array(of_session, dtype=bool)[data.session]


def fewer(data: Dataset, split: Split, count: int) -> Split | None:
    """The same with so many programs a kind to learn from; None where some kind has fewer.

    Simple loads, classes of one program that none is kept away of, are learnt from as they are.
    """
    everything = programs.by_kind(data, split.learnt | split.test)
    found = {name: there for name, there in programs.by_kind(data, split.learnt).items() if len(everything[name]) > 1}
    if not found or min(map(len, found.values())) < count:
        return None
    more = {name for names in found.values() for name in names[count:]}
    return Split(away=split.away | more, learnt=split.learnt & ~programs.plays(data, more), test=split.test)


def machine_out(data: Dataset, there: Array) -> tuple[list[Split], list[Split]]:
    """Splits by programs that judge a machine's rows, bool (n,): learnt with its other rows, and without any of them.

    Both have the same rows to judge. Both are empty where the other machines have no two programs of each kind that
    plays there: what would be lost then is the kinds.
    """
    kinds = set(Kind) & programs.by_kind(data, there).keys()
    elsewhere = programs.by_kind(data, ~there)
    if any(len(elsewhere.get(name, ())) < 2 for name in kinds):
        return [], []
    everything = np.ones(len(data.y), dtype=bool)
    inside = [replace(one, test=one.test & there) for one in programs.splits(data, everything)]
    inside = [one for one in inside if one.test.any()]
    return inside, [replace(one, learnt=one.learnt & ~there) for one in inside]


def taught(data: Dataset, away: Collection[str], model: Artefact) -> dict[str, float]:
    """By held-out program that has the ticks: after `asa teach`, the share of its later ticks that are right, per cent.

    Of sessions that it plays alone in, the first `TAUGHT_TICKS` ticks teach; as many at least judge. A lesson that is
    not kept changes nothing, as for a user.
    """
    found = {}
    for program, rows in teachable(data, away).items():
        label = data.classes[data.y[rows[0]]]
        if label not in model.header.classes:
            continue
        frames = [FeatureFrame(schema=features.SCHEMA, values=tuple(row)) for row in data.x[rows].tolist()]
        lesson = teaching.teach(model, frames[:TAUGHT_TICKS], label)
        found[program] = teaching.right_pct(model if lesson.why else lesson.model, frames[TAUGHT_TICKS:], label)
    return found


def teachable(data: Dataset, away: Collection[str]) -> dict[str, Array]:
    """The ticks, intp (n,) in order of time, of those programs that have enough alone to teach and to judge by."""
    found = {}
    for program in sorted(away):
        alone = [number for number, one in enumerate(data.sessions) if list(programs_of(one)) == [program]]
        rows = np.flatnonzero(np.isin(data.session, alone) & evaluation.running(data))
        if len(rows) >= 2 * TAUGHT_TICKS:
            found[program] = rows[np.lexsort((data.at_ns[rows], data.session[rows]))]
    return found


class Shares:
    """Of true ones by program, each of which counts the same whatever it has of ticks."""

    def __init__(self) -> None:
        self._hits: dict[str, list[Array]] = {}

    def add(self, program: str, hits: Array) -> None:
        """Ticks of a program, bool (n,)."""
        self._hits.setdefault(program, []).append(hits)

    def pct(self, why: str) -> float:
        """In per cent. Raises AsaError with `why` where there are none at all."""
        joined = [found for parts in self._hits.values() if len(found := np.concatenate(parts))]
        if not joined:
            raise AsaError(why)
        return float(np.mean([found.mean() for found in joined]) * 100)


def halves(
    data: Dataset, judged: Sequence[Judged], side: int, *, hidden: str = "", desktop: bool | None = None
) -> float:
    """Share of ticks whose half (0: interactive) is right in the most probable class, in per cent, whatever is unknown.

    Of programs of this half that were held out; `desktop`: where the recording tells what a desktop knows, or not.
    """
    factors, shares = data.factors(), Shares()
    told = np.asarray(np.isfinite(data.x[:, features.columns({features.Source.DESKTOP})]).any(axis=1))
    for one in judged:
        said = (one.outcome.hidden[hidden] if hidden else one.outcome.blended).argmax(axis=1)
        rows = np.flatnonzero(one.test)
        use = evaluation.running(data)[rows]
        use = use if desktop is None else use & (told[rows] == desktop)
        truth = factors[data.y[rows], side]
        for program, there in _new(data, one, side).items():
            shares.add(program, (factors[said, side] == truth)[use & there & (truth > 0)])
    words = {None: "no tick of a program that was held out", True: "no tick with a desktop", False: "none without one"}
    return shares.pct(words[desktop])


def taken(data: Dataset, judged: Sequence[Judged]) -> tuple[float, float]:
    """Of the ticks of programs held out, in per cent: those of a wrong kind taken for known, and those unknown."""
    wrong, unknown = Shares(), Shares()
    for one in judged:
        rows = np.flatnonzero(one.test)
        use, known = evaluation.running(data)[rows], one.outcome.known
        missed = one.outcome.blended.argmax(axis=1) != data.y[rows]
        for program, there in _new(data, one).items():
            wrong.add(program, (known & missed)[use & there])
            unknown.add(program, ~known[use & there])
    why = "no program was held out"
    return wrong.pct(why), unknown.pct(why)


def right(data: Dataset, judged: Sequence[Judged]) -> float:
    """Of the ticks of programs held out, in per cent: those whose most probable class is right."""
    shares = Shares()
    for one in judged:
        hits = one.outcome.blended.argmax(axis=1) == data.y[one.test]
        for program, there in _new(data, one).items():
            shares.add(program, hits[there & evaluation.running(data)[one.test]])
    return shares.pct("no program was held out")


def voted(data: Dataset, judged: Sequence[Judged], schedulers: Array) -> tuple[float, float]:
    """After voting, ticks whose class has stood for a window, in per cent: right ones, and those under a scheduler
    that another kind has. Where nothing is decided, and under EEVDF, none is wrong."""
    hits, wrong = Shares(), Shares()
    for one in judged:
        part = data.select(one.test)
        decided, stood = evaluation.decided(part, one.outcome.blended, Voting(), known=one.outcome.known)
        use = stood & evaluation.running(part)
        force = _in_force(decided, schedulers)
        other = (force != str(EEVDF)) & (force != schedulers[part.y])
        for program, there in _new(data, one).items():
            hits.add(program, (decided == part.y)[use & there])
            wrong.add(program, other[use & there])
    why = "no session is as long as the voting's window"
    return hits.pct(why), wrong.pct(why)


def no_kind(data: Dataset, test: Array, outcome: Outcome, schedulers: Array) -> float:
    """Of recordings of no kind, ticks after voting under another scheduler than EEVDF, in per cent."""
    names = programs.by_kind(data, test).get(OTHER, ())
    if len(names) < LEAST_SITUATIONS:
        raise AsaError(f"recordings of {len(names)} situations of no kind, {LEAST_SITUATIONS} are needed; record them")
    part, shares = data.select(test), Shares()
    decided, stood = evaluation.decided(part, outcome.blended, Voting(), known=outcome.known)
    force = _in_force(decided, schedulers)
    for name in names:
        shares.add(name, (force != str(EEVDF))[stood & programs.plays(part, {name})])
    return shares.pct("no session is as long as the voting's window")


def _in_force(decided: Array, schedulers: Array) -> Array:
    return np.where(decided >= 0, schedulers[decided], str(EEVDF))


def _new(data: Dataset, one: Judged, side: int | None = None) -> dict[str, Array]:
    # by program that was held out (of this half), those of the test rows in whose session it plays, bool (m,)
    session = data.session[one.test]
    found: dict[str, list[int]] = {}
    for number in np.unique(session).tolist():
        for name, kind in programs_of(data.sessions[number]).items():
            if name in one.away and (side is None or halves_of(kind)[side]):
                found.setdefault(name, []).append(number)
    return {name: np.isin(session, numbers) for name, numbers in found.items()}
