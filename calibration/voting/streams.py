# SPDX-License-Identifier: GPL-2.0-only
"""Streams that filters are judged on: distributions tick by tick, and what was true meanwhile.

Made from three sources: recorded sequences (marks say what was there), predictions for held-out sessions spliced one
after the other, and chance (tests, and to see what a filter does with errors of a known kind). It trains nothing.
"""

import random
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from asa.core.decision import Probabilities, Workload
from asa.core.errors import ModelError
from asa.core.mark import Mark, Phase
from models.artefact import Array

IDLE = Workload("idle")
LEAST_S, MOST_S = 20.0, 40.0
"""How long a scenario of a sequence lasts."""

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which one class is true. Times are CLOCK_MONOTONIC in ns, the end excluded."""

    workload: Workload
    changes_ns: int  # when the first of its applications began to come, or one of the last to go
    start_ns: int  # when all of it works
    end_ns: int  # when the first of it goes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One session. `ticks`: time and distribution, None where the agent had nothing to judge by.

    Sessions of one `group` played the same (one seed on two machines): they choose or report together.
    """

    name: str
    group: str
    ticks: tuple[tuple[int, Probabilities | None], ...]
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        """From its first tick to its last."""
        return (self.ticks[-1][0] - self.ticks[0][0]) / 1e9 if self.ticks else 0.0


def label(mark: Mark) -> Workload:
    """What a mark says is there, as the catalogue writes it."""
    return Workload("+".join(part for part in (mark.interactive, mark.background) if part) or IDLE)


def spans(marks: Sequence[Mark], end_ns: int) -> tuple[Span, ...]:
    """Times in which one thing works, or nothing; coming and going is in none. `end_ns` is that of the session."""
    found: list[Span] = []
    changes_ns: int | None = None
    ends = [*(mark.monotonic_ns for mark in marks[1:]), end_ns]
    for mark, ended_ns in zip(marks, ends, strict=True):
        if changes_ns is None:
            changes_ns = mark.monotonic_ns
        if mark.phase in (Phase.STARTING, Phase.ENDING):
            continue
        if ended_ns > mark.monotonic_ns:
            if found and found[-1].workload == label(mark) and found[-1].end_ns == mark.monotonic_ns:
                found[-1] = Span(
                    workload=label(mark), changes_ns=found[-1].changes_ns, start_ns=found[-1].start_ns, end_ns=ended_ns
                )
            else:
                found.append(
                    Span(workload=label(mark), changes_ns=changes_ns, start_ns=mark.monotonic_ns, end_ns=ended_ns)
                )
        changes_ns = None
    return tuple(found)


def splice(
    sessions: Mapping[Workload, Sequence[Sequence[Probabilities]]], *, count: int, scenarios: int, seed: int
) -> list[Stream]:
    """Sequences as `asa lab record --sequence` plays them, of predictions for sessions of one label, a tick a second.

    `sessions` are such sessions by their label. A span is a stretch of one session, 20 to 40 s or all it has; two
    after each other differ in label. There is no coming and going between them: what a real change looks like is
    missing.
    """
    labels = sorted(sessions)
    if len(labels) < 2:
        raise ModelError(f"sessions of {len(labels)} labels: no change to be made of them; two are needed")
    made = []
    for number in range(count):
        rng = random.Random(f"splice {seed} {number}")  # noqa: S311
        ticks: list[tuple[int, Probabilities | None]] = []
        parts: list[Span] = []
        for _ in range(scenarios):
            last = parts[-1].workload if parts else None
            name = rng.choice([one for one in labels if one != last])
            session = rng.choice(sessions[name])
            length = min(len(session), round(rng.uniform(LEAST_S, MOST_S)))
            first = rng.randrange(len(session) - length + 1)
            start_ns = _after(ticks)
            ticks += [
                ((len(ticks) + 1 + place) * _SECOND_NS, one)
                for place, one in enumerate(session[first : first + length])
            ]
            parts.append(Span(workload=name, changes_ns=start_ns, start_ns=start_ns, end_ns=_after(ticks)))
        made.append(Stream(name=f"spliced {seed}.{number}", group=f"{number}", ticks=tuple(ticks), spans=tuple(parts)))
    return made


