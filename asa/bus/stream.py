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
from typing import Any

from jeepney import HeaderFields, Message
from jeepney.auth import AuthenticationError
from jeepney.bus import get_connectable_addresses
from jeepney.fds import FileDescriptor
from jeepney.io.blocking import prep_socket
from jeepney.low_level import Header, endian_map, parse_signature

from asa.core.errors import AsaError

LONGEST_BYTES = 65_536
"""A message beyond this is passed over unread; what we exchange has a few hundred bytes."""

_READ_BYTES, _MOST_READS = 16_384, 2  # at a time: some hundred messages at most, others want their turn in the loop
_DESCRIPTORS = 253  # of one message (SCM_MAX_FD); dbus-broker lets so many through
_MOST_DESCRIPTORS = 2 * _DESCRIPTORS  # of a message that is not complete yet, and of the next one
_MOST_WAITING_BYTES = 4 << 20  # that the bus does not take
_LONGEST_MESSAGE_BYTES = 1 << 27  # of any bus (D-Bus Specification, "Message Protocol")
_CONTROL = socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
_FIELDS = parse_signature(list("a(yv)"))
_KNOWN_FIELDS = frozenset(HeaderFields)
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
        if "()" in self.signature:
            raise ValueError(f"{self.signature!r} is not a signature")
        try:
            kind = parse_signature(list(f"({self.signature})"))
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


class Stream:
    """A connection that has been authenticated. `receive` and `flush` never wait."""

    def __init__(self, address: str, limit_s: float) -> None:
        """Connect. Raises BusError."""
        try:
            self._socket: socket.socket = prep_socket(next(get_connectable_addresses(address)), True, limit_s)
        except (OSError, RuntimeError, ValueError, AuthenticationError) as error:
            said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise BusError(f"the bus at {address!r} cannot be reached: {said}") from error
        self._socket.setblocking(False)
        self._serial = 0
        self._buffer = bytearray()
        self._descriptors: list[Any] = []
        self._passing = 0  # bytes still to come of a message that is too long
        self._out: deque[tuple[bytes, list[int]]] = deque()
        self._out_bytes = 0

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
        for _ in range(_MOST_READS):
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(_READ_BYTES, _CONTROL, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError as error:
                raise BusError(f"the bus has gone: {error.strerror}") from error
            self._descriptors.extend(FileDescriptor.from_ancdata(ancillary))
            if not data:
                raise BusError("the bus has gone")
            if flags & socket.MSG_CTRUNC or len(self._descriptors) > _MOST_DESCRIPTORS:
                raise BusError("the bus sent more descriptors than any message may have")
            yield from self._take(data)

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

    def _take(self, data: bytes) -> Iterator[Arrival]:
        passed = min(self._passing, len(data))
        self._passing -= passed
        self._buffer += data[passed:]
        while len(self._buffer) >= 16:
            try:
                head, size = _lengths(self._buffer)
            except _NONSENSE as error:
                raise BusError(f"the bus sent what is no message: {error}") from error
            long = size > LONGEST_BYTES
            wanted = head if long else size
            if wanted > LONGEST_BYTES:
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
    given, _ = _FIELDS.parse_data(data, 12, endianness)
    fields = {HeaderFields(code): value for code, (_, value) in given if code in _KNOWN_FIELDS}
    return Header(endianness, kind, flags, version, body_length, serial, fields)
