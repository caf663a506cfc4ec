# SPDX-License-Identifier: GPL-2.0-only
"""libbpf.so.1 by ctypes: objects of eBPF programs, and the kernel's type information (BTF).

Thin: each call does what libbpf's of the same name does (libbpf.readthedocs.io); a failure becomes a SourceError with
libbpf's own telling line. libbpf prints nothing. On kernels before 5.11 libbpf raises RLIMIT_MEMLOCK itself.
"""

import ctypes
import errno
import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from asa.core.errors import SourceError

SOURCE: Final = "ebpf"
_LIBRARY = "libbpf.so.1"
_PACKAGE = "install libbpf1 (Debian's name)"
_KEPT_MESSAGES = 64
_ITERATED_BYTES = 4096
_MESSAGE_BYTES = 1 << 16  # a verifier's log: its end is what tells

_POINTER = ctypes.c_void_p
_STRING = ctypes.c_char_p
_INT = ctypes.c_int
_UINT = ctypes.c_uint32
_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # result, arguments
    "bpf_object__open_file": (_POINTER, _STRING, _POINTER),
    "bpf_object__load": (_INT, _POINTER),
    "bpf_object__close": (None, _POINTER),
    "bpf_object__next_program": (_POINTER, _POINTER, _POINTER),
    "bpf_object__find_map_by_name": (_POINTER, _POINTER, _STRING),
    "bpf_program__name": (_STRING, _POINTER),
    "bpf_program__set_autoload": (_INT, _POINTER, ctypes.c_bool),
    "bpf_program__attach": (_POINTER, _POINTER),
    "bpf_link__destroy": (_INT, _POINTER),
    "bpf_link__fd": (_INT, _POINTER),
    "bpf_iter_create": (_INT, _INT),
    "bpf_map__fd": (_INT, _POINTER),
    "bpf_map__value_size": (_UINT, _POINTER),
    "bpf_map__set_max_entries": (_INT, _POINTER, _UINT),
    "bpf_map__initial_value": (_POINTER, _POINTER, ctypes.POINTER(ctypes.c_size_t)),
    "btf__parse": (_POINTER, _STRING, _POINTER),
    "btf__free": (None, _POINTER),
    "btf__find_by_name_kind": (_INT, _POINTER, _STRING, _UINT),
    "btf__type_by_id": (ctypes.POINTER(_UINT), _POINTER, _UINT),
    "btf__name_by_offset": (_STRING, _POINTER, _UINT),
}
_PRINT = ctypes.CFUNCTYPE(_INT, _INT, _STRING, _POINTER)  # level, format, va_list (a pointer on x86-64 and aarch64)
_WARNING_LEVEL = 0
_VERIFIER_LOG = re.compile(
    r"-- BEGIN PROG LOAD LOG --\n(.*?)(?:\nprocessed \d+ insns|\n?-- END PROG LOAD LOG --|$)", re.DOTALL
)


_MESSAGES: deque[str] = deque(maxlen=_KEPT_MESSAGES)
_VSNPRINTF = ctypes.CDLL(None).vsnprintf
_VSNPRINTF.argtypes = (_POINTER, ctypes.c_size_t, _STRING, _POINTER)


def _keep(level: int, template: bytes, values: int) -> int:
    if level != _WARNING_LEVEL:
        return 0
    buffer = ctypes.create_string_buffer(_MESSAGE_BYTES)
    length = _VSNPRINTF(buffer, _MESSAGE_BYTES, template, values)
    _MESSAGES.append(buffer.value.decode("utf-8", "replace"))
    return int(length)


_PRINTER = _PRINT(_keep)  # libbpf has one for the whole process and keeps calling it: it must live as long


