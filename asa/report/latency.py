# SPDX-License-Identifier: GPL-2.0-only
"""Latencies over stretches of time, out of the cumulative histograms of two samples. Reads no file.

The growth of a histogram between the ends of a stretch holds every wait in it, so a percentile of it is that of the
whole stretch, not a mean of ticks' percentiles; and only the ends have to be looked at.
"""

from collections import deque
from dataclasses import dataclass, field
from operator import add

from asa.core.sample import FeltCounters, RawSample
from asa.decide.guard import SETTLE_S
from asa.report.felt import FeltGrowth, pieces
from asa.report.figures import Felt, Latencies, Window
from collectors.ebpf.layout import LATENCY_STARTS_NS, percentile_ns
from collectors.rates import LONGEST_GAP_S, LONGEST_SUSPEND_S
from collectors.rates.histogram import grown

WINDOW_S = 30.0
"""Before and after a change so much is compared, or less where something else changed."""
SHORTEST_S = 3.0
"""A window with less says nothing."""

_Slots = tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Counters at one sample."""

    at_ns: int
    suspended_ns: int | None
    wakeups: _Slots
    wakeup_ns: int | None
    requeues: _Slots
    timers: _Slots
    timer_ns: int | None
    stalled_us: int | None
    felt: FeltCounters | None
    pieces: int | None


def snapshot(sample: RawSample) -> Snapshot:
    """What of a sample is needed here."""
    probes, timer, pressure = sample.probes, sample.timer, sample.pressure
    return Snapshot(
        at_ns=sample.monotonic_ns,
        suspended_ns=sample.suspended_ns,
        wakeups=None if probes is None else probes.wakeup_latency_hist,
        wakeup_ns=None if probes is None else probes.wakeup_latency_ns,
        requeues=None if probes is None else probes.requeue_latency_hist,
        timers=None if timer is None else timer.late_hist,
        timer_ns=None if timer is None else timer.late_ns,
        stalled_us=None if pressure is None else pressure.cpu_some_us,
        felt=sample.felt,
        pieces=pieces(sample),
    )


def broken(old: Snapshot, new: Snapshot) -> bool:
    """Is the time between two ticks no time that the agent watched, or did a source begin anew in it?"""
    if not 0 < new.at_ns - old.at_ns <= LONGEST_GAP_S * 1e9:
        return True
    if _suspended_s(old, new) > LONGEST_SUSPEND_S:
        return True
    return _went_back(old.wakeup_ns, new.wakeup_ns) or _went_back(old.timer_ns, new.timer_ns)


def _suspended_s(old: Snapshot, new: Snapshot) -> float:
    if old.suspended_ns is None or new.suspended_ns is None:
        return 0.0
    return abs(new.suspended_ns - old.suspended_ns) / 1e9


def _went_back(old: int | None, new: int | None) -> bool:
    return (old is None) != (new is None) or (old is not None and new is not None and new < old)


class Growth:
    """What the histograms grew by over one or several windows."""

    __slots__ = ("_felt", "_requeues", "_stalled_ns", "_stalled_of_ns", "_timers", "_wakeups", "time_ns")

    def __init__(self) -> None:
        self.time_ns = 0
        self._wakeups: list[int] | None = None
        self._requeues: list[int] | None = None
        self._timers: list[int] | None = None
        self._stalled_ns = self._stalled_of_ns = 0
        self._felt = FeltGrowth()

    def add(self, old: Snapshot, new: Snapshot) -> None:
        """Take in the stretch between two snapshots that nothing broke."""
        self.time_ns += new.at_ns - old.at_ns
        self._wakeups = _sum(self._wakeups, grown(old.wakeups, new.wakeups))
        self._requeues = _sum(self._requeues, grown(old.requeues, new.requeues))
        self._timers = _sum(self._timers, grown(old.timers, new.timers))
        self._felt.add(old.felt, new.felt)
        self._felt.add_pieces(old.pieces, new.pieces, new.at_ns - old.at_ns)
        if old.stalled_us is not None and new.stalled_us is not None and new.stalled_us >= old.stalled_us:
            self._stalled_ns += (new.stalled_us - old.stalled_us) * 1000
            self._stalled_of_ns += new.at_ns - old.at_ns

    def latencies(self) -> Latencies:
        """Percentiles of all of it."""
        both = None
        if self._wakeups is not None and self._requeues is not None and len(self._wakeups) == len(self._requeues):
            both = list(map(add, self._wakeups, self._requeues))
        stalled = self._stalled_ns / self._stalled_of_ns if self._stalled_of_ns else None
        return Latencies(
            seconds=self.time_ns / 1e9,
            run_queue_p99_us=_p99_us(both),
            wakeup_p99_us=_p99_us(self._wakeups),
            timer_late_p99_us=_p99_us(self._timers),
            cpu_pressure_share=None if stalled is None else min(1.0, stalled),
        )

    def felt(self) -> Felt:
        """What was seen, heard and got done in all of it."""
        return self._felt.felt()


def between(old: Snapshot, new: Snapshot) -> Latencies:
    """Of one stretch."""
    growth = Growth()
    growth.add(old, new)
    return growth.latencies()


def _sum(one: list[int] | None, other: list[int] | None) -> list[int] | None:
    if one is None or other is None or len(one) != len(other):
        return one if other is None else other  # slots of another version: the newest count
    return list(map(add, one, other))


def _p99_us(slots: list[int] | None) -> float | None:
    value_ns = None if slots is None else percentile_ns(slots, LATENCY_STARTS_NS, 0.99)
    return None if value_ns is None else value_ns / 1e3


@dataclass(slots=True)
class After:
    """The window that begins once a change has settled; `window` when it is over."""

    first: Snapshot | None = None
    last: Snapshot | None = None
    times_ns: dict[str, int] = field(default_factory=dict)

    def window(self) -> Window | None:
        """None when too little of it was seen."""
        return None if self.first is None or self.last is None else _window(self.first, self.last, self.times_ns)


class Windows:
    """The windows around changes, while ticks go by: `seen` for each, `ordered` and `changed` where they happen."""

    def __init__(self) -> None:
        self._recent: deque[tuple[Snapshot, str]] = deque()
        self._from_ns = 0
        self._after: After | None = None
        self._before: Window | None = None
        self._ordered = False

    def seen(self, snap: Snapshot, workload: str) -> None:
        """A tick has passed; `workload` is in force from now on."""
        if snap.at_ns < self._from_ns:
            return
        recent, after = self._recent, self._after
        if after is not None and after.first is not None and recent:
            last, name = recent[-1]
            if snap.at_ns - after.first.at_ns <= WINDOW_S * 1e9:
                after.times_ns[name] = after.times_ns.get(name, 0) + snap.at_ns - last.at_ns
                after.last = snap
            else:
                self._after = None
        elif after is not None:
            after.first = snap
        recent.append((snap, workload))
        while snap.at_ns - recent[0][0].at_ns > WINDOW_S * 1e9:
            recent.popleft()

    def ordered(self) -> None:
        """A switch begins with the tick that was seen last."""
        self._before, self._ordered = self._recent_window(), True
        self.broke()

    def changed(self, at_ns: int) -> tuple[Window | None, After]:
        """Another scheduler is in force since `at_ns`: the window before, and the one to come."""
        before = self._before if self._ordered else self._recent_window()
        self.broke()
        self._before, self._ordered = None, False
        self._from_ns = at_ns + int(SETTLE_S * 1e9)
        self._after = After()
        return before, self._after

    def stayed(self) -> None:
        """The order came to nothing."""
        self._before, self._ordered = None, False

    def broke(self) -> None:
        """What came before does not belong to what comes now."""
        self._recent.clear()
        self._after = None

    def _recent_window(self) -> Window | None:
        if not self._recent:
            return None
        times_ns: dict[str, int] = {}
        names = iter(self._recent)
        earlier, name = next(names)
        for snap, following in names:
            times_ns[name] = times_ns.get(name, 0) + snap.at_ns - earlier.at_ns
            earlier, name = snap, following
        return _window(self._recent[0][0], self._recent[-1][0], times_ns)


def _window(first: Snapshot, last: Snapshot, times_ns: dict[str, int]) -> Window | None:
    if last.at_ns - first.at_ns < SHORTEST_S * 1e9:
        return None
    return Window(workload=max(times_ns, key=lambda name: times_ns[name]), latencies=between(first, last))
