# SPDX-License-Identifier: GPL-2.0-only
"""How long nobody has touched the machine, by the Wayland compositor's own word: ext-idle-notify-v1.

A client asks to be told when the seat has been idle for a second, and hears it, and when somebody is there again
(wayland-protocols, staging/ext-idle-notify; KWin 5.27, sway 1.8 and newer, Hyprland). Of version 2 the input alone
counts; with version 1 a film that keeps the screen on keeps the seat from being idle. Messages are as "The Wayland
Protocol", "Wire Format", has them; no window is made. GNOME has no such protocol, and its extension tells more.
"""

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from collectors.procfs.reader import reason_of
from collectors.session import Session, acting_as, connected
from collectors.window import Window

IDLE_MS = 1000
"""So long the seat is idle before we are told; what is shorter is 0."""

_RETRY_NS = 30_000_000_000
_MS_NS = 1_000_000
_MOST_BYTES = 1 << 16  # in a poll; the list of globals has 4 KB
_DISPLAY, _REGISTRY, _SYNCED, _SEAT, _NOTIFIER, _NOTIFICATION = range(1, 7)  # our numbers; the first is given
_SYNC, _GET_REGISTRY, _BIND, _GET_IDLE, _GET_INPUT_IDLE = 0, 1, 0, 1, 2  # requests
_ERROR, _GLOBAL, _DONE, _IDLED, _RESUMED = 0, 0, 0, 0, 1  # events
_NONE = "what answers is no Wayland compositor"
_SEAT_NAME, _NOTIFIER_NAME = "wl_seat", "ext_idle_notifier_v1"
_WORD, _HEADER = struct.Struct("=I"), struct.Struct("=II")


class IdleWatch:
    """The idle time of the seat of a session. `now_ns` is CLOCK_MONOTONIC. Never raises, never waits."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.reason = "not asked yet"  # why it is unknown, "" where it is known
        self._now_ns = now_ns
        self._retry_ns = 0
        self._begin()

    def poll(self, session: Session | None) -> int | None:
        """Milliseconds since the last input, to a tick; 0 for less than a second, None where nobody tells."""
        now_ns = self._now_ns()
        try:
            if self._socket is None:
                if session is None or now_ns < self._retry_ns:
                    return None
                self._connect(session)
            self._hear(now_ns)
        except (OSError, ValueError) as error:
            self.close()
            self._retry_ns = now_ns + _RETRY_NS
            self.reason = reason_of(error) if isinstance(error, OSError) else str(error)
            return None
        if self._asked_ns is None or (self._idle_ns is None and now_ns - self._asked_ns < IDLE_MS * _MS_NS):
            return None  # the first word comes after a second
        self.reason = ""
        return 0 if self._idle_ns is None else IDLE_MS + (now_ns - self._idle_ns) // _MS_NS

    def beside(self, window: Window, session: Session | None) -> Window:
        """`window` with the idle time, where that is known."""
        idle_ms = self.poll(session)
        return window if idle_ms is None else replace(window, idle_ms=idle_ms)

    def lacking(self, compositor: str) -> dict[str, str]:
        """What is not known under it, and why."""
        idle = {"desktop idle time": f"{compositor}: {self.reason}"} if self.reason else {}
        return idle | {"desktop input events": f"not counted under {compositor}"}

    def close(self) -> None:
        """Hang up; the next poll begins anew."""
        if self._socket is not None:
            self._socket.close()
        self._retry_ns = 0
        self._begin()

    def _begin(self) -> None:
        self._socket: socket.socket | None = None
        self._heard = b""
        self._globals: dict[str, tuple[int, int]] = {}  # number and version, by interface
        self._asked_ns: int | None = None
        self._idle_ns: int | None = None

    def _connect(self, session: Session) -> None:
        places = _places(session)
        if not places:
            raise ValueError("no Wayland compositor listens in the runtime folder")
        self._socket = connected(places, session.uid)
        self.reason = "told a second after the start"
        self._socket.send(message(_DISPLAY, _GET_REGISTRY, _REGISTRY) + message(_DISPLAY, _SYNC, _SYNCED))

    def _hear(self, now_ns: int) -> None:
        if self._socket is None:
            return
        try:
            piece = self._socket.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        if not piece:
            raise ValueError("the compositor hung up")
        events, self._heard = split(self._heard + piece)
        for number, event, body in events:
            self._take(number, event, body, now_ns)

    def _take(self, number: int, event: int, body: bytes, now_ns: int) -> None:
        if (number, event) == (_DISPLAY, _ERROR):
            raise ValueError(f"the compositor ended it: {body[8:200]!r}")
        if (number, event) == (_REGISTRY, _GLOBAL):
            name, interface, version = _global_of(body)
            self._globals.setdefault(interface, (name, version))
        elif (number, event) == (_SYNCED, _DONE):
            self._ask(now_ns)
        elif number == _NOTIFICATION:
            self._idle_ns = now_ns if event == _IDLED else None

    def _ask(self, now_ns: int) -> None:
        if self._socket is None or not {_SEAT_NAME, _NOTIFIER_NAME} <= self._globals.keys():
            raise ValueError(f"this compositor has no {_NOTIFIER_NAME}")
        seat, (notifier, version) = self._globals[_SEAT_NAME][0], self._globals[_NOTIFIER_NAME]
        kind = _GET_INPUT_IDLE if version > 1 else _GET_IDLE
        self._socket.send(
            message(_REGISTRY, _BIND, seat, _SEAT_NAME, 1, _SEAT)
            + message(_REGISTRY, _BIND, notifier, _NOTIFIER_NAME, min(version, 2), _NOTIFIER)
            + message(_NOTIFIER, kind, _NOTIFICATION, IDLE_MS, _SEAT)
        )
        self._asked_ns = now_ns


def message(number: int, what: int, *arguments: int | str) -> bytes:
    """One message to or from an object: words of 32 bits, texts with their length and a NUL, padded to a word."""
    body = b"".join(_WORD.pack(one) if isinstance(one, int) else _text(one) for one in arguments)
    return _HEADER.pack(number, (_HEADER.size + len(body)) << 16 | what) + body


def split(heard: bytes) -> tuple[list[tuple[int, int, bytes]], bytes]:
    """Whole messages (object, what, arguments), and the rest. Raises ValueError for what are none."""
    found, start = [], 0
    while start + _HEADER.size <= len(heard):
        number, sizes = _HEADER.unpack_from(heard, start)
        size, what = sizes >> 16, sizes & 0xFFFF
        if size < _HEADER.size:
            raise ValueError(_NONE)
        if start + size > len(heard):
            break
        found.append((number, what, heard[start + _HEADER.size : start + size]))
        start += size
    return found, heard[start:]


def _text(text: str) -> bytes:
    data = text.encode() + b"\0"
    return _WORD.pack(len(data)) + data + bytes(-len(data) % 4)


def _global_of(body: bytes) -> tuple[int, str, int]:
    try:
        name, length = _HEADER.unpack_from(body)
        (version,) = _WORD.unpack_from(body, 8 + length + -length % 4)
    except struct.error:
        raise ValueError(_NONE) from None
    return name, body[8 : 8 + length].rstrip(b"\0").decode(errors="replace"), version


def _places(session: Session) -> list[str]:
    # sockets, the oldest first: a compositor within another one comes later
    if session.runtime is None:
        return []
    try:
        with acting_as(session.uid):
            return [str(path) for path in sorted(_sockets(session.runtime), key=os.path.getmtime)]
    except OSError:
        return []


def _sockets(runtime: Path) -> Iterator[Path]:
    return (path for path in runtime.glob("wayland-*") if path.suffix != ".lock")
