# SPDX-License-Identifier: GPL-2.0-only
"""The eBPF programs at work, and a second source read beside them: what probe_checks.py and network_checks.py stand on.

A second source is read before and after each reading of the probes: what it grew by in between and around is the range
for the probes, and needs no tolerance for the time of reading.
"""

import json
import math
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from asa.config import Ebpf
from collectors.ebpf.bcc import open_bcc
from collectors.ebpf.core import open_core
from collectors.ebpf.reader import IrqKinds, StatsReader

HERE = Path(__file__).parent
MS = 1_000_000
BLOCK_BYTES = 4096
BLOCKS_BYTES = 500 * BLOCK_BYTES
"""Size of what `Scene.blocks` names."""
LOST_SHARE = 0.01
"""A program does not run while another of its kind runs on that CPU (bpf_prog_active, kernel/trace/bpf_trace.c), and a
count made in process context is lost when an interrupt counts the same word just then. Nested events are rare."""
FOUND_SHARE = 0.9
"""Of a load's own time: it takes the time around the system call, the kernel between two switches inside."""


BCC_CANNOT = frozenset({"run_queue_length_sum", "tcp_packets", "udp_packets", "long_waits", "waiting_ns", "scanned_ns"})
"""Fields that only the kernel's own types could tell."""
BY_RECORD_CANNOT = BCC_CANNOT | {"futex_waits", "futex_wait_ns"}
"""On kernels before 5.18."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Probes at work, and how large loads may be."""

    backend: Ebpf
    reader: StatsReader
    irqs: IrqKinds
    lacking: dict[str, str]
    loads: Path  # loads.c, compiled
    blocks: Path  # a block device, or a file on a disk, that read_disk may read
    emulated: bool  # 7-40 times slower, and standing still for some milliseconds now and then

    def load(self, name, *numbers):
        """Run a load of loads.c, and return what it says it did."""
        return run([self.loads, name, *numbers])

    def talk(self, name, *words):
        """The same for talk.py."""
        return run([sys.executable, "-E", "-S", HERE / "talk.py", name, *words])

    def sized(self, here, emulated):
        """A load's size for this machine."""
        return emulated if self.emulated else here


def opened(backend, *, by_record=False):
    """The programs, attached."""
    proc, sys_root = Path("/proc"), Path("/sys")
    if backend is Ebpf.CORE:
        return open_core(proc, sys_root)
    return open_bcc(proc, sys_root, limit_s=300, by_record=by_record)


@contextmanager
def scene(backend, loads, blocks, *, emulated, by_record=False):
    """The programs, at work until the end of the context."""
    stats = opened(backend, by_record=by_record)
    reader = StatsReader(stats, most_timed_per_s=math.inf)  # each event, however many the neighbours make
    irqs = IrqKinds(stats.irq_kinds_fd)
    try:
        yield Scene(
            backend=backend,
            reader=reader,
            irqs=irqs,
            lacking=stats.lacking,
            loads=loads,
            blocks=blocks,
            emulated=emulated,
        )
    finally:
        irqs.close()
        reader.close()
        stats.close()


def unknown(scene):
    """Fields that nothing fills here."""
    counters = scene.reader.read()
    return {field.name for field in fields(counters) if getattr(counters, field.name) is None}


def run(words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return json.loads(done.stdout)


def compiled(folder):
    """loads.c as a program in `folder`."""
    program = folder / "loads"
    command = [os.environ.get("CC", "cc"), "-O2", "-pthread", "-o", str(program), str(HERE / "loads.c")]
    subprocess.run(command, check=True)
    return program


class Beside:
    """Both sources over one load. `second` gives numbers by name; it is read around each reading of the probes."""

    def __init__(self, scene, second, load):
        first = second()
        self._before = scene.reader.read()
        begun = second()
        begin_ns = time.monotonic_ns()
        self.told = load()
        self.length_ns = time.monotonic_ns() - begin_ns
        ended = second()
        self._after = scene.reader.read()
        last = second()
        self.range = {name: (ended[name] - begun[name], last[name] - first[name]) for name in first}

    def grown(self, field):
        """How far a counter of the probes, or each of a tuple, went."""
        old, new = getattr(self._before, field), getattr(self._after, field)
        assert old is not None, f"{field} is unknown"
        return tuple(b - a for a, b in zip(old, new, strict=True)) if isinstance(old, tuple) else new - old

    def in_slots(self, field, starts_ns, low_ns, high_ns):
        """What came to the slots of a histogram that reach into low_ns..high_ns."""
        ends = [*starts_ns[1:], float("inf")]
        slots = zip(self.grown(field), starts_ns, ends, strict=True)
        return sum(count for count, start, end in slots if start <= high_ns and end > low_ns)

    def agree(self, field, name=None, *, own=0, below=0, above=0):
        """The probes are in the second source's range, which another source tells to be `own` more.

        `below` and `above` are what the two count differently at most.
        """
        grown = self.grown(field) if isinstance(field, str) else field
        least, most = self.range[name or field]
        low = own + least - below - max(2, (own + least) * LOST_SHARE)  # 2: one event under way at each reading
        high = own + most + above + 2
        assert low <= grown <= high, f"{field}: {grown}, second source {own} + {least}..{most}, allowed {low}..{high}"


def near(grown_ns, timed):
    """The probes' time is tracefs' within a factor of four: each stands inside or outside of the other's entry.

    `timed`: number and time of HandlerTimes, exact to 1 us each way, which the other events around it may add again.
    """
    number, spent_ns = timed
    assert number > 0
    blur_ns = 2_000 * number
    assert (spent_ns - blur_ns) / 4 <= grown_ns <= 4 * (spent_ns + blur_ns), (grown_ns, timed)
    assert grown_ns >= 50 * number  # two clock calls lie between: 38 ns each on the development host


def nothing():
    """For a load which itself is the second source."""
    return {}
