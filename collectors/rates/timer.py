# SPDX-License-Identifier: GPL-2.0-only
"""How late timers of ordinary tasks are: with six wakes a second, a tick's 99 % is about its worst."""

from asa.core.sample import TimerCounters
from collectors.ebpf.layout import LATENCY_STARTS_NS
from collectors.rates.arithmetic import Fields, growth
from collectors.rates.histogram import names, running, spread

_LATE = names("timer_late", 99)


def timer(fields: Fields, old: TimerCounters, new: TimerCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """Everything of TimerCounters."""
    below = running(old.late_hist, new.late_hist)
    spread(fields, _LATE, growth(old.late_ns, new.late_ns), below, LATENCY_STARTS_NS)
    if below and not below[-1] and new.overdue_ns:  # no wake at all: one that is due has not come
        fields["timer_late_p99_us"] = new.overdue_ns / 1e3
