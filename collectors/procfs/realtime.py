# SPDX-License-Identifier: GPL-2.0-only
"""Threads that the kernel puts before all ordinary ones (sched(7): FIFO, RR, deadline): how many, and their CPU time.

An audio server has one or two of them, which rtkit made so; an encoder under `chrt` has a hundred, and then nothing
that a sched_ext scheduler decides matters. The kernel's own are left out: every machine has those.

Of each process the threads are asked for their policy, some processes in a tick, so that all have had their turn after
16 ticks; that is a system call of 0.3 us a thread. CPU time is read of those that were found, 64 a tick: it counts from
when a thread was found.
"""

import os
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from asa import procstat
from asa.core.errors import SourceError
from asa.core.sample import RealtimeCounters
from collectors.procfs.reader import counters, garbled, reason_of

_SOURCE = "realtime"
_ROUND = 16  # ticks in which each process is looked at once,
_MOST_PROCESSES = 48  # unless there are very many; then it takes longer
_MOST_THREADS = 1024  # of a process
_MOST_READ = 64
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
_RESET_ON_FORK = 0x40000000  # SCHED_RESET_ON_FORK: rtkit sets it, and the call tells it with the policy
_REALTIME = frozenset({1, 2, 6})  # SCHED_FIFO, SCHED_RR, SCHED_DEADLINE: include/uapi/linux/sched.h
_LONGEST_LINE = 4096

Thread = tuple[int, int]
"""Process and thread."""


class RealtimeCollector:
    """Fills `realtime`. A thread that ends or cannot be read is gone; only /proc itself can fail."""

    name = _SOURCE

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self.lacking: dict[str, str] = {}
        self._proc = proc
        # the call knows threads by the numbers of this machine's own /proc; of any other one the text tells
        self._policy: Callable[[int, int], int] = _by_call if proc == Path("/proc") else self._by_text
        self._queue: deque[int] = deque()  # processes whose turn is yet to come in this round
        self._a_tick = 0
        self._kernels: set[int] = set()
        self._found: dict[int, dict[int, int | None]] = {}  # process -> thread -> CPU time when it was read last, ns
        self._turn: deque[Thread] = deque()  # found threads, in the order of their next reading
        self._cpu_ns = 0

    def open(self) -> None:
        """Look at all processes once. Raises SourceError."""
        self._begin()
        while self._queue:
            self._look(self._queue.popleft())
        self._read_found()

    def read(self) -> dict[str, object]:
        """How many there are now, and their CPU time since they were found. Raises SourceError."""
        if not self._queue:
            self._begin()
        for _ in range(min(self._a_tick, len(self._queue))):
            self._look(self._queue.popleft())
        self._read_found()
        threads = sum(map(len, self._found.values()))
        return {"realtime": RealtimeCounters(threads=threads, cpu_ns=self._cpu_ns)}

    def close(self) -> None:
        """Forget all."""
        for kept in (self._queue, self._kernels, self._found, self._turn):
            kept.clear()

    def _begin(self) -> None:
        try:
            names = os.listdir(self._proc)  # noqa: PTH208  # as text: a Path for each would cost more than the call
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"{self._proc}: {reason_of(error)}") from error
        present = {int(name) for name in names if name.isdecimal() and len(name) < 10}
        self._kernels &= present
        for pid in self._found.keys() - present:
            del self._found[pid]
        self._queue.extend(sorted(present - self._kernels))
        self._a_tick = min(_MOST_PROCESSES, -(-len(self._queue) // _ROUND))

    def _look(self, pid: int) -> None:
        try:
            with os.scandir(f"{self._proc}/{pid}/task") as entries:
                threads = [int(entry.name) for entry in islice(entries, _MOST_THREADS)]
        except OSError:  # ended, or hidden from this user
            self._found.pop(pid, None)
            return
        before = self._found.get(pid, {})
        found = {thread: before.get(thread) for thread in threads if self._policy(pid, thread) in _REALTIME}
        if found and pid not in self._found and self._is_kernels(pid):
            self._kernels.add(pid)
        elif found:
            self._found[pid] = found
            self._turn.extend((pid, thread) for thread in found.keys() - before.keys())
        else:
            self._found.pop(pid, None)

    def _read_found(self) -> None:
        for _ in range(min(_MOST_READ, len(self._turn))):
            pid, thread = self._turn.popleft()
            known = self._found.get(pid, {})
            if thread not in known:
                continue  # it ended, or is an ordinary one by now
            try:
                used_ns = self._used_ns(pid, thread)
            except (OSError, SourceError):
                del known[thread]
                continue
            before_ns, known[thread] = known[thread], used_ns
            if before_ns is not None:
                self._cpu_ns += max(0, used_ns - before_ns)
            self._turn.append((pid, thread))

    def _fields(self, pid: int, thread: int) -> list[bytes]:
        descriptor = os.open(f"{self._proc}/{pid}/task/{thread}/stat", os.O_RDONLY)
        try:
            return procstat.fields(os.pread(descriptor, _LONGEST_LINE, 0))
        finally:
            os.close(descriptor)

    def _used_ns(self, pid: int, thread: int) -> int:
        fields = self._fields(pid, thread)
        if len(fields) <= procstat.SYSTEM:
            raise garbled(_SOURCE, "stat", b" ".join(fields))
        return sum(counters(_SOURCE, "stat", [fields[procstat.USER], fields[procstat.SYSTEM]])) * _TICK_NS

    def _is_kernels(self, pid: int) -> bool:
        try:
            fields = self._fields(pid, pid)
            return bool(counters(_SOURCE, "stat", fields[procstat.FLAGS : procstat.FLAGS + 1])[0] & _KERNEL_THREAD)
        except (OSError, SourceError, IndexError):
            return False

    def _by_text(self, pid: int, thread: int) -> int:
        try:
            fields = self._fields(pid, thread)
            return counters(_SOURCE, "stat", fields[procstat.POLICY : procstat.POLICY + 1])[0]
        except (OSError, SourceError, IndexError):
            return 0


def _by_call(_pid: int, thread: int) -> int:
    try:
        return os.sched_getscheduler(thread) & ~_RESET_ON_FORK
    except OSError:  # it has ended, or a security module hides it
        return 0
