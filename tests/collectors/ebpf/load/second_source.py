# SPDX-License-Identifier: GPL-2.0-only
"""What the kernel counts besides the eBPF programs: /proc, and tracefs instances that count events by themselves.

Readers of counters, and nothing else; they know no eBPF, and import what Python brings. All of them count for the whole
machine, except `network`, which counts for the network namespace of the reader.
"""

import os
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

TRACEFS = Path("/sys/kernel/tracing")
_DISK_COLUMNS = {"reads": (0, 3), "writes": (4, 7), "discards": (11, 14), "flushes": (15, 16)}  # count, ms


def stat(key):
    """A line of /proc/stat with one number, or its first: ctxt, processes, intr, softirq."""
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith(f"{key} "):
            return int(line.split()[1])
    raise AssertionError(f"/proc/stat has no {key}")


def device_interrupts():
    """/proc/interrupts by number: interrupts with a handler, which is where irq_handler_entry is.

    The others (LOC, RES, CAL, ...) have an entry of their own, and the `intr` of /proc/stat counts them as well.
    """
    rows = Path("/proc/interrupts").read_text().splitlines()
    cpus = len(rows[0].split())
    numbered = [(row.split(":")[0].strip(), row.split()[1 : cpus + 1]) for row in rows[1:]]
    return {int(number): sum(map(int, counts)) for number, counts in numbered if number.isdigit()}


def softirqs():
    """/proc/softirqs by kind, in its order, summed over CPUs."""
    rows = Path("/proc/softirqs").read_text().splitlines()[1:]
    return tuple(sum(map(int, row.split()[1:])) for row in rows)


def disk():
    """/proc/diskstats of whole devices: requests and flushes completed, and their time in milliseconds.

    Columns from 4 on: reads, merged, sectors, ms, writes, merged, sectors, ms, three of queues, discards, merged,
    sectors, ms, flushes, ms (Documentation/admin-guide/iostats.rst).
    """
    found = {"requests": 0, "flushes": 0, "request_ms": 0}
    for line in Path("/proc/diskstats").read_text().splitlines():
        name, *columns = line.split()[2:]
        if not Path("/sys/block", name).is_dir():
            continue
        for kind, (count, length) in _DISK_COLUMNS.items():
            found["requests"] += int(columns[count])
            found["request_ms"] += int(columns[length])
            found["flushes"] += int(columns[count]) if kind == "flushes" else 0
    return found


def network():
    """/proc/net/snmp by name ("Tcp" + "OutRsts"), and the packets of /proc/net/dev."""
    found = {}
    lines = Path("/proc/net/snmp").read_text().splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        protocol, _, rest = names.partition(":")
        found.update(zip([protocol + name for name in rest.split()], map(int, values.split()[1:]), strict=True))
    rows = [re.split(r"[:\s]+", line.strip()) for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    found["received_packets"] = sum(int(row[2]) for row in rows)
    found["sent_packets"] = sum(int(row[10]) for row in rows)
    return found


def mount_tracefs():
    """As systemd does on any Debian; where nobody did (a container, a bare VM), the tests do it for themselves."""
    if not (TRACEFS / "events").is_dir():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACEFS)], check=True)


class EventCount:
    """Counts events of the kernel in a tracefs instance of its own (Documentation/trace/ftrace.rst, Instances).

    With several, their sum. The ring buffer says how much was ever written to it, whatever was overwritten since.
    `only`: a filter for all of them ("ret != 0").
    """

    def __init__(self, *events, only="", buffer_kb=64):
        self._only = only
        self._buffer_kb = buffer_kb
        self._events = [event.replace(":", "/") for event in events]
        self._folder = TRACEFS / "instances" / f"asa-check-{os.getpid()}-{time.monotonic_ns()}"

    def __enter__(self):
        _remove_orphans()
        self._folder.mkdir()
        (self._folder / "buffer_size_kb").write_text(str(self._buffer_kb))
        for event in self._events:
            if self._only:
                (self._folder / "events" / event / "filter").write_text(self._only)
            (self._folder / "events" / event / "enable").write_text("1")
        return self

    def __exit__(self, *_):
        _remove(self._folder)

    def __call__(self):
        total = 0
        for file in self._folder.glob("per_cpu/cpu*/stats"):
            numbers = dict(re.findall(r"^([a-z ]+): (\d+)$", file.read_text(), re.MULTILINE))
            total += sum(int(numbers[name]) for name in ("entries", "overrun", "read events"))
        return total

    def lines(self):
        """CPU, time in ns (text, to a microsecond) and name of each event that is still in the buffer, in order."""
        with (self._folder / "trace").open() as file:
            for line in file:
                found = re.search(r"\[(\d+)\] \S+ +(\d+)\.(\d{6}): (\w+):", line)
                if found:
                    yield int(found[1]), int(found[2] + found[3]) * 1000, found[4]


class HandlerTimes(EventCount):
    """Handlers of a kind ("irq:irq_handler", "irq:softirq"): how many ended, and the time in them, by tracefs."""

    def __init__(self, kind):
        super().__init__(f"{kind}_entry", f"{kind}_exit", buffer_kb=8192)

    def spent(self):
        """Number and time in ns of those whose entry and exit are both in the buffer. Each is exact to 1 us."""
        begun, number, total_ns = {}, 0, 0
        for cpu, at_ns, event in self.lines():
            if event.endswith("_entry"):
                begun[cpu] = at_ns
            elif cpu in begun:
                number += 1
                total_ns += at_ns - begun.pop(cpu)
        return number, total_ns


def _remove(folder):
    with suppress(FileNotFoundError):
        (folder / "events" / "enable").write_text("0")
        folder.rmdir()


def _remove_orphans():
    for folder in (TRACEFS / "instances").glob("asa-check-*"):
        if not Path("/proc", folder.name.split("-")[2]).exists():
            _remove(folder)
