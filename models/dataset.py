# SPDX-License-Identifier: GPL-2.0-only
"""From labelled recordings to arrays: one row for each pair of consecutive samples, and which session it came from.

Takes recordings that somebody else has read (`asa.cli.train` unpacks journals), derives rates and features with the
same functions as the agent, and refuses recordings that would make a figure worthless. Also deals sessions into folds,
so that nobody ever splits by rows.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from asa.core.errors import ModelError
from asa.core.sample import RawSample
from collectors import rates
from models import features
from models.artefact import Array

LEAST_SESSIONS = 3  # of a label in a place: one to test on, one to choose by, one to train on
# Parts of a sample that the first recordings did not have.
_LATER = frozenset({"suspended_ns", "probes", "desktop", "gpu", "groups", "timer", "battery_saver", "on_battery"})


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

    @property
    def in_lab(self) -> bool:
        """Whether the place is the lab (its name begins so)."""
        return self.place.startswith("lab")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """n rows of F features from S sessions, classes in alphabetical order."""

    x: Array  # float32 (n, F), NaN where unknown
    y: Array  # intp (n,), class by number
    session: Array  # intp (n,), index into `sessions`; rows of a session stand together in order of time
    at_ns: Array  # int64 (n,), CLOCK_MONOTONIC of the later sample
    classes: tuple[str, ...]
    sessions: tuple[Recording, ...]
    sha256: str  # over features, labels, places and samples

    def places(self) -> tuple[str, ...]:
        """All places, sorted."""
        return tuple(sorted({session.place for session in self.sessions}))

    def cells(self) -> Array:
        """Number of (label, place) of each row, intp (n,)."""
        keys = [(session.label, session.place) for session in self.sessions]
        known = {key: number for number, key in enumerate(sorted(set(keys)))}
        return np.array([known[key] for key in keys], dtype=np.intp)[self.session]

    def balanced(self) -> Array:
        """Weights (n,) with mean 1 under which every label in every place counts the same."""
        cells = self.cells()
        weight = 1.0 / np.bincount(cells)[cells]
        return np.asarray(weight / weight.mean())


def assemble(recordings: Iterable[Recording], *, least_sessions: int = LEAST_SESSIONS) -> Dataset:
    """Rows of all recordings. Raises ModelError when there are none, a label is missing, a session stands twice, a
    label has fewer than `least_sessions` sessions in a place, or a session gives no rows."""
    sessions = tuple(sorted(recordings, key=lambda it: (it.label, it.place, it.seed or 0, it.started_ns)))
    _check(sessions, least_sessions)
    classes = tuple(sorted({session.label for session in sessions}))
    total = hashlib.sha256(repr((features.SCHEMA, features.NAMES)).encode())
    parts, counts, at_ns = [], [], []
    for session in sessions:
        rows, times = _rows(session)
        # the samples and not the rows: a mathematics library may differ in a row's last bit
        total.update(f"{session.label}\n{session.place}\n".encode() + _encoded(session.samples))
        parts.append(rows)
        counts.append(len(rows))
        at_ns += times
    session_of = np.repeat(np.arange(len(sessions)), counts)
    of_class = np.array([classes.index(session.label) for session in sessions], dtype=np.intp)
    return Dataset(
        x=np.concatenate(parts),
        y=of_class[session_of],
        session=session_of,
        at_ns=np.array(at_ns, dtype=np.int64),
        classes=classes,
        sessions=sessions,
        sha256=total.hexdigest(),
    )


def _encoded(samples: Sequence[RawSample]) -> bytes:
    # Parts of a sample that came to be after a recording was made are not part of it.
    bodies = [msgspec.to_builtins(sample) for sample in samples]
    return msgspec.msgpack.encode(
        [{key: part for key, part in body.items() if part is not None or key not in _LATER} for body in bodies]
    )


def deal(data: Dataset, use: Array, most: int) -> Array:
    """Fold of each row, intp (n,), -1 where `use` (bool (n,)) is false.

    Sessions of a label in a place are dealt out in turn to as many folds as the largest such group has sessions, at
    most `most` (3 at least, or a fold may leave a single session of a group); so each fold takes whole sessions, and
    at most one of a group while there are enough folds.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number in np.unique(data.session[use]).tolist():
        groups[data.sessions[number].label, data.sessions[number].place].append(number)
    folds = min(most, max(len(group) for group in groups.values()))
    fold_of = np.full(len(data.sessions), -1, dtype=np.intp)
    for group in groups.values():
        for position, number in enumerate(group):
            fold_of[number] = position % folds
    return np.where(use, fold_of[data.session], -1)


def _rows(session: Recording) -> tuple[Array, list[int]]:
    frames, times = [], []
    for previous, sample in zip(session.samples, session.samples[1:], strict=False):
        derived = rates.derive(previous, sample)
        if derived is None or sample.cpu is None:
            continue  # a gap, or CPU counters missing this once: the agent would judge nothing here either
        frames.append(features.frame(derived, len(sample.cpu.cores)).values)
        times.append(sample.monotonic_ns)
    if not frames:
        raise ModelError(f"{session.source}: no two consecutive samples of {session.label!r} in it; record it again")
    return np.array(frames, dtype=np.float64).astype(np.float32), times


def _check(sessions: tuple[Recording, ...], least_sessions: int) -> None:
    if not sessions:
        raise ModelError("no recordings to train on; make some with `asa record`")
    seen: dict[tuple[str, int, int], str] = {}
    for session in sessions:
        if not session.label:
            raise ModelError(f"{session.source}: a session without a label; record it with `asa record --label`")
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
