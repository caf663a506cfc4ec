# SPDX-License-Identifier: GPL-2.0-only
"""The loop: one wait for tick, signal and switch; it owns the state and hands it through the pure step.

It opens nothing itself: sampler, switcher, journal and status file come in opened, and go back closed by whom opened
them. On every way out but SIGKILL the kernel is back on what ran before (`Switcher.rest`); after SIGKILL the scheduler
ends with the agent, and the next start clears the rest (`asa.act.undo`).
"""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from asa.core.decision import EEVDF, Decision, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, JournalError
from asa.core.ports import Clock, Sampler, Switcher
from asa.journal import Journal
from asa.pipeline import Rules, State, step

_BUSY_POLL_S = 0.02  # how often a switch under way is looked at


@dataclass(slots=True, kw_only=True)
class Counts:
    """What happened since the start."""

    ticks: int = 0
    overruns: int = 0  # ticks that had not ended when the next was due
    worst_late_ms: float = 0.0  # from the time a tick was due to its start, the largest
    switches: int = 0
    failures: int = 0
    last_event: str = ""


@dataclass(slots=True, kw_only=True)
class Agent:
    """The agent's loop. `say` gets one line for each thing worth a line; `publish` is called after every tick."""

    rules: Rules
    sampler: Sampler
    switcher: Switcher | None
    clock: Clock
    interval_s: float
    journal: Journal | None
    say: Callable[[str], None]
    publish: Callable[["Agent", Decision], None]
    reload: Callable[[], Rules]
    clean: bool = True  # after `run`: nothing of ours is left in the kernel
    state: State = field(default_factory=State)
    counts: Counts = field(default_factory=Counts)
    _news: list[SwitchEvent] = field(default_factory=list)

    def run(self, limit_s: float | None = None) -> None:
        """Tick until SIGINT or SIGTERM (or for `limit_s`), then put the kernel back. SIGHUP reloads."""
        with _signals() as inbox:
            start_ns = next_ns = self.clock.monotonic_ns()
            end_ns = None if limit_s is None else start_ns + int(limit_s * 1e9)
            try:
                while True:
                    now_ns = self.clock.monotonic_ns()
                    if end_ns is not None and now_ns >= end_ns:
                        return
                    self._advance_switch()
                    if now_ns >= next_ns:
                        self.counts.worst_late_ms = max(self.counts.worst_late_ms, (now_ns - next_ns) / 1e6)
                        self._tick()
                        next_ns = self._next_tick(next_ns)
                    if self._wait(inbox, next_ns):
                        return
            finally:
                self.clean = self.switcher is None or self.switcher.rest()

    def _tick(self) -> None:
        sample = self.sampler.sample()
        news, self._news = tuple(self._news), []
        self.state = step(self.rules, self.state, sample, news)
        decision = self.state.decision
        assert decision is not None  # noqa: S101  # step always decides
        if self.journal is not None:
            try:
                self.journal.add(sample, decision, news)
            except JournalError as error:
                self.say(f"{error}; going on without a journal")
                self.journal = None
        if decision.switch_to is not None and self.switcher is not None:
            self._order(decision.switch_to, decision.sentence)
        self.counts.ticks += 1
        self.publish(self, decision)

    def _order(self, target: SchedulerName, why: str) -> None:
        assert self.switcher is not None  # noqa: S101  # the policy orders only where there is one
        self.say(f"{why}: switching")
        try:
            self.switcher.begin(target)
        except AsaError as error:
            now_ns = self.clock.monotonic_ns()
            current = self.switcher.current() or SchedulerName("")
            self._take(
                SwitchEvent(
                    monotonic_ns=now_ns,
                    outcome=SwitchOutcome.REFUSED,
                    old=current,
                    new=target,
                    elapsed_ns=0,
                    detail=str(error),
                    undo="nothing to undo",
                )
            )

    def _advance_switch(self) -> None:
        if self.switcher is None:
            return
        event = self.switcher.poll()
        if event is not None:
            self._take(event)

    def _take(self, event: SwitchEvent) -> None:
        self._news.append(event)
        match event.outcome:
            case SwitchOutcome.CONFIRMED:
                self.counts.switches += 1
                line = f"{event.old} -> {event.new} in {event.elapsed_ns / 1e9:.2f} s"
            case SwitchOutcome.REFUSED:
                self.counts.failures += 1
                line = f"{event.detail}; set aside for this run, {event.old} stays"
            case SwitchOutcome.FAILED | SwitchOutcome.LOST:
                self.counts.failures += 1
                line = f"{event.detail}; set aside for this run, the kernel is on eevdf"
            case SwitchOutcome.FOREIGN:
                line = f"{event.detail}: on hold (SIGHUP or a restart resumes)"
        self.counts.last_event = line
        self.say(line)

    def _next_tick(self, due_ns: int) -> int:
        interval_ns = int(self.interval_s * 1e9)
        now_ns = self.clock.monotonic_ns()
        late = (now_ns - due_ns) // interval_ns
        self.counts.overruns += min(late, 1)
        return due_ns + (late + 1) * interval_ns  # absolute: no drift, missed ticks are skipped

    def _wait(self, inbox: int, next_ns: int) -> bool:
        """Sleep until the next tick, a signal, or a look at the switch under way. True when it is time to end."""
        timeout_s = max(0.0, (next_ns - self.clock.monotonic_ns()) / 1e9)
        if self.switcher is not None and self.switcher.busy():
            timeout_s = min(timeout_s, _BUSY_POLL_S)
        if not select.select([inbox], [], [], timeout_s)[0]:
            return False
        received = set(os.read(inbox, 64))
        if signal.SIGHUP in received:
            self._reload()
        return bool(received & {signal.SIGINT, signal.SIGTERM})

    def _reload(self) -> None:
        try:
            self.rules = self.reload()
        except AsaError as error:
            self.say(f"{error}; keeping the settings in force")
            return
        running = self.switcher.current() if self.switcher is not None else None
        memory = self.state.memory
        stranger = memory.foreign and running not in (EEVDF, None)  # a hold ends with the stranger, not before
        self.state = replace(self.state, memory=replace(memory, set_aside=frozenset(), foreign=stranger))
        self.say("settings read again; schedulers that had been set aside may be tried again")


@contextmanager
def _signals() -> Iterator[int]:
    """Signals as bytes on a descriptor, for the loop's single wait. SIGCHLD only wakes it."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    before = {sign: signal.signal(sign, lambda *_: None) for sign in wanted}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for sign, handler in before.items():
            signal.signal(sign, handler)
        os.close(reader)
        os.close(writer)
