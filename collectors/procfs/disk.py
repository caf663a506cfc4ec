# SPDX-License-Identifier: GPL-2.0-only
"""/proc/diskstats: operations, sectors and times, summed over whole physical devices.

What is layered on a disk (partitions, dm, md, loop) would count the same work twice, and ram disks and zram are memory.
A disk that is taken away takes its counters out of the sum, which then goes back once.
"""

import os
from pathlib import Path

from asa.core.errors import SourceError
from asa.core.sample import DiskCounters
from collectors.procfs.reader import OneFileCollector, bounded, counters, garbled

_SOURCE = "disk"
_FILE = "diskstats"
_NAME = 2
_COLUMNS = 14  # up to the weighted time; discards and flushes, which came later, stand behind
_KNOWN_LIMIT = 4096  # device names remembered; more than this is a file that makes them up


class DiskCollector(OneFileCollector):
    """Fills `disk`: with zeros where no block device is a disk; not at all where there is no block device."""

    name = _SOURCE
    file = _FILE

    def __init__(self, proc: Path, sys: Path) -> None:
        super().__init__(proc, sys)
        self._block = sys / "block"
        self._physical: dict[bytes, bool] = {}

    def parse(self, text: bytes) -> dict[str, object]:
        """Counters since boot. Raises SourceError."""
        rows = []
        for line in text.splitlines():
            fields = line.split(None, _COLUMNS)
            if len(fields) > _NAME and not self._is_physical(fields[_NAME]):
                continue  # whatever its line holds
            if len(fields) < _COLUMNS:
                raise garbled(_SOURCE, _FILE, line)
            rows.append(counters(_SOURCE, _FILE, fields[_NAME + 1 : _COLUMNS]))
        return {"disk": add_up(rows)}

    def _is_physical(self, name: bytes) -> bool:
        # Asked of sysfs once a name: a disk has the device it belongs to; a path of an NVMe multipath disk has too, but
        # is hidden, and the disk above it counts the same work (since Linux 6.1).
        known = self._physical.get(name)
        if known is None:
            if len(self._physical) >= _KNOWN_LIMIT:
                raise SourceError(source=_SOURCE, reason=f"{_FILE}: more than {_KNOWN_LIMIT} device names")
            folder = self._block / os.fsdecode(name.replace(b"/", b"!"))  # as sysfs spells cciss/c0d0
            known = os.path.exists(folder / "device") and not _is_hidden(folder)  # noqa: PTH110  # takes any name
            self._physical[name] = known
        return known


def _is_hidden(folder: Path) -> bool:
    try:
        return (folder / "hidden").read_bytes().strip() == b"1"
    except OSError:
        return False  # the attribute came with Linux 4.15


def add_up(rows: list[list[int]]) -> DiskCounters:
    """Sum of columns 4 to 14 of diskstats (Documentation/admin-guide/iostats.rst). Raises SourceError."""
    reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, in_flight, busy_ms, weighted_ms = (
        map(sum, zip(*rows, strict=True)) if rows else (0,) * 11
    )
    values = bounded(
        _SOURCE,
        _FILE,
        reads=reads,
        read_sectors=read_sectors,
        read_ms=read_ms,
        writes=writes,
        write_sectors=write_sectors,
        write_ms=write_ms,
        in_flight=in_flight,
        busy_ms=busy_ms,
        weighted_ms=weighted_ms,
    )
    return DiskCounters(**values)
