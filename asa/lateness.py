# SPDX-License-Identifier: GPL-2.0-only
"""Ticks that come late: said once, with the likely cause, and once when they come in time again.

Reads no clock itself: times and what the agent waited for a CPU are passed in.
"""

from collections.abc import Callable
from dataclasses import dataclass

LATE_SHARE = 0.5
"""A tick is late that comes so much of the interval after it was due,"""

LEAST_LATE_S = 0.2
"""and so long at least: a busy machine delays every process by some milliseconds."""

_SAY_AFTER, _OF = 3, 60  # late ticks of the last so many: one alone may be anything
_AT_ONCE_S = 2.0  # one that is so late is said by itself
_WELL_AFTER = 60  # ticks in time, after which it is over


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWindow:
    """From the start of one tick to the start of the next."""

    late_s: float  # more than the interval; a suspend does not count
    waited_s: float | None  # the agent could run and had no CPU; None: the kernel does not tell
    worked_s: float  # the tick took, less what it waited
    slowest: str  # source of that tick, "" for none
    realtime: bool  # the agent goes before all ordinary tasks


def cause(stretch: SampleWindow) -> str:
    """The likely one."""
    waited_s = stretch.waited_s
    if waited_s is not None and 2 * waited_s >= stretch.late_s:
        if stretch.realtime:
            return "real-time tasks of others keep it from the CPU; `ps -eLo rtprio,pid,comm --sort=-rtprio` names them"
        return "other tasks keep it from the CPU; `sudo asa run` goes before ordinary ones"
    if 2 * stretch.worked_s >= stretch.late_s:
        most = f", most of it {stretch.slowest}" if stretch.slowest else ""
        return f"its own ticks take {stretch.worked_s:.1f} s{most}"
    if waited_s is None:
        return "the kernel does not tell whether the agent had a CPU (CONFIG_SCHED_INFO)"
    return "the agent was stopped, or the whole (virtual) machine was"


class LateTicks:
    """Follows the ticks of one agent. `waited_ns`: `collectors.running.RunDelay`; `slowest`: the dearest source.

    `first`: whether the agent goes before all ordinary tasks.
    """

    def __init__(
        self,
        interval_s: float,
        waited_ns: Callable[[], int | None],
        slowest: Callable[[], str],
        first: Callable[[], bool],
    ) -> None:
        self._interval_s = interval_s
        self._waited_ns = waited_ns
        self._slowest = slowest
        self._first = first
        self._tick = 0
        self._late: list[int] = []  # ticks that were, of the last
        self._told = False
        self._start_ns = self._took_ns = 0  # of the tick before
        self._total_ns = waited_ns()
        self._before_ns: int | None = 0  # waited in the stretch before

    def tick(self, start_ns: int, end_ns: int) -> str:
        """A tick has ended. What is worth a line now, "" for nothing."""
        total_ns = self._waited_ns()
        known = total_ns is not None and self._total_ns is not None
        waited_ns = total_ns - self._total_ns if total_ns is not None and self._total_ns is not None else None
        before_ns, took_ns = self._before_ns, self._took_ns
        stretch = SampleWindow(
            late_s=(start_ns - self._start_ns) / 1e9 - self._interval_s if self._start_ns else 0.0,
            waited_s=((waited_ns or 0) + (before_ns or 0)) / 1e9 if known else None,
            worked_s=max(0, took_ns - (before_ns or 0)) / 1e9,
            slowest=self._slowest(),
            realtime=self._first(),
        )
        self._start_ns, self._took_ns = start_ns, end_ns - start_ns
        self._total_ns, self._before_ns = total_ns, waited_ns
        return self._told_of(stretch)

    def _told_of(self, stretch: SampleWindow) -> str:
        self._tick += 1
        if stretch.late_s >= max(LEAST_LATE_S, LATE_SHARE * self._interval_s):
            self._late = [tick for tick in self._late if tick > self._tick - _OF] + [self._tick]
            if not self._told and (len(self._late) >= _SAY_AFTER or stretch.late_s >= _AT_ONCE_S):
                self._told = True
                return f"ticks come late, this one by {stretch.late_s:.1f} s: {cause(stretch)}"
        elif self._told and self._tick - self._late[-1] >= _WELL_AFTER:
            self._told = False
            self._late.clear()
            return "ticks come in time again"
        return ""
