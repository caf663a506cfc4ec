# SPDX-License-Identifier: GPL-2.0-only
"""org.scx.Loader on the system bus: orders to scx_loader, and what it says that it runs.

Its answers come before it has done anything, and `CurrentScheduler` is what was ordered last, also when that has ended
since (scx_loader 1.1.3), so nothing here says what is in force: sysfs does. Has a connection of its own, so that
waiting on it never runs what belongs to others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from asa.bus import BUS, NO_REPLY, Bus, BusError, CallError
from asa.core.decision import EEVDF, SchedulerName

_NAME = "org.scx.Loader"
_PATH = "/org/scx/Loader"
_NOTHING = "unknown"  # CurrentScheduler, when none was ordered
_DOUBTFUL = (  # it may have heard the order all the same
    "org.freedesktop.DBus.Error.NoReply",
    "org.freedesktop.DBus.Error.Disconnected",
)

Heard: TypeAlias = Callable[[CallError | None], None]
"""Is called with the loader's refusal, or with None when it says yes, or nothing for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """What the loader was told last."""

    scheduler: SchedulerName  # EEVDF for nothing
    arguments: tuple[str, ...] | None  # None: this version does not tell


class LoaderBus:
    """The loader, seen from here. Never raises but from `switch` and `stop`."""

    def __init__(self, connect: Callable[[], Bus] = Bus.system) -> None:
        """`connect` opens a connection; it is called when one is needed, and again when that has ended."""
        self._connect = connect
        self._bus: Bus | None = None
        self._owner = ""
        self.pid: int | None = None  # of scx_loader; None: not there, or not known yet
        self.departures = 0  # how often it, or the bus, has gone

    @property
    def present(self) -> bool:
        """Is it on the bus? An order would start it where the bus can."""
        return bool(self._owner)

    def fileno(self) -> int | None:
        """Readable when `advance` has something to do."""
        return None if self._bus is None else self._bus.fileno()

    def due_in_s(self) -> float | None:
        """When `advance` is wanted at the latest."""
        return None if self._bus is None else self._bus.due_in_s()

    def advance(self) -> None:
        """Hear what has come."""
        if self._bus is None:
            return
        try:
            self._bus.advance()
        except BusError:
            self._lose()

    def switch(self, name: str, arguments: tuple[str, ...], heard: Heard) -> None:
        """Order a scheduler. Raises BusError without a bus."""
        self._call("SwitchSchedulerWithArgs", "sas", (name, list(arguments)), heard)

    def stop(self, heard: Heard) -> None:
        """Have what it runs stopped. Raises BusError without a bus."""
        self._call("StopScheduler", "", (), heard)

    def ordered(self, then: Callable[[Ordered | None], None]) -> None:
        """What it was told last; None when that cannot be known."""

        def read(answer: tuple[Any, ...] | CallError) -> None:
            given = answer[0] if not isinstance(answer, CallError) and answer else None
            values = {key: value[1] for key, value in given.items()} if isinstance(given, dict) else {}
            name = values.get("CurrentScheduler")
            if not isinstance(name, str):
                then(None)
                return
            arguments = values.get("CurrentSchedulerArgs")
            then(
                Ordered(
                    scheduler=EEVDF if name == _NOTHING else SchedulerName(name),
                    arguments=tuple(map(str, arguments)) if isinstance(arguments, list) else None,
                )
            )

        try:
            self._opened().send(
                _NAME, _PATH, "org.freedesktop.DBus.Properties", "GetAll", "s", (_NAME,), then=read, limit_s=2.0
            )
        except BusError:
            then(None)

    def close(self) -> None:
        """Leave the bus."""
        if self._bus is not None:
            self._bus.close()
        self._bus, self._owner, self.pid = None, "", None

    def _call(self, member: str, signature: str, body: tuple[Any, ...], heard: Heard) -> None:
        def hear(answer: tuple[Any, ...] | CallError) -> None:
            heard(answer if isinstance(answer, CallError) and answer.name not in _DOUBTFUL else None)

        self._opened().send(_NAME, _PATH, _NAME, member, signature, body, then=hear)

    def _opened(self) -> Bus:
        if self._bus is None:
            bus = self._connect()
            try:
                bus.watch_name(_NAME, self._owned)
            except BusError:
                bus.close()
                raise
            self._bus = bus
        return self._bus

    def _owned(self, owner: str) -> None:
        if owner == self._owner:
            return
        if self._owner:
            self.departures += 1
        self._owner, self.pid = owner, None
        self._ask_pid()

    def _ask_pid(self) -> None:
        if self._owner and self._bus is not None:
            self._bus.send(*BUS, "GetConnectionUnixProcessID", "s", (self._owner,), then=self._known)

    def _known(self, answer: tuple[Any, ...] | CallError) -> None:
        if not isinstance(answer, CallError):
            self.pid = int(answer[0])
        elif answer.name == NO_REPLY:
            self._ask_pid()

    def _lose(self) -> None:
        if self._owner:
            self.departures += 1
        self.close()
