# SPDX-License-Identifier: GPL-2.0-only
"""The switcher of the user daemon: the root helper switches, this one asks, and believes nothing but sysfs.

Holds no privilege. When the lease ends, the helper (or the next one, or the kernel) takes our scheduler out; once sysfs
shows that, the loss is reported as one that nobody is to blame for.
"""

import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from asa import wire
from asa.act.helper_link import HelperLink
from asa.act.portfolio import Portfolio
from asa.act.switching import Observing
from asa.bus import CallError
from asa.core.decision import EEVDF, ExitKind, SchedulerExit, SchedulerName, Standby, SwitchEvent, SwitchOutcome, Way
from asa.core.errors import AsaError, SchedulerError
from asa.core.helper_api import PROBES_LIMIT_S, Failure, Verb
from asa.core.ports import Clock

_STANDBYS_EVERY_S = 5.0
_READY_AGAIN_S = 30.0  # until standbys that were refused are asked for again
_LOSS_LIMIT_S = 60.0  # for a restarted helper to clear what its predecessor left (unit: RestartSec, then recovery)
_LOOK_S, _POLL_S = 0.2, 0.02
_OF_THE_SCHEDULER = frozenset({Failure.REFUSED, Failure.UNKNOWN_SCHEDULER})  # of all that the helper may answer


