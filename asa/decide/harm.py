# SPDX-License-Identifier: GPL-2.0-only
"""What cannot be the user's doing: a task that waits for half a second, timers that come late, the kernel's own word.
Pure.

It counts at once, whatever the load is. What waits because somebody wanted that (SCHED_IDLE, nice, groups with a limit
or a low weight) is not in `Signals.waited_us`, nor are real-time threads (`collectors.ebpf.layout.WAITERS`).
The kernel complains of hung tasks and of stalls of RCU here; its watchdog's word comes as the exit of the scheduler
(`asa.decide.quarantine`). The reasons: docs/design.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.signals import Signals

WAITED_US = 500_000.0
"""So long nobody who can run waits on a laptop; the kernel's own scheduler comes round within tens of ms."""
TIMES = 2.0
"""And so many times as long as the same class had to wait under EEVDF: some overloads are beyond any scheduler."""
PLAIN_US = 2_000_000.0
"""But so long it counts whatever was seen under EEVDF: one bad second there, at a start, must not excuse starvation."""
LATE_US = 100_000.0
LATE_S = 3.0
"""For so long in each tick 99 % of the timers come later."""
REALTIME_CORES = 0.25
"""With so much used by real-time threads these keep others waiting, and no sched_ext scheduler is above them."""
HUNG_S = 120.0
STALLED_S = 21.0
"""After so long the kernel complains by default (hung_task_timeout_secs; CONFIG_RCU_CPU_STALL_TIMEOUT). Whoever is in
force for less has not made it."""
REFERENCE_S = 8 * 3600.0
"""For how long a wait under EEVDF is remembered, as the guard's other references."""
_MOST_CLASSES = 64
_TICK_SHARE = 0.9  # ticks come a little early or late
_LONGEST_TICK_S = 10.0  # a longer gap is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Starvation:
    """A verdict: `scheduler` does harm, whatever the load is."""

    workload: Workload
    scheduler: SchedulerName
    words: str
    than: SchedulerName = EEVDF

    @property
    def sentence(self) -> str:
        """For people."""
        return f"{self.scheduler} starves the machine: {self.words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """What is remembered from tick to tick."""

    last_ns: int | None = None
    scheduler: SchedulerName | None = None  # in the last tick
    since_ns: int = 0  # since when it has been in force
    excused_ns: int | None = None  # when the kernel last complained under EEVDF
    late_ns: int | None = None  # since when timers have been late in each tick
    usual: Mapping[Workload, tuple[float, int]] = field(default_factory=dict)
    """Class -> the longest wait under EEVDF in us, and when it was seen. The class seen last is last."""


def feel(
    alarm: Alarm, *, now_ns: int, workload: Workload, scheduler: SchedulerName, signals: Signals
) -> tuple[Alarm, Starvation | None]:
    """Take in one tick that lies under this scheduler alone. EEVDF does no harm: it is what is left."""
    late_ns = _late_since(alarm, now_ns, signals)
    since_ns = alarm.since_ns if alarm.scheduler == scheduler else now_ns
    alarm = replace(alarm, last_ns=now_ns, late_ns=late_ns, scheduler=scheduler, since_ns=since_ns)
    if scheduler == EEVDF:
        if signals.hung_per_s or signals.stalls_per_s:
            alarm = replace(alarm, excused_ns=now_ns)
        return _with(alarm, workload, signals.waited_us, now_ns), None
    words = _waited(alarm, workload, signals, now_ns) or _late(late_ns, now_ns, signals)
    words = words or _complained(alarm, now_ns, signals)
    return alarm, Starvation(workload=workload, scheduler=scheduler, words=words) if words else None


def _late_since(alarm: Alarm, now_ns: int, signals: Signals) -> int | None:
    if signals.timer_late_us is None or signals.timer_late_us <= LATE_US or _realtime(signals):
        return None
    last_ns = alarm.last_ns
    if last_ns is None or not 0 <= now_ns - last_ns <= _LONGEST_TICK_S * 1e9:
        return now_ns
    return last_ns if alarm.late_ns is None else alarm.late_ns


def _late(late_ns: int | None, now_ns: int, signals: Signals) -> str:
    if late_ns is None or signals.timer_late_us is None or now_ns - late_ns < _TICK_SHARE * LATE_S * 1e9:
        return ""
    return f"timers came {signals.timer_late_us / 1e3:.0f} ms late (p99) for {(now_ns - late_ns) / 1e9:.1f} s"


def _complained(alarm: Alarm, now_ns: int, signals: Signals) -> str:
    """The kernel's own words, unless it said as much under EEVDF lately: a disk or a network that does not answer."""
    if alarm.excused_ns is not None and now_ns - alarm.excused_ns <= REFERENCE_S * 1e9:
        return ""
    in_force_s = (now_ns - alarm.since_ns) / 1e9
    if signals.stalls_per_s and in_force_s >= STALLED_S:
        return "the kernel complains of a stall of RCU"
    if signals.hung_per_s and in_force_s >= HUNG_S:
        return f"the kernel complains of a task that has not run for {HUNG_S:.0f} s"
    return ""


def _waited(alarm: Alarm, workload: Workload, signals: Signals, now_ns: int) -> str:
    waited_us = signals.waited_us
    if waited_us is None or waited_us < WAITED_US or _realtime(signals):
        return ""
    usual_us, seen_ns = alarm.usual.get(workload, (0.0, now_ns))
    if now_ns - seen_ns <= REFERENCE_S * 1e9 and waited_us < min(TIMES * usual_us, PLAIN_US):
        return ""
    who = "a thread of the kernel" if (signals.kernel_waited_us or 0.0) >= waited_us else "a task"
    return f"{who} that could run waited for {waited_us / 1e6:.1f} s or more"


def _realtime(signals: Signals) -> bool:
    return (signals.realtime_cores or 0.0) >= REALTIME_CORES


def _with(alarm: Alarm, workload: Workload, waited_us: float | None, now_ns: int) -> Alarm:
    known_us, seen_ns = alarm.usual.get(workload, (0.0, now_ns))
    fresh = now_ns - seen_ns <= REFERENCE_S * 1e9
    if not waited_us or (fresh and waited_us <= known_us):
        return alarm
    others = {other: seen for other, seen in alarm.usual.items() if other != workload}
    while len(others) >= _MOST_CLASSES:
        del others[next(iter(others))]
    return replace(alarm, usual=others | {workload: (waited_us, now_ns)})
