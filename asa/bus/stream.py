# SPDX-License-Identifier: GPL-2.0-only
"""Messages over the socket of a bus: framed, bounded, never waiting. Knows no calls and no names.

D-Bus Specification, "Message Protocol". Headers were checked by the bus; bodies need not have been (dbus-broker leaves
them to the receiver), so a body is only taken apart by who knows its signature.
"""

import array
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from jeepney import HeaderFields, Message
from jeepney.auth import AuthenticationError
from jeepney.bus import get_connectable_addresses
from jeepney.fds import FileDescriptor
from jeepney.io.blocking import prep_socket
from jeepney.low_level import (
    Array,
    Header,
    Struct,
    Variant,
    endian_map,
    header_field_codes,
    parse_signature,
    simple_types,
)

from asa.core.errors import AsaError

LONGEST_BYTES = 65_536
"""A message beyond this is passed over unread; what we exchange has a few hundred bytes."""

_READ_BYTES, _MOST_READS = 16_384, 2  # at a time: some hundred messages at most, others want their turn in the loop
_DESCRIPTORS = 253  # of one message (SCM_MAX_FD); dbus-broker lets so many through
_MOST_DESCRIPTORS = 2 * _DESCRIPTORS  # of a message that is not complete yet, and of the next one
_MOST_WAITING_BYTES = 4 << 20  # that the bus does not take
_ERROR = "org.freedesktop.DBus.Error."
_NOBODY = (f"{_ERROR}ServiceUnknown", f"{_ERROR}NameHasNoOwner", f"{_ERROR}Spawn.", "org.freedesktop.systemd1.")
_LONGEST_MESSAGE_BYTES = 1 << 27  # of any bus (D-Bus Specification, "Message Protocol")
_CONTROL = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
_DEEPEST = 32  # arrays and structs in one signature; D-Bus allows 32 of each inside each other
_LONGEST_LINE = 1 << 10  # of the handshake; dbus-daemon's OK has 36 characters
_NONSENSE = (ValueError, AssertionError, LookupError, TypeError, AttributeError, struct.error, RecursionError)
"""What jeepney raises for bytes that are not what they say."""


class BusError(AsaError):
    """The bus cannot be reached, or the connection has ended."""