class RemoteSwitcher(Observing):
    """Implements `asa.core.ports.Switcher` over the helper's lease."""

    def __init__(
        self, *, link: HelperLink, portfolio: Portfolio, clock: Clock, sys: Path, answer_limit_s: float
    ) -> None:
        """`answer_limit_s`: how long an order that the helper took may take until it counts as failed."""
        self.asleep = False
        self._link = link
        super().__init__(portfolio=portfolio, clock=clock, sys=sys)
        self._limit_s = answer_limit_s
        self._ours: SchedulerName = EEVDF  # what an event has confirmed
        self._target: SchedulerName | None = None
        self._why = ""
        self._ordered_ns = 0
        self._taken_ns: int | None = None  # when the helper had taken the order
        self._events: deque[SwitchEvent] = deque()
        self._wanted: tuple[SchedulerName, ...] = ()
        self._standbys: tuple[Standby, ...] = ()
        self._refused_ns: int | None = None  # when the helper refused what is wanted
        self._asked_ns = 0
        self._lost: tuple[str, int] | None = None  # why the lease ended while something of ours was in force, and when
        link.on_event.append(self._heard)
        link.on_loss.append(self._withdrawn)
        link.on_lease.append(self._leased)

    def busy(self) -> bool:
        """True between `begin` and the event that ends the switch."""
        return self._target is not None

    def begin(self, target: SchedulerName, why: str = "") -> None:
        """Ask for a switch. Raises AsaError when the helper cannot be asked; then nothing has changed."""
        if self.busy():
            raise SchedulerError(scheduler=target, reason="another switch is under way")
        # it does one thing after the other: while it loads the probes it takes no order, and takes this one afterwards
        self._link.call(Verb.SWITCH, (str(target), why), self._answered, PROBES_LIMIT_S)
        self._target, self._why, self._ordered_ns, self._taken_ns = target, why, self._clock.monotonic_ns(), None

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Have the helper keep these ready; none while the machine goes to sleep."""
        wanted = () if self.asleep else wanted
        approved = self._link.facts.approved if self._link.facts is not None else ()
        wanted = tuple(name for name in wanted if name in approved)
        again = self._refused_ns is not None and self._age_s(self._refused_ns) > _READY_AGAIN_S
        if (wanted == self._wanted and not again) or self._link.facts is None:
            return
        try:
            self._link.call(Verb.KEEP_READY, ([str(name) for name in wanted],), self._kept)
        except AsaError:
            return
        self._wanted, self._asked_ns, self._refused_ns = wanted, 0, None

    def _kept(self, answer: tuple[Any, ...] | CallError) -> None:
        if isinstance(answer, CallError):
            self._refused_ns = self._clock.monotonic_ns()

    def standbys(self) -> tuple[Standby, ...]:
        """What waits at the helper, as it said a few seconds ago at most."""
        return self._standbys

    def descriptors(self) -> tuple[int, ...]:
        """The connection to the bus."""
        descriptor = self._link.fileno()
        return (descriptor,) if descriptor >= 0 else ()

    def look_in_s(self) -> float | None:
        """When the link wants to be looked after, or a loss has to show in sysfs."""
        due_s = 0.0 if self._events else self._link.due_in_s()
        if self._lost is None:
            return due_s
        return _LOOK_S if due_s is None else min(due_s, _LOOK_S)

    def poll(self) -> SwitchEvent | None:
        """Take in what the helper said; report at most one event."""
        self._link.advance()
        self._ask_standbys()
        if self._events:
            return self._events.popleft()
        if self._lost is not None:
            return self._gone(*self._lost)
        if self._target is not None and self._taken_ns is not None and self._age_s(self._taken_ns) > self._limit_s:
            return self._fail(SwitchOutcome.FAILED, "the helper did not say what became of the switch")
        return None

    def rest(self) -> bool:
        """Give the lease back and wait until the kernel shows it. Blocks for some seconds at most."""
        ours, self._target = self._ours, None
        clean = self._link.give_up()
        end_ns = self._clock.monotonic_ns() + int(self._limit_s * 1e9)
        while self._in_force(ours) and self._clock.monotonic_ns() < end_ns:
            time.sleep(_POLL_S)
        self._link.close()
        return clean and not self._in_force(ours)

    def _heard(self, body: bytes) -> None:
        try:
            event = wire.from_json(body, SwitchEvent)
        except msgspec.DecodeError as error:
            event = self._event(
                SwitchOutcome.FAILED, f"the helper said what is no event: {error}", self._target or EEVDF
            )
        if event.outcome is SwitchOutcome.CONFIRMED:
            self._ours = event.new
        elif event.outcome in (SwitchOutcome.FAILED, SwitchOutcome.LOST, SwitchOutcome.FOREIGN):
            self._ours = EEVDF
        if event.new == self._target or event.outcome is SwitchOutcome.FOREIGN:
            self._target = None
        self._events.append(event)

    def _answered(self, answer: tuple[Any, ...] | CallError) -> None:
        if not isinstance(answer, CallError):
            self._taken_ns = self._clock.monotonic_ns()
        elif self._target is not None and self._link.facts is not None:
            # else it was not tried: not allowed, busy, no answer in time
            kind = None if answer.name in _OF_THE_SCHEDULER else ExitKind.WITHDRAWN
            self._events.append(self._fail(SwitchOutcome.REFUSED, str(answer.message or answer.name), kind))

    def _fail(self, outcome: SwitchOutcome, detail: str, kind: ExitKind | None = None) -> SwitchEvent:
        assert self._target is not None  # noqa: S101  # only called with one
        target, self._target = self._target, None
        return self._event(outcome, detail, target, kind)

    def _withdrawn(self, reason: str) -> None:
        self._standbys, self._wanted = (), ()
        if self._target is not None or self._ours != EEVDF:
            self._lost = (reason, self._clock.monotonic_ns())

    def _leased(self) -> None:
        self._wanted = ()

    def _gone(self, reason: str, since_ns: int) -> SwitchEvent | None:
        # what was ours is being taken out by somebody else
        if self._in_force(self._ours) and self._age_s(since_ns) < _LOSS_LIMIT_S:
            return None
        name = self._target if self._target is not None else self._ours
        event = self._event(SwitchOutcome.LOST, reason, name, ExitKind.WITHDRAWN)
        self._lost, self._target, self._ours = None, None, EEVDF
        return event

    def _brought_up(self) -> SchedulerName | None:
        return self._ours

    def _in_force(self, name: SchedulerName) -> bool:
        state = self.state()
        if name == EEVDF or state is None or state.state == "disabled":
            return False
        return self._portfolio.name_of_ops(state.ops) == name.bare

    def _ask_standbys(self) -> None:
        now_ns = self._clock.monotonic_ns()
        if not self._wanted or self._link.facts is None or now_ns - self._asked_ns < int(_STANDBYS_EVERY_S * 1e9):
            if not self._wanted:
                self._standbys = ()
            return
        self._asked_ns = now_ns
        self._link.standbys(self._told_standbys)

    def _told_standbys(self, body: bytes) -> None:
        try:
            self._standbys = wire.from_json(body, tuple[Standby, ...])
        except msgspec.DecodeError:
            self._standbys = ()

    def _event(
        self, outcome: SwitchOutcome, detail: str, new: SchedulerName, kind: ExitKind | None = None
    ) -> SwitchEvent:
        now_ns = self._clock.monotonic_ns()
        return SwitchEvent(
            monotonic_ns=now_ns,
            outcome=outcome,
            old=self._ours,
            new=new,
            elapsed_ns=now_ns - self._ordered_ns if self._ordered_ns else 0,
            detail=detail,
            undo="nothing to undo",
            why=self._why,
            way=Way.GATED,
            exit=None if kind is None else SchedulerExit(kind=kind, reason=detail, source="the daemon"),
        )
