# SPDX-License-Identifier: GPL-2.0-only
"""Wayland compositors that answer on a socket of their own: what asking one in each tick takes. Knows no protocol;
the idle time comes from `collectors.wayland`.

Sockets are looked for in the user's runtime folder, the newest first: one that a compositor left behind refuses, and
the next is tried. A compositor that stands still costs MOST_NS a tick, one that goes is waited for.
"""

import select
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path

from asa.core.errors import SourceError
from collectors.procfs.reader import reason_of
from collectors.session import Session, Watch, acting_as, connected
from collectors.wayland import IdleWatch
from collectors.window import Window

MOST_NS = 2_000_000
"""Longest that `poll` waits for an answer; sway and Hyprland give one in 0.1 to 0.5 ms."""

LARGEST_ANSWER_BYTES = 1 << 22
_S_NS = 1_000_000_000
_UNANSWERED_NS = 5 * _S_NS
_PIECE_BYTES = 1 << 16
_SOURCE = "desktop"


class IpcReader(ABC):
    """A DesktopReader that asks one question a tick. `find` tells the session, `now_ns` is CLOCK_MONOTONIC."""

    name: str
    compositor: str  # for people

    def __init__(self, find: Callable[[], Session], now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.reason = "not asked yet"
        self._watch, self._now_ns = Watch(find), now_ns
        self._idle = IdleWatch(now_ns)
        self._socket: socket.socket | None = None
        self._window: Window | None = None
        self._begin()

    @abstractmethod
    def sockets(self, runtime: Path) -> Iterable[Path]:
        """Where such a compositor may listen, below /run/user/UID."""

    @abstractmethod
    def question(self) -> bytes:
        """What is sent."""

    @abstractmethod
    def answer(self, heard: bytes, *, ended: bool) -> Window | None:
        """The window that a whole answer tells; None while it is not whole. `ended`: nothing more comes.

        Raises ValueError for what is no answer.
        """

    @property
    def claims(self) -> bool:
        """True while the compositor answers."""
        return self._window is not None

    @property
    def lacking(self) -> dict[str, str]:
        """What its socket does not tell."""
        return self._idle.lacking(self.compositor)

    def poll(self) -> Window | None:
        """The newest state. Never raises."""
        now_ns = self._now_ns()
        try:
            self._turn(now_ns)
        except (SourceError, OSError, ValueError, RecursionError) as error:
            self.close()
            words = reason_of(error) if isinstance(error, OSError) else str(error)
            self.reason = error.reason if isinstance(error, SourceError) else f"{self.compositor}: {words}"
            self._watch.failed(now_ns)
        if self._window is None:
            return None
        self.reason = ""
        self._watch.served()
        return self._idle.beside(self._window, self._watch.session)

    def settled(self) -> bool:
        """False while an answer is awaited."""
        return not self._awaited

    def close(self) -> None:
        """Hang up."""
        self._hang_up()
        self._idle.close()
        self._window = None
        self._watch.anew()

    def _begin(self) -> None:
        self._heard = bytearray()
        self._awaited = False
        self._asked_ns = 0

    def _hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._begin()

    def _turn(self, now_ns: int) -> None:
        if self._socket is None:
            if not self._watch.may_try(now_ns):
                return
            self._connect(now_ns)
        else:
            self._watch.check(now_ns)
        if self._socket is None:
            return
        if not self._awaited:
            self._socket.send(self.question())  # a few bytes, which a socket that nothing waits in takes whole
            self._awaited, self._asked_ns = True, now_ns
        until_ns = time.monotonic_ns() + MOST_NS
        while self._awaited:
            piece = self._piece(until_ns)
            if piece is not None:
                self._take(piece)
                continue
            if now_ns - self._asked_ns > _UNANSWERED_NS:
                self._window, self.reason = None, f"{self.compositor} does not answer"
            return

    def _take(self, piece: bytes) -> None:
        self._heard += piece
        if len(self._heard) > LARGEST_ANSWER_BYTES:
            raise ValueError(f"an answer of over {LARGEST_ANSWER_BYTES} bytes")
        window = self.answer(bytes(self._heard), ended=not piece)
        if window is not None:
            self._window = window
            self._begin()
        elif not piece:
            raise ValueError("hung up")
        if not piece:
            self._hang_up()  # one answer a connection: the next tick connects anew

    def _piece(self, until_ns: int) -> bytes | None:
        # None: nothing has come; b"": the other end has hung up
        left_ns = until_ns - time.monotonic_ns()
        if self._socket is None or left_ns <= 0:
            return None
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return self._socket.recv(_PIECE_BYTES) if poll.poll(left_ns / 1e6) else None

    def _connect(self, now_ns: int) -> None:
        session = self._watch.find()
        found = self._there(session)
        if not found:
            raise SourceError(source=_SOURCE, reason=f"{self.compositor} does not run")
        self._socket = connected(found, session.uid)
        self._watch.took(session, now_ns)

    def _there(self, session: Session) -> list[str]:
        # sockets, the newest first
        if session.runtime is None:
            return []
        try:
            with acting_as(session.uid):
                found = sorted(self.sockets(session.runtime), key=lambda path: path.stat().st_mtime, reverse=True)
        except OSError:
            return []
        return [str(path) for path in found]
