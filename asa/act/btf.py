# SPDX-License-Identifier: GPL-2.0-only
"""Whether the kernel's type information (BTF) is such that a sched_ext scheduler can load by it.

Each scheduler has libbpf read /sys/kernel/btf/vmlinux, and fails when that is damaged, or newer than its libbpf. This
reads the same bytes and checks what libbpf checks (btf_parse_hdr, btf_parse_type_sec, btf_sanity_check), and whether
the functions that schedulers call look as they are called. Loads nothing.
"""

import re
import sys
from array import array
from pathlib import Path

_HEADER_BYTES = 24  # struct btf_header, Documentation/bpf/btf.rst; later kernels may append to it
_MAGIC = 0xEB9F
_VERSION = 1
_NEEDED = (b"task_struct", b"sched_ext_ops", b"bpf_struct_ops_sched_ext_ops")  # struct_ops' types of sched_ext
_REBUILD = "install another build of this kernel, or another kernel: its BTF was made with an unfit pahole or damaged"
_IMPLICIT = "boot another kernel, or another build of it: updates of the schedulers do not help"
_NEWER = "update the schedulers (their libbpf is older than this kernel), or boot an older kernel"
# kind -> words after struct btf_type: fixed, and for each of the vlen entries
_KINDS: dict[int, tuple[int, int]] = {
    1: (1, 0),  # INT
    2: (0, 0),  # PTR
    3: (3, 0),  # ARRAY
    4: (0, 3),  # STRUCT
    5: (0, 3),  # UNION
    6: (0, 2),  # ENUM
    7: (0, 0),  # FWD
    8: (0, 0),  # TYPEDEF
    9: (0, 0),  # VOLATILE
    10: (0, 0),  # CONST
    11: (0, 0),  # RESTRICT
    12: (0, 0),  # FUNC
    13: (0, 2),  # FUNC_PROTO
    14: (1, 0),  # VAR
    15: (0, 3),  # DATASEC
    16: (0, 0),  # FLOAT
    17: (1, 0),  # DECL_TAG
    18: (0, 0),  # TYPE_TAG
    19: (0, 3),  # ENUM64
}
_REFERS = frozenset({2, 8, 9, 10, 11, 12, 13, 14, 17, 18})  # the third word is a type
_NAMES_FIRST = frozenset({4, 5, 6, 13, 19})  # entries begin with a name
_TYPES_SECOND = frozenset({4, 5, 13})  # and go on with a type
_POINTER, _STRUCT, _CONST, _FUNCTION, _PROTOTYPE = 2, 4, 10, 12, 13
_CALLED = re.compile(rb"(?<=\0)scx_bpf_\w+(?=\0)")
# The verifier fills in an argument (KF_IMPLICIT_ARGS, Linux 7.0). The kernel's build gives a function that takes it
# a second name, NAME_impl, and takes the argument from NAME. Where it has not done so, no scheduler's call fits.
_TWIN = b"_impl"
_FILLED_IN, _FILLED_IN_TYPE = b"aux", b"bpf_prog_aux"


class Unfit(Exception):  # noqa: N818  # a finding, which nobody raises further
    """What is wrong, and what to do."""

    def __init__(self, why: str, remedy: str = _REBUILD) -> None:
        super().__init__(why)
        self.remedy = remedy


