# SPDX-License-Identifier: GPL-2.0-only
"""Fabricated hosts as trees of files, and whether `asa doctor` begins with the right sentence on each.

`hosts.yaml` has the hosts. Nothing of the machine that runs this is asked but its PATH and /boot, which no sentence
depends on.
"""

import hashlib
import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asa import paths, verdict, yamlfile
from asa.doctor import Around, examine
from asa.verdict import Fitness, Verdict

HOSTS = Path(__file__).with_name("hosts.yaml")
_STRINGS = b"\0task_struct\0sched_ext_ops\0bpf_struct_ops_sched_ext_ops\0bpf_prog_aux\0scx_bpf_kick_cpu\0cpu\0aux\0"
_STATUS = "Name:\t{name}\nState:\tS (sleeping)\nPPid:\t1\nUid:\t0\t0\t0\t0\n"


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One host, and what is expected there."""

    name: str
    fitness: Fitness
    says: Annotated[str, Meta(min_length=1)]  # of the first sentence
    uid: int = 1000
    helper: bool = True
    release: str = "6.18.15-200.fc43.x86_64"
    state: str = "disabled"  # of sched_ext, "" for a kernel without it
    ops: str = ""
    btf: str = "fit"  # fit, missing, damaged, swapped, filled-in
    schedulers: tuple[str, ...] = ("scx_lavd",)
    changed: bool = False  # their files, since they were recorded
    settings: str = ""
    processes: tuple[tuple[str, ...], ...] = ()  # name, unit, arguments
    files: dict[str, str] = {}


def hosts() -> tuple[Host, ...]:
    """All of `hosts.yaml`. Raises InputError."""
    return yamlfile.load(HOSTS, tuple[Host, ...])


def judged(host: Host, folder: Path) -> Verdict:
    """What `asa doctor` finds on this host, whose tree is made below `folder`."""
    around = Around(uid=host.uid, helper=host.helper, units={}, release=host.release, gate=lambda _: "")
    return verdict.of(examine(_made(host, folder), around))


def is_right(host: Host, found: Verdict) -> bool:
    """Is that what is expected?"""
    return found.fitness is host.fitness and host.says in found.sentence


def _made(host: Host, folder: Path) -> paths.Places:
    places = paths.Places(
        proc=folder / "proc",
        sys=folder / "sys",
        run=folder / "run",
        cache=folder / "cache",
        state=folder / "state",
        config=folder / "asa.yaml",
    )
    for path, text in _files(host):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode() if isinstance(text, str) else text)
    places.schedulers.mkdir(parents=True, exist_ok=True)
    records = {name: _installed(places.cache / "bin" / name, changed=host.changed) for name in host.schedulers}
    (places.schedulers / "installed.json").write_text(json.dumps({"schedulers": records}))
    return places


def _files(host: Host) -> Iterator[tuple[str, str | bytes]]:
    yield "asa.yaml", f"collect: {{ebpf: off, desktop: false}}\n{host.settings}"
    yield "proc/cmdline", "quiet\n"
    yield "sys/kernel/notes", ""
    if host.state:
        yield "sys/kernel/sched_ext/state", f"{host.state}\n"
        yield "sys/kernel/sched_ext/enable_seq", "0\n"
    if host.ops:
        yield "sys/kernel/sched_ext/root/ops", f"{host.ops}\n"
    if host.btf != "missing":
        yield "sys/kernel/btf/vmlinux", _btf(host.btf)
    for number, (name, unit, *words) in enumerate(host.processes, 700):
        yield f"proc/{number}/status", _STATUS.format(name=name)
        yield f"proc/{number}/cmdline", "\0".join((name, *words, ""))
        yield f"proc/{number}/cgroup", f"0::/system.slice/{unit}\n"
    yield from host.files.items()


def _installed(binary: Path, *, changed: bool) -> dict[str, object]:
    binary.parent.mkdir(parents=True, exist_ok=True)
    text = b"#!/bin/sh\n"
    binary.write_bytes(text + b"# an update\n" if changed else text)
    binary.chmod(0o755)
    return {
        "path": str(binary),
        "origin": "path",
        "version": "1.1.4",
        "sha256": hashlib.sha256(text).hexdigest(),
        "flags": None,
        "installed": "2026-01-01T00:00:00+00:00",
    }


def _btf(kind: str) -> bytes:
    # struct btf_header and a few types, Documentation/bpf/btf.rst
    if kind == "damaged":
        return b"\x9f\xeb\x01\x00" + bytes(100)

    def at(name: bytes) -> int:
        return _STRINGS.index(b"\0" + name + b"\0") + 1

    structs = (b"task_struct", b"sched_ext_ops", b"bpf_struct_ops_sched_ext_ops", b"bpf_prog_aux")  # [1] to [4]
    types = b"".join(struct.pack("=III", at(name), 4 << 24, 0) for name in structs)
    types += struct.pack("=III", 0, 2 << 24, 4)  # [5]: a pointer to the last
    arguments = (at(b"cpu"), 5, at(b"aux"), 5)[: 4 if kind == "filled-in" else 2]
    types += struct.pack(f"=III{len(arguments)}I", 0, 13 << 24 | len(arguments) // 2, 0, *arguments)  # [6]
    types += struct.pack("=III", at(b"scx_bpf_kick_cpu"), 12 << 24, 6)
    other = ">" if sys.byteorder == "little" else "<"
    order = other if kind == "swapped" else "="
    return (
        struct.pack(f"{order}HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(_STRINGS)) + types + _STRINGS
    )
