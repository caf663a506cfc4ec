# SPDX-License-Identifier: GPL-2.0-only
"""X11: the window in front, asked of the X server in its own protocol, over a socket that never waits for long.

Reads _NET_ACTIVE_WINDOW and of that window its process, WM_CLASS, _NET_WM_STATE and title (Extended Window Manager
Hints), of which only the class is kept; and the time since the last input (MIT-SCREEN-SAVER). It makes no window and
selects no events. Input is not counted: X would have to send us each motion of the pointer.

Why not a library: libxcb waits without a limit for a server that stands still, in its connect too; xcffib has no
wheels; python-xlib has had no release since 2022. What we need is five requests (collectors.xprotocol), and a server
that hangs then costs MOST_NS a tick.
"""

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Generator, Mapping

from asa.core.errors import SourceError
from collectors import titles
from collectors import xprotocol as x
from collectors.procfs.reader import reason_of
from collectors.session import Session, Watch, acting_as, connected
from collectors.window import Window, name_of

MOST_NS = 2_000_000
"""Longest that `poll` waits for the server; one that has nothing else to do answers in 0.1 ms."""

_S_NS = 1_000_000_000
_UNANSWERED_NS = 5 * _S_NS
_MOST_UNREAD_BYTES = 2 * x.LARGEST_REPLY_BYTES
_MOST_EVENTS = 1024  # while answers are awaited: none was asked for; a new keyboard map is told to all, key by key
_PIECE_BYTES = 1 << 14
_SOURCE = "desktop"
ATOMS = (
    "_NET_ACTIVE_WINDOW",
    "_NET_SUPPORTING_WM_CHECK",
    "_NET_WM_NAME",
    "_NET_WM_PID",
    "_NET_WM_STATE",
    "_NET_WM_STATE_FULLSCREEN",
    "WM_CLIENT_MACHINE",
)
_WM_NAME, _WM_CLASS = 39, 67  # predefined atoms (Xatom.h)

# Yields requests and is given their replies, None for each that the server answered by an error. No requests: the
# tick has what it needs. The first reply is the server's own, to no request.
Replies = list[bytes | None]
Conversation = Generator[list[bytes], Replies, None]


