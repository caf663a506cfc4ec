# SPDX-License-Identifier: GPL-2.0-only
"""The few messages of the X11 protocol that `collectors.x11` needs: bytes out of values, values out of bytes.

It reads no socket; the one file it reads is that of the cookies.
X Window System Protocol 11 (x11proto, "Protocol Encoding"), the MIT-SCREEN-SAVER and the X-Resource extension
(xorgproto: saver.h, XResproto.h). Everything is little-endian: the client chooses, in the first byte it sends.
Whatever a server sends that does not fit is None or a SourceError, never anything else.
"""

import codecs
import os
import stat
import struct
from pathlib import Path

from asa.core.errors import SourceError

LARGEST_REPLY_BYTES = 1 << 16
"""Ours have 4 KB at most (a title); the server's first one some KB (its screens and their depths)."""

_SOURCE = "desktop"
_UNIT = 32  # bytes of an error, an event, and the fixed part of a reply
_SETUP_HEADER = 8
_AUTHORIZATION = b"MIT-MAGIC-COOKIE-1"
_FAMILY_LOCAL, _FAMILY_WILD = 256, 65535  # Xauth.h
_LARGEST_AUTHORITY = 1 << 16
_LOCAL_CLIENT_PID = 2  # XResproto.h: mask of QueryClientIds
_ANY_TYPE = 0
_PROPERTY_WORDS = 1024  # of 4 bytes: as much of a property as is asked for; a title ends with the application's name


def setup_request(key: bytes) -> bytes:
    """The first message of a client; `key` is the server's cookie, b"" for none."""
    name = _AUTHORIZATION if key else b""
    return struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(key)) + _padded(name) + _padded(key)


def intern_atom(name: str) -> bytes:
    """InternAtom; the server makes it if it has to."""
    return _request(16, 0, struct.pack("<Hxx", len(name)) + _padded(name.encode()))


def query_extension(name: str) -> bytes:
    """QueryExtension."""
    return _request(98, 0, struct.pack("<Hxx", len(name)) + _padded(name.encode()))


def get_property(window: int, atom: int) -> bytes:
    """GetProperty of any type, the first four kilobytes."""
    return _request(20, 0, struct.pack("<IIIII", window, atom, _ANY_TYPE, 0, _PROPERTY_WORDS))


def query_idle(opcode: int, window: int) -> bytes:
    """MIT-SCREEN-SAVER QueryInfo; `opcode` of the extension."""
    return _request(opcode, 1, struct.pack("<I", window))


def query_client_pid(opcode: int, window: int) -> bytes:
    """X-Resource QueryClientIds: the process that the server itself knows (SO_PEERCRED) to own `window`."""
    return _request(opcode, 4, struct.pack("<III", 1, window, _LOCAL_CLIENT_PID))


def setup_size(data: bytes | bytearray) -> int:
    """Bytes of the server's first reply that `data` begins with, 0 while that cannot be told yet."""
    if len(data) < _SETUP_HEADER:
        return 0
    return int(_SETUP_HEADER + 4 * struct.unpack_from("<H", data, 6)[0])


def setup_root(reply: bytes) -> int:
    """The root window of the first screen. Raises SourceError when the server refuses us."""
    if reply[0] != 1:
        words = reply[_SETUP_HEADER : _SETUP_HEADER + reply[1]].decode(errors="replace").strip()
        raise SourceError(source=_SOURCE, reason=f"the X server refuses us: {words[:120]!r}")
    try:
        vendor_length, screens, formats = struct.unpack_from("<H2xBB", reply, 24)
        (root,) = struct.unpack_from("<I", reply, 40 + _up(vendor_length) + 8 * formats)
    except struct.error as error:
        raise SourceError(source=_SOURCE, reason="X server: its first reply is cut short") from error
    if not screens:
        raise SourceError(source=_SOURCE, reason="the X server has no screen")
    return int(root)


def message_size(data: bytes | bytearray) -> int:
    """Bytes of the reply, error or event that `data` begins with, 0 while that cannot be told yet."""
    if len(data) < _UNIT:
        return 0
    has_more = data[0] & 0x7F in {1, 35}  # a reply, a generic event
    return int(_UNIT + (4 * struct.unpack_from("<I", data, 4)[0] if has_more else 0))