class CallError(BusError):
    """A call that was answered by an error, or not in time. `name` is the D-Bus name of the error."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{message} ({name})" if message else name)
        self.name = name
        self.message = message

    @property
    def by_nobody(self) -> bool:
        """Whether it is the bus's: nobody has the name that was called, and nobody could be started for it."""
        return self.name.startswith(_NOBODY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message that came: its header, and its body not yet taken apart."""

    header: Any  # jeepney.low_level.Header
    data: bytes  # the whole message; b"" when it was too long
    body_at: int
    descriptors: tuple[Any, ...]  # jeepney.fds.FileDescriptor

    def field(self, name: Any) -> Any:
        """A header field's value; "" when it is not there."""
        return self.header.fields.get(name, "")

    @property
    def kind(self) -> Any:
        """Its MessageType."""
        return self.header.message_type

    @property
    def signature(self) -> str:
        """Of the body."""
        return str(self.field(HeaderFields.signature))

    def body(self) -> tuple[Any, ...]:
        """The values. Raises ValueError when the bytes are not of the type that they are said to be."""
        if not self.signature:
            return ()
        try:
            kind = _kind(f"({self.signature})")
            values, end = kind.parse_data(self.data, self.body_at, self.header.endianness, fds=self.descriptors)
        except _NONSENSE as error:
            raise ValueError(f"the body is not {self.signature!r}: {error}") from error
        if end > len(self.data):
            raise ValueError(f"the body is shorter than {self.signature!r}")
        return tuple(values)

    def drop(self) -> None:
        """Close the descriptors that came with it."""
        for descriptor in self.descriptors:
            descriptor.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A signal, taken apart."""

    sender: str
    path: str
    interface: str
    member: str
    signature: str
    body: tuple[Any, ...]


class _CheckedVariant(Variant):  # type: ignore[misc]  # jeepney has no types
    """jeepney's own takes any signature: of an array of empty structs it reads for ever."""

    def parse_data(self, buf: Any, pos: int, endianness: Any, fds: Any = ()) -> tuple[Any, int]:
        signature, pos = simple_types["g"].parse_data(buf, pos, endianness)
        value, pos = _kind(signature).parse_data(buf, pos, endianness, fds=fds)
        return (signature, value), pos


@lru_cache(maxsize=64)  # a desktop's state has the same ones eleven times over
def _kind(signature: str) -> Any:
    """jeepney's reader of one complete type. Raises what `_NONSENSE` lists."""
    if "()" in signature or signature.count("a") + signature.count("(") > _DEEPEST:
        raise ValueError(f"{signature!r} is not a signature")
    left = list(signature)
    found = _with_checked_variants(parse_signature(left))
    if left:
        raise ValueError(f"{signature!r} is not one type")
    return found


def _with_checked_variants(kind: Any) -> Any:
    if isinstance(kind, Variant):
        return _CheckedVariant()
    if isinstance(kind, Array):
        kind.elt_type = _with_checked_variants(kind.elt_type)
    elif isinstance(kind, Struct):
        kind.fields = [_with_checked_variants(one) for one in kind.fields]
    return kind


class Stream:
    """A connection to a bus. `receive` and `flush` never wait."""

    def __init__(self, connected: socket.socket) -> None:
        """Over a socket on which the handshake is done."""
        self._socket = connected
        self._socket.setblocking(False)
        self._longest_bytes = LONGEST_BYTES
        self._control = _CONTROL
        self._greeted = True  # the handshake's answer has come
        self.behind = False
        """Whether the last `receive` left something for the next one."""
        self._serial = 0
        self._buffer = bytearray()
        self._descriptors: list[Any] = []
        self._passing = 0  # bytes still to come of a message that is too long
        self._out: deque[tuple[bytes, list[int]]] = deque()
        self._out_bytes = 0

    @classmethod
    def open(cls, address: str, limit_s: float) -> Self:
        """Connect and authenticate, waiting for it. Raises BusError."""
        try:
            return cls(prep_socket(next(get_connectable_addresses(address)), True, limit_s))
        except (OSError, RuntimeError, ValueError, AuthenticationError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise BusError(f"the bus at {address!r} cannot be reached: {said}") from error

    @classmethod
    def over(cls, connected: socket.socket, uid: int, longest_bytes: int = LONGEST_BYTES) -> Self:
        """Over a socket that `uid` has just connected; the handshake is waited for as little as anything else.

        Like sd-bus, it sends all lines of the handshake (EXTERNAL: SO_PEERCRED) and the first calls at once; the
        answer's first line says whether it worked (D-Bus Specification, "Authentication Protocol"). It takes no
        descriptors, and no message beyond `longest_bytes`.
        """
        stream = cls(connected)
        stream._longest_bytes, stream._control, stream._greeted = longest_bytes, 0, False
        lines = b"\0AUTH EXTERNAL " + str(uid).encode().hex().encode() + b"\r\nBEGIN\r\n"
        stream._out.append((lines, []))
        stream._out_bytes = len(lines)
        return stream

    def fileno(self) -> int:
        """Readable when something came."""
        return self._socket.fileno()

    @property
    def waits_to_send(self) -> bool:
        """Whether something has not gone out yet."""
        return bool(self._out)

    def send(self, message: Message) -> int:
        """Queue a message and send what the bus takes. Gives its serial. Raises BusError when the bus has gone.

        Values must fit the signature (ValueError, TypeError, struct.error). Descriptors stay the caller's.
        """
        self._serial = self._serial % 0xFFFFFFFF + 1
        passed = array.array("i")
        data = message.serialise(serial=self._serial, fds=passed)
        if self._out_bytes + len(data) > _MOST_WAITING_BYTES:
            self.close()
            raise BusError("the bus takes no more messages; the connection was given up")
        self._out.append((data, [os.dup(one) for one in passed]))
        self._out_bytes += len(data)
        self.flush()
        return self._serial

    def flush(self) -> None:
        """Send what the bus takes now. Raises BusError."""
        while self._out:
            data, descriptors = self._out[0]
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            try:
                sent = self._socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError as error:
                if not self._greeted:
                    return  # `receive` gets the bus's last words: why it refused us
                raise BusError(f"the bus has gone: {error.strerror}") from error
            for descriptor in descriptors:
                os.close(descriptor)
            self._out_bytes -= sent
            if sent == len(data):
                self._out.popleft()
            else:
                self._out[0] = (data[sent:], [])

    def receive(self) -> Iterator[Arrival]:
        """What has come. Raises BusError when the connection has ended, after what came before that."""
        taken = 0
        self.behind = False
        for _ in range(_MOST_READS):
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(_READ_BYTES, self._control, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError as error:
                raise BusError(f"the bus has gone: {error.strerror}") from error
            self._descriptors.extend(FileDescriptor.from_ancdata(ancillary))
            if not data:
                raise BusError("the bus has gone")
            if flags & socket.MSG_CTRUNC or len(self._descriptors) > _MOST_DESCRIPTORS:
                raise BusError("the bus sent more descriptors than any message may have")
            taken += len(data)
            if self._greeted or (data := self._after_greeting(data)):
                yield from self._take(data)
        self.behind = taken >= _MOST_READS * _READ_BYTES

    def close(self) -> None:
        """Give everything back."""
        for _, descriptors in self._out:
            for descriptor in descriptors:
                with suppress(OSError):
                    os.close(descriptor)
        self._out.clear()
        for unread in self._descriptors:
            unread.close()
        self._descriptors.clear()
        self._socket.close()

    def _after_greeting(self, data: bytes) -> bytes:
        self._buffer += data
        line, end, rest = bytes(self._buffer).partition(b"\r\n")
        if len(line) > _LONGEST_LINE:
            raise BusError("what answers at the bus's address is no bus")
        if not end:
            return b""
        if not line.startswith(b"OK"):
            raise BusError(f"the bus refuses us: {line[:60]!r}")
        self._greeted = True
        self._buffer.clear()
        return rest

    def _take(self, data: bytes) -> Iterator[Arrival]:
        passed = min(self._passing, len(data))
        self._passing -= passed
        self._buffer += data[passed:]
        while len(self._buffer) >= 16:
            try:
                head, size = _lengths(self._buffer)
            except _NONSENSE as error:
                raise BusError(f"the bus sent what is no message: {error}") from error
            long = size > self._longest_bytes
            wanted = head if long else size
            if wanted > self._longest_bytes:
                self._pass_over(size)
            elif len(self._buffer) < wanted:
                return
            elif (arrival := self._cut(head, size, long=long)) is not None:
                yield arrival

    def _cut(self, head: int, size: int, *, long: bool) -> Arrival | None:
        # Of a long one the header alone, which tells whom to answer. One whose header cannot be read is passed over:
        # whoever sent it, the bus found nothing wrong with it, and nobody is to end our connection by a message.
        data = bytes(self._buffer[: head if long else size])
        try:
            header = _header(data)
            count = header.fields.get(HeaderFields.unix_fds, 0)
            if count > len(self._descriptors):
                raise ValueError("descriptors are missing")
        except _NONSENSE:
            self._pass_over(size)
            return None
        self._skip(size)
        own, self._descriptors = tuple(self._descriptors[:count]), self._descriptors[count:]
        return Arrival(header=header, data=b"" if long else data, body_at=head, descriptors=own)

    def _pass_over(self, size: int) -> None:
        self._skip(size)
        for descriptor in self._descriptors:  # they came with its first byte
            descriptor.close()
        self._descriptors.clear()

    def _skip(self, size: int) -> None:
        self._passing = max(0, size - len(self._buffer))
        del self._buffer[:size]


def _lengths(first: bytearray) -> tuple[int, int]:
    """Bytes of the header, with its padding, and of the whole message."""
    order = endian_map[bytes(first[:1])].struct_code()
    (body,) = struct.unpack_from(f"{order}I", first, 4)
    (fields,) = struct.unpack_from(f"{order}I", first, 12)
    head = 16 + fields + -fields % 8
    if head + body > _LONGEST_MESSAGE_BYTES:
        raise ValueError(f"{head + body} bytes are more than a bus lets through")
    return head, head + body


def _header(data: bytes) -> Header:
    """As jeepney's own, but for fields that it does not know: those are to be ignored, and dbus-broker passes them."""
    endianness = endian_map[data[:1]]
    kind, flags, version, body_length, serial = struct.unpack_from(f"{endianness.struct_code()}BBBII", data, 1)
    given, _ = _kind("a(yv)").parse_data(data, 12, endianness)
    fields = {HeaderFields(code): value for code, (sort, value) in given if header_field_codes.get(code) == sort}
    return Header(endianness, kind, flags, version, body_length, serial, fields)
