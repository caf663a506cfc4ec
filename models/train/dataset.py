# SPDX-License-Identifier: GPL-2.0-only
"""From labelled recordings to arrays: one row for each pair of consecutive samples, and which session it came from.

Takes recordings that somebody else has read (`asa.cli.lab.train` unpacks journals), derives rates and features with the
same functions as the agent, and refuses recordings that would make a figure worthless. Also deals sessions, or whole
seeds, into folds, so that nobody ever splits by rows.

A session with marks (a scenario's) changes in its course: a row has the phase and the applications of its middle. Rows
before and after are idle; those of starting and ending applications are left out unless they are asked for.
"""

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import numpy as np
import pandas as pd

from asa import wire
from asa.core.errors import ModelError
from asa.core.mark import SEQUENCE, Mark, Phase
from asa.core.sample import RawSample
from models import features
from models.artefact import Array

IDLE = "idle"
"""The class of a machine that nothing plays on."""

LEAST_SESSIONS = 3  # of a label in a place: one to test on, one to choose by, one to train on

OLD_WORTH = 0.2
"""The agent always knows something of single processes, the first recordings did not. Of the pairs of seeds 3 to 7,
each held out, boosted trees alone know 93.2 % when these count half, 94.2 % with a fifth, 95.1 % without them; but
without them 78.9 % of seed 2, which is of another machine and knows no processes, and 88.6 % with a fifth."""

SETTLED = frozenset({Phase.BEFORE, Phase.RUNNING, Phase.AFTER})
"""Phases in which a row's label is certain: those that are trained on."""

PHASES = tuple(Phase)
"""What `Dataset.phase` counts in."""

