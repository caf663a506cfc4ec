# SPDX-License-Identifier: GPL-2.0-only
"""From a tick's rates to a regime: how much the machine does, and what kind of work it is. Pure.

Four measures of what programs ask for: the share of the CPUs' time that is used, idle time that waits for a disk,
wakeups a second and CPU, and the mean turn on a CPU. Pressure, run queues and latencies are left out on purpose: a
scheduler makes them, and a context that a scheduler can change would hide what it does. What is not measured here (no
eBPF, no I/O wait) is left out, and there is still a regime.

Each bound is an edge of two values, so that a load near it does not flicker. The values part the kept recordings of
real programs (models/recordings/scenarios), whose quantiles stand beside them; tests/decide/test_regime.py holds them
to it.
"""

from dataclasses import dataclass

from asa.core.regime import Doing, Load, Regime
from asa.decide.signals import Signals, waited
from collectors.rates import Rates


@dataclass(frozen=True, slots=True)
class Edge:
    """A bound that is passed at `enter` on the way up, and at `leave` on the way down."""

    enter: float
    leave: float

    def passed(self, value: float, *, before: bool) -> bool:
        """Does `value` lie above it? `before`: did the last one?"""
        return value >= (self.leave if before else self.enter)


MIXED = Edge(0.3, 0.2)
"""Share of all CPUs' time from which a load is not light. Of idle, office, web and audio 95 % of the ticks lie below
0.21; of archive, blender, kernel, llm and video 90 % above 0.43."""
HEAVY = Edge(0.85, 0.65)
"""From which it is heavy. 90 % of a game's ticks lie below 0.85; the median of blender and kernel is 0.95."""
WAKEUPS = Edge(1200.0, 900.0)
"""Wakeups a second and CPU from which they dominate. Of idle, office, web and game 95 % of the ticks lie below
990; of audio, network and disk 90 % above 1350."""
TURN_US = Edge(500.0, 330.0)
"""Processor time a wakeup from which it is computing. Of archive, blender, kernel, llm and video 95 % lie above 505, of
a game 98 % above 580; of web and office 95 % below 206."""
WORK_CPUS = Edge(0.3, 0.2)
"""CPUs' worth of work: with less nothing computes, however long the turns. Idle: 95 % of the ticks lie below 0.16; of
archive, blender, kernel, llm and video 95 % above 0.36."""
IO_WAIT = Edge(0.1, 0.05)
"""Share of all CPUs' time that waits for a disk. 98 % of the ticks of all uses but disk lie below 0.01; the median of
disk is 0.45."""
SWITCHES_A_WAKEUP = 1.75
"""Context switches a wakeup, the median of all ticks: what stands for the wakeups where eBPF does not count them."""


FIELDS = (
    "cpu_user_share",
    "cpu_nice_share",
    "cpu_system_share",
    "cpu_irq_share",
    "cpu_softirq_share",
    "cpu_iowait_share",
    "wakeups_per_s",
    "context_switches_per_s",
)
"""Of Rates: those that `of` looks at."""


def of(rates: Rates, cpus: int, before: Regime | None = None) -> Regime | None:
    """The regime of one tick; `cpus` were online, `before` is that of the tick before.

    Where the use of the CPUs is unknown (one came or went) it is that of the tick before.
    """
    busy = _busy(rates)
    if busy is None or cpus < 1:
        return before
    return Regime(load=_load(busy, before), doing=_doing(rates, busy, cpus, before))


def has_little_to_do(before: Regime | None, now: Regime | None, signals: Signals | None) -> bool:
    """Is the load light in this tick or the one before, and nobody waits? Then nobody would feel what is tried.

    A light load is over when two ticks in a row have had more. docs/knowledge.md has how often a wait is felt in one.
    """
    light = any(one is not None and one.load is Load.LIGHT for one in (before, now))
    return light and (signals is None or not waited(signals))


def _load(busy: float, before: Regime | None) -> Load:
    last = None if before is None else before.load
    if HEAVY.passed(busy, before=last is Load.HEAVY):
        return Load.HEAVY
    return Load.MIXED if MIXED.passed(busy, before=last in (Load.MIXED, Load.HEAVY)) else Load.LIGHT


def _doing(rates: Rates, busy: float, cpus: int, before: Regime | None) -> Doing:
    last = None if before is None else before.doing
    if IO_WAIT.passed(rates.cpu_iowait_share or 0.0, before=last is Doing.WAITING):
        return Doing.WAITING
    wakeups = _wakeups_per_s(rates)
    if wakeups is not None and WAKEUPS.passed(wakeups / cpus, before=last is Doing.WAKING):
        return Doing.WAKING
    computed = last is Doing.COMPUTING
    if not WORK_CPUS.passed(busy * cpus, before=computed):
        return Doing.WAITING
    if wakeups and not TURN_US.passed(busy * cpus * 1e6 / wakeups, before=computed):
        return Doing.WAITING
    return Doing.COMPUTING


def _wakeups_per_s(rates: Rates) -> float | None:
    if rates.wakeups_per_s is not None:
        return rates.wakeups_per_s
    switches = rates.context_switches_per_s
    return None if switches is None else switches / SWITCHES_A_WAKEUP


def _busy(rates: Rates) -> float | None:
    parts = (
        rates.cpu_user_share,
        rates.cpu_nice_share,
        rates.cpu_system_share,
        rates.cpu_irq_share,
        rates.cpu_softirq_share,
    )
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
