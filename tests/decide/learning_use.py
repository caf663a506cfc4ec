# SPDX-License-Identifier: GPL-2.0-only
"""Daily use to learn from: stretches of a class under schedulers, whose figures the test says."""

from dataclasses import replace

from policy_bench import WALL_NS, Setup

from asa.core.decision import EEVDF, Reason, SchedulerName, Workload
from asa.decide import guard, learning
from asa.decide.guard import FEWEST_BLOCKS, MOST_BLOCKS
from asa.decide.learning import Comparison
from asa.decide.policy_state import Now, PolicyState, keep
from asa.decide.signals import Signals

S = 1_000_000_000
WEB, GAME = Workload("web"), Workload("game")
OLD, NEW = SchedulerName("scx_old"), SchedulerName("scx_new")
SETUP = Setup()
KEEP = keep(None, Reason.SERVED, "")


class Use:
    """Daily use: stretches of a class under schedulers, one after the other; a tick completes a block of the guard."""

    def __init__(self, setup=SETUP, lessons=learning.NOTHING):
        self.setup, self.lessons = setup, lessons
        self.memory, self.now_s = PolicyState(workload=WEB, running=EEVDF), 0
        self.verdicts = 0

    def tick(self, scheduler, signals, judged=True, **changes):
        self.now_s += 3
        now_ns = self.now_s * S
        workload = changes.get("workload", self.memory.workload)
        before = self.memory
        seen = guard.observe(before.guard, now_ns=now_ns, workload=workload, scheduler=scheduler, signals=signals)
        after = replace(before, guard=seen, running=scheduler, **changes)
        worse = None
        if judged:
            worse = guard.judge(seen, workload=workload, scheduler=scheduler, previous=None)
        self.note(before, after, worse)
        return worse is not None

    def note(self, before, after, worse=None, elapsed_s=3.0):
        now_ns = self.now_s * S
        self.memory = after
        self.lessons = learning.note(
            self.lessons,
            learning.Tick(
                before=before,
                after=after,
                worse=worse,
                elapsed_s=elapsed_s,
                now=Now(monotonic_ns=now_ns, wall_ns=WALL_NS + now_ns),
            ),
            self.setup,
        )

    def stretch(self, scheduler, queue_us, blocks=MOST_BLOCKS, judged=True, **load):
        """So many blocks; it ends early when the guard takes it back. `queue_us`: a figure, or one for each tick."""
        for number in range(blocks + 1):
            value_us = queue_us(number) if callable(queue_us) else queue_us * (1 + number % 5 / 100)
            if self.tick(scheduler, Signals(run_queue_p99_us=value_us, **load), judged):
                self.verdicts += 1
                return

    def pair(self, new_us, old_us, times=1):
        for _ in range(times):
            self.stretch(EEVDF, old_us, FEWEST_BLOCKS)
            self.stretch(NEW, new_us)

    def counts(self, one=NEW, other=EEVDF, workload=WEB):
        duel = learning.comparison_of(self.lessons, workload, one, other)
        if duel is None:
            return None
        return (duel.won, duel.lost, duel.alike) if duel.one == one else (duel.lost, duel.won, duel.alike)


def a_duel(one=EEVDF, other=NEW, won=0, lost=0, **changes):
    values = {"workload": WEB, "one_version": "", "other_version": "", "at_ns": WALL_NS, **changes}
    return Comparison(one=one, other=other, won=won, lost=lost, **values)
