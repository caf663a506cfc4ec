# SPDX-License-Identifier: GPL-2.0-only
"""One connection to a message bus that never waits: questions go out in one tick, answers are taken in the next.

It is bounded in what it takes: a message has at most LARGEST_MESSAGE_BYTES, a turn at most MESSAGES_PER_TURN, and
nothing is ever answered, whoever calls us. The asyncio bus of dbus-fast takes messages of up to 128 MiB for as long as
they come, and answers anybody; it would also bring asyncio into the agent (5 MB), for one recv and one send a tick.

Authentication is EXTERNAL (the uid of the peer, SO_PEERCRED). Like sd-bus, it sends all lines of the handshake and the
first calls at once: D-Bus Specification, "Authentication Protocol"; the answer's first line says whether it worked.
"""

import socket

from asa.core.errors import SourceError
from collectors.gnome.wire import HEADER_BYTES, Message, decode, encode_call, size_of
from collectors.procfs.reader import reason_of

LARGEST_MESSAGE_BYTES = 1 << 14
"""Above what we ask for (a state is 0.4 KB, what the Shell says of an extension 2 KB); D-Bus itself allows 128 MiB."""

MESSAGES_PER_TURN = 64
"""A tick has an answer or two and at most 10 signals (the extension coalesces them); more is a flood."""

_BYTES_PER_TURN = 1 << 15
_PIECE_BYTES = 1 << 14
_LONGEST_LINE = 1 << 10  # of the handshake; dbus-daemon's OK has 36 characters
_MOST_UNSENT_BYTES = 1 << 16
_SOURCE = "desktop"


class FloodError(SourceError):
    """The peers sent more than anybody who means well does; the connection is of no use any more."""


class BusConnection:
    """A client over a non-blocking socket that `uid` connected. After any error close it and make another."""

    def __init__(self, connected: socket.socket, uid: int) -> None:
        self._serial = 0
        self._incoming = bytearray()
        self._outgoing = bytearray(b"\0AUTH EXTERNAL " + str(uid).encode().hex().encode() + b"\r\nBEGIN\r\n")
        self._accepted = False  # the handshake's answer has come
        self._welcomed = False  # so has a message
        self._uid = uid
        self._socket = connected
        self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello")

    def fileno(self) -> int:
        """For poll(2)."""
        return self._socket.fileno()

    def call(self, destination: str, path: str, interface: str, member: str, *texts: str) -> int:
        """Queue a method call; it never starts a service. Returns the serial that the answer refers to."""
        self._serial += 1
        self._outgoing += encode_call(self._serial, destination, path, interface, member, *texts)
        return self._serial

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it. Raises SourceError."""
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            if len(self._outgoing) > _MOST_UNSENT_BYTES:
                raise SourceError(source=_SOURCE, reason="the session bus takes no messages any more") from None
        except OSError:
            self._outgoing.clear()  # `receive` gets the bus's last words, why it refused us for example

    def receive(self) -> list[Message]:
        """Messages that have come since, at most MESSAGES_PER_TURN. Raises SourceError, FloodError."""
        taken = 0
        while taken < _BYTES_PER_TURN:
            try:
                data = self._socket.recv(_PIECE_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                raise self._hung_up(reason_of(error)) from error
            if not data:
                raise self._hung_up("end of the connection")
            self._incoming += data
            taken += len(data)
            if len(data) < _PIECE_BYTES:
                break  # there is no more now
        else:
            raise FloodError(source=_SOURCE, reason=f"over {_BYTES_PER_TURN} bytes of messages in one tick")
        if not self._accepted and not self._accept():
            return []
        return self._messages()

    def close(self) -> None:
        """Hang up. Never raises."""
        self._socket.close()

    def _hung_up(self, how: str) -> SourceError:
        # dbus-daemon says OK to whoever proves who they are, and hangs up if it is not its own user
        welcome = "" if self._welcomed else f" on user {self._uid!r}; a bus takes its own user only"
        return SourceError(source=_SOURCE, reason=f"the session bus hung up{welcome} ({how})")

    def _accept(self) -> bool:
        end = self._incoming.find(b"\r\n")
        if end < 0:
            if len(self._incoming) > _LONGEST_LINE:
                raise SourceError(source=_SOURCE, reason="what answers at the session bus's address is no bus")
            return False
        line = bytes(self._incoming[:end])
        if not line.startswith(b"OK"):
            raise SourceError(source=_SOURCE, reason=f"the session bus refuses us: {line[:60]!r}")
        del self._incoming[: end + 2]
        self._accepted = True
        return True

    def _messages(self) -> list[Message]:
        messages: list[Message] = []
        try:
            while len(self._incoming) >= HEADER_BYTES:
                size = size_of(self._incoming)
                if size > LARGEST_MESSAGE_BYTES:
                    raise FloodError(source=_SOURCE, reason=f"a message of {size} bytes")
                if size > len(self._incoming):
                    break
                if len(messages) == MESSAGES_PER_TURN:
                    raise FloodError(source=_SOURCE, reason=f"over {MESSAGES_PER_TURN} messages in one tick")
                messages.append(decode(bytes(self._incoming[:size])))
                del self._incoming[:size]
                self._welcomed = True
        except ValueError as error:
            raise SourceError(source=_SOURCE, reason=f"session bus: {error}") from error
        return messages
