# SPDX-License-Identifier: GPL-2.0-only
"""A made-up /proc of processes that come, work and end, and the collector of the busiest over it."""

import os
import shutil
from pathlib import Path

from collectors.procfs.busiest import BusiestCollector

PAGE = os.sysconf("SC_PAGE_SIZE")
LINE = (  # of Linux 6.1
    "{pid} ({name}) S 1 4120 4120 34816 -1 {flags} {minor} 77 {major} 5 {user} {system} 31 32 20 0 {threads} 0 "
    "{started} 230146048 {pages} 18446744073709551615 94190405189632 94190405880853 140727757498624 0 0 0 65536 "
    "3686404 1266761467 0 0 0 17 3 0 0 0 0 0 94190406125232 94190406172484 94190416728064 140727757507290 "
    "140727757507300 140727757507300 140727757508590 0\n"
)
USER, KERNEL = 4194304, 69238880  # PF_RANDOMIZE; PF_KTHREAD with others, as of kthreadd
EMPTY = {"minor": 0, "major": 0, "user": 0, "system": 0, "threads": 1, "started": 5, "pages": 10}


class Bench:
    """A made-up /proc, and the collector over it. Processes are whatever `figures` says."""

    def __init__(self, root):
        self.proc = root / "proc"
        self.proc.mkdir()
        (self.proc / "self").mkdir()
        self.figures = {}
        self.looked = 0
        self.collector = BusiestCollector(self.proc, root)
        text = self.collector._text

        def count(name):
            self.looked += 1
            return text(name)

        self.collector._text = count

    def make(self, *pids, name="cc1", flags=USER, **figures):
        for pid in pids:
            self.figures[pid] = {**EMPTY, "name": name, "flags": flags, **figures}
            (self.proc / str(pid)).mkdir(exist_ok=True)
            self._write(pid)

    def work(self, *pids, ticks=1):
        for pid in pids:
            self.figures[pid]["user"] += ticks
            self._write(pid)

    def _write(self, pid):
        text = LINE.format(pid=pid, **self.figures[pid])
        (self.proc / str(pid) / "stat").write_bytes(text.encode())

    def end(self, *pids):
        for pid in pids:
            (self.proc / str(pid) / "stat").write_text("")  # for whoever has it open; the kernel says ESRCH
            shutil.rmtree(self.proc / str(pid))
            del self.figures[pid]

    def made(self, pid):
        (self.proc / "loadavg").write_text(f"0.10 0.20 0.30 1/900 {pid}\n")

    def read(self):
        return {usage.pid: usage for usage in self.collector.read()["busiest"].processes}

    def opened(self):
        self.collector.open()
        return self

    def ticks(self, count, *workers, ticks=1):
        """After so many in which these work."""
        for _ in range(count):
            self.work(*workers, ticks=ticks)
            found = self.read()
        return found


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