def answers(message: bytes) -> bool:
    """True for a reply or an error, which answer a request; False for an event."""
    return message[0] in {0, 1}


def sequence_of(message: bytes) -> int:
    """Which request it answers, modulo 2**16."""
    return int(struct.unpack_from("<H", message, 2)[0])


def atom_of(reply: bytes | None) -> int:
    """Of InternAtom; 0, which names nothing, after an error."""
    return 0 if reply is None else int(struct.unpack_from("<I", reply, 8)[0])


def opcode_of(reply: bytes | None) -> int:
    """Of QueryExtension; 0 when the server does not have it."""
    return reply[9] if reply is not None and reply[8] else 0


def idle_of(reply: bytes | None) -> int | None:
    """Milliseconds since the last input, of QueryInfo."""
    return None if reply is None else int(struct.unpack_from("<I", reply, 16)[0])


def client_pid_of(reply: bytes | None) -> int | None:
    """Of QueryClientIds; None for a client of another machine."""
    if reply is None or len(reply) < _UNIT + 16 or not struct.unpack_from("<I", reply, 8)[0]:
        return None
    mask, length, pid = struct.unpack_from("<4xIII", reply, _UNIT)
    return int(pid) or None if mask == _LOCAL_CLIENT_PID and length == 4 else None


def text_of(reply: bytes | None) -> str:
    """Text of GetProperty; "" for none. Latin-1 where it is not UTF-8 (ICCCM, STRING)."""
    if reply is None or reply[1] != 8:
        return ""
    data = _property(reply, 1)
    (more,) = struct.unpack_from("<I", reply, 12)
    try:  # what we asked for may end inside a character
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=not more)
    except UnicodeDecodeError:
        return data.decode("latin-1")


def words_of(reply: bytes | None) -> tuple[int, ...]:
    """32-bit numbers of GetProperty; () for none."""
    if reply is None or reply[1] != 32:
        return ()
    data = _property(reply, 4)
    return struct.unpack(f"<{len(data) // 4}I", data)


def first_of(reply: bytes | None) -> int | None:
    """The first 32-bit number of GetProperty; None for none."""
    found = words_of(reply)
    return found[0] if found else None


def is_there(reply: bytes | None) -> bool:
    """Whether GetProperty found the property, with or without a value."""
    return reply is not None and reply[1] != 0


def cookie(places: tuple[Path, ...], display: int) -> bytes:
    """The cookie of the local `display` out of the first of `places` that has one; b"" for none.

    Xauthority: entries of a 16-bit family and four texts with 16-bit lengths, big-endian (Xau(3), "AuFileFormat").
    """
    for place in places:
        key = _cookie_in(_authority(place), str(display).encode())
        if key:
            return key
    return b""


def _authority(place: Path) -> bytes:
    # It is in a home, where a FIFO or a terminal of that name would hold a root agent up for ever.
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return b""
    try:
        return os.read(descriptor, _LARGEST_AUTHORITY) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _cookie_in(data: bytes, number: bytes) -> bytes:
    at = 0
    while at + 2 <= len(data):
        (family,) = struct.unpack_from(">H", data, at)
        at += 2
        texts = []
        for _ in range(4):  # address, display, name, key
            if at + 2 > len(data):
                return b""
            (length,) = struct.unpack_from(">H", data, at)
            texts.append(data[at + 2 : at + 2 + length])
            at += 2 + length
        _, entry_number, name, key = texts
        if family in {_FAMILY_LOCAL, _FAMILY_WILD} and entry_number in {number, b""} and name == _AUTHORIZATION:
            return key if at <= len(data) else b""
    return b""


def _property(reply: bytes, width: int) -> bytes:
    (count,) = struct.unpack_from("<I", reply, 16)
    return reply[_UNIT : _UNIT + min(count * width, (len(reply) - _UNIT) // width * width)]


def _request(opcode: int, detail: int, body: bytes) -> bytes:
    return struct.pack("<BBH", opcode, detail, 1 + len(body) // 4) + body


def _up(length: int) -> int:
    return length + -length % 4


def _padded(data: bytes) -> bytes:
    return data.ljust(_up(len(data)), b"\0")
