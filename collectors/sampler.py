# SPDX-License-Identifier: GPL-2.0-only
"""All collectors of this host behind one call, and the system's clock.

Opens what works here and says once why the rest does not. Reads raw values; it computes nothing.
"""

import time
from pathlib import Path
from typing import Any, Protocol

from asa.core.errors import SourceError
from asa.core.ports import Clock, Collector
from asa.core.sample import RawSample
from collectors.procfs.cpu import CpuCollector
from collectors.procfs.disk import DiskCollector
from collectors.procfs.memory import MemoryCollector, PagingCollector
from collectors.procfs.network import NetworkCollector
from collectors.procfs.process import ProcessCollector
from collectors.psi import PressureCollector
from collectors.schedext import SchedExtCollector


class HostCollector(Collector, Protocol):
    """A collector that this sampler makes itself: from the roots of /proc and /sys, with files it can do without."""

    def __init__(self, proc: Path, sys: Path) -> None: ...

    @property
    def lacking(self) -> dict[str, str]:
        """File -> why this host does not have it."""
        ...


COLLECTORS: tuple[type[HostCollector], ...] = (
    CpuCollector,
    ProcessCollector,
    MemoryCollector,
    PagingCollector,
    DiskCollector,
    NetworkCollector,
    PressureCollector,
    SchedExtCollector,
)


class SystemClock:
    """The Clock of this machine."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in nanoseconds."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """CLOCK_REALTIME in nanoseconds."""
        return time.time_ns()

    def suspended_ns(self) -> int | None:
        """CLOCK_BOOTTIME less CLOCK_MONOTONIC in nanoseconds, to some microseconds (clock_gettime(2))."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


class HostSampler:
    """The Sampler over everything in COLLECTORS.

    `missing` is filled by `open`: source or file -> why this host does not have it. `failing` holds the sources whose
    last read failed, with the reason; they are read again at the next tick.
    """

    def __init__(self, proc: Path, sys: Path, clock: Clock) -> None:
        self.missing: dict[str, str] = {}
        self.failing: dict[str, str] = {}
        self._proc = proc
        self._sys = sys
        self._clock = clock
        self._collectors: list[HostCollector] = []

    def open(self) -> None:
        """Open every source that works here. Never raises: what does not work is in `missing`."""
        for kind in COLLECTORS:
            collector = kind(self._proc, self._sys)
            try:
                collector.open()
            except SourceError as error:
                collector.close()
                self.missing[error.source] = error.reason
            else:
                self._collectors.append(collector)
                self.missing.update(collector.lacking)

    def sample(self) -> RawSample:
        """Read every open source once. Never raises: what failed is None."""
        monotonic_ns = self._clock.monotonic_ns()
        wall_ns = self._clock.wall_ns()
        fields: dict[str, Any] = {}
        for collector in self._collectors:
            try:
                fields.update(collector.read())
            except SourceError as error:
                self.failing[collector.name] = error.reason
            else:
                self.failing.pop(collector.name, None)
        return RawSample(monotonic_ns=monotonic_ns, wall_ns=wall_ns, **fields)

    def close(self) -> None:
        """Give all descriptors back; samples are empty from then on. Never raises."""
        for collector in self._collectors:
            collector.close()
        self._collectors.clear()