class Library:
    """The loaded library. `messages` holds the last warnings it would have printed, one list for the process."""

    def __init__(self, name: str = _LIBRARY) -> None:
        """Load it. Raises SourceError when it is missing or too old."""
        self.messages = _MESSAGES
        try:
            self._library = ctypes.CDLL(name, use_errno=True)
        except OSError as error:
            raise SourceError(source=SOURCE, reason=f"{name}: cannot be loaded: {error}; {_PACKAGE}") from error
        self._calls: dict[str, Any] = {}
        for function, (result, *arguments) in _FUNCTIONS.items():
            try:
                call = getattr(self._library, function)
            except AttributeError as error:
                reason = f"{name}: no {function}: older than 1.0; {_PACKAGE}"
                raise SourceError(source=SOURCE, reason=reason) from error
            call.restype, call.argtypes = result, arguments
            self._calls[function] = call
        self._library.libbpf_set_print(_PRINTER)

    def call(self, function: str, *arguments: Any) -> Any:
        """The result of a libbpf function."""
        ctypes.set_errno(0)
        return self._calls[function](*arguments)

    def failed(self, what: str, error_number: int) -> SourceError:
        """A SourceError for a call that has just failed, with libbpf's words and the system's."""
        said = telling_line("".join(self.messages))
        words = os.strerror(error_number).lower() if error_number else "failed"
        return SourceError(source=SOURCE, reason=f"{what}: {words}{f': {said}' if said else ''}")


