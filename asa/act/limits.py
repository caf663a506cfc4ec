# SPDX-License-Identifier: GPL-2.0-only
"""Control groups whose CPU time is limited (cpu.max) or weighed (cpu.weight), and who of the portfolio heeds that.

A sched_ext scheduler has to do both itself (ops.cgroup_set_bandwidth, ops.cgroup_set_weight); most do neither, and a
switch to one of them lifts a limit silently. Reads /sys/fs/cgroup, version 2; decides nothing.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asa.act.manifest import Heeded, SchedulerEntry

_MOST = 4096  # groups that are looked at
_DEEPEST = 12
_NEUTRAL = 100  # cpu.weight where nobody has said otherwise, Documentation/admin-guide/cgroup-v2.rst
# systemd weighs the slices of a user's session itself, on every desktop: that is an order of the desktop, no limit
_OF_THE_DESKTOP = re.compile(r"(^|/)user\.slice(/user-\d+\.slice)?$|/user@\d+\.service(/\w+\.slice)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One group with processes in it, and what it is told."""

    group: str  # path below the mount
    kind: Heeded
    value: str  # as the kernel writes it

    @property
    def words(self) -> str:
        """For people: a quota as a number of CPUs."""
        if self.kind is Heeded.WEIGHT:
            return f"{self.group} ({self.kind} {self.value})"
        quota, _, period = self.value.partition(" ")
        return f"{self.group} ({self.kind} {int(quota) / int(period):.4g} CPUs)"


def found(sys: Path) -> tuple[Limit, ...]:
    """All that are in force, by path."""
    roots = (sys / "fs/cgroup", sys / "fs/cgroup/unified")
    root = next((one for one in roots if (one / "cgroup.controllers").exists()), None)
    if root is None:
        return ()
    limits: list[Limit] = []
    for folder in _groups(root):
        group = str(folder.relative_to(root))
        here = [(kind, value) for kind in Heeded if (value := _value(folder, group, kind)) is not None]
        if here and _word(folder / "cgroup.events").startswith("populated 1"):
            limits.extend(Limit(group=group, kind=kind, value=value) for kind, value in here)
    return tuple(sorted(limits, key=lambda limit: limit.group))


def heedless(limits: Iterable[Limit], entries: Iterable[SchedulerEntry]) -> frozenset[str]:
    """Schedulers of the manifest that lack something of what the limits ask for. The kernel's own heeds all."""
    wanted = {limit.kind for limit in limits}
    return frozenset(entry.name for entry in entries if entry.ops is not None and not wanted <= set(entry.honours))


def sentence(limits: Collection[Limit], out: Collection[str]) -> str:
    """What is limited, and who is not chosen for it."""
    shown = ", ".join(limit.words for limit in list(limits)[:_SHOWN])
    more = f" and {len(limits) - _SHOWN} more" if len(limits) > _SHOWN else ""
    return f"limits of CPU time are in force: {shown}{more}; not chosen, as they lift them: {', '.join(sorted(out))}"


_SHOWN = 4


def _groups(root: Path) -> Iterator[Path]:
    folders, seen = [(root, 0)], 0
    while folders and seen < _MOST:
        folder, depth = folders.pop()
        with suppress(OSError):  # removed meanwhile
            for path in folder.iterdir():
                if not path.is_symlink() and path.is_dir():
                    seen += 1
                    yield path
                    if depth < _DEEPEST:
                        folders.append((path, depth + 1))


def _value(folder: Path, group: str, kind: Heeded) -> str | None:
    """What it says there, None where that limits nothing."""
    text = _word(folder / kind)
    if kind is Heeded.MAX:
        return text if re.fullmatch(r"\d+ [1-9]\d*", text) else None
    if _OF_THE_DESKTOP.search(group):
        return None
    return text if text.isdecimal() and int(text) != _NEUTRAL else None


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
