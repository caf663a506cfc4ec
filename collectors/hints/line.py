# SPDX-License-Identifier: GPL-2.0-only
"""A connection to a bus of others that questions are asked over every few seconds. It never waits, and starts nobody.

Whoever lies is not believed, whoever is silent is unknown. A bus that goes, or floods us, is connected to again later.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from asa.bus import BUS, Bus, BusError, CallError, Stream
from collectors.procfs.reader import reason_of
from collectors.session import connected, unix_addresses

ROUND_NS = 5_000_000_000
"""Between two rounds of questions: what they ask for changes a few times an hour."""

_LIMIT_S = 4.0  # for an answer: before the next round
_FIRST_RETRY_NS, _LAST_RETRY_NS = 1_000_000_000, 60_000_000_000
_PROPERTIES = "org.freedesktop.DBus.Properties"


class Place(NamedTuple):
    """Where a bus is, and whom it accepts."""

    address: str
    uid: int


class Line(Protocol):
    """What a round of questions may do."""

    def get(
        self, name: str, path: str, interface: str, member: str, signature: str, then: Callable[[Any], None]
    ) -> None:
        """Ask for a property; `then` hears its value, None where there is none of this type."""

    def call(self, name: str, path: str, interface: str, member: str, then: Callable[[Any], None]) -> None:
        """Call a method without arguments that only tells; `then` hears its one value, None for anything else."""

    def names(self, then: Callable[[frozenset[str]], None]) -> None:
        """Ask who is on the bus; `then` hears the well-known names."""


class Asker:
    """The connection. `ask` begins a round of questions, `lost` says that all that was heard is void."""

    def __init__(
        self,
        where: Callable[[], Place],
        now_ns: Callable[[], int],
        ask: Callable[[Line], None],
        lost: Callable[[], None],
    ) -> None:
        self.reason = "not asked yet"  # why nothing is heard, "" while something may be
        self._where, self._now_ns, self._ask, self._lost = where, now_ns, ask, lost
        self._place = Place("", 0)
        self._bus: Bus | None = None
        self._stream: Stream | None = None
        self._retry_ns = _FIRST_RETRY_NS
        self._next_ns = 0  # the next round, or the next try to connect

    def turn(self) -> None:
        """Hear what has come, and ask when it is time. Never raises."""
        now_ns = self._now_ns()
        try:
            if self._bus is not None and self._stream is not None:
                self._bus.advance()
                if self._stream.behind:
                    raise BusError("more bytes than a tick takes")
            if now_ns >= self._next_ns:
                self._round(now_ns)
        except (BusError, OSError, ValueError) as error:  # ValueError: an address with a null character
            self.close()
            self.reason = f"no bus at {self._place.address!r}: {_words(error)}"
            self._next_ns = now_ns + self._retry_ns
            self._retry_ns = min(2 * self._retry_ns, _LAST_RETRY_NS)

    def close(self) -> None:
        """Hang up. Never raises."""
        if self._bus is not None:
            self._bus.close()
            self._bus = self._stream = None
            self._lost()
        self._next_ns = 0

    def get(
        self, name: str, path: str, interface: str, member: str, signature: str, then: Callable[[Any], None]
    ) -> None:
        """As `Line` says. Raises BusError."""

        def take(answer: tuple[Any, ...] | CallError) -> None:
            kind, value = answer[0] if isinstance(answer, tuple) and _is_variant(answer) else ("", None)
            then(value if kind == signature else None)

        self._send(name, path, _PROPERTIES, "Get", "ss", (interface, member), take)

    def call(self, name: str, path: str, interface: str, member: str, then: Callable[[Any], None]) -> None:
        """As `Line` says. Raises BusError."""

        def take(answer: tuple[Any, ...] | CallError) -> None:
            then(answer[0] if isinstance(answer, tuple) and len(answer) == 1 else None)

        self._send(name, path, interface, member, "", (), take)

    def names(self, then: Callable[[frozenset[str]], None]) -> None:
        """As `Line` says. Raises BusError."""

        def take(answer: tuple[Any, ...] | CallError) -> None:
            if isinstance(answer, tuple) and len(answer) == 1 and isinstance(answer[0], list):
                self._retry_ns = _FIRST_RETRY_NS  # a bus that answers is a good one
                then(frozenset(name for name in answer[0] if isinstance(name, str) and not name.startswith(":")))
            else:
                self._lost()  # the bus stands still, or says what no bus says

        self._send(*BUS, "ListNames", "", (), take)

    def _round(self, now_ns: int) -> None:
        place = self._where()
        if place != self._place:
            self.close()  # another session is at the screen now
        self._place = place
        if self._bus is None:
            self._stream = Stream.over(connected(unix_addresses(place.address), place.uid), place.uid)
            self._bus = Bus(self._stream)
            self._send(*BUS, "Hello", "", (), lambda _: None)
        self.reason = ""
        self._ask(self)
        self._next_ns = now_ns + ROUND_NS

    def _send(
        self, name: str, path: str, interface: str, member: str, signature: str, body: tuple[Any, ...], then: Any
    ) -> None:
        if self._bus is not None:
            self._bus.send(name, path, interface, member, signature, body, then=then, limit_s=_LIMIT_S, starts=False)


def _is_variant(answer: tuple[Any, ...]) -> bool:
    return len(answer) == 1 and isinstance(answer[0], tuple) and len(answer[0]) == 2


def _words(error: Exception) -> str:
    return reason_of(error) if isinstance(error, OSError) else str(error)
