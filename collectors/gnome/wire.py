# SPDX-License-Identifier: GPL-2.0-only
"""D-Bus messages: bytes of the calls that we make, values of what comes back. No I/O.

Our own, because a root agent listens to a user's bus, and so to bytes that nobody has checked: the compiled reader of
dbus-fast 5.2 reads beyond the buffer and dies of SIGSEGV on a message with a wrong length inside. Here each length is
checked, and what does not fit is a ValueError. A body is taken apart only when somebody asks for it.

D-Bus Specification, "Type System", "Marshaling (Wire Format)" and "Message Protocol".
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

HEADER_BYTES = 16
"""The fixed part: endianness, type, flags, version, length of the body, serial, length of the header's fields."""

_NO_AUTO_START = 2  # flag: a call shall not start a service
_VERSION = 1
_DEEPEST = 8  # types inside types; what we are told has three
_MOST_VALUES = 1024  # in one array; a state has eleven
_ORDERS = {ord("l"): "<", ord("B"): ">"}
_NUMBERS = {"y": "B", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d", "h": "I", "b": "I"}
_STRUCTS = {  # by the first byte of a message, and type
    first: {kind: struct.Struct(order + code) for kind, code in _NUMBERS.items()} for first, order in _ORDERS.items()
}
_ALIGNMENTS = {"y": 1, "n": 2, "q": 2, "g": 1, "v": 1, "x": 8, "t": 8, "d": 8, "(": 8, "{": 8}  # all others: 4
_PATH, _INTERFACE, _MEMBER, _ERROR, _REPLY, _DESTINATION, _SENDER, _SIGNATURE = range(1, 9)
_FIELD_TYPES = {_PATH: "o", _REPLY: "u", _SIGNATURE: "g"}  # all other fields: "s"


class Kind(IntEnum):
    """What a message is."""

    CALL = 1
    ANSWER = 2
    ERROR = 3
    SIGNAL = 4


class Variant(NamedTuple):
    """A value with its type."""

    signature: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message that came. A header field that is not in it is "" or 0."""

    kind: int
    serial: int
    reply_serial: int
    interface: str
    member: str
    error_name: str
    sender: str
    signature: str  # of the body
    data: bytes  # all of it
    body_at: int

    def body(self) -> list[Any]:
        """The values. Raises ValueError when the bytes are not of the type that they are said to be."""
        reader = _Reader(self.data, self.body_at)
        return [reader.value(kind) for kind in _types(self.signature)]


def size_of(data: bytes | bytearray) -> int:
    """Bytes of the message whose fixed part `data` begins with. Raises ValueError for what begins no message."""
    order = _ORDERS.get(data[0])
    if order is None or data[3] != _VERSION:
        raise ValueError(f"no message: {bytes(data[:HEADER_BYTES])!r}")
    body, fields = struct.unpack_from(f"{order}I4xI", data, 4)
    return int(HEADER_BYTES + fields + -fields % 8 + body)


def decode(data: bytes) -> Message:
    """The message that `data` is, no more and no less. Raises ValueError."""
    if len(data) < HEADER_BYTES or size_of(data) != len(data):
        raise ValueError("a message of another length than it says")
    reader = _Reader(data, 8)
    serial = reader.value("u")
    fields: dict[int, Any] = {}
    for number, variant in reader.value("a(yv)"):
        if variant.signature == _FIELD_TYPES.get(number, "s"):
            fields[number] = variant.value
    reader.align(8)
    return Message(
        kind=data[1],
        serial=serial,
        reply_serial=fields.get(_REPLY, 0),
        interface=fields.get(_INTERFACE, ""),
        member=fields.get(_MEMBER, ""),
        error_name=fields.get(_ERROR, ""),
        sender=fields.get(_SENDER, ""),
        signature=fields.get(_SIGNATURE, ""),
        data=data,
        body_at=reader.at,
    )


def encode_call(serial: int, destination: str, path: str, interface: str, member: str, *texts: str) -> bytes:
    """A method call with `texts` as its arguments; it never starts a service."""
    body = b""
    for text in texts:
        body = _padded(body, 4) + _text(text)
    names = {_PATH: path, _INTERFACE: interface, _MEMBER: member, _DESTINATION: destination}
    fields = b""
    for number, name in names.items():
        kind = _FIELD_TYPES.get(number, "s").encode()
        fields = _padded(_padded(fields, 8) + bytes((number, 1)) + kind + b"\0", 4) + _text(name)
    if texts:
        signature = b"s" * len(texts)
        fields = _padded(fields, 8) + bytes((_SIGNATURE, 1)) + b"g\0" + bytes((len(signature),)) + signature + b"\0"
    fixed = struct.pack("<4BIII", ord("l"), Kind.CALL, _NO_AUTO_START, _VERSION, len(body), serial, len(fields))
    return _padded(fixed + fields, 8) + body


class _Reader:
    # takes values out of `data` from `at` on; every way out of it is a value or a ValueError

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self._structs = _STRUCTS[data[0]]
        self._depth = 0

    def align(self, size: int) -> None:
        self.at += -self.at % size

    def value(self, kind: str) -> Any:
        # of one complete type
        first = kind[0]
        if first in _NUMBERS:
            return self._number(first)
        if first in "so":
            return self._text(self._number("u"))
        if first == "g":
            return self._text(self._number("y"))
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("types too deep inside each other")
        if first == "v":
            signature = self._text(self._number("y"))
            if len(_types(signature)) != 1:
                raise ValueError("a variant that is not of one type")
            value: Any = Variant(signature, self.value(signature))
        elif first == "a":
            value = self._array(kind[1:])
        else:
            value = self._struct(kind)
        self._depth -= 1
        return value

    def _number(self, kind: str) -> Any:
        form = self._structs[kind]
        at = self.at + -self.at % form.size
        self.at = at + form.size
        if self.at > len(self.data):
            raise ValueError("a message that ends inside a value")
        (value,) = form.unpack_from(self.data, at)
        if kind == "b":
            if value > 1:
                raise ValueError(f"a boolean of {value}")
            return bool(value)
        return value

    def _text(self, length: int) -> str:
        end = self.at + length
        if end >= len(self.data) or self.data[end]:
            raise ValueError("a text without its end")
        text = self.data[self.at : end].decode()
        self.at = end + 1
        return text

    def _array(self, kind: str) -> Any:
        length = self._number("u")
        self.align(_ALIGNMENTS.get(kind[0], 4))
        end = self.at + length
        if end > len(self.data):
            raise ValueError("an array that is longer than its message")
        values = []
        while self.at < end:
            values.append(self.value(kind))
            if len(values) > _MOST_VALUES:
                raise ValueError(f"an array of over {_MOST_VALUES} values")
        if self.at != end:
            raise ValueError("an array that ends inside a value")
        return dict(values) if kind[0] == "{" else values

    def _struct(self, kind: str) -> tuple[Any, ...]:
        self.align(8)
        return tuple([self.value(member) for member in _types(kind[1:-1])])


@lru_cache(maxsize=64)  # a state has the same ones eleven times over
def _types(signature: str) -> tuple[str, ...]:
    types, at = [], 0
    while at < len(signature):
        end = _end_of_type(signature, at)
        types.append(signature[at:end])
        at = end
    return tuple(types)


def _end_of_type(signature: str, at: int, depth: int = 0) -> int:
    # of the one complete type that begins at `at`
    first = signature[at : at + 1]
    if depth > _DEEPEST or not first:
        raise ValueError("a type too deep, or without its end")
    if first in "sogv" or first in _NUMBERS:
        return at + 1
    if first == "a":
        return _end_of_type(signature, at + 1, depth + 1)
    if first == "(":
        end = _end_of_type(signature, at + 1, depth + 1)  # at least one
        while signature[end : end + 1] != ")":
            end = _end_of_type(signature, end, depth + 1)
        return end + 1
    if first == "{" and signature[at - 1 : at] == "a" and signature[at + 1 : at + 2] in set("sog") | set(_NUMBERS):
        end = _end_of_type(signature, at + 2, depth + 1)
        if signature[end : end + 1] == "}":
            return end + 1
    raise ValueError(f"no type: {signature!r}")


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


def _padded(data: bytes, alignment: int) -> bytes:
    return data + bytes(-len(data) % alignment)
