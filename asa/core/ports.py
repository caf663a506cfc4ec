# SPDX-License-Identifier: GPL-2.0-only
"""The seams: what the pipeline and the loop expect of the parts that touch the world."""

from typing import Protocol

from asa.core.decision import FeatureFrame, Judgement, SchedulerName, Standby, SwitchEvent, Workload
from asa.core.sample import RawSample, SchedExtState


class Clock(Protocol):
    """Time, passed in so that tests and replay own it."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC in nanoseconds."""
        ...

    def wall_ns(self) -> int:
        """CLOCK_REALTIME in nanoseconds."""
        ...

    def suspended_ns(self) -> int | None:
        """CLOCK_BOOTTIME less CLOCK_MONOTONIC in nanoseconds, None where the system cannot tell."""
        ...


class Collector(Protocol):
    """One source of counters. Opening fails loudly, reading fails for one sample only (`SourceError`)."""

    name: str

    @property
    def lacking(self) -> dict[str, str]:
        """Part of this source (a file, a program) -> why this host does not have it; known after `open`."""
        ...

    def open(self) -> None:
        """Probe the source and keep what reading needs open. Raises SourceError when this host has not got it."""
        ...

    def read(self) -> dict[str, object]:
        """Fields of RawSample that this source fills. Raises SourceError; the fields are then None this once."""
        ...

    def close(self) -> None:
        """Give back descriptors. Never raises."""
        ...


class Sampler(Protocol):
    """All collectors of this host behind one call."""

    def sample(self) -> RawSample:
        """Read every source once. Never raises: what failed is None."""
        ...


class Classifier(Protocol):
    """A loaded model."""

    schema: int
    classes: tuple[Workload, ...]

    def judge(self, frame: FeatureFrame) -> Judgement:
        """Distribution over `classes` for one frame of the same schema, and whether any of them fits."""
        ...


class Switcher(Protocol):
    """Brings the kernel to a scheduler. `begin` orders, `poll` advances and reports; only `rest` may wait for long."""

    def state(self) -> SchedExtState | None:
        """What sysfs says now, None on a kernel without sched_ext."""
        ...

    def current(self) -> SchedulerName | None:
        """The scheduler in force by the manifest's name, EEVDF when none is attached, None without sched_ext."""
        ...

    def busy(self) -> bool:
        """True between `begin` and the event that ends the switch."""
        ...

    def begin(self, target: SchedulerName, why: str = "") -> None:
        """Order a switch. Raises AsaError when the target cannot be started at all; then nothing has changed."""
        ...

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Have these loaded and waiting, the most wanted first, and no others. Never raises: it shows in `standbys`."""
        ...

    def standbys(self) -> tuple[Standby, ...]:
        """What waits, or is loading to wait."""
        ...

    def descriptors(self) -> tuple[int, ...]:
        """Readable when `poll` has something to do. A switcher without any is polled on time alone."""
        ...

    def look_in_s(self) -> float | None:
        """After how long `poll` wants to be called at the latest, None for the next tick."""
        ...

    def poll(self) -> SwitchEvent | None:
        """Advance the switch under way, watch the running scheduler, report at most one event."""
        ...

    def rest(self) -> bool:
        """Stop what is ours and wait until the kernel has let go of it. May block. False: something of ours is left."""
        ...
