# SPDX-License-Identifier: GPL-2.0-only
"""The manifest: which schedulers there are, how to get and run each, and which kernel settings they may change.

Reads `scx_bin/manifest.yaml`, and over it the administrator's own `/etc/asa/manifest.yaml`, which root alone may write.
Both are checked alike. Knows nothing of policies (`asa.act.policies`) and of what is installed (`asa.act.portfolio`).
"""

import re
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec

from asa import paths, yamlfile
from asa.act.knobs import Knobs
from asa.core.errors import InputError

_Text = Annotated[str, msgspec.Meta(min_length=1)]
# Names become file names, ops are compared with what a kernel reports (SCX_OPS_NAME_LEN 128: kernel/sched/ext.c).
_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
COMPOSED = "scx_compose_"
"""Begins the names of what `asa lab compose` makes."""
_Package = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9+.*-]+$")]


class Crate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="crate"):
    """A crate of the Rust registry; its binary has the scheduler's name."""

    crate: _Name
    version: _Text


class KernelSource(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="kernel-source"
):
    """A target of `tools/sched_ext` in a Debian kernel source package."""

    packages: Annotated[tuple[_Package, ...], msgspec.Meta(min_length=1)]  # names or patterns, the first held is used
    headers: _Package  # has vmlinux.h
    suite: _Package
    target: _Name


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="host"):
    """Used where the host has it, cannot be built; `reason` says why."""

    reason: _Text


class Composed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="composed"):
    """Made here from primitives: used where the host has it, and then with a token of the verifier alone."""

    reason: _Text = "`asa lab compose` makes it"


class Kernel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="kernel"):
    """Part of the kernel: nothing to install or to start."""


class Heeded(StrEnum):
    """What of a control group's settings a scheduler may heed: the file that says it."""

    WEIGHT = "cpu.weight"  # ops.cgroup_set_weight
    MAX = "cpu.max"  # ops.cgroup_set_bandwidth


class SchedulerEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scheduler of the manifest."""

    name: _Name  # SchedulerName, and the name of its binary
    source: Crate | KernelSource | Host | Composed | Kernel
    purpose: _Text
    ops: _Name | None  # what /sys/kernel/sched_ext/root/ops starts with; None for the kernel's own
    help: tuple[str, ...] | None  # arguments that make it print its flags; None when it cannot
    paper: bool  # in the paper's portfolio, else a candidate beyond it
    knobs: Knobs = Knobs()  # the flags that policies may set (asa.act.policies)
    writes: tuple[_Name, ...] = ()  # settings that it may leave changed, by their files' names
    honours: tuple[Heeded, ...] = ()  # of control groups, in each of its modes; the kernel's own heeds all


# Below /sys; `*` stands for a number, such as that of a CPU.
_File = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9_*]+(/[a-z0-9_*]+)+$", max_length=200)]
_Values = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]  # a regular expression


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file, or the packaged one with the administrator's own over it."""

    settings: dict[_File, _Values] = {}  # files that schedulers may change -> what such a file can hold
    schedulers: tuple[SchedulerEntry, ...] = ()


def in_use(path: Path) -> Manifest:
    """The manifest at `path`; over the packaged one the administrator's own. Raises InputError for what is wrong."""
    shipped = read(path)
    own = paths.own_manifest()
    if path != paths.manifest() or not paths.there(own):
        return shipped
    check_owner(own)
    return merged(shipped, yamlfile.load(own, Manifest), str(own))


def read(path: Path) -> Manifest:
    """One file, checked. Raises InputError."""
    found = yamlfile.load(path, Manifest)
    _check(found, str(path), found.schedulers)
    return found


