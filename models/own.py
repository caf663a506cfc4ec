# SPDX-License-Identifier: GPL-2.0-only
"""What this machine's own journals teach: rows with a label that a person gave, or that the model itself is sure of.

Reads sessions of journals and replays them by the functions of the agent. A labelled session (`asa lab record`) has its
label; its marks tell which part of it. A session of the agent has none: there a stretch counts whose class stands for
long, that the model and each of its members agree on (`Sure`); all ticks of the stretch then have that class, also
those in which the model was wrong for a moment. It trains nothing.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np

from asa.core.decision import FeatureFrame, Judgement, Workload
from asa.core.errors import ModelError
from asa.core.kinds import among
from asa.core.mark import SEQUENCE, Mark, Phase
from asa.core.sample import RawSample
from asa.journal import Journal
from models import features
from models.artefact import Array, Part


class Tick(NamedTuple):
    """What the model sees of the time between two samples (CLOCK_MONOTONIC, ns)."""

    since_ns: int
    at_ns: int
    wall_ns: int  # CLOCK_REALTIME at `at_ns`
    frame: FeatureFrame


class Judged(NamedTuple):
    """What the model makes of a tick, in little room."""

    at_ns: int
    wall_ns: int
    row: Array  # float32 (F,)
    distribution: Array  # float32 (K,)
    known: bool
    first: Array  # uint8 (heads, members): each member's most probable class


class Judge(Protocol):
    """The model in use, as the agent has it (`models.runtime`)."""

    classes: tuple[Workload, ...]
    parts: tuple[Part, ...]
    places: Array

    def judge(self, frame: FeatureFrame) -> Judgement:
        """Distribution of one frame, and whether it looks like anything known."""

    def members(self, frame: FeatureFrame) -> list[Array]:
        """Distributions of the single members of each head, (members, K of the head)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sure:
    """When the model's own word is taken for the truth."""

    least_s: float = 30.0  # a stretch stands for so long
    edge_s: float = 6.0  # left out at both ends: there features look back over the change
    smooth_ticks: int = 11  # classes stand in a mean over so many ticks, the tick in their middle
    most_gap_s: float = 3.0  # between two ticks of a stretch; of a session with slower ticks:
    most_gap_ticks: float = 1.5  # of their median distance, halfway to one that is missing; `interval_s` may be 5 s
    stable_share: float = 0.8  # of its ticks, the class is the most probable one
    confident_mean: float = 0.7  # the class's mean probability
    known_share: float = 0.9  # of its ticks, the model knows what it sees
    member_share: float = 0.5  # of its ticks, each single member has the class first, in each head
    most_rows: int = 300  # of a stretch; of a longer one, rows at even distances
    apart_s: float = 600.0  # stretches closer together than this are held out together or not at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """n rows of F features from U units. A unit is held out as a whole: a recorded session, or stretches close by."""

    x: Array  # float32 (n, F), NaN where unknown
    label: tuple[str, ...]  # (n,)
    unit: Array  # intp (n,)
    units: tuple[str, ...]  # what each is, for people
    starts: tuple[tuple[int, int], ...]  # (wall, monotonic) ns of the sessions' first samples, to find leaks by
    by_hand: int  # rows that a person labelled
    sha256: str

    def labels(self) -> tuple[str, ...]:
        """All labels, sorted."""
        return tuple(sorted(set(self.label)))


def ticks(samples: Iterable[RawSample]) -> Iterator[Tick]:
    """Those pairs of samples that the agent would judge."""
    for tick in features.ticks(samples):
        if tick.window is not None:
            yield Tick(tick.since_ns, tick.at_ns, tick.wall_ns, features.frame(tick.window))


def gather(journals: Iterable[tuple[str, Journal]], judge: Judge, sure: Sure, *, by_hand_only: bool = False) -> Own:
    """Rows of all sessions of journals, each with its name. Raises JournalError, and ModelError for a label that the
    model does not have, a session that stands twice, and when there is nothing to learn from."""
    made = _Gathered()
    for name, journal in journals:
        for session in journal.sessions():
            samples = journal.samples(session.number)  # one by one: an agent's session may be days long
            label = session.header.label
            if label == SEQUENCE:
                continue  # kept to judge voting by
            first = None if by_hand_only and not label else next(samples, None)
            if first is None:
                continue
            made.session(f"{name}: session {session.number}", first)
            found = ticks(chain((first,), samples))
            if label:
                _add_labelled(made, label, found, tuple(journal.marks(session.number)), judge.classes)
            else:
                _add_stretches(made, found, judge, sure)
    if not made.label:
        raise ModelError(
            "nothing to learn from in these journals: no labelled session, and no stretch that the model is sure of; "
            "record some by `asa lab record --label`"
        )
    return made.own()


class _Last(NamedTuple):
    end_ns: int  # CLOCK_MONOTONIC
    end_wall_ns: int
    unit: int


