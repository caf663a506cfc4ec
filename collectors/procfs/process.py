# SPDX-License-Identifier: GPL-2.0-only
"""/proc/loadavg and /proc itself: how many processes and threads there are, and how many threads can run.

Listing /proc costs the kernel a lookup for each process. Its link count contains the number of processes too
(fs/proc/root.c, proc_root_getattr) for the price of one fstat, above a base that has to be found by a listing.
"""

import os
from pathlib import Path

from asa.core.errors import SourceError
from asa.core.sample import ProcessState
from collectors.procfs.reader import OneFileCollector, counters, garbled, reason_of

_SOURCE = "process"
_FILE = "loadavg"
_COUNT = "process count"
_ATTEMPTS = 5
# The base moves when a module makes a folder in /proc, and inside a PID namespace with every process outside. The
# directories of /proc do not explain it either (a guest of the lab had 45 more), so it is found again now and then.
_READS_PER_LISTING = 64


class ProcessCollector(OneFileCollector):
    """Fills `process`."""

    name = _SOURCE
    file = _FILE

    def __init__(self, proc: Path, sys: Path) -> None:
        super().__init__(proc, sys)
        self._folder = -1
        self._base = 0
        self._reads = 0

    def open(self) -> None:
        """Open /proc and /proc/loadavg, and understand them once. Raises SourceError."""
        try:
            self._folder = os.open(self._proc, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise SourceError(source=_SOURCE, reason=f"{self._proc}: {reason_of(error)}") from error
        super().open()

    def parse(self, text: bytes) -> dict[str, object]:
        """Levels now. Raises SourceError."""
        runnable, threads = parse_loadavg(text)
        try:
            processes = self._count()
            self.lacking.pop(_COUNT, None)
        except OSError as error:
            processes = None
            self.lacking[_COUNT] = f"{self._proc}: {reason_of(error)}"
        return {"process": ProcessState(processes=processes, threads=threads, runnable_threads=runnable)}

    def close(self) -> None:
        """Give the descriptors back."""
        super().close()
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def _count(self) -> int | None:
        if self._reads % _READS_PER_LISTING == 0 and not self._find_base():
            return None  # /proc did not hold still; the next read tries again
        self._reads += 1
        count = os.fstat(self._folder).st_nlink - self._base
        if count > 0:
            return count
        self._reads = 0  # the base cannot be right any more
        return None

    def _find_base(self) -> bool:
        for _ in range(_ATTEMPTS):
            before = os.fstat(self._folder).st_nlink
            listed = sum(map(str.isdigit, os.listdir(self._folder)))  # noqa: PTH208  # by descriptor
            if os.fstat(self._folder).st_nlink == before:
                self._base = before - listed
                return True
        return False


def parse_loadavg(text: bytes) -> tuple[int, int]:
    """(runnable threads, all threads) of the text of /proc/loadavg, proc_loadavg(5). Raises SourceError."""
    fields = text.split()
    if len(fields) != 5:
        raise garbled(_SOURCE, _FILE, text)
    runnable, slash, threads = fields[3].partition(b"/")
    if not (slash and runnable and threads):
        raise garbled(_SOURCE, _FILE, text)
    runnable_count, thread_count = counters(_SOURCE, _FILE, [runnable, threads])
    return runnable_count, thread_count