def _after(ticks: Sequence[object]) -> int:
    # The tick at a change is the last of the old class: its rates are of the time before.
    return len(ticks) * _SECOND_NS + 1 if ticks else 0


def held_out(path: Path) -> dict[Workload, list[list[Probabilities]]]:
    """Sessions by label from a table of held-out predictions: an .npz with `probabilities` (n, K), `y` (n,),
    `session` (n,), `classes` (K,), rows of a session in order of time. Raises ModelError."""
    try:
        with np.load(path, allow_pickle=False) as table:
            values, y, session = table["probabilities"], table["y"], table["session"]
            classes = tuple(Workload(str(name)) for name in table["classes"])
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path}: no table of held-out predictions: {error}; make one by `asa lab train`") from error
    rows = len(y)
    fits = values.shape == (rows, len(classes)) and session.shape == y.shape == (rows,) and rows > 0
    if not fits or not np.isfinite(values).all() or not 0 <= y.min() <= y.max() < len(classes):
        raise ModelError(f"{path}: its predictions {values.shape!r} do not fit {rows} rows of {len(classes)} classes")
    return by_label(values, y, session, classes)


def by_label(
    values: Array, y: Array, session: Array, classes: Sequence[Workload]
) -> dict[Workload, list[list[Probabilities]]]:
    """Stretches of one label in the arrays that `held_out` reads: a scenario's session has rest before and after it.

    One that is shorter than half of its label's longest is left out: nobody can tell a change by a few seconds of rest.
    """
    found: dict[Workload, list[list[Probabilities]]] = {}
    names = tuple(classes)
    for run in np.split(np.arange(len(y)), np.flatnonzero((np.diff(y) != 0) | (np.diff(session) != 0)) + 1):
        ticks = [Probabilities(classes=names, values=tuple(values[row].tolist())) for row in run]
        found.setdefault(names[int(y[run[0]])], []).append(ticks)
    for name, runs in found.items():
        longest = max(map(len, runs))
        found[name] = [run for run in runs if 2 * len(run) >= longest]
    return found


def simulate(
    classes: Sequence[Workload],
    *,
    seed: int,
    seconds: Sequence[float],
    wrong: float = 0.1,
    sticky: float = 0.5,
    sure: float = 0.7,
) -> Stream:
    """A stream of chance with a known truth: spans of these lengths; a right tick is followed by one that looks like
    another class with probability `wrong`, which lasts on with `sticky`. What is seen has `sure` of the mass."""
    rng = random.Random(seed)  # noqa: S311
    names = tuple(classes)
    ticks: list[tuple[int, Probabilities | None]] = []
    parts: list[Span] = []
    seen: Workload | None = None
    for length in seconds:
        name = rng.choice([one for one in names if not parts or one != parts[-1].workload])
        start_ns = _after(ticks)
        for _ in range(max(1, round(length))):
            if seen is None or rng.random() >= sticky:
                others = [one for one in names if one != name]
                seen = rng.choice(others) if rng.random() < wrong else None
            at_ns = (len(ticks) + 1) * _SECOND_NS
            ticks.append((at_ns, _favour(names, seen or name, min(0.99, rng.uniform(2 * sure - 1, 1.0)))))
        parts.append(Span(workload=name, changes_ns=start_ns, start_ns=start_ns, end_ns=_after(ticks)))
    return Stream(name=f"simulated {seed}", group=f"{seed}", ticks=tuple(ticks), spans=tuple(parts))


def _favour(names: tuple[Workload, ...], name: Workload, share: float) -> Probabilities:
    rest = (1.0 - share) / (len(names) - 1)
    return Probabilities(classes=names, values=tuple([share if one == name else rest for one in names]))


def deal(streams: Sequence[Stream]) -> tuple[list[Stream], list[Stream]]:
    """Sessions to choose by, and others to report on: every other group, in their order, with all of its sessions."""
    first = set(sorted({stream.group for stream in streams})[0::2])
    return [one for one in streams if one.group in first], [one for one in streams if one.group not in first]


def changes(streams: Iterable[Stream]) -> int:
    """How many there are in all."""
    return sum(first.workload != second.workload for one in streams for first, second in pairwise(one.spans))
