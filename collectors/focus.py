# SPDX-License-Identifier: GPL-2.0-only
"""What the processes behind the focused window use: CPU time and memory of an application, not of one process.

A desktop that starts each application in a control group of its own (systemd, "Desktop Environment Integration")
makes it cheap: two files of cgroup v2. Elsewhere it is the window's process with all its descendants, which a browser's
content processes and a terminal's jobs are. They are found by parents over all of /proc, not by task/TID/children:
browsers fork from any of their hundreds of threads, each of which has such a file, while a listing of /proc costs
less and only processes that are new in it are looked at. Children that have ended are in their parent's own sums once
it has waited for them (cutime, cstime), and in no others: short jobs of a shell or of make count, though no look saw
them.
"""

import os
from pathlib import Path

from asa import procstat
from asa.core.errors import SourceError
from asa.core.sample import FocusCounters
from collectors import cgroups
from collectors.procfs.reader import KernelFile, after, bounded, counters, garbled, reason_of

MOST_PROCESSES = 256
"""Of one application; each takes a descriptor and some microseconds a tick. The rest of a larger one is left out."""

_SOURCE = "desktop"
_READS_PER_LOOK = 4  # a new process is counted this many ticks later at most
_MOST_NEW = 512  # processes looked at in one tick, 10 us each; the others wait for the next
_OLD = 60  # reads without a look; by then the numbers of processes may belong to others
_MOST_GROUPS = 256  # control groups below an application's own, walked through for their processes
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CPU, _MEMORY, _PROCESSES = "cpu.stat", "memory.current", "cgroup.procs"
_LINE_END = b"\n"  # a second read would have the kernel write the line anew
# Its own in user and kernel mode, then those of its children that it has waited for.
_CPU_TIMES = slice(procstat.USER, procstat.CHILDREN_SYSTEM + 1)


