# SPDX-License-Identifier: GPL-2.0-only
"""How much of a machine others took while something was measured: the hypervisor, and processes that are not ours.

Reads stat, pressure/* and the stat of each process below `proc`, in two scans; `between` compares them. Ours is this
process with all its descendants, and what the caller names. Kernel threads work for all, so they count for nobody.
"""

import os
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from asa import procstat

LIMIT_PCT = 10.0
"""What was measured beside more noise than this is measured again."""

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of include/linux/sched.h
_STEAL = 7  # place in the line "cpu" of /proc/stat, whose unit is the same tick as that of a process
_PRESSURES = ("cpu", "io", "memory")


class Noise(msgspec.Struct, frozen=True, kw_only=True):
    """Between two scans. Shares of all CPUs; pressure is "some" of PSI, None where the kernel has none."""

    steal_pct: float
    others_pct: float
    busiest: str  # the other process that took most, by its name; "" for none
    cpu_pressure_pct: float | None
    io_pressure_pct: float | None
    memory_pressure_pct: float | None

    def complaint(self, limit_pct: float = LIMIT_PCT) -> str:
        """Why what was measured meanwhile is not worth much, in one line; "" when it is."""
        if self.steal_pct > limit_pct:
            return f"the hypervisor took {self.steal_pct:.0f} % of the CPUs, more than {limit_pct:g} %"
        if self.others_pct > limit_pct:
            most = f", most of it {self.busiest}" if self.busiest else ""
            return f"other programs took {self.others_pct:.0f} % of the CPUs, more than {limit_pct:g} %{most}"
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A process as its stat has it. `ticks` are its own and those of its children that have ended.

    Of who takes in orphans (init, systemd) they are its own alone: an orphan may have been anybody's.
    """

    name: str
    parent: int
    ticks: int
    kernel: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The machine at a moment. Tasks by (pid, start time): a pid is used again."""

    at_ns: int
    cpus: int
    steal_ticks: int
    stalled_us: Mapping[str, int]  # of each kind of pressure that the kernel tells
    tasks: Mapping[tuple[int, int], Task]
    ours: frozenset[int]

    @classmethod
    def take(cls, ours: Collection[int] = (), proc: Path = Path("/proc")) -> Self:
        """Now. `ours` are further processes of ours, wherever they went: `Session.members`. Raises OSError."""
        lines = [line.split() for line in (proc / "stat").read_text().splitlines()]
        cpus = [line for line in lines if line and line[0].startswith("cpu")]
        tasks = {}
        for entry in proc.iterdir():
            if entry.name.isdecimal():
                with suppress(OSError):  # it ended meanwhile
                    pid = int(entry.name)
                    started, task = _task(pid, (entry / "stat").read_bytes())
                    tasks[pid, started] = task
        return cls(
            at_ns=time.monotonic_ns(),
            cpus=len(cpus) - 1,
            steal_ticks=int(cpus[0][1 + _STEAL]),
            stalled_us={kind: us for kind in _PRESSURES if (us := _stalled_us(proc / "pressure" / kind)) is not None},
            tasks=tasks,
            ours=_descendants({os.getpid(), *ours}, tasks),
        )


def between(before: Scan, after: Scan, tick_hz: int = os.sysconf("SC_CLK_TCK")) -> Noise:
    """What others took meanwhile."""
    elapsed_s = max((after.at_ns - before.at_ns) / 1e9, 1e-9)
    total = elapsed_s * tick_hz * after.cpus
    others = _others(before, after)
    most = others.most_common(1)

    def pressure(kind: str) -> float | None:
        if kind not in before.stalled_us or kind not in after.stalled_us:
            return None
        return _pct(after.stalled_us[kind] - before.stalled_us[kind], elapsed_s * 1e6)

    return Noise(
        steal_pct=_pct(after.steal_ticks - before.steal_ticks, total),
        others_pct=_pct(others.total(), total),
        busiest=most[0][0] if most and most[0][1] > 0 else "",
        cpu_pressure_pct=pressure("cpu"),
        io_pressure_pct=pressure("io"),
        memory_pressure_pct=pressure("memory"),
    )


def _others(before: Scan, after: Scan) -> Counter[str]:
    """Ticks by name. One that is new counts whole.

    One that is gone has handed its ticks to its parent, which have been counted up to the first scan.
    """
    ours = before.ours | after.ours
    gone = {key[0]: task for key, task in before.tasks.items() if key not in after.tasks}
    handed: Counter[int] = Counter()
    for task in gone.values():
        heir = task.parent
        while heir in gone:  # which has handed on what it was handed
            heir = gone[heir].parent
        handed[heir] += task.ticks
    found: Counter[str] = Counter()
    for key, task in after.tasks.items():
        pid = key[0]
        if task.kernel or pid in ours:
            continue
        known = before.tasks.get(key)
        spent = task.ticks - (known.ticks + handed[pid] if known is not None else 0)
        found[task.name] += max(0, spent)
    return found


def _descendants(roots: set[int], tasks: Mapping[tuple[int, int], Task]) -> frozenset[int]:
    parents = {pid: task.parent for (pid, _), task in tasks.items()}
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return frozenset(found)


def _task(pid: int, text: bytes) -> tuple[int, Task]:
    fields, name = procstat.fields(text), procstat.name(text).decode(errors="replace")
    last = procstat.SYSTEM if pid == 1 or name == "systemd" else procstat.CHILDREN_SYSTEM
    ticks = sum(int(field) for field in fields[procstat.USER : last + 1])
    kernel = bool(int(fields[procstat.FLAGS]) & _KERNEL_THREAD)
    task = Task(name=name, parent=int(fields[procstat.PARENT]), ticks=ticks, kernel=kernel)
    return int(fields[procstat.STARTED]), task


def _stalled_us(path: Path) -> int | None:
    try:
        words = path.read_text().split()
    except OSError:  # a kernel without PSI, or booted with it off
        return None
    return int(words[4].partition("=")[2]) if words[:1] == ["some"] else None


def _pct(part: float, whole: float) -> float:
    return round(max(0.0, 100.0 * part / whole), 3)
