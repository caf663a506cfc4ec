# SPDX-License-Identifier: GPL-2.0-only
"""All schedulers that sysfs shows: the machine's own, and those of control groups below it (Linux 7.1), with counters.

kernel/sched/ext.c makes a folder for each: `root`, and in it `sub/sub-ID`, where ID is the control group's (its inode
number in cgroup2), which a scheduler names by `ops.sub_cgroup_id`. ASA loads machine-wide schedulers alone; what it
does with others is to name them. `asa.act.kernel` is what each tick reads, and it looks at the machine's own.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_LARGEST_BYTES = 4096  # sysfs gives a page at most
_DEEPEST = 4  # SCX_SUB_MAX_DEPTH
_BYPASSED_NS, _BYPASSES = "SCX_EV_BYPASS_DURATION", "SCX_EV_BYPASS_ACTIVATE"
_REFUSED = "SCX_EV_INSERT_NOT_OWNED"


@dataclass(frozen=True, slots=True, kw_only=True)
class InKernel:
    """One scheduler. `sub_cgroup_id` None: the machine's own. `events`: counts since it was loaded, {} before 6.14."""

    ops: str
    sub_cgroup_id: int | None
    events: Mapping[str, int]

    @property
    def trouble(self) -> str:
        """What its counters say that a person should know, "" for nothing.

        In bypass mode the kernel schedules in first-come order without it: while it is loaded, in suspend, and when
        it is in the way.
        """
        bypassed_s = self.events.get(_BYPASSED_NS, 0) / 1e9
        words = []
        if bypassed_s >= 1.0:
            times = self.events.get(_BYPASSES, 0)
            words.append(f"bypassed {times} times, {bypassed_s:.1f} s in all (loading and suspend count, too)")
        if self.events.get(_REFUSED, 0):
            words.append(f"{self.events[_REFUSED]} tasks that were not its own to place")
        return "; ".join(words)


def schedulers(sys: Path) -> tuple[InKernel, ...]:
    """The machine's own first, then those of control groups, parents before children; () where none is in force."""
    return tuple(_below(sys / "kernel/sched_ext/root", None, 0))


def group(sub_cgroup_id: int, sys: Path) -> str:
    """The control group of that number, as a path below cgroup2's root; "" where it is not found. Walks the tree."""
    root = sys / "fs/cgroup"
    for folder, _, _ in os.walk(root):
        with suppress(OSError):  # removed meanwhile
            if os.stat(folder).st_ino == sub_cgroup_id:  # noqa: PTH116  # of os.walk
                return f"/{os.path.relpath(folder, root)}"
    return ""


def isolated(sys: Path) -> str:
    """CPUs that `isolcpus=` keeps from load balancing, as the kernel lists them; "" for none.

    With any, the kernel refuses each scheduler with EINVAL (scx_enable, Linux 6.12 and later).
    """
    return _text(sys / "devices/system/cpu/isolated")


def _below(folder: Path, sub_cgroup_id: int | None, depth: int) -> Iterator[InKernel]:
    ops = _text(folder / "ops")
    if not ops:
        return
    yield InKernel(ops=ops, sub_cgroup_id=sub_cgroup_id, events=_events(_text(folder / "events")))
    if depth < _DEEPEST:
        for sub in sorted((folder / "sub").glob("sub-*")):
            number = sub.name.removeprefix("sub-")
            if number.isdecimal():
                yield from _below(sub, int(number), depth + 1)


def _events(text: str) -> dict[str, int]:
    # `NAME COUNT` a line; which there are differs from release to release
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
