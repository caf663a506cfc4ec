# SPDX-License-Identifier: GPL-2.0-only
"""The BPF programs that the kernel has now, each with how many instructions it followed to accept it, by bpf(2).

Needs root. A part of guests: whatever else loads programs meanwhile is counted, too.
"""

import ctypes
import os
import struct
from collections.abc import Set

from asa.act.gate.links import BPF_SYSCALL

# enum bpf_cmd and struct bpf_prog_info of include/uapi/linux/bpf.h
_NEXT_ID, _FD_BY_ID, _INFO_BY_FD = 11, 13, 15
_NAME_AT, _NAME_BYTES, _FOLLOWED_AT = 64, 16, 216
_INFO_BYTES = 256
_ATTRIBUTES = 16
_libc = ctypes.CDLL(None, use_errno=True)


def ids() -> frozenset[int]:
    """Of all programs. Raises OSError."""
    found: set[int] = set()
    last = 0
    while True:
        words = bytearray(struct.pack("IIII", last, 0, 0, 0))
        try:
            _bpf(_NEXT_ID, words)
        except FileNotFoundError:
            return frozenset(found)
        last = struct.unpack_from("I", words, 4)[0]
        found.add(last)


def followed(besides: Set[int]) -> dict[str, int]:
    """Name (15 letters at most) -> instructions that the kernel followed, of programs that are none of `besides`.

    Of several of one name the most. Raises OSError.
    """
    found: dict[str, int] = {}
    for number in sorted(ids() - besides):
        try:
            name, count = parsed(_information(number))
        except FileNotFoundError:  # it is gone meanwhile
            continue
        found[name] = max(count, found.get(name, 0))
    return found


def parsed(information: bytes) -> tuple[str, int]:
    """A program's name and `verified_insns`, out of a struct bpf_prog_info."""
    name = information[_NAME_AT : _NAME_AT + _NAME_BYTES].partition(b"\0")[0].decode("ascii", "replace")
    return name, int(struct.unpack_from("I", information, _FOLLOWED_AT)[0])


def _information(number: int) -> bytes:
    descriptor = _bpf(_FD_BY_ID, bytearray(struct.pack("IIII", number, 0, 0, 0)))
    try:
        found = ctypes.create_string_buffer(_INFO_BYTES)
        _bpf(_INFO_BY_FD, bytearray(struct.pack("IIQ", descriptor, _INFO_BYTES, ctypes.addressof(found))))
        return found.raw
    finally:
        os.close(descriptor)


def _bpf(command: int, attributes: bytearray) -> int:
    buffer = (ctypes.c_char * _ATTRIBUTES).from_buffer(attributes)
    result = int(_libc.syscall(BPF_SYSCALL[os.uname().machine], command, ctypes.byref(buffer), _ATTRIBUTES))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf: {os.strerror(number)}")
    return result
