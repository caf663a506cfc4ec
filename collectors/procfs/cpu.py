# SPDX-License-Identifier: GPL-2.0-only
"""/proc/stat: processor time by mode and core, context switches, forks, interrupts, runnable and blocked tasks.

Counters as they are; no rates. A CPU that was taken offline has no line of its own and is absent from `cores`.
"""

from asa.core.sample import CpuCounters, CpuTicks
from collectors.procfs.reader import OneFileCollector, after, counters, garbled

_SOURCE = "cpu"
_FILE = "stat"
_MODES = 8
_SOFTIRQS = 10  # NR_SOFTIRQS, unchanged since 2.6.38; the line's first number is their total
_LARGEST_CPU = 1 << 16  # CONFIG_NR_CPUS ends at 8192


class CpuCollector(OneFileCollector):
    """Fills `cpu`."""

    name = _SOURCE
    file = _FILE

    def parse(self, text: bytes) -> dict[str, object]:
        """Counters since boot. Raises SourceError."""
        return {"cpu": parse_stat(text)}


def parse_stat(text: bytes) -> CpuCounters:
    """Text of /proc/stat, proc_stat(5), in the order of fs/proc/stat.c. Raises SourceError."""
    head, found, rest = text.partition(b"\nintr ")
    if not found:
        raise garbled(_SOURCE, _FILE, text)
    lines = head.split(b"\n")
    cores: list[tuple[int, CpuTicks]] = []
    last = -1
    for line in lines[1:]:
        number, ticks = _core(line)
        if not last < number < _LARGEST_CPU:
            raise garbled(_SOURCE, _FILE, line)
        cores.append((number, ticks))
        last = number
    if not cores:
        raise garbled(_SOURCE, _FILE, text)
    events = [after(_SOURCE, _FILE, rest, key) for key in (b"\nctxt ", b"\nprocesses ")]
    levels = [after(_SOURCE, _FILE, rest, key) for key in (b"\nprocs_running ", b"\nprocs_blocked ")]
    interrupts = rest[: rest.index(b"\n")].split(b" ", 1)[0]
    values = counters(_SOURCE, _FILE, [interrupts, *events, *levels])
    softirqs = counters(_SOURCE, _FILE, after(_SOURCE, _FILE, rest, b"\nsoftirq ").split())
    if len(softirqs) <= _SOFTIRQS:
        raise garbled(_SOURCE, _FILE, after(_SOURCE, _FILE, rest, b"\nsoftirq "))
    return CpuCounters(
        total=_total(lines[0]),
        cores=tuple(cores),
        interrupts=values[0],
        context_switches=values[1],
        forks=values[2],
        softirqs=tuple(softirqs[1 : _SOFTIRQS + 1]),
        runnable=values[3],
        blocked=values[4],
    )


def _total(line: bytes) -> CpuTicks:
    fields = line.split(None, _MODES + 1)
    if len(fields) <= _MODES or fields[0] != b"cpu":
        raise garbled(_SOURCE, _FILE, line)
    user, nice, system, idle, iowait, irq, softirq, steal = counters(_SOURCE, _FILE, fields[1 : _MODES + 1])
    return user, nice, system, idle, iowait, irq, softirq, steal


def _core(line: bytes) -> tuple[int, CpuTicks]:
    fields = line.split(None, _MODES + 1)
    if len(fields) <= _MODES or not fields[0].startswith(b"cpu"):
        raise garbled(_SOURCE, _FILE, line)
    numbers = counters(_SOURCE, _FILE, [fields[0][3:] or b"?", *fields[1 : _MODES + 1]])
    number, user, nice, system, idle, iowait, irq, softirq, steal = numbers
    return number, (user, nice, system, idle, iowait, irq, softirq, steal)
