# SPDX-License-Identifier: GPL-2.0-only
"""Whose turns on the CPU were: the slots of processes in the rows of the map `stats`, followed from read to read.

Each CPU has slots of its own, which go from process to process as they come and go. What they grew by is added up by
process here, so that what a sample holds only grows. Reads memory that somebody else mapped or copied; loads nothing.
"""

from array import array
from collections.abc import Sequence

from asa.core.sample import BurstCounters, ProcessBursts
from collectors.ebpf import layout

MOST = 24
"""Processes in a sample. More have a turn in a second, but hardly as many use a hundredth of a CPU: those that had one
last come first, and of these those that used the most in it."""

_FORGOTTEN_READS = 60
_WORD_LIMIT = 1 << 64  # no integer in the journal is wider
_SLOT = len(layout.PROCESS_WORDS)
_STARTS = range(0, layout.SLOT_WORDS, _SLOT)
_USED = layout.PROCESS_WORDS.index("used_ns")
_COUNTS = layout.PROCESS_WORDS.index("burst_ns")  # the first of three
_PULSE = layout.OFFSETS["switches"]  # a CPU without any never came: its slots are not looked at


class Slots:
    """The counters of processes. Rows and slots are views, by CPU, of memory that others bring up to date."""

    def __init__(self, rows: Sequence[memoryview], slots: Sequence[memoryview]) -> None:
        self._rows = rows
        self._slots = slots
        # As they were at the last look: memory that does not grow with the slots that come into use.
        self._last = [memoryview(array("Q", bytes(layout.SLOT_WORDS * layout.WORD_BYTES))) for _ in slots]
        self._sums: dict[int, list[int]] = {}  # pid -> what was counted since it is followed
        self._seen: dict[int, tuple[int, int]] = {}  # pid -> the last read that saw a turn of it, ns that it used then
        self._reads = 0

    def read(self) -> ProcessBursts:
        """What the processes that had a turn lately have used since they are followed."""
        self._reads += 1
        for row, slots, last in zip(self._rows, self._slots, self._last, strict=True):
            if not row[_PULSE]:
                continue
            used, before = slots[_USED::_SLOT].tolist(), last[_USED::_SLOT].tolist()
            if used == before:
                continue
            for at, now_ns, then_ns in zip(_STARTS, used, before, strict=True):
                if now_ns != then_ns:
                    words = last[at : at + _SLOT]
                    then = words.tolist()
                    words[:] = slots[at : at + _SLOT]  # once: the kernel goes on writing there
                    self._grow(then, words.tolist())
        return self._newest()

    def _grow(self, last: list[int], words: list[int]) -> None:
        pid, counts = words[0], words[_COUNTS:]
        if not pid:
            return  # a slot that was taken while it was read; the next look finds it whole
        if last[0] == pid and all(map(int.__le__, last[_COUNTS:], counts)):
            counts = [now - then for now, then in zip(counts, last[_COUNTS:], strict=True)]
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
        return ProcessBursts(processes=tuple([BurstCounters(pid, *self._sums[pid]) for pid in sorted(kept)]))