class _Gathered:
    """What `gather` has found so far."""

    def __init__(self) -> None:
        self.x: list[Array] = []
        self.label: list[str] = []
        self.unit: list[int] = []
        self.units: list[str] = []
        self.starts: dict[tuple[int, int], str] = {}
        self.by_hand = 0
        self.last: dict[str, _Last] = {}  # stretch of each class, also of the sessions before

    def session(self, name: str, first: RawSample) -> None:
        key = (first.wall_ns, first.monotonic_ns)
        if key in self.starts:
            raise ModelError(f"{name} stands in {self.starts[key]} too; name each recording once")
        self.starts[key] = name
        self.name = name

    def add(self, rows: Sequence[Array], label: str, unit: int | None = None) -> int:
        if unit is None:
            unit = len(self.units)
            self.units.append(f"{self.name}: {label}")
        self.x += rows
        self.label += [label] * len(rows)
        self.unit += [unit] * len(rows)
        return unit

    def own(self) -> Own:
        x = np.stack(self.x)
        total = hashlib.sha256(repr((features.SCHEMA, features.NAMES, self.label, self.unit)).encode())
        total.update(x.tobytes())
        return Own(
            x=x,
            label=tuple(self.label),
            unit=np.array(self.unit, dtype=np.intp),
            units=tuple(self.units),
            starts=tuple(self.starts),
            by_hand=self.by_hand,
            sha256=total.hexdigest(),
        )


def _add_labelled(
    made: _Gathered, label: str, found: Iterable[Tick], marks: Sequence[Mark], classes: Sequence[Workload]
) -> None:
    label = among(label, classes)
    if label not in classes:
        raise ModelError(
            f"{made.name} is of {label!r}, which the model in use does not know; `asa lab train` makes one that does"
        )
    # a session without marks was recorded while its use already went on
    starts, phases = [mark.monotonic_ns for mark in marks], [mark.phase for mark in marks]
    rows = []
    for tick in found:
        middle_ns = (tick.since_ns + tick.at_ns) // 2
        if not marks or phases[max(0, bisect_right(starts, middle_ns) - 1)] is Phase.RUNNING:
            rows.append(_row(tick.frame))
    if rows:
        made.add(rows, label)
        made.by_hand += len(rows)


def _add_stretches(made: _Gathered, found: Iterable[Tick], judge: Judge, sure: Sure) -> None:
    seen = [judged(tick, judge) for tick in found]
    for first, after, place in stretches(seen, _in_heads(judge), sure):
        label = str(judge.classes[place])
        begin, end = seen[first], seen[after - 1]
        edge_ns = int(sure.edge_s * 1e9)
        inner = [one.row for one in seen[first:after] if begin.at_ns + edge_ns <= one.at_ns <= end.at_ns - edge_ns]
        step = max(1, -(-len(inner) // sure.most_rows))
        # a unit holds one label, so that holding it out takes nothing else along
        last, unit = made.last.get(label), None
        # by either clock: an agent that was started again goes on in another session, perhaps after a reboot
        if last is not None:
            apart_ns = min(abs(begin.at_ns - last.end_ns), abs(begin.wall_ns - last.end_wall_ns))
            unit = last.unit if apart_ns < sure.apart_s * 1e9 else None
        unit = made.add(inner[::step], label, unit)
        made.last[label] = _Last(end_ns=end.at_ns, end_wall_ns=end.wall_ns, unit=unit)


def judged(tick: Tick, judge: Judge) -> Judged:
    """What the model makes of a tick."""
    found = judge.judge(tick.frame)
    return Judged(
        at_ns=tick.at_ns,
        wall_ns=tick.wall_ns,
        row=_row(tick.frame),
        distribution=np.array(found.probabilities.values, dtype=np.float32),
        known=found.known,
        first=np.array([of_head.argmax(axis=1) for of_head in judge.members(tick.frame)], dtype=np.uint8),
    )


def _in_heads(judge: Judge) -> Array:
    # of each class its number in each head, intp (K, heads)
    return np.stack(np.unravel_index(judge.places, tuple(len(one.classes) for one in judge.parts)), axis=1)


def stretches(seen: Sequence[Judged], in_heads: Array, sure: Sure) -> Iterator[tuple[int, int, int]]:
    """(first, after, class) of the stretches in a session that the model is sure of, by place in `seen`.

    `in_heads`: the number of each class in each of the model's heads, intp (K, heads).
    """
    if len(seen) < 2:  # a single tick does not stand for long
        return
    blended = np.array([one.distribution for one in seen])
    known = np.array([one.known for one in seen])
    first = np.array([one.first for one in seen])
    at_ns = np.array([one.at_ns for one in seen], dtype=np.int64)
    apart_ns = np.diff(at_ns)
    most_ns = max(sure.most_gap_s * 1e9, sure.most_gap_ticks * float(np.median(apart_ns)))
    breaks = np.flatnonzero(apart_ns > most_ns) + 1
    for part in np.split(np.arange(len(seen)), breaks):
        standing = _smooth(blended[part], sure.smooth_ticks).argmax(axis=1)
        for run in np.split(part, np.flatnonzero(np.diff(standing)) + 1):
            place = int(standing[run[0] - part[0]])
            long = at_ns[run[-1]] - at_ns[run[0]] >= sure.least_s * 1e9
            stable = (blended[run].argmax(axis=1) == place).mean() >= sure.stable_share
            confident = blended[run, place].mean() >= sure.confident_mean
            agreed = (first[run] == in_heads[place][None, :, None]).mean(axis=0).min() >= sure.member_share
            if long and stable and confident and agreed and known[run].mean() >= sure.known_share:
                yield int(run[0]), int(run[-1]) + 1, place


def _smooth(distributions: Array, ticks: int) -> Array:
    # mean over `ticks` around each row, over fewer at the ends
    half = ticks // 2
    sums = np.concatenate([np.zeros((1, distributions.shape[1])), distributions.cumsum(axis=0)])
    rows = np.arange(len(distributions))
    low, high = np.maximum(0, rows - half), np.minimum(len(rows), rows + half + 1)
    return np.asarray((sums[high] - sums[low]) / (high - low)[:, None])


def _row(frame: FeatureFrame) -> Array:
    return np.asarray(frame.values, dtype=np.float32)