class X11Reader:
    """The DesktopReader for an X server of this machine. `find` tells the session, `now_ns` is CLOCK_MONOTONIC."""

    name = "x11"

    def __init__(self, find: Callable[[], Session], now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.reason = "not asked yet"
        self._watch, self._now_ns = Watch(find), now_ns
        self._socket: socket.socket | None = None
        self._number = 0  # of the display
        self._begin()

    @property
    def claims(self) -> bool:
        """True while the server answers."""
        return self._window is not None

    @property
    def lacking(self) -> dict[str, str]:
        """Input is not counted here; the idle time needs an extension of the server."""
        lacking = {"desktop input events": "not counted on X11"}
        if self._window is not None and self._window.idle_ms is None:
            lacking["desktop idle time"] = "the X server has no MIT-SCREEN-SAVER"
        return lacking

    def poll(self) -> Window | None:
        """The newest state. Never raises."""
        now_ns = self._now_ns()
        try:
            self._turn(now_ns)
        except SourceError as error:
            self.close()
            self.reason = error.reason
            self._watch.failed(now_ns)
        if self._window is not None:
            self.reason = ""
            self._watch.served()
        return self._window

    def settled(self) -> bool:
        """False while an answer is awaited."""
        return not self._awaited

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._begin()
        self._watch.anew()

    def _begin(self) -> None:
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._sequence = 0  # of the last request; the server counts along
        self._awaited = 0  # replies to the requests under way
        self._replies: Replies = []
        self._events = 0  # that came since
        self._asked_ns = 0
        self._window: Window | None = None
        self._conversation = self._talk()

    def _turn(self, now_ns: int) -> None:
        if self._socket is None:
            if not self._watch.may_try(now_ns):
                return
            self._connect(now_ns)
        else:
            self._watch.check(now_ns)
        if not self._awaited:
            self._ask(self._conversation.send([]), now_ns)
        until_ns = time.monotonic_ns() + MOST_NS
        while self._awaited:
            self._take()
            if len(self._replies) == self._awaited:
                self._ask(self._conversation.send(self._replies), now_ns)
                continue
            self._flush()
            if not self._receive(until_ns):
                if now_ns - self._asked_ns > _UNANSWERED_NS:
                    self._window = None
                    self.reason = "the X server does not answer"
                return

    def _connect(self, now_ns: int) -> None:
        session = self._watch.find()
        number = self._number = self._display(session)
        display = f":{number}"
        path = f"/tmp/.X11-unix/X{number}"  # noqa: S108  # where X servers listen (X(7))
        try:
            self._socket = connected([path], session.uid)  # a server may let in by user (xhost +si:localuser)
            _, owner, _ = struct.unpack("3I", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if owner not in {0, session.uid}:  # /tmp is everybody's: the cookie is not for whoever listens there
                raise SourceError(source=_SOURCE, reason=f"X display {display!r} is of user {owner!r}")
            with acting_as(session.uid):  # only now: no home is looked into while there is no server
                key = x.cookie(session.authorities, number)
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"X display {display!r}: {reason_of(error)}") from error
        self._watch.took(session, now_ns)
        next(self._conversation)
        self._outgoing += x.setup_request(key)
        self._awaited, self._asked_ns = 1, now_ns
        self.reason = f"X display {display!r} was asked"

    def _display(self, session: Session) -> int:
        # the number of the server to ask; raises SourceError where there is none
        if session.wayland:
            raise SourceError(source=_SOURCE, reason="a Wayland session; its X server knows some of the windows only")
        return display_number(session.display)

    def _talk(self) -> Conversation:
        (setup,) = yield []
        root = x.setup_root(setup or b"\0" * 8)
        opcodes = yield [x.query_extension(name) for name in ("XWAYLAND", "MIT-SCREEN-SAVER", "X-Resource")]
        xwayland, saver, resource = map(x.opcode_of, opcodes)
        if xwayland:
            raise SourceError(source=_SOURCE, reason="an Xwayland server; it knows some of the windows only")
        replies = yield [x.intern_atom(name) for name in ATOMS]
        atoms = dict(zip(ATOMS, map(x.atom_of, replies), strict=True))
        while True:
            questions = [
                x.get_property(root, atoms[name]) for name in ("_NET_SUPPORTING_WM_CHECK", "_NET_ACTIVE_WINDOW")
            ]
            replies = yield [*questions, *([x.query_idle(saver, root)] if saver else [])]
            manager, actives = map(x.words_of, replies[:2])
            active = actives[0] if actives else 0
            idle_ms = x.idle_of(replies[2]) if saver else None
            if not manager:
                self._window = None
                self.reason = "no window manager that names the active window (EWMH) runs"
            elif not active:
                self._window = Window(pid=None, fullscreen=False, idle_ms=idle_ms)
            else:
                told = yield about(active, atoms, resource)
                self._window = window_of(told, atoms, idle_ms)
            yield []

    def _ask(self, requests: list[bytes], now_ns: int) -> None:
        self._awaited, self._replies, self._asked_ns, self._events = len(requests), [], now_ns, 0
        self._sequence += len(requests)
        self._outgoing += b"".join(requests)

    def _flush(self) -> None:
        if not self._outgoing or self._socket is None:
            return
        try:
            del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            return  # the next tick tries again; there is never more than one batch
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"the X server hung up: {reason_of(error)}") from error

    def _receive(self, until_ns: int) -> bool:
        left_ns = until_ns - time.monotonic_ns()
        if self._socket is None or left_ns <= 0:  # a server may have something to say without end
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(left_ns / 1e6):
            return False
        try:
            data = self._socket.recv(_PIECE_BYTES)
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"the X server hung up: {reason_of(error)}") from error
        if not data:
            raise SourceError(source=_SOURCE, reason="the X server hung up")
        self._incoming += data
        return True

    def _take(self) -> None:
        size_of = x.message_size if self._sequence else x.setup_size
        while len(self._replies) < self._awaited:
            size = size_of(self._incoming)
            if size > x.LARGEST_REPLY_BYTES or len(self._incoming) > _MOST_UNREAD_BYTES:
                raise SourceError(source=_SOURCE, reason=f"X server: a reply of {size} bytes")
            if not size or size > len(self._incoming):
                return
            message = bytes(self._incoming[:size])
            del self._incoming[:size]
            if not self._sequence:
                self._replies.append(message)
            elif x.answers(message):
                expected = self._sequence - self._awaited + len(self._replies) + 1
                if x.sequence_of(message) != expected & 0xFFFF:
                    raise SourceError(source=_SOURCE, reason="X server: an answer to a question that was not asked")
                self._replies.append(message if message[0] else None)
            else:
                self._events += 1
                if self._events > _MOST_EVENTS:
                    raise SourceError(source=_SOURCE, reason=f"X server: over {_MOST_EVENTS} events, none asked for")


def about(window: int, atoms: Mapping[str, int], resource: int) -> list[bytes]:
    """The requests whose replies `window_of` takes; `resource`: the opcode of X-Resource, 0 without it."""
    properties = (atoms["_NET_WM_STATE"], _WM_CLASS, atoms["_NET_WM_NAME"], _WM_NAME)
    requests = [x.get_property(window, atom) for atom in properties]
    if resource:
        return [*requests, x.query_client_pid(resource, window)]
    return [*requests, *(x.get_property(window, atoms[name]) for name in ("_NET_WM_PID", "WM_CLIENT_MACHINE"))]


def window_of(told: Replies, atoms: Mapping[str, int], idle_ms: int | None) -> Window:
    """What the replies to `about` say."""
    state, window_class, name, old_name, *owner = told
    if len(owner) == 1:
        pid = x.client_pid_of(owner[0])
    else:  # what the client says of itself; it may be of another machine
        (claimed, *_) = x.words_of(owner[0]) or (0,)
        pid = claimed or None if x.text_of(owner[1]) == os.uname().nodename else None
    # "instance\0class\0" (ICCCM, WM_CLASS); the class is the application's name
    _, _, wm_class = x.text_of(window_class).rstrip("\0").partition("\0")
    return Window(
        pid=pid,
        window_class=name_of(wm_class),
        title_class=titles.class_of(x.text_of(name) or x.text_of(old_name)),
        fullscreen=None if state is None else atoms["_NET_WM_STATE_FULLSCREEN"] in x.words_of(state),
        idle_ms=idle_ms,
    )


def display_number(display: str) -> int:
    """Of "[unix]:NUMBER[.SCREEN]", X(7). Raises SourceError for another machine's, and for none."""
    host, colon, rest = display.rpartition(":")
    number = rest.partition(".")[0]
    if not display:
        raise SourceError(source=_SOURCE, reason="no X display (DISPLAY is not set)")
    if not colon or host not in {"", "unix"} or not (number.isascii() and number.isdigit() and len(number) <= 5):
        raise SourceError(source=_SOURCE, reason=f"X display {display!r} is not on this machine")
    return int(number)