# Of a sample, what the first recordings had; what else is unknown came to be later, and is no part of what they say.
_FIRST = frozenset(
    {"monotonic_ns", "wall_ns", "cpu", "process", "memory", "paging", "disk", "network", "connections", "pressure"}
    | {"sched_ext"}
)
_WITH_UNKNOWN = frozenset({"probes", "gpu"})  # parts whose unknown fields have always counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One labelled session as it was journalled."""

    source: str  # file name, for messages
    label: str
    place: str  # where it was recorded, as the journal's header has it: the lab with its CPUs, or the host
    seed: int | None
    started_ns: int  # CLOCK_REALTIME
    parameters: str
    samples: tuple[RawSample, ...]
    marks: tuple[Mark, ...] = ()  # of a scenario, in order of time
    tier: str = ""  # of a scenario: real or lab
    scheduler: str = ""  # in force at the start, "" where it was not noted

    @property
    def in_lab(self) -> bool:
        """Whether the place is the lab (its name begins so)."""
        return self.place.startswith("lab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """n rows of F features from S sessions, classes in alphabetical order."""

    x: Array  # float32 (n, F), NaN where unknown
    y: Array  # intp (n,), class by number; -1 where what is there in a starting or ending row is no class
    interactive: Array  # intp (n,), into `interactives`
    background: Array  # intp (n,), into `backgrounds`
    phase: Array  # uint8 (n,), into PHASES; RUNNING in sessions without marks
    session: Array  # intp (n,), index into `sessions`; rows of a session stand together in order of time
    at_ns: Array  # int64 (n,), CLOCK_MONOTONIC of the later sample
    classes: tuple[str, ...]
    interactives: tuple[str, ...]  # "" (none) first, then in alphabetical order, as the next one
    backgrounds: tuple[str, ...]  # what a session without marks is labelled with counts as one of these
    sessions: tuple[Recording, ...]
    sha256: str  # over features, labels, places, marks and samples
    served: tuple[str, ...] = ()  # by class, the scheduler that a mapping table has first; (): not looked up

    def places(self) -> tuple[str, ...]:
        """All places, sorted."""
        return tuple(sorted({session.place for session in self.sessions}))

    def cells(self) -> Array:
        """Number of (class, place) of each row, intp (n,)."""
        places = self.places()
        place = np.array([places.index(session.place) for session in self.sessions], dtype=np.intp)[self.session]
        return np.asarray(np.unique(self.y * len(places) + place, return_inverse=True)[1].reshape(-1))

    def balanced(self) -> Array:
        """Weights (n,) with mean 1 under which every class in every place counts the same, and in it every choice of
        programs that plays it.

        Among its rows those of recordings that know nothing of single processes count `OLD_WORTH` as much as others.
        """
        cells, played = self.cells(), self.played()
        worth = np.where(self.knows_processes(), 1.0, OLD_WORTH)
        weight = worth / np.bincount(played, weights=worth)[played]
        weight /= np.bincount(cells, weights=weight)[cells]
        return np.asarray(weight / weight.mean())

    def played(self) -> Array:
        """Number of each row's class, place and programs, intp (n,). Whatever has been played, at rest all is one."""
        names = np.array(["+".join(sorted(programs_of(one))) for one in self.sessions])[self.session]
        at_rest = np.array([name == IDLE for name in self.classes], dtype=bool)[self.y]
        programs = np.unique(np.where(at_rest, "", names), return_inverse=True)[1].reshape(-1)
        cells = self.cells()
        return np.asarray(np.unique(cells * (programs.max() + 1) + programs, return_inverse=True)[1].reshape(-1))

    def knows_processes(self) -> Array:
        """Rows of recordings that tell what single processes do, as the agent always sees it, bool (n,)."""
        return np.asarray(np.isfinite(self.x[:, features.columns({features.Source.PROCESSES})]).any(axis=1))

    def factors(self) -> Array:
        """For each class its numbers in `interactives` and `backgrounds`, intp (K, 2), -1 where no row tells it."""
        found = np.full((len(self.classes), 2), -1, dtype=np.intp)
        settled = self.y >= 0
        found[self.y[settled], 0] = self.interactive[settled]
        found[self.y[settled], 1] = self.background[settled]
        return found

    def table(self) -> pd.DataFrame:
        """Label, place and seed of each session that has rows, by its number."""
        of = {number: self.sessions[number] for number in np.unique(self.session).tolist()}
        rows = [(one.label, one.place, one.seed) for one in of.values()]
        return pd.DataFrame(rows, index=list(of), columns=["label", "place", "seed"])

    def turns(self, use: Array) -> Array:
        """Of each session that has rows in `use` its place among those of its label and place, -1 of others."""
        turn = np.full(len(self.sessions), -1, dtype=np.intp)
        known = self.table().loc[np.unique(self.session[use])]
        turn[known.index] = known.groupby(["label", "place"]).cumcount()
        return turn

    def seeds(self) -> Array:
        """Number of each row's seed, intp (n,); sessions of one seed share it in every label and place.

        A session without a seed is a group of its own.
        """
        keys = [(0, it.seed) if it.seed is not None else (1, number) for number, it in enumerate(self.sessions)]
        known = {key: number for number, key in enumerate(sorted(set(keys)))}
        return np.array([known[key] for key in keys], dtype=np.intp)[self.session]

    def tier_is(self, tier: str) -> Array:
        """Rows of the sessions of a tier, bool (n,)."""
        return np.array([session.tier == tier for session in self.sessions], dtype=bool)[self.session]

    def select(self, use: Array) -> "Dataset":
        """These rows (bool (n,)) alone; sessions and classes keep their numbers."""
        names = ("x", "y", "interactive", "background", "phase", "session", "at_ns")
        return replace(self, **{name: getattr(self, name)[use] for name in names})

    def without(self, sources: Collection[features.Source], *, suspect: bool = False) -> "Dataset":
        """As a machine sees it that does not have these sources: their columns are unknown."""
        x = self.x.copy()
        x[:, features.columns(sources, suspect=suspect)] = np.nan
        return replace(self, x=x)


class _Row(NamedTuple):
    values: Array
    label: str
    interactive: str
    background: str
    phase: Phase
    at_ns: int


def assemble(
    recordings: Iterable[Recording],
    *,
    least_sessions: int = LEAST_SESSIONS,
    phases: Collection[Phase] = SETTLED,
    names: Sequence[str] = features.NAMES,
) -> Dataset:
    """Rows of all recordings in these phases, with the columns of these names. Raises ModelError when there are none, a
    label is missing, a session stands twice, a label has fewer than `least_sessions` sessions in a place, or a session
    gives no rows.

    Sequences are left out: what voting is judged on, the model must not have seen.
    """
    recordings = [one for one in recordings if one.label != SEQUENCE]
    sessions = tuple(sorted(recordings, key=lambda it: (it.label, it.place, it.seed or 0, it.started_ns)))
    _check(sessions, least_sessions)
    total = hashlib.sha256(repr((features.SCHEMA, tuple(names))).encode())
    rows: list[_Row] = []
    session_of: list[int] = []
    for number, session in enumerate(sessions):
        # the samples and not the rows: a mathematics library may differ in a row's last bit
        total.update(f"{session.label}\n{session.place}\n".encode() + _encoded(session))
        found = [row for row in _rows(session) if row.phase in phases]
        rows += found
        session_of += [number] * len(found)
    classes = tuple(sorted({row.label for row in rows if row.phase in SETTLED}))
    if not rows:
        raise ModelError(f"no row in the phases {', '.join(sorted(phases))}; ask for others")
    fronts = tuple(sorted({"", *(row.interactive for row in rows)}))
    backs = tuple(sorted({"", *(row.background for row in rows)}))
    places = {label: number for number, label in enumerate(classes)}
    picked, x = features.pick(names), np.stack([row.values for row in rows])
    return Dataset(
        x=(x if picked is None else x[:, picked]).astype(np.float32),
        y=np.array([places.get(row.label, -1) for row in rows], dtype=np.intp),
        interactive=np.array([fronts.index(row.interactive) for row in rows], dtype=np.intp),
        background=np.array([backs.index(row.background) for row in rows], dtype=np.intp),
        phase=np.array([PHASES.index(row.phase) for row in rows], dtype=np.uint8),
        session=np.array(session_of, dtype=np.intp),
        at_ns=np.array([row.at_ns for row in rows], dtype=np.int64),
        classes=classes,
        interactives=fronts,
        backgrounds=backs,
        sessions=sessions,
        sha256=total.hexdigest(),
    )


def programs_of(session: Recording) -> dict[str, str]:
    """The programs of a recording and which part of its label each is: those that its parameters name, else the label's
    own parts."""
    parts = [] if session.label == IDLE else session.label.split("+")
    try:
        named = list(wire.from_json(session.parameters, dict[str, Any]))
    except msgspec.DecodeError:
        named = parts
    return dict(zip(named if len(named) == len(parts) else parts, parts, strict=True))


def deal(data: Dataset, use: Array, most: int) -> Array:
    """Fold of each row, intp (n,), -1 where `use` (bool (n,)) is false.

    Sessions of a label in a place are dealt out in turn to as many folds as the largest such group has sessions, at
    most `most` (3 at least, or a fold may leave a single session of a group); so each fold takes whole sessions, and
    at most one of a group while there are enough folds.
    """
    turn = data.turns(use)
    folds = min(most, turn.max() + 1)
    return np.where(use, turn[data.session] % folds, -1)


def deal_seeds(data: Dataset, use: Array, most: int) -> Array:
    """As `deal`, but each fold takes whole seeds, of every label and place; seeds are dealt out in turn.

    Raises ModelError when a fold would take all sessions of a label.
    """
    seed = data.seeds()
    known, position = np.unique(seed[use], return_inverse=True)
    folds = min(most, len(known))
    fold = np.full(len(seed), -1, dtype=np.intp)
    fold[use] = position.reshape(-1) % folds
    held = pd.Series(fold[use]).groupby(data.table().label.loc[data.session[use]].to_numpy()).nunique()
    for label in held.index[held < 2]:
        raise ModelError(f"recordings of {label!r}: all of one group of seeds; record it with other seeds")
    return fold


def _encoded(session: Recording) -> bytes:
    # What came to be after a recording was made, a part or a field of one, is not part of it.
    encoded = msgspec.msgpack.encode([_known(sample) for sample in session.samples])
    return encoded + msgspec.msgpack.encode(session.marks) if session.marks else encoded


def _known(sample: RawSample) -> dict[str, Any]:
    body: dict[str, Any] = msgspec.to_builtins(sample)
    for key, part in list(body.items()):
        if part is None and key not in _FIRST:
            del body[key]
        elif isinstance(part, dict):
            for name in _LATER.get(key, ()):
                if part[name] is None:
                    del part[name]
    return body


def _later(part: str) -> tuple[str, ...]:
    # a field that came later has to have a default, or older journals would not be read
    kind = next((kind for kind in get_args(get_type_hints(RawSample)[part]) if is_dataclass(kind)), None)
    return () if kind is None else tuple(field.name for field in fields(kind) if field.default is None)


_LATER = {field.name: _later(field.name) for field in fields(RawSample) if field.name not in _WITH_UNKNOWN}


def _rows(session: Recording) -> list[_Row]:
    starts = [mark.monotonic_ns for mark in session.marks]
    rows = []
    for tick in features.ticks(session.samples):
        if tick.window is None:
            continue  # the agent would judge nothing here either
        middle_ns = (tick.since_ns + tick.at_ns) // 2
        mark = session.marks[max(0, bisect_right(starts, middle_ns) - 1)] if starts else _whole(session)
        parts = [part for part in (mark.interactive, mark.background) if part]
        rows.append(
            _Row(
                values=features.vector(tick.window),
                label="+".join(parts) or IDLE,
                interactive=mark.interactive,
                background=mark.background,
                phase=mark.phase,
                at_ns=tick.at_ns,
            )
        )
    if not rows:
        raise ModelError(f"{session.source}: no two consecutive samples of {session.label!r} in it; record it again")
    return rows


def _whole(session: Recording) -> Mark:
    # without marks the label holds throughout, and nothing tells its parts
    return Mark(monotonic_ns=0, phase=Phase.RUNNING, background="" if session.label == IDLE else session.label)


def _check(sessions: Sequence[Recording], least_sessions: int) -> None:
    if not sessions:
        raise ModelError("no recordings to train on; make some with `asa lab record`")
    seen: dict[tuple[str, int, int], str] = {}
    for session in sessions:
        if not session.label:
            raise ModelError(f"{session.source}: a session without a label; record it with `asa lab record --label`")
        if not session.samples:
            raise ModelError(f"{session.source}: a session without samples; record it again")
        first = session.samples[0]
        key = (session.place, first.wall_ns, first.monotonic_ns)  # also finds a copy under another label
        if key in seen:
            raise ModelError(f"{session.source}: its session stands in {seen[key]} too; remove one of them")
        seen[key] = session.source
    for (label, place), count in Counter((session.label, session.place) for session in sessions).items():
        if count < least_sessions:
            raise ModelError(
                f"recordings of {label!r} in {place!r}: {count} sessions, {least_sessions} are needed; record more"
            )
    if len({session.label for session in sessions}) < 2:
        raise ModelError(f"recordings of {sessions[0].label!r} only: nothing to tell apart; record other labels")
