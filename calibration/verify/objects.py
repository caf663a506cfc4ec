# SPDX-License-Identifier: GPL-2.0-only
"""The object stage: what a compiled scheduler is, without loading it.

Reads ELF by pyelftools and the object's types (BTF) by bpftool. A program is looked through for the object that it has
in itself, as each one has that is built with a skeleton. A kernel's BTF tells which functions it lacks.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from asa.core.errors import AsaError
from calibration.verify.report import Finding
from calibration.verify.rules.findings import doubt, fault, note
from calibration.verify.source import LONGEST_TIMEOUT_MS

MOST_MAP_BYTES = 64 << 20
MOST_INSTRUCTIONS = 65_536
"""Of one program. The kernel follows at most a million, BPF_COMPLEXITY_LIMIT_INSNS of include/linux/bpf.h."""
BUILT_FOR_CPUS = 16  # per-CPU maps are counted for so many

_MAGIC = b"\x7fELF"
_EM_BPF = 247  # include/uapi/linux/elf-em.h
_NAME = re.compile(r"^[A-Za-z0-9_.]{1,127}$")  # bpf_obj_name_cpy() of kernel/bpf/syscall.c; SCX_OPS_NAME_LEN
_OPS = "sched_ext_ops"
_ENQ_LAST = 1 << 1  # SCX_OPS_ENQ_LAST of kernel/sched/ext_internal.h
_PER_CPU = frozenset({5, 6, 10})  # hash, array, LRU hash: include/uapi/linux/bpf.h
_FLAVOUR = re.compile(r"___.*$")
_LIMIT_S = 60.0
_LARGEST_BYTES = 64 << 20


class ObjectError(AsaError):
    """An object that cannot be looked into, for want of a tool or of sense in it."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a kernel offers to schedulers: names of its functions and variables."""

    release: str
    names: frozenset[str]


def kernel(btf: Path, release: str) -> Kernel:
    """By a file with its BTF, such as /sys/kernel/btf/vmlinux or a vmlinux. Raises ObjectError."""
    found = re.findall(r"^\[\d+\] (?:FUNC|VAR) '([^']+)'", _bpftool("btf", "dump", "file", str(btf)), re.MULTILINE)
    if not found:
        raise ObjectError(f"{btf}: has no types of functions")
    return Kernel(release, frozenset(found))


def check(data: bytes, kernels: tuple[Kernel, ...] = (), *, composed: bool = False) -> Iterator[Finding]:
    """What is wrong with an object, or with those in a program. `composed`: made here. Raises ObjectError."""
    if len(data) > _LARGEST_BYTES:
        raise ObjectError(f"the file has {len(data)} bytes, more than {_LARGEST_BYTES}")
    if not data.startswith(_MAGIC):
        yield fault("no-object", f"the file is no ELF: it begins with {data[:4].hex() or 'nothing'}")
        return
    try:
        elf = ELFFile(BytesIO(data))
        machine = elf["e_machine"]
        if machine in {"EM_BPF", _EM_BPF}:
            yield from _Object(elf, data, composed=composed).findings(kernels)
            return
        objects = embedded(data)
        if not objects:
            yield fault("other-architecture", f"the object is of {machine}, not of BPF, and has none in itself")
        for one in objects:
            yield from _Object(ELFFile(BytesIO(one)), one, composed=composed).findings(kernels)
    except (ELFError, ConstructError, IndexError, KeyError, TypeError, UnicodeDecodeError, ValueError) as error:
        yield fault("damaged", f"the object is cut short or damaged: {str(error) or type(error).__name__}")


def embedded(data: bytes) -> list[bytes]:
    """The BPF objects in a program's bytes, by the end of each one's section headers."""
    found = []
    at = data.find(_MAGIC, 1)
    while at >= 0:
        head = data[at : at + 64]
        if len(head) == 64 and int.from_bytes(head[18:20], "little") == _EM_BPF:
            headers, size, count = (int.from_bytes(head[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62)))
            end = at + headers + size * count
            if end <= len(data):
                found.append(data[at:end])
        at = data.find(_MAGIC, at + 4)
    return found


