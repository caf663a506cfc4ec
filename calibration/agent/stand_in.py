# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.agent.stand_in FOLDER`: the agent's own loop over a kernel that obeys at once.

It takes orders and leases as the agent does, and shows its status below FOLDER. No kernel is touched: what it shows is
how soon the agent orders, not how long a scheduler takes to load (docs/switching-figures.md).
"""

import os
import sys
import time
from pathlib import Path

from asa import requests
from asa.clock import SystemClock
from asa.config import GuardSettings, PolicySettings, Voting
from asa.core.decision import (
    EEVDF,
    Decision,
    FeatureFrame,
    Judgement,
    Order,
    OrderKind,
    Permit,
    Probabilities,
    SchedulerName,
    Standby,
    SwitchEvent,
    SwitchOutcome,
    Workload,
)
from asa.core.sample import CpuCounters, RawSample, SchedExtState
from asa.daemon import Agent
from asa.decide.table import Entry, MappingTable
from asa.lease import Watch
from asa.pipeline import Setup
from asa.reporter import told_use
from asa.status import Status, StatusFile
from scenarios.planted import evidence

USE = Workload("browse")
SERVES = SchedulerName("scx_flash")
"""In force, as the table has it."""

INTERVAL_S = 1.0  # as shipped


class Kernel:
    """Sampler, classifier and switcher in one."""

    schema = 0
    classes: tuple[Workload, ...] = (USE,)

    def __init__(self) -> None:
        self._ops, self._sequence, self._ticks = "", 0, 0
        self._news: list[SwitchEvent] = []

    def sample(self) -> RawSample:
        """One tick of a quiet machine."""
        self._ticks += 1
        ticks = (self._ticks, 0, 0, self._ticks, 0, 0, 0, 0)
        cpu = CpuCounters(
            total=ticks,
            cores=((0, ticks),),
            interrupts=0,
            context_switches=0,
            forks=0,
            softirqs=(0,) * 10,
            runnable=1,
            blocked=0,
        )
        return RawSample(monotonic_ns=time.monotonic_ns(), wall_ns=time.time_ns(), cpu=cpu, sched_ext=self.state())

    def judge(self, _: FeatureFrame) -> Judgement:
        """Always the one use."""
        return Judgement(probabilities=Probabilities(classes=self.classes, values=(1.0,)), score=None, known=True)

    def state(self) -> SchedExtState:
        """As sysfs would have it."""
        return SchedExtState(state="enabled" if self._ops else "disabled", ops=self._ops, enable_seq=self._sequence)

    def current(self) -> SchedulerName:
        """By the manifest's name."""
        return named(self._ops) or EEVDF

    def busy(self) -> bool:
        """Never: it obeys at once."""
        return False

    def begin(self, target: SchedulerName, why: str = "") -> None:
        """Obey."""
        old = self.current()
        self._ops = "" if target == EEVDF else target.removeprefix("scx_")
        self._sequence += 1
        self._news.append(
            SwitchEvent(
                monotonic_ns=time.monotonic_ns(),
                outcome=SwitchOutcome.CONFIRMED,
                old=old,
                new=target,
                elapsed_ns=1,
                detail="",
                undo="",
                why=why,
            )
        )

    def poll(self) -> SwitchEvent | None:
        """What has become of the last order."""
        return self._news.pop(0) if self._news else None

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Nothing needs loading."""

    def standbys(self) -> tuple[Standby, ...]:
        """None."""
        return ()

    def descriptors(self) -> tuple[int, ...]:
        """None."""
        return ()

    def look_in_s(self) -> float | None:
        """At the next tick."""
        return None

    def rest(self) -> bool:
        """Back to the kernel's own."""
        self._ops = ""
        return True


def named(ops: str) -> SchedulerName | None:
    """The scheduler of a name in sysfs."""
    return SchedulerName(f"scx_{ops}") if ops else None


def status(agent: Agent, decision: Decision, kernel: Kernel) -> Status:
    """What clients look at; all else is empty."""
    state = agent.state.books.policy
    held = state.held
    return Status(
        pid=os.getpid(),
        asa_version="",
        started_ns=0,
        updated_ns=time.time_ns(),
        mode="hold" if state.hold else "switching",
        mode_reason=state.hold,
        workload=decision.workload,
        confidence=1.0,
        probabilities={},
        wanted=decision.wanted,
        scheduler=kernel.current(),
        scheduler_since_ns=0,
        reason=decision.reason,
        sentence=decision.sentence,
        switches=agent.counts.switches,
        failures=agent.counts.failures,
        set_aside=[],
        last_event=agent.counts.last_event,
        table="",
        model="",
        interval_s=INTERVAL_S,
        ticks=agent.counts.ticks,
        overruns=0,
        worst_late_ms=0.0,
        backends={},
        missing_sources={},
        slow_sources={},
        cost_us={},
        held=held is not None,
        held_until_ns=None if held is None else held.until_ns,
        chosen=None if held is None else held.scheduler,
        client="" if held is None else held.client,
        lease="" if held is None else held.lease,
        told=told_use(agent.state.books.told),
        signals={"wakeup_p99_us": 50.0 if kernel.current() == EEVDF else 100.0},
    )


def main() -> None:
    """Until SIGTERM."""
    run = Path(sys.argv[1]) / "run"
    kernel, file, watch = Kernel(), StatusFile(run), Watch(run)

    def taken() -> tuple[Order, ...]:
        found = requests.take(run)
        for one in found:
            watch.note(one)
        return tuple(requests.order(one, time.time_ns()) for one in found)

    def lapsed() -> tuple[Order, ...]:
        return tuple(Order(kind=OrderKind.LAPSE, lease=gone) for gone in watch.gone())

    entry = Entry(scheduler=SERVES, why="it serves", evidence=evidence())
    setup = Setup(
        classifier=kernel,
        table=MappingTable(path="", machine="", provenance="", rankings={USE: (entry,)}),
        voting=Voting(threshold=0.1),
        policy=PolicySettings(cooldown_s=0.0, dwell_s=0.0),
        name_of_ops=named,
        permit=Permit(switch=True),
        guard=GuardSettings(baseline_s=0.0),
    )
    agent = Agent(
        setup=setup,
        sampler=kernel,
        switcher=kernel,
        clock=SystemClock(),
        interval_s=INTERVAL_S,
        journal=None,
        say=lambda _: None,
        publish=lambda agent, decision: file.write(status(agent, decision, kernel)),
        reload=lambda: setup,
        take_orders=taken,
        lapsed=lapsed,
    )
    try:
        agent.run()
    finally:
        file.close()


if __name__ == "__main__":
    main()
