# SPDX-License-Identifier: GPL-2.0-only
"""The kernel settings that a scheduler, or a switch, may change: which files, and reading and writing one of them.

Names are relative to /sys. Only files that the manifest's `settings` name are read or written, and only values that
such a file can hold, wherever a name or a value comes from. Decides nothing (that is `asa.act.undo`).
"""

import ctypes
import errno
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from asa import paths
from asa.act import manifest

RCU_EXPEDITED = "kernel/rcu_expedited"

_VALUE_BYTES = 64
_MS_BIND = 4096  # include/uapi/linux/mount.h
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR)  # a CPU or its driver went away


@cache  # a manifest of one's own that changes its settings is read by the next start
def _manifest() -> manifest.Manifest:
    return manifest.in_use(paths.manifest())


@cache
def _table() -> dict[str, tuple[re.Pattern[str], re.Pattern[str]]]:
    # a file's own name -> which files it stands for, and what may stand in each
    known = {**_manifest().settings, RCU_EXPEDITED: "[0-9]"}
    return {manifest.leaf(file): (re.compile(manifest.pattern(file)), re.compile(held)) for file, held in known.items()}


@cache
def doubtful() -> frozenset[str]:
    """Names of files (without their folders) that a scheduler may leave changed."""
    return frozenset(name for entry in _manifest().schedulers for name in entry.writes)


def files(sys: Path) -> Iterator[str]:
    """Names of the files that a scheduler may change and that this host has, rcu_expedited not among them."""
    for file in _manifest().settings:
        yield from _matching(f"{sys}", "", file.split("/"))


def _matching(sys: str, folder: str, parts: list[str]) -> Iterator[str]:
    part, rest = parts[0], parts[1:]
    names = [part] if "*" not in part else _numbered(f"{sys}/{folder}", part)
    for name in names:
        if rest:
            yield from _matching(sys, f"{folder}{name}/", rest)
        elif os.path.exists(f"{sys}/{folder}{name}"):  # noqa: PTH110  # half the cost of Path.exists, times CPUs
            yield f"{folder}{name}"


def _numbered(folder: str, part: str) -> list[str]:
    wanted = re.compile(manifest.pattern(part))
    try:
        return sorted(name for name in os.listdir(folder) if wanted.fullmatch(name))  # noqa: PTH208  # names, not paths
    except OSError:
        return []


def acceptable(name: str, value: str) -> bool:
    """Is this a file of the table, and a value that it can hold?"""
    file, allowed = _table().get(name.rpartition("/")[2], (None, None))
    return file is not None and allowed is not None and bool(file.fullmatch(name) and allowed.fullmatch(value))


def read(sys: Path, name: str) -> str | None:
    """The value; None when the file is gone, cannot be read, or holds what it should not."""
    try:
        descriptor = os.open(f"{sys}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        value = os.read(descriptor, _VALUE_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return value if acceptable(name, value) else None


def is_copy(view: Path, sys: Path, name: str) -> bool:
    """Is `name` below `view` (a process's own /sys) another file than the one below `sys`?"""
    try:
        return os.stat(f"{view}/{name}").st_dev != os.stat(f"{sys}/{name}").st_dev  # noqa: PTH116  # beside a switch
    except OSError:
        return False


def write(sys: Path, name: str, value: str) -> str:
    """Write it; "" when that was done or the file is gone, else why not. Raises ValueError for a file not ours."""
    if not acceptable(name, value):
        raise ValueError(f"{name}: {value!r}")
    try:
        descriptor = os.open(f"{sys}/{name}", os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        return "" if error.errno in _GONE else f"{sys}/{name}: cannot be set to {value!r}: {error.strerror}"
    return ""


def give_copies(sys: Path, folder: Path, values: Mapping[str, str]) -> None:
    """In a process with a mount namespace of its own: put files in memory over the settings `values`, with its values.

    What it then sets reaches nobody else. `folder` is on a tmpfs and is left as it was found. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    copy = f"{folder}/copy-{os.getpid()}"
    for name, value in values.items():
        if not acceptable(name, value):
            raise ValueError(f"{name}: {value!r}")
        if not os.path.exists(f"{sys}/{name}"):  # noqa: PTH110  # as above
            continue
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, f"{value}\n".encode())
            if libc.mount(copy.encode(), f"{sys}/{name}".encode(), None, _MS_BIND, None) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), f"{sys}/{name}")
        finally:
            os.close(descriptor)
            os.unlink(copy)  # noqa: PTH108  # the mount keeps it


def told(changes: dict[str, tuple[str, str]]) -> list[str]:
    """Lines for name -> (old, new): one for each setting and change, however many CPUs it was."""
    groups: dict[tuple[str, str, str], int] = {}
    for name, (old, new) in changes.items():
        key = (name.rpartition("/")[2], old, new)
        groups[key] = groups.get(key, 0) + 1
    return [
        f"{leaf}{f' of {count} CPUs' if count > 1 else ''}: {old} -> {new}"
        for (leaf, old, new), count in groups.items()
    ]
