# SPDX-License-Identifier: GPL-2.0-only
"""Who sits at this machine: the users whose session is the active one of a seat, by logind.

Reads org.freedesktop.login1 at the start, and again whenever it says that something has changed or it has come anew.
A locked screen changes nothing, and a session from afar is never the one at a seat. Does not end anything itself.
"""

import time
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

from asa.bus import NO_REPLY, Bus, CallError, Incoming, Rule

_LOGIN = "org.freedesktop.login1"
_PATH = "/org/freedesktop/login1"
_MANAGER = f"{_LOGIN}.Manager"
_PROPERTIES = "org.freedesktop.DBus.Properties"
_ENDED = ("org.freedesktop.DBus.Error.UnknownObject", f"{_LOGIN}.NoSuchS")  # NoSuchSession, NoSuchSeat
_FIRST_LIMIT_S = 5.0
_LIMIT_S = 25.0
_RETRY_S = 30.0  # after an error that may pass: no signal need come again

_Call: TypeAlias = tuple[str, str, str, str, str, tuple[Any, ...]]
_Answer: TypeAlias = tuple[Any, ...] | CallError
_Reading: TypeAlias = Generator[_Call, _Answer, frozenset[int]]


class Seats:
    """The seats of this machine; `changed` is called when `active` says something else than before."""

    def __init__(self, bus: Bus, changed: Callable[[], None]) -> None:
        """Waits for logind's first answers. Raises BusError when the bus has gone."""
        self._bus = bus
        self._changed = changed
        self._owner = ""
        self._reading: _Reading | None = None
        self._again = False
        self._retry_s: float | None = None  # CLOCK_MONOTONIC
        for rule in (
            Rule(sender=_LOGIN, path=_PATH, interface=_MANAGER),  # seats and sessions come and go
            Rule(sender=_LOGIN, interface=_PROPERTIES, member="PropertiesChanged", arg0=f"{_LOGIN}.Seat"),
        ):
            bus.watch(rule, self._signalled)
        self._active = self._first()
        bus.watch_name(_LOGIN, self._owned)

    def active(self) -> frozenset[int] | None:
        """User ids of the sessions in front; None when there is no logind here.

        Once there was one, what it said last stays until it says more: it is started anew by an update, too.
        """
        return self._active

    def due_in_s(self) -> float | None:
        """When `tick` is wanted at the latest."""
        return None if self._retry_s is None else max(0.0, self._retry_s - time.monotonic())

    def tick(self) -> None:
        """Read again what could not be read. Raises BusError."""
        if self._retry_s is not None and time.monotonic() >= self._retry_s:
            self._refresh()

    def _first(self) -> frozenset[int] | None:
        reading = _read()
        call = next(reading)
        answer: _Answer
        while True:
            try:
                answer = self._bus.ask(*call, limit_s=_FIRST_LIMIT_S)
            except CallError as error:
                answer = error
            try:
                call = reading.send(answer)
            except StopIteration as done:
                found: frozenset[int] = done.value
                return found
            except CallError as error:
                return None if error.by_nobody else frozenset()

    def _signalled(self, _signal: Incoming) -> None:
        self._refresh()

    def _owned(self, owner: str) -> None:
        self._owner = owner
        if owner:
            self._refresh()

    def _refresh(self) -> None:
        if self._reading is not None:
            self._again = True  # what is being read may be from before
            return
        self._retry_s = None
        self._reading = _read()
        self._send(next(self._reading))

    def _send(self, call: _Call) -> None:
        self._bus.send(*call, then=self._answered, limit_s=_LIMIT_S)

    def _answered(self, answer: _Answer) -> None:
        if self._reading is None:
            return
        active: frozenset[int] | None
        try:
            self._send(self._reading.send(answer))
            return
        except StopIteration as done:
            active = done.value
        except CallError as error:
            active = self._active  # not known better
            if error.name == NO_REPLY:
                self._again |= bool(self._owner)
            elif self._owner:
                self._retry_s = time.monotonic() + _RETRY_S
        self._reading = None
        if self._again:
            self._again = False
            self._refresh()
        if active != self._active:
            self._active = active
            self._changed()


def _read() -> _Reading:
    """Yields calls, takes their answers, gives the users. Raises CallError."""
    active = set()
    for seat in _listed((yield _LOGIN, _PATH, _MANAGER, "ListSeats", "", ())):
        session = yield _get(seat, "Seat", "ActiveSession")
        path = _session(session)
        if path:
            told = yield (_LOGIN, path, _PROPERTIES, "GetAll", "s", (f"{_LOGIN}.Session",))
            active |= _user(told)
    return frozenset(active)


def _get(path: str, interface: str, name: str) -> _Call:
    return (_LOGIN, path, _PROPERTIES, "Get", "ss", (f"{_LOGIN}.{interface}", name))


def _told(answer: _Answer) -> tuple[Any, ...]:
    """Its values; none of what has ended meanwhile."""
    if isinstance(answer, CallError):
        if answer.name.startswith(_ENDED):
            return ()
        raise answer
    return answer


def _listed(answer: _Answer) -> list[str]:
    match _told(answer):
        case (list() as seats,):
            return [str(seat[1]) for seat in seats if isinstance(seat, tuple) and len(seat) == 2]
    return []


def _session(answer: _Answer) -> str:
    match _told(answer):
        case (("(so)", (str() as name, str() as path)),) if name:
            return path
    return ""


def _user(answer: _Answer) -> set[int]:
    match _told(answer):
        case ({"User": ("(uo)", (int() as uid, _)), "Remote": ("b", False)},):
            return {uid}
    return set()
