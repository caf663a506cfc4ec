# SPDX-License-Identifier: GPL-2.0-only
"""A clock that is set by hand, a source that does as it is told, and a sampler over both."""

from asa.core.errors import SourceError
from asa.core.sample import ProcessState
from collectors.sampler import HostSampler

MS = 1_000_000


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.now_ns = 5_000_000_000
        self.suspend_ns = 77

    def monotonic_ns(self):
        return self.now_ns

    def wall_ns(self):
        return self.now_ns + 10**18

    def suspended_ns(self):
        return self.suspend_ns


class Script:
    """A source that takes as long as it is told, and fails when it is told."""

    def __init__(self, clock, name="gpu"):
        self.name = name
        self.lacking = {}
        self.clock = clock
        self.takes_ms = 0.0
        self.fails = ""
        self.reads = 0

    def open(self):
        pass

    def read(self):
        self.reads += 1
        self.clock.now_ns += int(self.takes_ms * MS)
        if self.fails:
            raise SourceError(source=self.name, reason=self.fails)
        return {"process": ProcessState(processes=self.reads, threads=1, runnable_threads=1)}

    def close(self):
        pass


class Bench:
    """A sampler over one scripted source."""

    def __init__(self, waits=""):
        self.clock = Hand()
        self.source = Script(self.clock)
        if waits:
            self.source.lacking, self.source.fails = {self.source.name: waits}, waits
        self.sampler = HostSampler([self.source], self.clock)
        self.sampler.open()

    def ticks(self, count, takes_ms=None):
        """Whether each of so many ticks has the source's field."""
        if takes_ms is not None:
            self.source.takes_ms = takes_ms
        return [self.sampler.sample().process is not None for _ in range(count)]
