# SPDX-License-Identifier: GPL-2.0-only
"""A journal read tick by tick: samples, the decisions made on them and the events heard, side by side.

Streams: a week of ticks passes through without being held. The journal stays as it is, also while an agent writes it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from asa.core.decision import Decision, Order, SchedulerName, SwitchEvent
from asa.core.sample import RawSample
from asa.journal import Journal

_PACKED = ".xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick. `decision` is None in recordings; `news` are the events that came since the tick before."""

    sample: RawSample
    decision: Decision | None
    news: tuple[SwitchEvent, ...]
    orders: tuple[Order, ...] = ()  # what a person said, obeyed in this tick
    sizes: Mapping[SchedulerName, int] = field(default_factory=dict)  # of waiting schedulers, as far as known


def opened(path: Path) -> Journal:
    """A journal for reading, or a packed recording (`.xz`). Raises JournalError."""
    return Journal.unpack(path) if path.suffix == _PACKED else Journal.look(path)


def ticks(journal: Journal, session: int) -> Iterator[Tick]:
    """Ticks of a session in order. What came after the last sample is in `late`."""
    decisions, events = journal.decisions(session), journal.events(session)
    decision, event = next(decisions, None), next(events, None)
    for sample in journal.samples(session):
        at_ns = sample.monotonic_ns
        while decision is not None and decision.monotonic_ns < at_ns:  # its sample went first: the journal is bounded
            decision = next(decisions, None)
        news = []
        while event is not None and event.monotonic_ns <= at_ns:
            news.append(event)
            event = next(events, None)
        mine = decision if decision is not None and decision.monotonic_ns == at_ns else None
        yield Tick(sample=sample, decision=mine, news=tuple(news))


def late(journal: Journal, session: int, last_ns: int) -> tuple[SwitchEvent, ...]:
    """Events after the last sample, which no tick has heard."""
    return tuple(event for event in journal.events(session) if event.monotonic_ns > last_ns)
