# SPDX-License-Identifier: GPL-2.0-only
"""Prints by how many KiB a process grows when all words that its reader reads grow from 0 to large numbers."""

import mmap
import os
from array import array
from pathlib import Path
from types import SimpleNamespace

from collectors.ebpf import layout
from collectors.ebpf.reader import StatsReader

CPUS = 2


def resident_kib():
    return int(Path("/proc/self/smaps_rollup").read_text().split("Rss:")[1].split()[0])


size_bytes = -(-CPUS * layout.ROW_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
descriptor = os.memfd_create("stats")
os.ftruncate(descriptor, size_bytes)
words = memoryview(mmap.mmap(descriptor, size_bytes)).cast("Q")
words[:] = memoryview(array("Q", bytes(size_bytes)))  # these pages are not what is measured
filler = [[number + (1 << 32) for number in range(1 << 10)] for _ in range(1 << 8)]  # no room is left in the heap
resident_kib()
reader = StatsReader(
    SimpleNamespace(
        stats_fd=descriptor,
        cpus=CPUS,
        row_bytes=layout.ROW_BYTES,
        fields=layout.fields_of(layout.PROGRAMS),
    )
)
held = [reader.read()]
for log2 in (1, 2, *range(9, 40)):
    words[:] = memoryview(array("Q", [1 << log2]) * len(words))
    held = [held[-1], reader.read()]
    if log2 == 2:
        before_kib = resident_kib()  # all code has run once; the interpreter shares its small numbers
print(resident_kib() - before_kib)
