# SPDX-License-Identifier: GPL-2.0-only
"""Journals whose figures are known: a machine that does what the test says, tick by tick."""

from dataclasses import dataclass, field

from asa.core.decision import (
    EEVDF,
    Decision,
    Probabilities,
    Reason,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Vote,
    Way,
    Workload,
)
from asa.core.sample import PressureCounters, ProbeCounters, RawSample, SchedExtState, TimerCounters
from asa.journal import Costs, Journal, SessionHeader
from collectors.ebpf.layout import LATENCY_STARTS_NS

S = 1_000_000_000
START_WALL_NS = 1_790_000_000 * S
SLOTS = len(LATENCY_STARTS_NS)


def header(**changes):
    values = {"started_ns": START_WALL_NS, "asa_version": "0", "host": "a <b>host</b>", "kernel": "6.18", "cpus": 4}
    return SessionHeader(**(values | {"mode": "switching"} | changes))


@dataclass
class Machine:
    """Counters that grow by what a tick is told to wait; `write` appends the tick to a journal."""

    journal: Journal
    now_ns: int = 100 * S
    wall_ns: int = START_WALL_NS
    suspended_ns: int = 0
    current: str = str(EEVDF)
    wakeups: list = field(default_factory=lambda: [0] * SLOTS)
    requeues: list = field(default_factory=lambda: [0] * SLOTS)
    timers: list = field(default_factory=lambda: [0] * SLOTS)
    stalled_us: int = 0
    cpu_ns: int = 0
    news: list = field(default_factory=list)

    def tick(
        self,
        workload,
        *,
        slot=None,
        stalled=0.0,
        switch_to=None,
        wanted=None,
        reason=Reason.SERVED,
        sentence="",
        vote=None,
        trial="",
        **more,
    ):
        """One second passes, in which 100 waits fell into `slot`; then a sample and a decision are made."""
        self.pass_time(1.0)
        if slot is not None:
            for slots in (self.wakeups, self.requeues, self.timers):
                slots[slot] += 100
        self.stalled_us += int(stalled * 1e6)
        sample = self.sample(**more)
        decision = Decision(
            monotonic_ns=self.now_ns,
            probabilities=Probabilities(classes=(Workload("cpu"), Workload("disk")), values=(0.75, 0.25)),
            vote=vote or Vote(workload=Workload(workload), confidence=0.5),
            workload=Workload(workload),
            wanted=wanted,
            current=SchedulerName(self.current),
            switch_to=None if switch_to is None else SchedulerName(switch_to),
            reason=reason,
            sentence=sentence or f"{self.current} is in force, as wanted for {workload}",
            trial=trial,
        )
        self.journal.add(sample, decision, tuple(self.news))
        self.news = []

    def sample(self, **more):
        probes = ProbeCounters(
            wakeup_latency_ns=sum(self.wakeups),
            wakeup_latency_hist=tuple(self.wakeups),
            requeue_latency_ns=sum(self.requeues),
            requeue_latency_hist=tuple(self.requeues),
        )
        pressure = PressureCounters(
            cpu_some_us=self.stalled_us,
            io_some_us=None,
            io_full_us=None,
            memory_some_us=None,
            memory_full_us=None,
            irq_full_us=None,
        )
        state = SchedExtState(state="enabled", ops=self.current, enable_seq=1)
        values = {
            "monotonic_ns": self.now_ns,
            "wall_ns": self.wall_ns,
            "suspended_ns": self.suspended_ns,
            "probes": probes,
            "pressure": pressure,
            "timer": TimerCounters(late_ns=sum(self.timers), late_hist=tuple(self.timers)),
            "sched_ext": SchedExtState(state="disabled", ops="", enable_seq=0) if self.current == EEVDF else state,
        }
        return RawSample(**(values | more))

    def pass_time(self, seconds):
        self.now_ns += int(seconds * S)
        self.wall_ns += int(seconds * S)

    def suspend(self, seconds):
        self.wall_ns += int(seconds * S)
        self.suspended_ns += int(seconds * S)

    def report(self, new, outcome=SwitchOutcome.CONFIRMED, *, after_s=0.25, in_force=None, **more):
        """The switcher tells of something, some time after the last tick; the next tick hears it."""
        values = {
            "monotonic_ns": self.now_ns + int(after_s * S),
            "outcome": outcome,
            "old": SchedulerName(self.current),
            "new": SchedulerName(new),
            "elapsed_ns": int(after_s * S),
            "detail": "",
            "undo": "",
            "way": Way.GATED,
        }
        self.news.append(SwitchEvent(**(values | more)))
        self.current = in_force if in_force is not None else new

    def cost(self, cpu_ms):
        self.cpu_ns += int(cpu_ms * 1e6)
        costs = Costs(
            monotonic_ns=self.now_ns,
            collection_us=900.0,
            inference_us=150.0,
            decision_us=30.0,
            action_us=4.0,
            journal_us=12.0,
            cpu_ns=self.cpu_ns,
            resident_bytes=44_000_000,
        )
        self.journal.add_costs(costs)