def telling_line(said: str) -> str:
    """Out of libbpf's warnings the one that tells the cause: the verifier's last word, else the first warning.

    With a verifier's log: the last line of it before its statistics.
    """
    log = _VERIFIER_LOG.search(said)
    if log is not None and log[1].strip():
        return log[1].strip().splitlines()[-1].strip()
    lines = [line.removeprefix("libbpf: ").strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else ""


class KernelTypes:
    """The kernel's BTF (Documentation/bpf/btf.rst): asked while loading, then closed, for it takes some MB."""

    _PTR, _STRUCT, _ENUM, _TYPEDEF, _FUNC_PROTO = 2, 4, 6, 8, 13

    def __init__(self, library: Library, path: Path) -> None:
        """Parse it. Raises SourceError when the kernel has none."""
        self._library = library
        if not os.path.exists(path):  # noqa: PTH110  # Path's raises where a folder may not be looked into
            reason = f"{path}: the kernel has no type information (CONFIG_DEBUG_INFO_BTF)"
            raise SourceError(source=SOURCE, reason=reason)
        self._types = library.call("btf__parse", os.fsencode(path), None)
        if not self._types:
            raise library.failed(f"{path}: cannot be parsed", ctypes.get_errno())

    def _find(self, name: str, kind: int) -> Any:
        number = self._library.call("btf__find_by_name_kind", self._types, name.encode(), kind)
        return self._library.call("btf__type_by_id", self._types, number) if number > 0 else None

    def _entries(self, kind: Any, words: int) -> Iterator[tuple[str, int]]:
        """Name and second word of what follows a struct btf_type: members, parameters, values of `words` u32 each."""
        for entry in range(kind[1] & 0xFFFF):  # btf_vlen
            at = 3 + entry * words
            name = self._library.call("btf__name_by_offset", self._types, kind[at])
            yield name.decode("ascii", "replace"), kind[at + 1]

    def tracepoint_arguments(self, name: str) -> int | None:
        """How many arguments a tracepoint hands to a program; None: the kernel has no such tracepoint."""
        typedef = self._find(f"btf_trace_{name}", self._TYPEDEF)
        if not typedef:
            return None
        pointer = self._library.call("btf__type_by_id", self._types, typedef[2])
        prototype = self._library.call("btf__type_by_id", self._types, pointer[2])
        return int(prototype[1] & 0xFFFF) - 1  # the first is the tracepoint's own

    def has_member(self, struct: str, member: str) -> bool:
        """Whether a structure of the kernel has a member of this name itself, not by an anonymous one within."""
        found = self._find(struct, self._STRUCT)
        return bool(found) and any(name == member for name, _ in self._entries(found, 3))

    def has_value(self, enumeration: str, value: str) -> bool:
        """Whether an enumeration of the kernel has a value of this name."""
        found = self._find(enumeration, self._ENUM)
        return bool(found) and any(name == value for name, _ in self._entries(found, 2))

    def close(self) -> None:
        """Give the memory back; closing twice is harmless."""
        if self._types:
            self._library.call("btf__free", self._types)
            self._types = None


class Object:
    """A file of compiled programs: opened, told what to load, loaded, attached, closed."""

    def __init__(self, library: Library, path: Path) -> None:
        """Open the file. Raises SourceError when it is not such a file."""
        self._library = library
        self._path = path
        self._links: dict[str, Any] = {}
        library.messages.clear()
        self._object = library.call("bpf_object__open_file", os.fsencode(path), None)
        if not self._object:
            raise library.failed(f"{path}: cannot be opened", ctypes.get_errno())

    def _programs(self) -> Iterator[tuple[str, Any]]:
        program = self._library.call("bpf_object__next_program", self._object, None)
        while program:
            yield self._library.call("bpf_program__name", program).decode(), program
            program = self._library.call("bpf_object__next_program", self._object, program)

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of all programs in the file."""
        return tuple(name for name, _ in self._programs())

    def choose(self, wanted: set[str]) -> None:
        """Load these programs and no others."""
        for name, program in self._programs():
            self._library.call("bpf_program__set_autoload", program, name in wanted)

    def _map(self, name: str) -> Any:
        found = self._library.call("bpf_object__find_map_by_name", self._object, name.encode())
        if not found:
            raise SourceError(source=SOURCE, reason=f"{self._path}: no map {name!r} in it; run `make bpf`")
        return found

    def settings(self) -> Any:
        """The words of .rodata, an array to be changed before loading. Raises SourceError."""
        size = ctypes.c_size_t()
        address = self._library.call("bpf_map__initial_value", self._map(".rodata"), ctypes.byref(size))
        return (ctypes.c_uint64 * (size.value // 8)).from_address(address) if address else (ctypes.c_uint64 * 0)()

    def resize(self, name: str, entries: int) -> None:
        """Give a map so many entries, before loading. Raises SourceError."""
        result = self._library.call("bpf_map__set_max_entries", self._map(name), entries)
        if result:
            raise self._library.failed(f"map {name}: {entries!r} entries", -result)

    def map(self, name: str) -> tuple[int, int]:
        """Descriptor and value size in bytes, rounded up to 8, of a map of a loaded object. Raises SourceError."""
        found = self._map(name)
        size = self._library.call("bpf_map__value_size", found)
        return self._library.call("bpf_map__fd", found), -(-size // 8) * 8

    def load(self) -> None:
        """Bring maps and chosen programs into the kernel. Raises LoadError."""
        self._library.messages.clear()
        result = self._library.call("bpf_object__load", self._object)
        if result:
            said = "".join(self._library.messages)
            failed = self._library.failed(f"{self._path}: cannot be loaded", -result)
            guilty = re.search(r"prog '(\w+)': (?:BPF program load failed|failed to)", said)
            raise LoadError(failed.reason, errno_value=-result, program=guilty[1] if guilty else None)

    def attach(self, wanted: set[str]) -> dict[str, str]:
        """Attach these programs; program -> why for those that could not be."""
        failed: dict[str, str] = {}
        for name, program in self._programs():
            if name not in wanted:
                continue
            self._library.messages.clear()
            link = self._library.call("bpf_program__attach", program)
            if link:
                self._links[name] = link
            else:
                failed[name] = self._library.failed("cannot be attached", ctypes.get_errno()).reason
        return failed

    def iterate(self, name: str) -> None:
        """Let an attached iterator go over everything once. Raises SourceError."""
        descriptor = self._library.call("bpf_iter_create", self._library.call("bpf_link__fd", self._links[name]))
        if descriptor < 0:
            raise self._library.failed(f"{name}: cannot be begun", -descriptor)
        try:
            while os.read(descriptor, _ITERATED_BYTES):
                pass  # it writes nothing
        except OSError as error:
            words = os.strerror(error.errno or 0).lower()
            raise SourceError(source=SOURCE, reason=f"{name}: cannot be read: {words}") from error
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Detach the programs and give everything back; closing twice is harmless."""
        for link in self._links.values():
            self._library.call("bpf_link__destroy", link)
        self._links.clear()
        if self._object:
            self._library.call("bpf_object__close", self._object)
            self._object = None


class LoadError(SourceError):
    """An object could not be loaded. `program`: the one that the kernel refused, None when it was something else."""

    def __init__(self, reason: str, *, errno_value: int, program: str | None) -> None:
        super().__init__(source=SOURCE, reason=reason)
        self.denied = errno_value in (errno.EPERM, errno.EACCES) and program is None
        self.program = program