def fault(path: Path, *, sched_ext: bool = True) -> tuple[str, str]:
    """What a load would stumble over, and what to do; ("", "") for nothing.

    `sched_ext`: whether the kernel has it, so that its types have to be there.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return "is missing", "boot a kernel with CONFIG_DEBUG_INFO_BTF=y"
    except OSError as error:
        return f"cannot be read: {(error.strerror or '').lower()}", "boot a kernel with CONFIG_DEBUG_INFO_BTF=y"
    try:
        types, strings = _sections(data)
        words = array("I", types.tobytes())
        _check_calls(words, _check_types(words, len(strings)), strings)
        lacking = [name.decode() for name in _NEEDED if b"\0" + name + b"\0" not in strings]
        if sched_ext and lacking:
            raise Unfit(f"does not name {', '.join(lacking)}")
    except Unfit as error:
        return f"is malformed: {error}", error.remedy
    return "", ""


def _sections(data: bytes) -> tuple[memoryview, bytes]:
    """The types and the strings."""
    if not data:
        raise Unfit("it is empty")
    if len(data) < _HEADER_BYTES:
        raise Unfit(f"{len(data)} bytes are less than its header")
    order = sys.byteorder
    magic = int.from_bytes(data[:2], order)
    if magic != _MAGIC:
        swapped = int.from_bytes(data[:2], "big" if order == "little" else "little") == _MAGIC
        raise Unfit("its bytes are in the order of another machine" if swapped else f"it begins with {magic:#06x}")
    if data[2] != _VERSION:
        raise Unfit(f"it has version {data[2]}, and {_VERSION} is known", _NEWER if data[2] > _VERSION else _REBUILD)
    header, type_at, type_bytes, string_at, string_bytes = (
        int.from_bytes(data[place : place + 4], order) for place in range(4, _HEADER_BYTES, 4)
    )
    if header < _HEADER_BYTES or header > len(data):
        raise Unfit(f"its header claims {header} bytes")
    rest = len(data) - header
    if type_at % 4 or type_bytes % 4 or type_at + type_bytes > rest:
        raise Unfit(f"its types are to be {type_bytes} bytes from {type_at} on, of {rest}")
    if string_at + string_bytes > rest or string_at < type_at + type_bytes:
        raise Unfit(f"its strings are to be {string_bytes} bytes from {string_at} on, of {rest}")
    if not type_bytes:
        raise Unfit("it has no types")
    types = memoryview(data)[header + type_at : header + type_at + type_bytes]
    strings = data[header + string_at : header + string_at + string_bytes]
    if not strings or strings[0] or strings[-1]:
        raise Unfit("its strings do not begin and end with an empty one")
    return types, strings


def _check_types(words: "array[int]", string_bytes: int) -> "array[int]":
    """Where each type begins, by its number."""
    begins = array("I", [0])
    end, at, count = len(words), 0, 0
    largest = where = 0  # type that is referred to, and by which
    while at < end:
        count += 1
        begins.append(at)
        if at + 3 > end:
            raise Unfit(f"type [{count}] is cut short")
        name, info, third = words[at], words[at + 1], words[at + 2]
        kind, entries = info >> 24 & 0x1F, info & 0xFFFF
        if kind not in _KINDS:
            raise Unfit(f"type [{count}] is of kind {kind}", _NEWER if kind > max(_KINDS) else _REBUILD)
        fixed, each = _KINDS[kind]
        start, at = at + 3 + fixed, at + 3 + fixed + each * entries
        if at > end:
            raise Unfit(f"type [{count}] is cut short")
        names = max(words[start:at:each], default=0) if kind in _NAMES_FIRST else 0
        if max(name, names) >= string_bytes:
            raise Unfit(f"type [{count}] has its name at {max(name, names)}, of {string_bytes} bytes of strings")
        refers = max(words[start + 1 : at : each], default=0) if kind in _TYPES_SECOND else 0
        if kind in _REFERS:
            refers = max(refers, third)
        elif kind == 3:  # ARRAY: element and index
            refers = max(words[start - 3], words[start - 2])
        elif kind == 15:  # DATASEC: its variables
            refers = max(words[start:at:each], default=0)
        if refers > largest:
            largest, where = refers, count
    if largest > count:
        raise Unfit(f"type [{where}] refers to [{largest}], of {count}")
    return begins


def _check_calls(words: "array[int]", begins: "array[int]", strings: bytes) -> None:
    names = {found.start(): found[0] for found in _CALLED.finditer(strings)}
    called = {
        names[words[at]]: words[at + 2]  # its prototype
        for at in begins[1:]
        if words[at + 1] >> 24 & 0x1F == _FUNCTION and words[at] in names
    }
    shown = [
        name.decode()
        for name, prototype in called.items()
        if not name.endswith(_TWIN) and name + _TWIN not in called and _filled_in(words, begins, strings, prototype)
    ]
    if shown:
        more = f" and {len(shown) - 1} more show" if len(shown) > 1 else " shows"
        text = f"{shown[0]}{more} callers an argument that the kernel alone fills in (KF_IMPLICIT_ARGS)"
        raise Unfit(text, _IMPLICIT)


def _filled_in(words: "array[int]", begins: "array[int]", strings: bytes, prototype: int) -> bool:
    # whether the last argument is the one that the verifier fills in
    at = begins[prototype]
    entries = words[at + 1] & 0xFFFF
    if not entries or words[at + 1] >> 24 & 0x1F != _PROTOTYPE:
        return False
    last = at + 3 + 2 * (entries - 1)
    if _text(strings, words[last]) != _FILLED_IN:
        return False
    pointed, seen = words[last + 1], 0
    while (kind := words[begins[pointed] + 1] >> 24 & 0x1F) in (_POINTER, _CONST) and pointed and seen < 4:
        pointed, seen = words[begins[pointed] + 2], seen + 1
    return kind == _STRUCT and _text(strings, words[begins[pointed]]) == _FILLED_IN_TYPE


def _text(strings: bytes, at: int) -> bytes:
    return strings[at : strings.index(b"\0", at)]
