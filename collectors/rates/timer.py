# SPDX-License-Identifier: GPL-2.0-only
"""How late timers of ordinary tasks are: with six wakes a second, a tick's 99 % is about its worst."""

from asa.core.sample import TimerCounters
from collectors.ebpf.layout import LATENCY_STARTS_NS
from collectors.rates.arithmetic import Fields, growth
from collectors.rates.histogram import grown, spread


def timer(old: TimerCounters, new: TimerCounters) -> Fields:
    """Everything of TimerCounters."""
    slots = grown(old.late_hist, new.late_hist)
    return spread("timer_late", growth(old.late_ns, new.late_ns), slots, LATENCY_STARTS_NS, (99,))
