# SPDX-License-Identifier: GPL-2.0-only
"""The user daemon's connection to the root helper: finds it, asks for the lease, and notices when either has gone.

Never blocks for longer than a connect, never raises in `advance`. While there is no lease `lacking` says why, and it is
asked for again: soon when the helper has just come or gone, seldom when this machine or its administrator does not
want it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from asa import wire
from asa.bus import Bus, BusError, CallError, Incoming, Rule
from asa.core.errors import SchedulerError
from asa.core.helper_api import BUS_NAME, INTERFACE, LEASE_LIMIT_S, PATH, PROBES_LIMIT_S, Failure, LeaseFacts, Verb
from asa.core.ports import Clock

_PROPERTIES = "org.freedesktop.DBus.Properties"
_CONNECT_AGAIN_S = 5.0
_SOON_S, _LATER_S, _SELDOM_S = 1.0, 30.0, 600.0
_AGAIN_S = {Failure.NOT_POSSIBLE: _SELDOM_S}  # all others: _LATER_S
_NOT_INSTALLED = frozenset({"org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner"})
_ANSWER_S = 30.0  # the helper is started first, and clears what an earlier one left


class HelperLink:
    """`on_connect` is given each new connection, `on_event` the JSON of each event, `on_loss` why a lease ended."""

    def __init__(
        self, connect: Callable[[], Bus], clock: Clock, say: Callable[[str], None], *, observe: bool = False
    ) -> None:
        """With `observe` no lease is asked for; the helper's probes may be, all the same."""
        self.facts: LeaseFacts | None = None
        self.lacking = "by --observe" if observe else "the helper has not been asked yet"
        self._observe = observe
        self.on_connect: list[Callable[[Bus], None]] = []
        self.on_event: list[Callable[[bytes], None]] = []
        self.on_lease: list[Callable[[], None]] = []
        self.on_loss: list[Callable[[str], None]] = []
        self.on_answer: list[Callable[[], None]] = []  # the helper is there, whatever it said
        self.on_gone: list[Callable[[], None]] = []  # the helper's process, or its probes
        self._connect_to = connect
        self._clock = clock
        self._say = say
        self._bus: Bus | None = None
        self._asking = False
        self._again_ns = 0
        self._told = ""

    def fileno(self) -> int:
        """Readable when something came; -1 while there is no bus."""
        return self._bus.fileno() if self._bus is not None else -1

    def due_in_s(self) -> float | None:
        """When `advance` is wanted at the latest."""
        due_s = self._bus.due_in_s() if self._bus is not None else None
        if self.facts is not None or self._asking:
            return due_s
        own_s = max(0.0, (self._again_ns - self._clock.monotonic_ns()) / 1e9)
        return own_s if due_s is None else min(own_s, due_s)

    def advance(self) -> None:
        """Take in what came; connect, or ask for the lease, when it is time to. Never raises."""
        try:
            if self._bus is not None:
                self._bus.advance()
            due = self.facts is None and not self._asking and self._clock.monotonic_ns() >= self._again_ns
            if due and self._bus is None:
                self._connect()
            elif due:
                self._acquire()
            elif self.facts is not None and self._clock.monotonic_ns() >= self._again_ns:
                self._again_ns = self._clock.monotonic_ns() + int(_SELDOM_S * 1e9)
                self._each(self.on_answer)  # what was refused once may be had now
        except BusError as error:
            self._disconnected(str(error))

    def call(
        self,
        verb: Verb,
        body: tuple[Any, ...],
        then: Callable[[tuple[Any, ...] | CallError], None],
        limit_s: float = _ANSWER_S,
    ) -> None:
        """Call the helper under the lease. Raises SchedulerError when there is none."""
        if self._bus is None or self.facts is None:
            raise SchedulerError(scheduler="the helper", reason=self.lacking)

        def answered(answer: tuple[Any, ...] | CallError) -> None:
            then(answer)
            if isinstance(answer, CallError) and answer.name == Failure.NO_LEASE and self.facts is not None:
                self._lost("the helper says that this lease has ended", _SOON_S)  # its signal did not come

        try:
            self._send(self._bus, verb, body, answered, limit_s)
        except BusError as error:
            self._disconnected(str(error))
            raise SchedulerError(scheduler="the helper", reason=self.lacking) from error

    def probes(self, then: Callable[[tuple[Any, ...] | CallError], None]) -> None:
        """Ask for the probes, with or without a lease."""
        with suppress(BusError):  # `advance` will notice
            if self._bus is not None:
                self._send(self._bus, Verb.PROBES, (), then, PROBES_LIMIT_S)

    def standbys(self, then: Callable[[bytes], None]) -> None:
        """Have what waits at the helper told as JSON."""

        def take(answer: tuple[Any, ...] | CallError) -> None:
            if not isinstance(answer, CallError) and answer[0][0] == "s":
                then(answer[0][1].encode())

        with suppress(BusError):  # `advance` will notice
            if self._bus is not None:
                self._bus.send(BUS_NAME, PATH, _PROPERTIES, "Get", "ss", (INTERFACE, "Standbys"), then=take)

    def give_up(self) -> bool:
        """Return the lease and wait until the helper has put the kernel back. False when it did not say so."""
        had, self.facts, self._again_ns = self.facts, None, 2**63
        if had is None or self._bus is None:
            return True
        try:
            self._bus.ask(BUS_NAME, PATH, INTERFACE, Verb.RELEASE.member, limit_s=2 * LEASE_LIMIT_S)
        except BusError as error:
            self._say(f"the helper did not take the lease back: {error}")
            return False
        return True

    def close(self) -> None:
        """Leave the bus; the helper then ends the lease by itself."""
        self.facts = None
        if self._bus is not None:
            self._bus.close()
            self._bus = None

    def _connect(self) -> None:
        self._bus = self._connect_to()
        for hear in self.on_connect:
            hear(self._bus)
        self._bus.watch(Rule(sender=BUS_NAME, path=PATH, interface=INTERFACE, member="Event"), self._event)
        self._bus.watch(Rule(sender=BUS_NAME, path=PATH, interface=INTERFACE, member="LeaseLost"), self._lease_lost)
        self._bus.watch(Rule(sender=BUS_NAME, path=PATH, interface=INTERFACE, member="ProbesLost"), self._probes_lost)
        self._bus.watch_name(BUS_NAME, self._owned)
        self._acquire()

    def _acquire(self) -> None:
        assert self._bus is not None  # noqa: S101  # only called with one
        if self._observe:
            self._again_ns = self._clock.monotonic_ns() + int(_LATER_S * 1e9)
            self._each(self.on_answer)
            return
        self._asking = True
        self._send(self._bus, Verb.ACQUIRE, (), self._acquired, _ANSWER_S)

    @staticmethod
    def _send(
        bus: Bus,
        verb: Verb,
        body: tuple[Any, ...],
        then: Callable[[tuple[Any, ...] | CallError], None],
        limit_s: float,
    ) -> None:
        bus.send(BUS_NAME, PATH, INTERFACE, verb.member, verb.value.takes, body, then=then, limit_s=limit_s)

    def _acquired(self, answer: tuple[Any, ...] | CallError) -> None:
        self._asking = False
        if isinstance(answer, CallError):
            self._refused(answer)
            if answer.name not in _NOT_INSTALLED:
                self._each(self.on_answer)
            return
        try:
            self.facts = wire.from_json(answer[0], LeaseFacts)
        except msgspec.DecodeError as error:
            self._without(f"the helper speaks another version of asa: {error}; restart both", _SELDOM_S)
            return
        self._again_ns = self._clock.monotonic_ns() + int(_SELDOM_S * 1e9)
        self.lacking = self._told = ""
        self._say(f"the helper switches for us ({self.facts.way})")
        self._each(self.on_lease)
        self._each(self.on_answer)

    def _refused(self, error: CallError) -> None:
        if error.name in _NOT_INSTALLED:
            self._without("the helper is not installed; `sudo asa install`", _SELDOM_S)
            return
        known = {one.value: one for one in Failure}.get(error.name)
        self._without(error.message or error.name, _AGAIN_S.get(known, _LATER_S) if known else _LATER_S)

    @staticmethod
    def _each(hearers: list[Callable[[], None]]) -> None:
        for hear in hearers:
            hear()

    def _without(self, reason: str, again_s: float) -> None:
        self.lacking = reason
        self._again_ns = self._clock.monotonic_ns() + int(again_s * 1e9)
        if reason != self._told:
            self._told = reason
            self._say(f"observing only: {reason}")

    def _owned(self, owner: str) -> None:
        if owner:
            if self.facts is None and not self._asking:  # it has just come: what it said before was another one
                self._again_ns = min(self._again_ns, self._clock.monotonic_ns() + int(_SOON_S * 1e9))
        else:
            if self.facts is not None:
                self._lost("the helper has ended", _SOON_S)
            self._each(self.on_gone)

    def _event(self, signal: Incoming) -> None:
        if signal.signature == "s":
            for hear in self.on_event:
                hear(signal.body[0].encode())

    def _lease_lost(self, signal: Incoming) -> None:
        if self.facts is not None and signal.signature == "s":
            self._lost(signal.body[0], _LATER_S)

    def _probes_lost(self, _: Incoming) -> None:
        self._each(self.on_gone)
        self._each(self.on_answer)  # it was another's turn to lose them, perhaps: they are asked for again at once

    def _lost(self, reason: str, again_s: float) -> None:
        self.facts = None
        self._without(reason, again_s)
        for hear in self.on_loss:
            hear(reason)

    def _disconnected(self, reason: str) -> None:
        if self._bus is not None:
            self._bus.close()
            self._bus = None
        self._asking = False
        self._each(self.on_gone)
        if self.facts is not None:
            self._lost(reason, _CONNECT_AGAIN_S)
        else:
            self._without(reason, _CONNECT_AGAIN_S)
