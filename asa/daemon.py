# SPDX-License-Identifier: GPL-2.0-only
"""The loop: one wait for tick, signal and switch; it owns the state and hands it through the pure step.

It opens nothing itself: sampler, switcher, journal and status file come in opened, and go back closed by whom opened
them. On every way out but SIGKILL the kernel is back on what ran before (`Switcher.rest`); after SIGKILL the scheduler
ends with the agent, and the next start clears the rest (`asa.act.undo`).
"""

import gc
import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from asa import inbox as inboxes
from asa.core.decision import (
    Decision,
    ExitKind,
    Order,
    OrderKind,
    Permit,
    Reason,
    SchedulerExit,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
)
from asa.core.errors import AsaError, JournalError, SchedulerError
from asa.core.ports import Clock, Sampler, Switcher
from asa.core.sample import RawSample
from asa.decide import knowledge, turns
from asa.decide.books import Books
from asa.decide.knowledge import Known
from asa.decide.learning import Learning
from asa.decide.penalties import Bars
from asa.journal import Journal, Told
from asa.meter import Meter, Part
from asa.pipeline import Setup, State, step

_Kept = TypeVar("_Kept")

# A descriptor that stays readable would have this real-time task starve whoever could change that.
_MOST_WAKES, _BREATH_S = 2000, 0.005
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD)  # the last only wakes it
_LATELY = 32  # events that `asa explain` can look back on
_TIDY_TICKS = 60
_APART_S = 0.25  # between two samples, whatever is asked for in between: rates over a few milliseconds are wild
# How often what was learned is written, and a journal tried again that failed: each time the disk has to wake, what was
# learned grows slowly, and a disk that is full mostly stays so until a person has made room.
_KEEP_S = 600.0


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened since the start."""

    ticks: int = 0
    overruns: int = 0  # ticks that had not ended when the next was due
    worst_late_ms: float = 0.0  # from the time a tick was due to its start, the largest
    switches: int = 0
    failures: int = 0
    last_event: str = ""
    # Each with when it was, in CLOCK_REALTIME ns: told then, for a suspend moves the two clocks apart.
    lately: deque[tuple[int, SwitchEvent]] = field(default_factory=lambda: deque(maxlen=_LATELY))


@dataclass(slots=True, kw_only=True)
class Agent:
    """The agent's loop. `say` gets one line for each thing worth a line; `publish` is called after every tick."""

    setup: Setup
    sampler: Sampler
    switcher: Switcher | None
    clock: Clock
    interval_s: float
    journal: Journal | None
    say: Callable[[str], None]
    publish: Callable[["Agent", Decision], None]
    reload: Callable[[], Setup]
    meter: Meter = field(default_factory=Meter)
    take_orders: Callable[[], tuple[Order, ...]] = tuple  # what the user has asked for since the last SIGUSR1
    lapsed: Callable[[], tuple[Order, ...]] = tuple  # what ends now because a client has gone
    keep_bars: Callable[[Bars], None] = lambda _: None  # raises AsaError when it cannot be written
    keep_learning: Callable[[Learning], None] = lambda _: None  # the same
    keep_known: Callable[[Mapping[int, Known]], None] = lambda _: None  # the same
    costs_us: Callable[[], dict[str, float]] = dict  # of the sources
    told: Callable[[int], Told] | None = None  # what the setup came from, since the sample of that time
    permit: Callable[[], Permit | None] = lambda: None  # what may be done now, where that changes; None: as in `setup`
    journal_again: Callable[["Agent"], Journal | None] = lambda _: None  # another one, after one failed or none began
    late: Callable[[int, int], str] = lambda _start_ns, _end_ns: ""  # of a tick; a line about ticks that come late
    cost_every: int = 60  # ticks: how often the costs of one are journalled
    clean: bool = True  # after `run`: nothing of ours is left in the kernel
    state: State = field(default_factory=State)
    counts: Counts = field(default_factory=Counts)
    _news: list[SwitchEvent] = field(default_factory=list)
    _orders: list[Order] = field(default_factory=list)
    _asked: bool = False  # by SIGUSR1, since the last tick
    _ticked_ns: int = 0  # the loop's time at it
    _wakes: int = 0  # since the last tick
    _sizes: dict[SchedulerName, int] = field(default_factory=dict)  # of standbys that are loaded
    _learned: Learning | None = None  # as it was written last, or found at the start
    _known: Mapping[int, Known] = field(default_factory=dict)  # the same of programs
    _learned_ns: int = 0  # and when
    _unkept_ns: int = 0  # since when there is no journal, or when it was last tried again

    def run(self, limit_s: float | None = None) -> None:
        """Tick until SIGINT or SIGTERM (or for `limit_s`), then put the kernel back.

        SIGHUP reads the settings again, SIGUSR1 takes what the user has asked for (`asa.requests`).
        """
        with inboxes.signals(*_SIGNALS) as inbox, _tidied():
            start_ns = next_ns = self._learned_ns = self._unkept_ns = self.clock.monotonic_ns()
            self._learned, self._known = self.state.books.lessons.kept, self.state.books.knowledge.known
            end_ns = None if limit_s is None else start_ns + int(limit_s * 1e9)
            try:
                while True:
                    now_ns = self.clock.monotonic_ns()
                    if end_ns is not None and now_ns >= end_ns:
                        return
                    self._advance_switch()
                    if now_ns >= next_ns:
                        self.counts.worst_late_ms = max(self.counts.worst_late_ms, (now_ns - next_ns) / 1e6)
                        self._tick(now_ns)
                        next_ns = self._next_tick(next_ns)
                    elif now_ns >= self._due(next_ns):  # who asked is waiting for the answer
                        self._tick(now_ns)
                        next_ns = self._apart(next_ns)
                    if self._wait(inbox, self._due(next_ns)):
                        return
            finally:
                self.clean = self.switcher is None or self.switcher.rest()
                self._write_last()
                self.state = replace(self.state, books=self._ended())
                self._keep_learned()

    def _tick(self, now_ns: int) -> None:
        self.meter.start()
        self._wakes, self._asked, self._ticked_ns = 0, False, now_ns
        self._heed(self.permit())
        if self.journal is None and now_ns - self._unkept_ns >= _KEEP_S * 1e9:
            self._unkept_ns = now_ns
            self.journal = self.journal_again(self)
        sample = self.sampler.sample()
        self.meter.lap(Part.COLLECTION)
        news, self._news = tuple(self._news), []
        orders, self._orders = (*self._orders, *self.lapsed()), []
        before, sizes = self.state.books.bars, dict(self._sizes)
        self.state = step(self.setup, self.state, sample, news, orders, sizes)
        self.meter.lap(Part.STEP)
        decision = self.state.decision
        assert decision is not None  # noqa: S101  # step always decides
        if decision.trial and decision.switch_to is None:  # else the order's sentence has it
            self.say(decision.trial)
        if self.switcher is not None:
            if decision.switch_to is not None:
                if decision.reason is Reason.TRYING:  # that it was tried is known, whatever becomes of the machine
                    self._keep_learned()
                self._order(self.switcher, decision.switch_to, decision.sentence)
            self.switcher.keep_ready(decision.standbys)
            self._sizes = {one.scheduler: one.memory_bytes for one in self.switcher.standbys() if one.ready}
        if self.state.books.bars is not before:
            self._keep(self.keep_bars, self.state.books.bars)
        if sample.monotonic_ns - self._learned_ns >= _KEEP_S * 1e9:
            self._learned_ns = sample.monotonic_ns
            self._keep_learned()
        self.meter.lap(Part.ACTION)
        self._write(sample, decision, news, orders, sizes)
        self.counts.ticks += 1
        self.publish(self, decision)
        if line := self.late(now_ns, self.clock.monotonic_ns()):
            self.say(line)
        if self.counts.ticks % _TIDY_TICKS == 0:
            gc.collect()  # see _tidied

    def _heed(self, permit: Permit | None) -> None:
        if permit is None or permit == self.setup.permit:
            return
        self.setup = replace(self.setup, permit=permit)
        last = self.state.sample
        if last is not None:
            self._tell(Told(monotonic_ns=last.monotonic_ns, may_switch=permit.switch, may_stand_by=permit.stand_by))

    def _tell(self, told: Told) -> None:
        if self.journal is None:
            return
        try:
            self.journal.tell(told)
        except JournalError as error:
            self._go_without(error)

    def _write(
        self,
        sample: RawSample,
        decision: Decision,
        news: tuple[SwitchEvent, ...],
        orders: tuple[Order, ...],
        sizes: dict[SchedulerName, int],
    ) -> None:
        if self.journal is None:
            return
        try:
            self.journal.add(sample, decision, news, orders, sizes)
            self.meter.lap(Part.JOURNAL)
            if self.counts.ticks % self.cost_every == 0:
                self.journal.add_costs(self.meter.costs(sample.monotonic_ns, self.costs_us()))
        except JournalError as error:
            self._go_without(error)

    def _go_without(self, error: JournalError) -> None:
        self.say(f"{error}; going on without a journal for now")
        self.journal, self._unkept_ns = None, self.clock.monotonic_ns()

    def _write_last(self) -> None:
        # What came up since the last tick.
        if self.journal is not None and self._news:
            try:
                self.journal.add_events(tuple(self._news))
            except JournalError as error:
                self.say(str(error))

    def _ended(self) -> Books:
        books, last = turns.ended(self.state.books), self.state.sample
        return books if last is None else replace(books, knowledge=knowledge.ended(books.knowledge, last.wall_ns))

    def _keep_learned(self) -> None:
        kept, known = self.state.books.lessons.kept, self.state.books.knowledge.known
        if kept is not self._learned:
            self._learned = kept
            self._keep(self.keep_learning, kept)
        if known is not self._known:
            self._known = known
            self._keep(self.keep_known, known)

    def _keep(self, write: Callable[[_Kept], None], kept: _Kept) -> None:
        try:
            write(kept)
        except AsaError as error:
            self.say(f"{error}; it is kept for this run only")

    def _order(self, switcher: Switcher, target: SchedulerName, why: str) -> None:
        old = switcher.current() or SchedulerName("")
        try:
            switcher.begin(target, why)
        except AsaError as error:
            refused = SwitchEvent(
                monotonic_ns=self.clock.monotonic_ns(),
                outcome=SwitchOutcome.REFUSED,
                old=old,
                new=target,
                elapsed_ns=0,
                detail=str(error),
                undo="nothing to undo",
                why=why,
                exit=_untried(error, target),
            )
            self.say(f"{why}: switching")
            self._take(refused)
            return
        self.say(f"{why}: switching")  # after the order: it is a matter of milliseconds
        self._advance_switch()

    def _advance_switch(self) -> None:
        if self.switcher is None:
            return
        event = self.switcher.poll()
        if event is not None:
            self._take(event)

    def _take(self, event: SwitchEvent) -> None:
        self._news.append(event)
        ago_ns = self.clock.monotonic_ns() - event.monotonic_ns
        self.counts.lately.append((self.clock.wall_ns() - ago_ns, event))
        match event.outcome:
            case SwitchOutcome.CONFIRMED:
                self.counts.switches += 1
                line = f"{event.old} -> {event.new} in {_took(event)}"
            case SwitchOutcome.SHADOWED:
                line = f"{event.new} chosen (shadow): nothing to load"
                if event.load is not None:
                    line = f"{event.new} loaded and verified in {event.load.wall_ns / 1e9:.2f} s, not attached (shadow)"
            case SwitchOutcome.REFUSED:
                self.counts.failures += 1
                line = f"{event.detail}; {self._aside(event)}{event.old} stays"
            case SwitchOutcome.FAILED | SwitchOutcome.LOST:
                self.counts.failures += 1
                why = f" ({event.exit.kind}: {event.exit.reason})" if event.exit is not None else ""
                line = f"{event.detail}{why}; {self._aside(event)}the kernel is on eevdf"
            case SwitchOutcome.FOREIGN:
                line = f"{event.detail}: on hold until it has ended"
        self.counts.last_event = line
        self.say(line)

    def _aside(self, event: SwitchEvent) -> str:
        held = self.state.books.policy.held
        return "" if held is not None and held.scheduler == event.new else "set aside, "

    def _next_tick(self, due_ns: int) -> int:
        interval_ns = int(self.interval_s * 1e9)
        now_ns = self.clock.monotonic_ns()
        late = (now_ns - due_ns) // interval_ns
        self.counts.overruns += min(late, 1)
        return due_ns + (late + 1) * interval_ns  # absolute: no drift, missed ticks are skipped

    def _due(self, next_ns: int) -> int:
        """When a tick comes: at `next_ns`, or earlier if somebody has asked for something."""
        return min(next_ns, self._ticked_ns + self._apart_ns) if self._asked else next_ns

    def _apart(self, next_ns: int) -> int:
        """The next regular tick after one that came early: not right behind it."""
        near = next_ns - self.clock.monotonic_ns() < self._apart_ns
        return next_ns + int(self.interval_s * 1e9) if near else next_ns

    @property
    def _apart_ns(self) -> int:
        return int(min(_APART_S, self.interval_s / 2.0) * 1e9)

    def _wait(self, inbox: int, next_ns: int) -> bool:
        """Sleep until the next tick, a signal, or news of the switcher. True when it is time to end."""
        timeout_s = max(0.0, (next_ns - self.clock.monotonic_ns()) / 1e9)
        watched: tuple[int, ...] = ()
        if self.switcher is not None:
            watched = self.switcher.descriptors()
            look_s = self.switcher.look_in_s()
            timeout_s = timeout_s if look_s is None else min(timeout_s, look_s)
        if self._wakes > _MOST_WAKES:
            time.sleep(_BREATH_S)
        if inbox not in select.select([inbox, *watched], [], [], timeout_s)[0]:
            self._wakes += 1
            return False
        received = set(os.read(inbox, 64))
        if signal.SIGHUP in received:
            self._reload()
        if signal.SIGUSR1 in received:
            self._orders.extend(self.take_orders())
            self._asked = True
        return bool(received & {signal.SIGINT, signal.SIGTERM})

    def _reload(self) -> None:
        try:
            self.setup = self.reload()
        except AsaError as error:
            self.say(f"{error}; keeping the settings in force")
            return
        self._orders.append(Order(kind=OrderKind.RELOAD))
        if self.state.sample is not None and self.told is not None:
            self._tell(self.told(self.state.sample.monotonic_ns))
        self.say("settings read again; schedulers that had been set aside may be tried again")


def _untried(error: AsaError, target: SchedulerName) -> SchedulerExit | None:
    """Of an order that did not get as far as its scheduler: the error names somebody else, who is to blame."""
    if not isinstance(error, SchedulerError) or error.scheduler == target:
        return None
    return SchedulerExit(kind=ExitKind.WITHDRAWN, reason=str(error), source="the daemon")


def _took(event: SwitchEvent) -> str:
    elapsed_ms = event.elapsed_ns / 1e6
    whole = f"{elapsed_ms:.1f} ms" if elapsed_ms < 1000 else f"{elapsed_ms / 1000:.2f} s"
    return whole if event.gap_ns is None else f"{whole} ({event.way}, {event.gap_ns / 1e6:.1f} ms without either)"


@contextmanager
def _tidied() -> Iterator[None]:
    """A full collection inside takes some 40 us, not 10 ms: it passes over what is there already.

    One is wanted now and then, for it alone empties the free lists of tuples. Each time the shrunk `tuple(x for ...)`
    and tuples of 20 go into them and never out (CPython 3.11), until 2,000 lie there of each of 20 lengths: 100 bytes a
    tick, for hours. By itself the interpreter makes one in days.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
