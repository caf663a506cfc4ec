# SPDX-License-Identifier: GPL-2.0-only
"""From journals of recorded scenarios to one table, a row a sample: what was there, and all rates and histograms.

Reads journals, packed or not; makes the rows with the same functions as the agent. `models.train.recorded_table`
writes them.
A row stands for the time between two samples, and has the phase and the applications of that time's middle.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path

import numpy as np

from asa.core.decision import EEVDF
from asa.core.errors import JournalError, ModelError
from asa.core.mark import Mark
from asa.core.sample import RawSample
from asa.journal import Journal, SessionHeader
from collectors import rates
from collectors.ebpf.layout import LATENCY_SLOTS, OCTAVE_SLOTS
from collectors.rates.histogram import grown
from models.artefact import Array

PACKED = ".xz"
_PROBES: Mapping[str, int] = {
    "wakeup_latency_hist": LATENCY_SLOTS,
    "requeue_latency_hist": LATENCY_SLOTS,
    "burst_hist": OCTAVE_SLOTS,
    "sleep_hist": OCTAVE_SLOTS,
    "block_latency_hist": LATENCY_SLOTS,
}
_TIMER: Mapping[str, int] = {"late_hist": LATENCY_SLOTS}
_RATES = tuple(field.name for field in fields(rates.Rates))
_HISTOGRAMS = tuple(
    f"{prefix}{name}{slot:03}_per_s"
    for prefix, source in (("", _PROBES), ("timer_", _TIMER))
    for name, slots in source.items()
    for slot in range(slots)
)
VALUES = (*_RATES, *_HISTOGRAMS)
"""Columns of `Rows.values`: the fields of Rates, then each histogram's slots as events a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One session of a journal."""

    source: str  # file name, for messages
    header: SessionHeader
    samples: tuple[RawSample, ...]
    marks: tuple[Mark, ...]

    @property
    def id(self) -> str:
        """The same in every journal that it is copied to, and no other session's."""
        header, first = self.header, self.samples[0]
        facts = (header.host, header.kernel, header.cpus, header.started_ns, first.monotonic_ns)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a row says beside its values."""

    phase: str
    interactive: str
    background: str
    scheduler: str  # in force at the row's end
    at_s: float  # its end, since the session's first sample
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of one session, in order of time."""

    session: Recorded
    rows: tuple[Row, ...]
    values: Array  # float32 (rows, VALUES), NaN where unknown


def read(path: Path) -> Iterator[Recorded]:
    """The sessions of a journal. Raises JournalError with the path: no journal, cut off, of another version."""
    with Journal.unpack(path) if path.suffix == PACKED else Journal.look(path) as journal:
        try:
            for session in journal.sessions():
                yield Recorded(
                    source=str(path),
                    header=session.header,
                    samples=tuple(journal.samples(session.number)),
                    marks=tuple(journal.marks(session.number)),
                )
        except JournalError as error:
            raise JournalError(f"{path}: {error}; record it again") from error


def sessions(paths: Iterable[Path]) -> list[Rows]:
    """All sessions of all journals, by id, whatever the order of the paths.

    Raises JournalError as `read`, and ModelError for a session that stands twice or that no scenario was played in.
    """
    found: dict[str, Rows] = {}
    for path in paths:
        for session in read(path):
            _check(session)
            if session.id in found:
                other = found[session.id].session.source
                words = "twice in it" if other == session.source else f"in {other} too"
                name = f"{session.header.label!r} seed {session.header.seed}"
                raise ModelError(f"{session.source}: its session of {name} stands {words}; name each recording once")
            found[session.id] = rows(session)
    if not found:
        raise ModelError("no session in these journals; record some by `asa lab record --scenario`")
    return [found[key] for key in sorted(found)]


def rows(session: Recorded) -> Rows:
    """Those of one session; a pair of samples that gives no rates gives no row. Raises ModelError without any."""
    first_ns = session.samples[0].monotonic_ns
    starts = [mark.monotonic_ns for mark in session.marks]
    made, values = [], []
    for previous, sample in pairwise(session.samples):
        derived = rates.derive(previous, sample)
        if derived is None:
            continue
        middle_ns = (previous.monotonic_ns + sample.monotonic_ns) // 2
        mark = session.marks[max(0, bisect_right(starts, middle_ns) - 1)]
        elapsed_s = (sample.monotonic_ns - previous.monotonic_ns) / 1e9
        made.append(
            Row(
                phase=mark.phase,
                interactive=mark.interactive,
                background=mark.background,
                scheduler=_scheduler(sample),
                at_s=(sample.monotonic_ns - first_ns) / 1e9,
                elapsed_s=elapsed_s,
            )
        )
        known = [getattr(derived, name) for name in _RATES]
        values.append([*known, *_histograms(previous, sample, elapsed_s)])
    if not made:
        raise ModelError(f"{session.source}: no two consecutive samples of {session.header.label!r}; record it again")
    return Rows(session=session, rows=tuple(made), values=np.array(values, dtype=np.float64).astype(np.float32))


def _check(session: Recorded) -> None:
    if not session.marks or not session.header.label:
        what = f"a session of {session.header.label!r}" if session.header.label else "a session without a label"
        raise ModelError(f"{session.source}: {what} that is no scenario's; record by `asa lab record --scenario`")
    if not session.samples:
        raise ModelError(f"{session.source}: a session of {session.header.label!r} without samples; record it again")


def _histograms(previous: RawSample, sample: RawSample, elapsed_s: float) -> list[float | None]:
    found: list[float | None] = []
    for old, new, table in ((previous.probes, sample.probes, _PROBES), (previous.timer, sample.timer, _TIMER)):
        for name, slots in table.items():
            found += _slots(getattr(old, name, None), getattr(new, name, None), slots, elapsed_s)
    return found


def _slots(
    old: Sequence[int] | None, new: Sequence[int] | None, slots: int, elapsed_s: float
) -> Sequence[float | None]:
    counts = grown(old, new)
    if counts is None or len(counts) != slots:
        return (None,) * slots
    return [count / elapsed_s for count in counts]


def _scheduler(sample: RawSample) -> str:
    state = sample.sched_ext
    return state.ops if state is not None and state.state == "enabled" else EEVDF
