# SPDX-License-Identifier: GPL-2.0-only
"""Who calls: the user behind a connection of the bus, and when that connection ends.

All is asked of the bus itself, which nobody can talk into anything. What is kept of a connection goes with it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from asa.bus import Bus, CallError, Incoming, Rule

BUS = "org.freedesktop.DBus"
BUS_PATH = "/org/freedesktop/DBus"
_NO_OWNER = f"{BUS}.Error.NameHasNoOwner"
_LIMIT_S = 10.0  # the bus answers at once; this is for a machine that does not get to it


@dataclass(slots=True)
class _Caller:
    """What is known of a connection that is there, and who wants to know more."""

    uid: int | None = None
    asked: bool = False
    waiting: list[Callable[[int | None], None]] = field(default_factory=list)
    gone: list[Callable[[], None]] = field(default_factory=list)


class Callers:
    """Connections of `bus`, by their unique names (`:1.5`)."""

    def __init__(self, bus: Bus) -> None:
        """Raises BusError."""
        self._bus = bus
        self._callers: dict[str, _Caller] = {}
        # One rule for all: one for each caller would come too late for a caller that is gone by then.
        bus.watch(Rule(sender=BUS, path=BUS_PATH, interface=BUS, member="NameOwnerChanged"), self._owner_changed)

    def __len__(self) -> int:
        """Of how many something is kept."""
        return len(self._callers)

    def uid_of(self, sender: str, then: Callable[[int | None], None]) -> None:
        """Tell `then` the user id: at once when it is known, else later; None when there is no such connection.

        None too when the bus does not say. Raises BusError.
        """
        if not sender.startswith(":"):
            then(None)
            return
        caller = self._caller(sender)
        if caller.uid is not None:
            then(caller.uid)
            return
        caller.waiting.append(then)
        self._ask(sender, caller)

    def on_gone(self, sender: str, then: Callable[[], None]) -> None:
        """Call `then` once when the connection ends, or soon when it has ended already. Raises BusError.

        The same `then` counts once for a connection, however often it is given.
        """
        caller = self._caller(sender)
        if then not in caller.gone:
            caller.gone.append(then)
        if caller.uid is None:
            self._ask(sender, caller)  # it may have ended before anybody asked

    def known_uid(self, sender: str) -> int | None:
        """The user id where it has been told already."""
        caller = self._callers.get(sender)
        return None if caller is None else caller.uid

    def pid_of(self, sender: str, then: Callable[[int], None]) -> None:
        """Tell `then` which process has connected, where the bus knows. Raises BusError."""

        def told(answer: tuple[object, ...] | CallError) -> None:
            if not isinstance(answer, CallError) and len(answer) == 1 and type(answer[0]) is int:
                then(answer[0])

        member = "GetConnectionUnixProcessID"
        self._bus.send(BUS, BUS_PATH, BUS, member, "s", (sender,), then=told, limit_s=_LIMIT_S)

    def _caller(self, sender: str) -> _Caller:
        return self._callers.setdefault(sender, _Caller())

    def _ask(self, sender: str, caller: _Caller) -> None:
        if caller.asked:
            return
        caller.asked = True
        self._bus.send(
            BUS, BUS_PATH, BUS, "GetConnectionUnixUser", "s", (sender,),
            then=lambda answer: self._answered(sender, caller, answer), limit_s=_LIMIT_S,
        )  # fmt: skip

    def _answered(self, sender: str, caller: _Caller, answer: tuple[object, ...] | CallError) -> None:
        if self._callers.get(sender) is not caller:
            return  # it has gone meanwhile, and that was told
        caller.asked = False
        if isinstance(answer, CallError):
            if answer.name == _NO_OWNER:
                self._end(sender)
                return
        elif len(answer) == 1 and type(answer[0]) is int:
            caller.uid = answer[0]
        waiting, caller.waiting = caller.waiting, []
        for then in waiting:
            then(caller.uid)

    def _owner_changed(self, signal: Incoming) -> None:
        if signal.signature != "sss":
            return
        name, _, owner = signal.body
        if name in self._callers and not owner:
            self._end(name)

    def _end(self, sender: str) -> None:
        caller = self._callers.pop(sender)
        for gone in caller.gone:
            gone()
        for then in caller.waiting:
            then(None)