def merged(shipped: Manifest, own: Manifest, path: str) -> Manifest:
    """`own` (read from `path`) over `shipped`: an entry takes the place of the one of its name. Raises InputError."""
    for name in own.settings:
        if name in shipped.settings:
            allowed = "a file that the packaged manifest does not have"
            raise InputError(path=path, key="settings", value=name, allowed=allowed)
    ours = {entry.name: entry for entry in own.schedulers}
    kernels = [entry.name for entry in shipped.schedulers if isinstance(entry.source, Kernel)]
    for index, entry in enumerate(own.schedulers):
        if entry.name in kernels:
            allowed = "another name: this one is the kernel's own scheduler, which nothing replaces"
            raise InputError(path=path, key=f"schedulers[{index}].name", value=entry.name, allowed=allowed)
        if isinstance(entry.source, Kernel):
            allowed = "a scheduler with a program of its own"
            raise InputError(path=path, key=f"schedulers[{index}].source", value="kernel", allowed=allowed)
    kept = tuple(ours.pop(entry.name, entry) for entry in shipped.schedulers)
    fresh = tuple(entry for entry in own.schedulers if entry.name in ours)
    found = Manifest(settings=shipped.settings | own.settings, schedulers=kept + fresh)
    _check(found, path, own.schedulers)
    return found


def check_owner(path: Path) -> None:
    """Raises InputError unless file and folder are root's, and nobody else can write them."""
    for place, kind in ((path, stat.S_ISREG), (path.parent, stat.S_ISDIR)):
        with suppress(OSError):
            facts = place.lstat()
            if kind(facts.st_mode) and facts.st_uid == 0 and not facts.st_mode & 0o022:
                continue
        allowed = "root's alone to write, and no symlink: chown root:root, chmod go-w"
        raise InputError(path=str(path), key="", value=str(place), allowed=allowed)


def leaf(file: str) -> str:
    """The name by which `writes` means a setting's file."""
    return file.rpartition("/")[2]


def pattern(file: str) -> str:
    """A regular expression of the files that a setting's name stands for."""
    return re.escape(file).replace(r"\*", "[0-9]{1,5}")


def writable(settings: Iterable[str]) -> list[str]:
    """The fewest places below /sys that hold all these files: what a service's sandbox has to let be written."""
    places = {file.partition("*")[0].rpartition("/")[0] if "*" in file else file for file in settings}
    return sorted(one for one in places if not any(one.startswith(f"{other}/") for other in places))


def _check(manifest: Manifest, path: str, entries: tuple[SchedulerEntry, ...]) -> None:
    # What the types cannot say; `entries`: those of the file at `path`, by whose places faults are told.
    leaves = Counter(leaf(file) for file in manifest.settings)
    for file, values in manifest.settings.items():
        if leaves[leaf(file)] > 1:
            raise InputError(path=path, key="settings", value=file, allowed="each file's name once")
        try:
            re.compile(values)
        except re.error as error:
            allowed = f"a regular expression of what the file can hold ({error})"
            raise InputError(path=path, key=f"settings.{file}", value=values, allowed=allowed) from error
    for field in ("name", "ops"):
        counted = Counter(getattr(entry, field) for entry in manifest.schedulers)
        for index, entry in enumerate(entries):
            value = getattr(entry, field)
            if value is not None and counted[value] > 1:
                raise InputError(path=path, key=f"schedulers[{index}].{field}", value=value, allowed="each one once")
    for index, entry in enumerate(entries):
        key = f"schedulers[{index}]"
        for place, value, allowed in entry.knobs.faults():
            raise InputError(path=path, key=f"{key}.knobs.{place}", value=value, allowed=allowed)
        if (entry.ops is None) != isinstance(entry.source, Kernel):
            allowed = "a prefix of the ops name, null for the kernel's own scheduler alone"
            raise InputError(path=path, key=f"{key}.ops", value=entry.ops, allowed=allowed)
        for name in entry.writes:
            if name not in leaves:
                known = ", ".join(sorted(leaves)) or "none, for there are no settings"
                raise InputError(path=path, key=f"{key}.writes", value=name, allowed=known)