class FocusTracker:
    """Counters of the application that a process belongs to; keeps what it needs open between ticks."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc = proc
        self._groups = cgroups.mounted(sys)
        self._parents = _Parents(proc)
        self._pid: int | None = None
        self._of: _Group | _Tree | None = None

    def read(self, pid: int) -> FocusCounters | None:
        """Counters now of the application of `pid`; None when it has ended. Never raises."""
        self._parents.age += 1
        try:
            if pid != self._pid or self._of is None:
                self.close()
                self._pid = pid
                self._of = self._find(pid)
            return self._of.read()
        except SourceError:
            self.close()  # ended, or not to be read: the next tick looks anew
            return None

    def close(self) -> None:
        """Give the descriptors back. Never raises."""
        if self._of is not None:
            self._of.close()
        self._of = None
        self._pid = None

    def _find(self, pid: int) -> "_Group | _Tree":
        if self._groups is not None:
            path = application_group(self._proc, pid)
            if path and _there(self._groups / path / _MEMORY):  # no memory controller: the tree tells more
                return _Group(self._groups, path)
        return _Tree(self._parents, pid)


def application_group(proc: Path, pid: int) -> str:
    """Path, below the root of cgroup v2, of the application's group that `pid` is in; "" when it is in none.

    That is what lies right below app.slice: a scope or service, or the slice of an application that has several (a
    terminal with a scope for each tab). Raises SourceError for a process that is not there.
    """
    file = KernelFile(_SOURCE, proc / str(pid) / "cgroup")
    try:
        text = file.read()
    finally:
        file.close()
    _, found, line = (b"\n" + text).rpartition(b"\n0::/")  # cgroups(7): the line of version 2
    parts = os.fsdecode(line.partition(b"\n")[0]).split("/")
    if not found or cgroups.APPLICATIONS not in parts or ".." in parts:
        return ""
    end = parts.index(cgroups.APPLICATIONS) + 1
    while end < len(parts) and parts[end] in cgroups.INNER_SLICES:
        end += 1
    return "/".join(parts[: end + 1]) if end < len(parts) else ""


class _Group:
    # an application with a control group of its own

    def __init__(self, root: Path, path: str) -> None:
        self._name = cgroups.shown(path)
        self._folder = root / path
        self._processes = 0
        self._reads = 0
        self._cpu = KernelFile(_SOURCE, self._folder / _CPU)
        try:
            self._memory = KernelFile(_SOURCE, self._folder / _MEMORY)
        except SourceError:
            self._cpu.close()
            raise

    def read(self) -> FocusCounters:
        if self._reads % _READS_PER_LOOK == 0:
            self._processes = self._count()
        self._reads += 1
        usage = after(_SOURCE, _CPU, b"\n" + self._cpu.read(), b"\nusage_usec ")
        used_us, memory_bytes = counters(_SOURCE, _CPU, [usage, self._memory.read().strip()])
        return FocusCounters(
            group=self._name,
            processes=self._processes,
            cpu_ns=bounded(_SOURCE, _CPU, cpu_ns=used_us * 1000)["cpu_ns"],
            memory_bytes=memory_bytes,
        )

    def close(self) -> None:
        self._cpu.close()
        self._memory.close()

    def _count(self) -> int:
        # cgroup.procs has the processes of one group without those of the groups below
        count, folders, seen = 0, [self._folder], 0
        while folders and seen < _MOST_GROUPS:
            folder = folders.pop()
            seen += 1
            try:
                count += (folder / _PROCESSES).read_bytes().count(b"\n")
                with os.scandir(folder) as entries:
                    folders.extend(Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False))
            except OSError as error:
                if folder == self._folder:
                    raise SourceError(source=_SOURCE, reason=f"{folder}: {reason_of(error)}") from error
        return count


class _Parents:
    # who is whose child, of every process on the machine, as of when it was first seen

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._of: dict[int, int] = {}
        self.age = 0  # reads since the last look
        self.complete = False  # the first look over a crowded machine takes some ticks

    def stat(self, pid: int) -> KernelFile:
        return KernelFile(_SOURCE, self._proc / str(pid) / "stat")

    def look(self) -> None:
        try:
            present = {int(name) for name in os.listdir(self._proc) if name.isdigit()}  # noqa: PTH208  # 5 times faster
        except (OSError, ValueError) as error:
            raise SourceError(source=_SOURCE, reason=f"{self._proc}: {error}") from error
        if self.age > _OLD:
            self._of.clear()
        self.age = 0
        for pid in self._of.keys() - present:
            del self._of[pid]
        new = sorted(present - self._of.keys())
        for pid in new[:_MOST_NEW]:
            self._of[pid] = self._parent(pid)
        self.complete = len(new) <= _MOST_NEW

    def children(self) -> dict[int, list[int]]:
        children: dict[int, list[int]] = {}
        for pid, parent in self._of.items():
            children.setdefault(parent, []).append(pid)
        return children

    def _parent(self, pid: int) -> int:
        try:
            file = self.stat(pid)
            try:
                return counters(_SOURCE, f"{pid}/stat", [fields_of(file.read(_LINE_END))[procstat.PARENT]])[0]
            finally:
                file.close()
        except SourceError:
            return 0  # ended meanwhile, or another user's that is hidden: nobody's child


class _Tree:
    # a process and its descendants

    def __init__(self, parents: _Parents, pid: int) -> None:
        self._parents = parents
        self._reads = 0
        self._root = pid
        root = parents.stat(pid)
        self._members = {pid: root}  # in the order in which they were found
        try:
            started = counters(_SOURCE, f"{pid}/stat", [fields_of(root.read(_LINE_END))[procstat.STARTED]])[0]
        except SourceError:
            root.close()
            raise
        self._name = f"pid:{pid}@{started}"

    def read(self) -> FocusCounters | None:
        if not self._parents.complete or self._reads % _READS_PER_LOOK == 0:
            self._parents.look()
            self._gather()
        self._reads += 1
        ticks: list[bytes] = []
        pages: list[bytes] = []
        # Parents come before their children, so one that is waited for meanwhile is missing once, never counted twice.
        for pid, file in list(self._members.items()):
            try:
                fields = fields_of(file.read(_LINE_END))
            except SourceError:
                if pid == self._root:
                    raise
                del self._members[pid]  # it has ended; the descriptor knows, whoever has its number now
                file.close()
            else:
                ticks += fields[_CPU_TIMES]
                pages.append(fields[procstat.RESIDENT])
        cpu_ns = sum(counters(_SOURCE, "stat", ticks)) * _TICK_NS
        memory_bytes = sum(counters(_SOURCE, "stat", pages)) * _PAGE_BYTES
        if not self._parents.complete:
            return None
        sums = bounded(_SOURCE, "stat", cpu_ns=cpu_ns, memory_bytes=memory_bytes)
        return FocusCounters(group=self._name, processes=len(self._members), **sums)

    def close(self) -> None:
        for file in self._members.values():
            file.close()
        self._members.clear()

    def _gather(self) -> None:
        # One that was adopted by init after its parent ended stays with the application it came from.
        children = self._parents.children()
        waiting, reached = list(self._members), set(self._members)
        while waiting:
            for pid in children.get(waiting.pop(), ()):
                if pid in reached or len(self._members) >= MOST_PROCESSES:
                    continue
                reached.add(pid)
                waiting.append(pid)
                try:
                    self._members[pid] = self._parents.stat(pid)
                except SourceError:
                    continue  # ended meanwhile


def _there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110  # Path.exists raises where it may not look


def fields_of(text: bytes) -> list[bytes]:
    """Fields of /proc/PID/stat from the state on, proc_pid_stat(5). Raises SourceError."""
    fields = procstat.fields(text, procstat.RESIDENT + 1)
    if len(fields) <= procstat.RESIDENT:
        raise garbled(_SOURCE, "stat", text)
    return fields
