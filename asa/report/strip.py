# SPDX-License-Identifier: GPL-2.0-only
"""A session's timeline in bins of equal length, made while ticks go by: bins are joined in pairs when they get many.

Pure, and bounded whatever the session's length.
"""

from dataclasses import dataclass, field

from asa.report.figures import Bin, Timeline
from asa.report.latency import Snapshot, between

MOST_BINS = 480
"""After joining there are half as many at least, if the session had so many seconds."""
_FIRST_NS = 1_000_000_000


@dataclass(slots=True)
class _Bin:
    workloads: dict[str, int] = field(default_factory=dict)  # ns
    schedulers: dict[str, int] = field(default_factory=dict)
    first: Snapshot | None = None
    last: Snapshot | None = None
    epoch: int = 0  # of `first` and `last`

    def take(self, other: "_Bin") -> None:
        """Join with the bin to the right."""
        for mine, theirs in ((self.workloads, other.workloads), (self.schedulers, other.schedulers)):
            for name, time_ns in theirs.items():
                mine[name] = mine.get(name, 0) + time_ns
        if other.first is None:
            return
        if self.first is None or self.epoch != other.epoch:  # counters began anew: those of the newer part are shown
            self.first, self.epoch = other.first, other.epoch
        self.last = other.last


class Strip:
    """Takes stretches of one class under one scheduler."""

    def __init__(self) -> None:
        self._width_ns = _FIRST_NS
        self._bins: list[_Bin] = []
        self._epoch = 0

    def add(self, offset_ns: int, workload: str, scheduler: str, old: Snapshot, new: Snapshot) -> None:
        """The stretch between two snapshots, which began `offset_ns` after the session (0 and more)."""
        begin_ns, end_ns = offset_ns, offset_ns + new.at_ns - old.at_ns
        while (end_ns - 1) // self._width_ns >= MOST_BINS:
            self._join()
        at_ns = begin_ns
        while at_ns < end_ns:
            index = at_ns // self._width_ns
            part_ns = min(end_ns, (index + 1) * self._width_ns) - at_ns
            bin_ = self._bin(index)
            bin_.workloads[workload] = bin_.workloads.get(workload, 0) + part_ns
            bin_.schedulers[scheduler] = bin_.schedulers.get(scheduler, 0) + part_ns
            if at_ns == begin_ns:  # its waits count where it begins
                if bin_.first is None or bin_.epoch != self._epoch:
                    bin_.first, bin_.epoch = old, self._epoch
                bin_.last = new
            at_ns += part_ns

    def broke(self) -> None:
        """Counters may have begun anew: what a bin has seen of them so far is not continued."""
        self._epoch += 1

    def timeline(self) -> Timeline:
        """What was taken so far."""
        return Timeline(bin_s=self._width_ns / 1e9, bins=tuple(_finished(bin_) for bin_ in self._bins))

    def _bin(self, index: int) -> _Bin:
        while len(self._bins) <= index:
            self._bins.append(_Bin())
        return self._bins[index]

    def _join(self) -> None:
        self._width_ns *= 2
        for left in range(0, len(self._bins) - 1, 2):
            self._bins[left].take(self._bins[left + 1])
        del self._bins[1::2]


def _finished(bin_: _Bin) -> Bin:
    found = None if bin_.first is None or bin_.last is None else between(bin_.first, bin_.last)
    return Bin(
        workloads={name: time_ns / 1e9 for name, time_ns in bin_.workloads.items()},
        schedulers={name: time_ns / 1e9 for name, time_ns in bin_.schedulers.items()},
        wakeup_p99_us=None if found is None else found.wakeup_p99_us,
        run_queue_p99_us=None if found is None else found.run_queue_p99_us,
        timer_late_p99_us=None if found is None else found.timer_late_p99_us,
    )
