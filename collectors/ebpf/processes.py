# SPDX-License-Identifier: GPL-2.0-only
"""Whose turns on the CPU were: the slots of processes in the rows of the map `stats`, followed from read to read.

Each CPU has slots of its own, which go from process to process as they come and go. What they grew by is added up by
process here, so that what a sample holds only grows. Reads memory that somebody else mapped or copied; loads nothing.
"""

from collections.abc import Sequence

from asa.core.sample import BurstCounters, ProcessBursts
from collectors.ebpf import layout

MOST = 24
"""Processes in a sample. More have a turn in a second, but hardly as many use a hundredth of a CPU: those that had one
last come first, and of these those that used the most in it."""

_FORGOTTEN_READS = 60
_WORD_LIMIT = 1 << 64  # no integer in the journal is wider
_SLOT = len(layout.PROCESS_WORDS)
_USED = layout.PROCESS_WORDS.index("used_ns")
_PULSE = layout.OFFSETS["switches"]  # a CPU without any never came: its slots are not looked at


class Slots:
    """The counters of processes. Rows and slots are views, by CPU, of memory that others bring up to date."""

    def __init__(self, rows: Sequence[memoryview], slots: Sequence[memoryview]) -> None:
        self._rows = rows
        self._slots = slots
        self._used = [[0] * layout.PROCESSES for _ in slots]
        self._last: dict[tuple[int, int], list[int]] = {}  # CPU and slot -> pid and counts at the last look
        self._sums: dict[int, list[int]] = {}  # pid -> what was counted since it is followed
        self._seen: dict[int, tuple[int, int]] = {}  # pid -> the last read that saw a turn of it, ns that it used then
        self._reads = 0

    def read(self) -> ProcessBursts:
        """What the processes that had a turn lately have used since they are followed."""
        self._reads += 1
        for cpu, (row, slots) in enumerate(zip(self._rows, self._slots, strict=True)):
            if not row[_PULSE]:
                continue
            used, before = slots[_USED::_SLOT].tolist(), self._used[cpu]
            if used == before:
                continue
            self._used[cpu] = used
            for slot, (now_ns, then_ns) in enumerate(zip(used, before, strict=True)):
                if now_ns != then_ns:
                    self._grow(cpu, slot, slots[slot * _SLOT : (slot + 1) * _SLOT].tolist())
        return self._newest()

    def _grow(self, cpu: int, slot: int, words: list[int]) -> None:
        pid, _, *counts = words
        last = self._last.get((cpu, slot))
        self._last[cpu, slot] = [pid, *counts]
        if last is not None and last[0] == pid and all(map(int.__le__, last[1:], counts)):
            counts = [now - then for now, then in zip(counts, last[1:], strict=True)]
        sums = self._sums.setdefault(pid, [0, 0, 0])
        sums[:] = [(total + grown) % _WORD_LIMIT for total, grown in zip(sums, counts, strict=True)]
        read, used_ns = self._seen.get(pid, (0, 0))
        self._seen[pid] = (self._reads, counts[0] + (used_ns if read == self._reads else 0))

    def _newest(self) -> ProcessBursts:
        order = sorted(self._seen, key=self._seen.__getitem__, reverse=True)
        kept = [pid for pid in order[:MOST] if self._reads - self._seen[pid][0] < _FORGOTTEN_READS]
        if len(kept) < len(order):
            self._sums = {pid: self._sums[pid] for pid in kept}
            self._seen = {pid: self._seen[pid] for pid in kept}
        return ProcessBursts(processes=tuple(BurstCounters(pid, *self._sums[pid]) for pid in sorted(kept)))
