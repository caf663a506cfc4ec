# SPDX-License-Identifier: GPL-2.0-only
"""The loop with scripted parts around it: a kernel that obeys at once, or as told."""

import os
import signal
import time

from asa.config import GuardSettings, PolicySettings, Voting
from asa.core.decision import (
    EEVDF,
    Judgement,
    Permit,
    Probabilities,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Workload,
)
from asa.core.errors import SchedulerError
from asa.core.sample import CpuCounters, RawSample, SchedExtState
from asa.daemon import Agent
from asa.decide.table import Entry, MappingTable
from asa.pipeline import Setup
from scenarios.planted import evidence

A, B = Workload("a"), Workload("b")
ONE, TWO = SchedulerName("scx_one"), SchedulerName("scx_two")


class Clock:
    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


class Machine:
    """Sampler, classifier and switcher in one: a kernel that obeys at once, or as told."""

    schema = 0
    classes = (A, B)

    def __init__(self):
        self.ops, self.sequence, self.ticks, self.orders, self.rested = "", 0, 0, [], 0
        self.refuse: set[str] = set()
        self.news: list[SwitchEvent] = []

    def sample(self):
        self.ticks += 1
        ticks = (self.ticks, 0, 0, self.ticks, 0, 0, 0, 0)
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
        state = SchedExtState(state="enabled" if self.ops else "disabled", ops=self.ops, enable_seq=self.sequence)
        return RawSample(monotonic_ns=time.monotonic_ns(), wall_ns=time.time_ns(), cpu=cpu, sched_ext=state)

    def judge(self, frame):
        probabilities = Probabilities(classes=self.classes, values=(1.0, 0.0))
        return Judgement(probabilities=probabilities, score=None, known=True)

    def begin(self, target, why=""):
        self.orders.append(target)
        if target in self.refuse:
            raise SchedulerError(scheduler=target, reason="not installed")
        old = SchedulerName(f"scx_{self.ops}") if self.ops else EEVDF
        self.ops, self.sequence = target.removeprefix("scx_"), self.sequence + 1
        self.news.append(self.event(SwitchOutcome.CONFIRMED, old, target))

    def event(self, outcome, old, new):
        return SwitchEvent(
            monotonic_ns=time.monotonic_ns(),
            outcome=outcome,
            old=old,
            new=new,
            elapsed_ns=1,
            detail=f"{new} {outcome}",
            undo="",
        )

    def poll(self):
        return self.news.pop(0) if self.news else None

    def busy(self):
        return False

    def keep_ready(self, wanted):
        self.wanted = wanted

    def standbys(self):
        return ()

    def descriptors(self):
        return ()

    def look_in_s(self):
        return None

    def current(self):
        return SchedulerName(f"scx_{self.ops}") if self.ops else EEVDF

    def rest(self):
        self.rested += 1
        self.ops = ""
        return True


def table(*ranking):
    entries = tuple(Entry(scheduler=name, why=".", evidence=evidence()) for name in ranking)
    return MappingTable(path="t", machine="m", provenance="p", rankings={A: entries, B: entries})


class Bench:
    def __init__(self, *ranking):
        self.machine, self.said, self.seen = Machine(), [], []
        self.at: dict[int, object] = {}
        self.agent = Agent(
            setup=self.made_setup(*ranking),
            sampler=self.machine,
            switcher=self.machine,
            clock=Clock(),
            interval_s=0.02,
            journal=None,
            say=self.said.append,
            publish=self.publish,
            reload=lambda: self.made_setup(*ranking),
        )

    def made_setup(self, *ranking):
        return Setup(
            classifier=self.machine,
            table=table(*ranking),
            voting=Voting(threshold=0.1),
            policy=PolicySettings(cooldown_s=0.0, dwell_s=0.0),
            name_of_ops=lambda ops: SchedulerName(f"scx_{ops}") if ops in ("one", "two") else None,
            permit=Permit(switch=True),
            guard=GuardSettings(baseline_s=0.0),
        )

    def publish(self, agent, decision):
        self.seen.append(decision)
        action = self.at.get(len(self.seen))
        if action is not None:
            action()

    def run(self, ticks):
        self.at[ticks] = lambda: os.kill(os.getpid(), signal.SIGINT)
        self.agent.run(limit_s=20.0)
        assert len(self.seen) == ticks