class _Object:
    """One BPF object."""

    def __init__(self, elf: ELFFile, data: bytes, *, composed: bool) -> None:
        self._elf = elf
        self._composed = composed
        self._sections = {section.name: section for section in elf.iter_sections()}
        for name, section in self._sections.items():
            if section["sh_type"] != "SHT_NOBITS" and section["sh_offset"] + section["sh_size"] > len(data):
                raise ValueError(f"section {name!r} ends beyond the file")
        if ".BTF" not in self._sections:
            raise ValueError("it has no .BTF section; compile it with -g")
        self._types = _types(data)

    def findings(self, kernels: tuple[Kernel, ...]) -> Iterator[Finding]:
        yield from self._programs()
        yield from self._license()
        yield from self._operations()
        yield from self._maps()
        yield from self._variables()
        yield from self._missing(kernels)

    def _programs(self) -> Iterator[Finding]:
        for name, section in self._sections.items():
            flags = section["sh_flags"]
            if section["sh_type"] != "SHT_PROGBITS" or not flags & 0x4 or not section["sh_size"]:  # SHF_EXECINSTR
                continue
            count = section["sh_size"] // 8
            if count > MOST_INSTRUCTIONS:
                yield fault("too-long", f"{name} has {count} instructions, more than {MOST_INSTRUCTIONS}")
            kind = name.lstrip("?").partition("/")[0]
            if kind not in {"struct_ops", "struct_ops.s", ".text", "syscall"}:
                say = fault if self._composed else note
                yield say("other-program", f"{name} is no part of a scheduler (struct_ops)")
            elif kind == "syscall" and self._composed:
                yield fault("other-program", f"{name} is no part of a scheduler (struct_ops)")

    def _license(self) -> Iterator[Finding]:
        section = self._sections.get("license")
        said = section.data().split(b"\0")[0].decode("ascii", "replace") if section is not None else ""
        if "GPL" not in said:
            yield fault("license", f"its license is {said!r}: the kernel gives scheduling to GPL programs alone")

    def _operations(self) -> Iterator[Finding]:
        tables = [one for name, one in self._sections.items() if re.fullmatch(r"\??\.struct_ops(?:\.link)?", name)]
        members = self._members(_OPS)
        if not tables or not members:
            yield fault("no-scheduler", "it has no struct sched_ext_ops")
            return
        for table in tables:
            for begin in self._instances(table.name):
                data = table.data()[begin:]
                yield from self._table(data, members, self._callbacks(table.name, begin, members))

    def _table(self, data: bytes, members: Mapping[str, tuple[int, int]], callbacks: set[str]) -> Iterator[Finding]:
        def number(name: str) -> int:
            at, size = members.get(name, (0, 0))
            return int.from_bytes(data[at : at + size], "little")

        at, size = members["name"]
        name = data[at : at + size].split(b"\0")[0].decode("latin-1")
        if not _NAME.fullmatch(name):
            yield fault("name", f"ops.name is {name!r}; sysfs and the kernel take letters, digits, _ and .")
        timeout = number("timeout_ms")
        if timeout > LONGEST_TIMEOUT_MS:
            yield fault("timeout", f"timeout_ms is {timeout}; the kernel takes at most {LONGEST_TIMEOUT_MS}")
        elif not timeout:
            say = fault if self._composed else note
            yield say("timeout", f"timeout_ms is not set: the kernel waits {LONGEST_TIMEOUT_MS} ms before it steps in")
        if number("flags") & _ENQ_LAST and "enqueue" not in callbacks:
            yield fault("enq-last", "SCX_OPS_ENQ_LAST needs ops.enqueue: the kernel refuses it")
        # Which functions each callback calls is the source's to tell; without dispatch no queue of its own is served.
        if "dispatch" not in callbacks and "scx_bpf_create_dsq" in self._externs():
            yield fault("queue-not-drained", "it makes a queue, and has no ops.dispatch that serves it")

    def _instances(self, section: str) -> list[int]:
        found = [
            one["offset"]
            for kind in self._types.values()
            if kind["kind"] == "DATASEC" and kind["name"] == section
            for one in kind["vars"]
            if self._struct(one["type_id"]) == _OPS
        ]
        return found or []

    def _callbacks(self, section: str, begin: int, members: Mapping[str, tuple[int, int]]) -> set[str]:
        relocated = self._elf.get_section_by_name(f".rel{section}")
        if not isinstance(relocated, RelocationSection):
            return set()
        places = {one["r_offset"] - begin for one in relocated.iter_relocations()}
        return {name for name, (at, _) in members.items() if at in places}

    def _maps(self) -> Iterator[Finding]:
        total = 0
        for name, kind, one, entries in self._each_map():
            memory = one * (BUILT_FOR_CPUS if kind in _PER_CPU else 1)
            total += memory
            if memory > MOST_MAP_BYTES:
                yield fault("map-memory", f"map {name} takes {memory >> 20} MB for {entries} entries")
        if total > MOST_MAP_BYTES:
            yield fault("map-memory", f"its maps take {total >> 20} MB, more than {MOST_MAP_BYTES >> 20}")

    def _variables(self) -> Iterator[Finding]:
        """What btf_datasec_resolve() of kernel/bpf/btf.c refuses, with all the object's types."""
        for kind in self._types.values():
            for one in kind["vars"] if kind["kind"] == "DATASEC" and kind["name"] != ".ksyms" else ():
                variable = self._types[one["type_id"]]
                if one["size"] < self._size(one["type_id"]):
                    yield fault(
                        "types",
                        f"{variable['name']} has {one['size']} bytes, and a type of {self._size(one['type_id'])}: the "
                        "kernel refuses that; clang makes it of a static array of which one place is used",
                    )

    def _each_map(self) -> Iterator[tuple[str, int, int, int]]:
        for kind in self._types.values():
            if kind["kind"] != "DATASEC" or kind["name"] != ".maps":
                continue
            for one in kind["vars"]:
                variable = self._types[one["type_id"]]
                fields = {member["name"]: member["type_id"] for member in self._plain(variable["type_id"])["members"]}
                entries = self._counted(fields.get("max_entries"))
                each = sum(
                    self._counted(fields.get(f"{part}_size")) or self._size(self._pointed(fields.get(part)))
                    for part in ("key", "value")
                )
                yield variable["name"], self._counted(fields.get("type")), each * entries, entries

    def _missing(self, kernels: tuple[Kernel, ...]) -> Iterator[Finding]:
        if not kernels:
            yield doubt("no-kernel", "no kernel's BTF was given, so that functions it may lack were not looked for")
        for one in kernels:
            lacking = sorted(name for name in self._externs(weak=False) if name not in one.names)
            if lacking:
                yield fault("not-in-kernel", f"Linux {one.release} has no {', '.join(lacking)}")

    def _externs(self, *, weak: bool = True) -> set[str]:
        table = self._elf.get_section_by_name(".symtab")
        if not isinstance(table, SymbolTableSection):
            return set()
        binds = {one.name: one["st_info"]["bind"] for one in table.iter_symbols() if one["st_shndx"] == "SHN_UNDEF"}
        wanted = {
            self._types[one["type_id"]]["name"]
            for kind in self._types.values()
            if kind["kind"] == "DATASEC" and kind["name"] == ".ksyms"
            for one in kind["vars"]
        }
        return {
            _FLAVOUR.sub("", name) for name, bind in binds.items() if name in wanted and (weak or bind != "STB_WEAK")
        }

    def _members(self, name: str) -> dict[str, tuple[int, int]]:
        """Member -> where it begins and how many bytes it has."""
        for kind in self._types.values():
            if kind["kind"] == "STRUCT" and kind["name"] == name:
                return {one["name"]: (one["bits_offset"] // 8, self._size(one["type_id"])) for one in kind["members"]}
        return {}

    def _plain(self, number: int) -> dict[str, Any]:
        for _ in range(32):
            kind = self._types.get(number, {"kind": "VOID", "name": ""})
            if kind["kind"] not in {"TYPEDEF", "CONST", "VOLATILE", "RESTRICT", "TYPE_TAG", "VAR"}:
                return kind
            number = kind["type_id"]
        raise ValueError("its types go round in a circle")

    def _struct(self, number: int) -> str:
        return str(self._plain(number)["name"])

    def _pointed(self, number: int | None) -> int:
        kind = self._plain(number or 0)
        return int(kind["type_id"]) if kind["kind"] == "PTR" else 0

    def _counted(self, number: int | None) -> int:
        """libbpf's __uint(): a pointer to an array of so many."""
        array = self._plain(self._pointed(number))
        return int(array["nr_elems"]) if array["kind"] == "ARRAY" else 0

    def _size(self, number: int, depth: int = 16) -> int:
        kind = self._plain(number)
        if kind["kind"] == "PTR":
            return 8
        if kind["kind"] == "ARRAY" and depth:
            return int(kind["nr_elems"]) * self._size(kind["type_id"], depth - 1)
        return int(kind.get("size", 0))


def _types(data: bytes) -> dict[int, dict[str, Any]]:
    with tempfile.NamedTemporaryFile(suffix=".bpf.o") as file:
        file.write(data)
        file.flush()
        try:
            found = json.loads(_bpftool("--json", "btf", "dump", "file", file.name))
        except json.JSONDecodeError as error:
            raise ValueError(f"its BTF cannot be read ({error})") from error
    if "types" not in found:
        raise ValueError("its BTF cannot be read")
    return {kind["id"]: kind for kind in found["types"]}


def _bpftool(*arguments: str) -> str:
    program = shutil.which("bpftool") or shutil.which("bpftool", path="/usr/sbin:/sbin")
    if program is None:
        raise ObjectError("bpftool is not installed; run `asa lab setup`")
    try:
        done = subprocess.run([program, *arguments], capture_output=True, check=False, timeout=_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ObjectError(f"bpftool could not be run: {error}") from error
    return done.stdout.decode("utf-8", "replace")
