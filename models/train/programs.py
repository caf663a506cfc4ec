# SPDX-License-Identifier: GPL-2.0-only
"""Recordings as kinds of use, and folds that keep programs away: what a model is worth on programs that it never saw.

A recording's label becomes a label of kinds, the paper's applications are programs of theirs. A fold keeps one program
of each kind away, with all sessions that it plays in. It tests those sessions, so one of the programs of each is new.
Kinds of which there is one program are always learnt. Recordings of no kind are kept apart: nothing is learnt from
them.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from asa import wire
from asa.core.kinds import IDLE, OTHER, kinds_of, label_of
from asa.core.mark import SEQUENCE, Mark, Phase
from models.artefact import Array
from models.train.dataset import Dataset, Recording, programs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Programs that are kept away, and by them the rows, bool (n,). Other sessions than these two have a part."""

    away: frozenset[str]
    learnt: Array  # of sessions without any of them
    test: Array  # of sessions with one of them


def of_kinds(recordings: Iterable[Recording]) -> tuple[list[Recording], list[Recording]]:
    """The recordings with labels of kinds, and those of no kind as they are. Sequences are left out.

    A label that is not of kinds or applications is a class of its own.
    """
    known, other = list[Recording](), list[Recording]()
    for one in recordings:
        if one.label == OTHER:
            other.append(one)
        elif one.label != SEQUENCE:
            known.append(_of_kinds(one))
    return known, other


def by_kind(data: Dataset, use: Array) -> dict[str, tuple[str, ...]]:
    """The programs of each kind in these rows (bool (n,)), both in alphabetical order."""
    found: dict[str, set[str]] = {}
    for number in np.unique(data.session[use]).tolist():
        for program, kind in programs_of(data.sessions[number]).items():
            found.setdefault(kind, set()).add(program)
    return {kind: tuple(sorted(found[kind])) for kind in sorted(found)}


def plays(data: Dataset, programs: Collection[str]) -> Array:
    """Rows of sessions in which one of these programs plays, bool (n,)."""
    there = [not programs_of(one).keys().isdisjoint(programs) for one in data.sessions]
    return np.array(there, dtype=bool)[data.session]


def splits(data: Dataset, use: Array, most: int | None = None) -> tuple[Split, ...]:
    """These rows (bool (n,)) dealt by programs: as many splits as the largest kind has programs, at most `most`.

    Each program is kept away once; () where no kind has two. Folds inside of a split: the same of its `learnt`.
    """
    several = [programs for programs in by_kind(data, use).values() if len(programs) > 1]
    count = max(map(len, several), default=0)
    count = count if most is None else min(count, max(2, most))
    made = []
    for number in range(count):
        away = frozenset(name for programs in several for name in programs[number::count])
        there = plays(data, away)
        made.append(Split(away=away, learnt=use & ~there, test=use & there))
    return tuple(made)


def partition(data: Dataset, parts: Collection[Split]) -> Array:
    """The one split that judges each row, intp (n,); -1: none.

    A session of two programs has two splits that may: sessions take the first and the second in turn.
    """
    fold, turn = np.full(len(data.y), -1, dtype=np.intp), 0
    tests = np.array([one.test for one in parts])
    for number in np.unique(data.session[tests.any(axis=0)]).tolist():
        own = data.session == number
        may = np.flatnonzero(tests[:, own].any(axis=1))
        fold[own & tests.any(axis=0)] = may[turn % len(may)]
        turn += len(may) > 1
    return fold


def _of_kinds(one: Recording) -> Recording:
    try:
        label = label_of(*kinds_of(one.label))
    except ValueError:
        return one
    marks = tuple(map(_marked, one.marks))
    if not marks:
        front, back = kinds_of(label)
        marks = (Mark(monotonic_ns=0, phase=Phase.RUNNING, interactive=front or "", background=back or ""),)
    parameters = one.parameters if _tells(one) else wire.json_text(dict.fromkeys(programs_of(one), ""))
    return replace(one, label=label, marks=marks, parameters=parameters)


def _tells(one: Recording) -> bool:
    # whether the parameters name the programs; the label of kinds does not any more
    try:
        return len(wire.from_json(one.parameters, dict[str, Any])) == len(programs_of(one))
    except msgspec.DecodeError:
        return False


def _marked(mark: Mark) -> Mark:
    front, back = kinds_of("+".join(part for part in (mark.interactive, mark.background) if part) or IDLE)
    return replace(mark, interactive=front or "", background=back or "")
