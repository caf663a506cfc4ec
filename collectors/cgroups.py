# SPDX-License-Identifier: GPL-2.0-only
"""/sys/fs/cgroup, version 2: the processor time of applications and services, by their control groups' cpu.stat.

Named are the outermost groups that stand for one thing: what systemd keeps below system.slice and below the app.slice,
session.slice and background.slice of each user, sessions, machines; and the leaves of trees that systemd did not make.
Which groups there are is looked at every ten seconds; in between, the known files are read. It needs no controller:
each group of version 2 has its usage_usec (Documentation/admin-guide/cgroup-v2.rst, cpu.stat).
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from asa.core.errors import SourceError
from asa.core.sample import GroupUsage
from collectors.procfs.reader import KernelFile, after, counters, reason_of

APPLICATIONS = "app.slice"
INNER_SLICES = frozenset({"app-graphical.slice"})
"""Between app.slice and the applications, where a session has it."""

_SOURCE = "groups"
_FILE = "cpu.stat"
_LIST_EVERY_NS = 10_000_000_000
_MOST = 64  # groups that are read in each tick; when there are more: those that used the most lately
_MOST_LISTED = 512  # groups that are looked at for that
_DEEPEST = 8
_MANAGER = re.compile(r"user@\d+\.service")  # the user's own systemd, with slices of its own below
_SESSIONS = re.compile(r"user-\d+\.slice")


class GroupCollector:
    """Fills `groups`."""

    name = _SOURCE

    def __init__(self, proc: Path, sys: Path, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:  # noqa: ARG002  # every collector is given both roots
        self.lacking: dict[str, str] = {}
        self._mount = sys / "fs/cgroup"
        self._monotonic_ns = monotonic_ns
        self._root = self._mount
        self._listed_ns = 0
        self._files: dict[str, KernelFile] = {}
        self._used_us: dict[str, int] = {}  # at the last listing, of all groups, while there are too many

    def open(self) -> None:
        """Find version 2 of control groups and list them. Raises SourceError where there is none."""
        roots = (self._mount, self._mount / "unified")  # the second where version 1 is mounted beside it (systemd)
        try:
            found = [root for root in roots if (root / "cgroup.controllers").exists()]
            first = (self._mount / "cpu").exists()
        except OSError as error:  # a /sys that is closed to this user
            raise SourceError(source=_SOURCE, reason=f"{self._mount}: {reason_of(error)}") from error
        if not found:
            there = "only version 1 of cgroups" if first else "no cgroups"
            reason = f"{self._mount}: {there}; boot with systemd.unified_cgroup_hierarchy=1 for version 2"
            raise SourceError(source=_SOURCE, reason=reason)
        self._root = found[0]
        self._list(self._monotonic_ns())

    def read(self) -> dict[str, object]:
        """Microseconds by group, sorted by path. Raises SourceError."""
        now_ns = self._monotonic_ns()
        if now_ns - self._listed_ns >= _LIST_EVERY_NS:
            try:
                self._list(now_ns)
            except SourceError:
                if not self._files:
                    raise
                # those that are known can be read all the same
        used = []
        for path in list(self._files):
            value = self._ask(path)
            if value is not None:
                used.append((shown(path), value))
        return {"groups": GroupUsage(cpu_us=tuple(used))}

    def close(self) -> None:
        """Give the descriptors back."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _ask(self, path: str) -> int | None:
        try:
            return used_us(path, self._files[path].read(b"usage_usec"))
        except SourceError:  # the group was removed, or tells nothing: it is looked for at the next listing
            self._files.pop(path).close()
            return None

    def _list(self, now_ns: int) -> None:
        self._listed_ns = now_ns
        try:
            paths = sorted(_units(str(self._root)))
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"{self._root}: {reason_of(error)}") from error
        if len(paths) > _MOST:
            paths = self._busiest(paths)
        for path in self._files.keys() - set(paths):
            self._files.pop(path).close()
        self._files = dict(self._opened(paths))

    def _opened(self, paths: list[str]) -> Iterator[tuple[str, KernelFile]]:
        for path in paths:
            try:
                yield path, self._files.get(path) or KernelFile(_SOURCE, self._root / path / _FILE)
            except SourceError:
                continue  # removed meanwhile

    def _busiest(self, paths: list[str]) -> list[str]:
        before, self._used_us = self._used_us, {}
        for path, file in self._opened(paths):
            try:
                self._used_us[path] = used_us(path, file.read(b"usage_usec"))
            except SourceError:
                continue
            finally:
                if path not in self._files:
                    file.close()
        lately = sorted(self._used_us, key=lambda path: before.get(path, 0) - self._used_us[path])
        return sorted(lately[:_MOST])


def mounted(sys: Path) -> Path | None:
    """Where version 2 is mounted, None where it is not, or where /sys is closed to this user. Never raises."""
    roots = (sys / "fs/cgroup", sys / "fs/cgroup/unified")
    # Path.exists raises where it may not look
    return next((root for root in roots if os.path.exists(root / "cgroup.controllers")), None)  # noqa: PTH110


def used_us(path: str, text: bytes) -> int:
    """`usage_usec` of the text of a cpu.stat. Raises SourceError."""
    file = f"{path}/{_FILE}"
    return counters(_SOURCE, file, [after(_SOURCE, file, b"\n" + text, b"\nusage_usec ")])[0]


def _units(root: str) -> Iterator[str]:
    # Paths below the root of what stands for one thing. Breadth does not matter, but the sum of listings is bounded.
    listed = 0
    folders = [("", 0)]
    while folders and listed < _MOST_LISTED:
        folder, depth = folders.pop()
        try:
            with os.scandir(f"{root}/{folder}") as entries:
                names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            if not folder:
                raise
            continue  # removed meanwhile
        listed += len(names)
        if folder and not names and _is_plain(folder):
            yield folder
        for name in names:
            path = f"{folder}/{name}" if folder else name
            if depth < _DEEPEST and _is_folder(folder, name):
                folders.append((path, depth + 1))
            else:
                yield path


def _is_folder(parent: str, name: str) -> bool:
    above = parent.rpartition("/")[2]
    if name.endswith(".slice"):
        if above == APPLICATIONS:
            return name in INNER_SLICES
        return above in ("", "user.slice") or _MANAGER.fullmatch(above) is not None
    if _MANAGER.fullmatch(name):
        return _SESSIONS.fullmatch(above) is not None
    return _is_plain(name)


def _is_plain(path: str) -> bool:
    # systemd's own units all have a suffix; containers of others (docker/1f0c..., lxc) have none
    return "." not in path.rpartition("/")[2]


def shown(path: str) -> str:
    """A group's path as UTF-8: its names may hold any byte, the journal may not."""
    return os.fsencode(path).decode("utf-8", "replace")
