# SPDX-License-Identifier: GPL-2.0-only
"""A journal read tick by tick: samples, the decisions made on them, what the agent heard and was told, side by side.

Streams: a week of ticks passes through without being held. The journal stays as it is, also while an agent writes it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from asa.core.decision import Decision, Order, SchedulerName, SwitchEvent
from asa.core.sample import RawSample
from asa.journal import Journal, Told

_PACKED = ".xz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick. `decision` is None in recordings; `news` are the events that were heard in it.

    In a journal that does not say in which (before its version 3) they are those that came since the tick before.
    """

    sample: RawSample
    decision: Decision | None
    news: tuple[SwitchEvent, ...]
    orders: tuple[Order, ...] = ()  # what a person said, obeyed in this tick
    sizes: Mapping[SchedulerName, int] = field(default_factory=dict)  # of waiting schedulers, as far as known
    renewed: Told | None = None  # settings were read again: this tick is the first to go by them


class _Moment(msgspec.Struct):
    """Of a sample: one moment on both clocks."""

    monotonic_ns: int
    wall_ns: int


def opened(path: Path) -> Journal:
    """A journal for reading, or a packed recording (`.xz`). Raises JournalError."""
    return Journal.unpack(path) if path.suffix == _PACKED else Journal.look(path)


def ticks(journal: Journal, session: int) -> Iterator[Tick]:
    """Ticks of a session in order. What no tick has heard is in `late`."""
    decisions, events, words = journal.decisions(session), _heard(journal, session), _Words(journal.told(session))
    decision, heard = next(decisions, None), next(events, None)
    for sample in journal.samples(session):
        at_ns = sample.monotonic_ns
        while decision is not None and decision.monotonic_ns < at_ns:  # its sample went first: the journal is bounded
            decision = next(decisions, None)
        news = []
        while heard is not None and heard[0] <= at_ns:
            news.append(heard[1])
            heard = next(events, None)
        mine = decision if decision is not None and decision.monotonic_ns == at_ns else None
        orders, renewed = words.at(at_ns)
        yield Tick(sample=sample, decision=mine, news=tuple(news), orders=orders, sizes=words.sizes, renewed=renewed)


def late(journal: Journal, session: int, last_ns: int) -> tuple[SwitchEvent, ...]:
    """Events that the last tick, at `last_ns`, had not heard."""
    return tuple(event for at_ns, event in _heard(journal, session) if at_ns > last_ns)


def timed(journal: Journal, session: int) -> Iterator[tuple[int, SwitchEvent]]:
    """Events of a session, each with when it was (CLOCK_REALTIME ns); none where no sample is left to tell.

    By the sample nearest to when it was heard: a suspend moves the two clocks apart, and time may be set.
    """
    moments = journal.read("sample", session, _Moment)
    near = after = next(moments, None)
    for heard_ns, event in _heard(journal, session):
        while after is not None and after.monotonic_ns < heard_ns:
            near, after = after, next(moments, None)
        if after is not None and near is not None and after.monotonic_ns - heard_ns <= heard_ns - near.monotonic_ns:
            near = after
        if near is not None:
            yield near.wall_ns + event.monotonic_ns - near.monotonic_ns, event


def _heard(journal: Journal, session: int) -> Iterator[tuple[int, SwitchEvent]]:
    for at_ns, event in journal.heard(session):
        yield event.monotonic_ns if at_ns is None else at_ns, event


class _Words:
    """What the agent was told, tick by tick."""

    def __init__(self, told: Iterator[Told]) -> None:
        self.sizes: Mapping[SchedulerName, int] = {}
        self._told = told
        self._next = next(told, None)
        self._renewed: Told | None = None  # in force from the next tick on

    def at(self, now_ns: int) -> tuple[tuple[Order, ...], Told | None]:
        """Orders obeyed in this tick, and settings that it is the first to go by; `sizes` are then this tick's."""
        orders, renewed = [], self._renewed
        self._renewed = None
        while self._next is not None and self._next.monotonic_ns <= now_ns:
            told, self._next = self._next, next(self._told, None)
            if told.order is not None and told.monotonic_ns == now_ns:
                orders.append(told.order)
            if told.sizes is not None:
                self.sizes = {SchedulerName(name): size for name, size in told.sizes.items()}
            if told.setup_changed():
                if told.monotonic_ns < now_ns:
                    renewed = _together(renewed, told)
                else:
                    self._renewed = _together(self._renewed, told)
        return tuple(orders), renewed


def _together(earlier: Told | None, later: Told) -> Told:
    if earlier is None:
        return later
    given = {name: value for name in Told.__struct_fields__ if (value := getattr(later, name)) not in (None, "")}
    together: Told = msgspec.structs.replace(earlier, **given)
    return together
