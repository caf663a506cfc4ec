# SPDX-License-Identifier: GPL-2.0-only
"""The loop leaves nothing behind: an hour of ticks needs no more memory than its first minutes did."""

import gc
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from asa import paths
from asa.act.portfolio import Portfolio
from asa.config import GuardSettings, Learn, PolicySettings, Settings, Voting
from asa.core.decision import EEVDF, Permit, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.ports import Standby
from asa.core.sample import SchedExtState
from asa.daemon import Agent
from asa.decide import table
from asa.journal import Journal
from asa.pipeline import Setup
from asa.reporter import How, Reporter
from asa.status import StatusFile
from models.runtime import Ensemble
from scenarios import planted
from scenarios.demo import SERVED

LOOKS = 481, 961, 1441  # ticks: the loop has just tidied up
MOST_BLOCKS = 100  # between two looks; one for each tick would be 480


class Clock:
    """A second a tick, however fast they are; and a little time for each look."""

    now_ns = 10**12

    def monotonic_ns(self):
        self.now_ns += 20_000
        return self.now_ns

    def wall_ns(self):
        return self.now_ns + 10**18


class Machine:
    """A recorded session over and over again, on a kernel that obeys at once."""

    def __init__(self, clock, samples):
        self.backends = self.missing = self.failing = self.slow = {}
        self.cost_us = {"cpu": 50.0}
        self.clock, self.samples, self.ticks = clock, samples, 0
        self.ours, self.sequence, self.news = EEVDF, 0, []

    def sample(self):
        self.ticks += 1
        ops = self.ours.removeprefix("scx_").partition(":")[0] if self.ours != EEVDF else ""
        return replace(
            self.samples[self.ticks % len(self.samples)],
            monotonic_ns=self.clock.monotonic_ns(),
            wall_ns=self.clock.wall_ns(),
            sched_ext=SchedExtState(state="enabled" if ops else "disabled", ops=ops, enable_seq=self.sequence),
        )

    def begin(self, target, why=""):
        event = SwitchEvent(
            monotonic_ns=self.clock.monotonic_ns(),
            outcome=SwitchOutcome.CONFIRMED,
            old=self.ours,
            new=target,
            elapsed_ns=1,
            detail="",
            undo="",
            why=why,
        )
        self.ours, self.sequence = target, self.sequence + 1
        self.news.append(event)

    def poll(self):
        return self.news.pop() if self.news else None

    def busy(self):
        return False

    def keep_ready(self, wanted):
        pass

    def standbys(self):
        return (Standby(scheduler=SchedulerName("scx_flash"), ready=True, memory_bytes=5 << 20, since_ns=1),)

    def descriptors(self):
        return ()

    def look_in_s(self):
        return None

    def current(self):
        return self.ours

    def rest(self):
        return True


@pytest.fixture(scope="module")
def samples():
    """A session of `wakeup`, of real programs."""
    recordings = sorted((paths.base_model().parents[1] / "recordings").glob("*.journal.xz"))
    with Journal.unpack(next(path for path in recordings if "host" in path.name)) as journal:
        number = next(one.number for one in journal.sessions() if one.header.label == "wakeup")
        return list(journal.samples(number))


def made_setup():
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    return Setup(
        classifier=Ensemble.load(paths.base_model()),
        table=planted.into(table.load(paths.mapping_tables() / "default.yaml", portfolio.modes()), SERVED),
        voting=Voting(),
        policy=PolicySettings(learn=Learn.OFF),
        name_of_ops=portfolio.name_of_ops,
        permit=Permit(switch=True, stand_by=True),
        guard=GuardSettings(baseline_s=0.0),
    )


def test_ticks_leave_no_memory_behind(samples, tmp_path):
    clock = Clock()
    machine = Machine(clock, samples)
    reporter = Reporter(
        clock=clock,
        sampler=machine,
        switcher=machine,
        how=lambda: How(way="gated", no_gate="", mode_reason=""),
        settings=Settings(),
        model=lambda: "",
    )
    status, blocks = StatusFile(tmp_path), {}

    def publish(agent, decision):
        status.write(reporter.status(agent, decision))
        if agent.counts.ticks in LOOKS:
            blocks[agent.counts.ticks] = sys.getallocatedblocks()
        clock.now_ns = (clock.now_ns // 10**9 + 1) * 10**9 - 100_000

    agent = Agent(
        setup=made_setup(),
        sampler=machine,
        switcher=machine,
        clock=clock,
        interval_s=1.0,
        journal=None,
        say=lambda _: None,
        publish=publish,
        reload=made_setup,
    )
    gc.disable()  # else one made for the test suite's sake would empty the free lists; an agent's is days away
    try:
        agent.run(LOOKS[-1] + 10.0)
    finally:
        gc.enable()
        status.close()
    assert agent.counts.switches == 1
    assert agent.state.books.policy.guard.trial is not None
    assert gc.get_freeze_count() == 0
    # a leak shows between all looks; threads that other tests have left allocate now and then
    assert min(after - before for before, after in pairwise(blocks.values())) < MOST_BLOCKS
