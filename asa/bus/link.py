# SPDX-License-Identifier: GPL-2.0-only
"""A connection to a bus: calls that are answered later or waited for, signals, names, and our objects.

`advance` is called when the descriptor is readable, and when `due_in_s` says so; only `ask`, and the constructors,
ever wait.
"""

import os
import select
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from jeepney import DBusAddress, HeaderFields, MessageFlag, MessageType, new_method_call, new_signal

from asa.bus.serve import Object, Served
from asa.bus.stream import Arrival, BusError, CallError, Incoming, Stream

NO_REPLY = "org.freedesktop.DBus.Error.NoReply"
"""Name of the CallError of a call that was not answered in time."""

Answer: TypeAlias = tuple[Any, ...] | CallError

BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
"""Name, path and interface of the bus itself, as `send` and `ask` take them."""

_BUS, _BUS_PATH, _ = BUS
_DO_NOT_QUEUE = 4
_OWNED = (1, 4)  # RequestName: primary owner, already owner
_SEND_AGAIN_S = 0.05
_MOST_UNREAD = 256  # messages put aside while a call is waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which signals: what is "" is not asked for. Of a well-known `sender` it is the owner that counts.

    There is no rule without a sender: bodies are taken apart that only a trusted one may have sent.
    """

    sender: str
    path: str = ""
    interface: str = ""
    member: str = ""
    arg0: str = ""

    def text(self) -> str:
        """As AddMatch takes it."""
        keys = ("sender", "path", "interface", "member", "arg0")
        given = [f"{key}='{value}'" for key in keys if (value := getattr(self, key))]
        return ",".join(["type='signal'", *given])


@dataclass(slots=True, kw_only=True)
class _Pending:
    """A call under way."""

    then: Callable[[Answer], None]
    due_ns: int
    what: str


class Bus:
    """One connection. Not for several threads."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._served = Served(stream)
        self._pending: dict[int, _Pending] = {}
        self._rules: list[tuple[Rule, Callable[[Incoming], None]]] = []
        self._owners: dict[str, str] = {}  # of the well-known names that rules or watchers name
        self._inbox: deque[Arrival] = deque()
        self.unique_name = ""

    @classmethod
    def open(cls, address: str, limit_s: float = 2.0) -> Self:
        """Connect to the bus at a D-Bus address (`unix:path=…`). Raises BusError."""
        bus = cls(Stream.open(address, limit_s))
        try:
            (bus.unique_name,) = bus.ask(*BUS, "Hello", limit_s=limit_s)
        except BaseException:
            bus.close()
            raise
        return bus

    @classmethod
    def system(cls) -> Self:
        """The system bus. Raises BusError."""
        return cls.open(os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or "unix:path=/run/dbus/system_bus_socket")

    @classmethod
    def session(cls) -> Self:
        """This user's bus. Raises BusError."""
        runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
        return cls.open(os.environ.get("DBUS_SESSION_BUS_ADDRESS") or f"unix:path={runtime}/bus")

    def fileno(self) -> int:
        """Readable when `advance` has something to do."""
        return self._stream.fileno()

    def due_in_s(self) -> float | None:
        """When `advance` is wanted at the latest; None: when the descriptor is readable."""
        if self._inbox:
            return 0.0
        times = [max(0.0, (one.due_ns - time.monotonic_ns()) / 1e9) for one in self._pending.values()]
        if self._stream.waits_to_send:
            times.append(_SEND_AGAIN_S)
        return min(times, default=None)

    def advance(self) -> None:
        """Do what has come since the last time, without waiting.

        Raises BusError when the connection has ended; calls under way are answered with that first.
        """
        try:
            while self._inbox:
                self._handle(self._inbox.popleft())
            self._stream.flush()
            for arrival in self._stream.receive():
                self._handle(arrival)
            while self._inbox:  # a callback has waited for an answer meanwhile
                self._handle(self._inbox.popleft())
        except BusError as error:
            if not isinstance(error, CallError):
                self._fail_all("org.freedesktop.DBus.Error.Disconnected", str(error))
            raise
        now_ns = time.monotonic_ns()
        for serial in [serial for serial, one in self._pending.items() if one.due_ns <= now_ns]:
            late = self._pending.pop(serial, None)
            if late is not None:
                late.then(CallError(NO_REPLY, f"{late.what} was not answered in time"))

    def send(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: tuple[Any, ...] = (),
        *,
        then: Callable[[Answer], None] | None = None,
        limit_s: float = 25.0,
        interactive: bool = False,
        starts: bool = True,
    ) -> int:
        """Make a call; `then` hears of the answer in a later `advance`. Gives the serial. Raises BusError.

        `starts`: whether the bus may start a service that is called.
        """
        address = DBusAddress(path, destination, interface)
        message = new_method_call(address, member, signature or None, body)
        if then is None:
            message.header.flags |= MessageFlag.no_reply_expected
        if interactive:
            message.header.flags |= MessageFlag.allow_interactive_authorization
        if not starts:
            message.header.flags |= MessageFlag.no_auto_start
        serial = self._stream.send(message)
        if then is not None:
            due_ns = time.monotonic_ns() + int(limit_s * 1e9)
            self._pending[serial] = _Pending(then=then, due_ns=due_ns, what=f"{interface}.{member}")
        return serial

    def forget(self, serial: int) -> None:
        """The answer to that call is no longer wanted."""
        self._pending.pop(serial, None)

    def ask(
        self,
        destination: str,
        path: str,
        interface: str,
        member: str,
        signature: str = "",
        body: tuple[Any, ...] = (),
        *,
        limit_s: float = 2.0,
        interactive: bool = False,
    ) -> tuple[Any, ...]:
        """Make a call and wait for its answer; what else comes is kept for `advance`. Raises CallError, BusError."""
        answers: list[Answer] = []
        serial = self.send(
            destination,
            path,
            interface,
            member,
            signature,
            body,
            then=answers.append,
            limit_s=limit_s,
            interactive=interactive,
        )
        end_s = time.monotonic() + limit_s
        try:
            while not answers:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise CallError(NO_REPLY, f"{interface}.{member} was not answered within {limit_s:g} s")
                writing = [self] if self._stream.waits_to_send else []
                select.select([self], writing, [], left_s)
                self._stream.flush()
                for arrival in self._stream.receive():
                    if arrival.field(HeaderFields.reply_serial) == serial:
                        self._handle(arrival)
                    else:
                        self._put_aside(arrival)
        finally:
            self._pending.pop(serial, None)
        answer = answers[0]
        if isinstance(answer, CallError):
            raise answer
        return answer

    def watch(self, rule: Rule, take: Callable[[Incoming], None]) -> None:
        """Hear of signals that fit. Raises BusError."""
        self._rules.append((rule, take))
        if not rule.sender.startswith(":") and rule.sender != _BUS:
            self._follow(rule.sender)
        self.send(*BUS, "AddMatch", "s", (rule.text(),))

    def watch_name(self, name: str, owner: Callable[[str], None]) -> None:
        """Hear of each owner of a name, "" when it has none; the first time with how it is now. Raises BusError."""
        rule = Rule(sender=_BUS, path=_BUS_PATH, interface=_BUS, member="NameOwnerChanged", arg0=name)
        self.watch(rule, lambda signal: owner(str(signal.body[2])))
        self.send(*BUS, "GetNameOwner", "s", (name,), then=lambda answer: owner(_owner(answer)))

    def own(self, name: str) -> None:
        """Take a name for us. Raises BusError when somebody else has it, or we may not."""
        try:
            (outcome,) = self.ask(*BUS, "RequestName", "su", (name, _DO_NOT_QUEUE))
        except CallError as error:
            raise BusError(f"the name {name} cannot be had: {error}") from error
        if outcome not in _OWNED:
            raise BusError(f"the name {name} is somebody else's; another one is running")

    def serve(self, served: Object) -> None:
        """Answer calls to this object from now on."""
        self._served.add(served)

    def emit(self, path: str, interface: str, member: str, signature: str, body: tuple[Any, ...], to: str = "") -> None:
        """Send a signal; to one connection alone when `to` is given. Raises BusError."""
        message = new_signal(DBusAddress(path, interface=interface), member, signature or None, body)
        if to:
            message.header.fields[HeaderFields.destination] = to
        self._stream.send(message)

    def close(self) -> None:
        """Leave the bus. Never raises; calls under way are forgotten."""
        with suppress(BusError):
            self._stream.flush()
        self._pending.clear()
        self._inbox.clear()
        self._stream.close()

    def _follow(self, name: str) -> None:
        if name in self._owners:
            return
        self._owners[name] = ""

        def owned(owner: str) -> None:
            self._owners[name] = owner

        self.watch_name(name, owned)

    def _put_aside(self, arrival: Arrival) -> None:
        if len(self._inbox) >= _MOST_UNREAD:
            raise BusError("too many messages came while an answer was waited for")
        self._inbox.append(arrival)

    def _handle(self, arrival: Arrival) -> None:
        if arrival.kind is MessageType.method_call:
            self._served.take(arrival)
        elif arrival.kind is MessageType.signal:
            self._hear(arrival)
        else:
            pending = self._pending.pop(int(arrival.field(HeaderFields.reply_serial) or 0), None)
            if pending is None:
                arrival.drop()
            else:
                pending.then(_answer(arrival, pending.what))

    def _hear(self, arrival: Arrival) -> None:
        takers = [(rule, take) for rule, take in self._rules if self._fits(rule, arrival)]
        if not takers or not arrival.data:
            arrival.drop()
            return
        try:
            body = arrival.body()
        except ValueError:
            return
        finally:
            arrival.drop()
        signal = Incoming(
            sender=str(arrival.field(HeaderFields.sender)),
            path=str(arrival.field(HeaderFields.path)),
            interface=str(arrival.field(HeaderFields.interface)),
            member=str(arrival.field(HeaderFields.member)),
            signature=arrival.signature,
            body=body,
        )
        for rule, take in takers:
            if not rule.arg0 or (body and body[0] == rule.arg0):
                take(signal)

    def _fits(self, rule: Rule, arrival: Arrival) -> bool:
        wanted = self._owners.get(rule.sender, rule.sender)
        if arrival.field(HeaderFields.sender) != wanted:
            return False
        fields = ((rule.path, HeaderFields.path), (rule.interface, HeaderFields.interface))
        return all(
            not value or arrival.field(name) == value for value, name in (*fields, (rule.member, HeaderFields.member))
        )

    def _fail_all(self, name: str, message: str) -> None:
        pending, self._pending = self._pending, {}
        for one in pending.values():
            one.then(CallError(name, message))


def _answer(arrival: Arrival, what: str) -> Answer:
    if not arrival.data:
        arrival.drop()
        return CallError("org.freedesktop.DBus.Error.LimitsExceeded", f"the answer to {what} is too long")
    try:
        body = arrival.body()
    except ValueError as error:
        arrival.drop()
        return CallError("org.freedesktop.DBus.Error.InconsistentMessage", f"the answer to {what}: {error}")
    if arrival.kind is MessageType.error:
        said = body[0] if body and isinstance(body[0], str) else ""
        return CallError(str(arrival.field(HeaderFields.error_name)), said)
    return body


def _owner(answer: Answer) -> str:
    return "" if isinstance(answer, CallError) else str(answer[0])
