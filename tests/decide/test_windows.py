# SPDX-License-Identifier: GPL-2.0-only
"""Stretches: when one is complete, that each trial gives one at most, and which of two was better."""

import pytest

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import guard
from asa.decide.guard import FEWEST_BLOCKS, MOST_BLOCKS, GuardState
from asa.decide.signals import Signals
from asa.decide.windows import SampleWindow, compare, taken

S = 1_000_000_000
WEB, GAME = Workload("web"), Workload("game")
NEW = SchedulerName("scx_new")


class Watch:
    """Feeds ticks, each of which completes a block, and collects the windows."""

    def __init__(self):
        self.state, self.now_s, self.found = GuardState(), 0, []

    def run(self, blocks, scheduler=NEW, workload=WEB, signals=None, gap_s=3):
        for number in range(blocks + 1):  # the first tick opens the first block
            self.now_s += gap_s if number == 0 else 3
            shown = signals or Signals(run_queue_p99_us=1000.0 + number, busy=0.5, runnable=2.0)
            before, now_ns = self.state, self.now_s * S
            self.state = guard.observe(before, now_ns=now_ns, workload=workload, scheduler=scheduler, signals=shown)
            stretch = taken(before, self.state, now_ns)
            if stretch is not None:
                self.found.append(stretch)
        return self


def test_a_full_one_is_taken_at_once_and_only_once():
    watch = Watch().run(MOST_BLOCKS - 1)
    assert watch.found == []
    watch = Watch().run(MOST_BLOCKS)
    (stretch,) = watch.found
    assert (stretch.workload, stretch.scheduler, stretch.at_ns) == (WEB, NEW, watch.now_s * S)
    assert stretch.medians == (
        1009.5,
        None,
        None,
        None,
        0.5,
        2.0,
        None,
    )  # the value of the last tick is in no block yet
    assert Watch().run(5 * MOST_BLOCKS).run(FEWEST_BLOCKS - 1, EEVDF).found == [stretch]


@pytest.mark.parametrize(("blocks", "count"), [(FEWEST_BLOCKS - 1, 0), (FEWEST_BLOCKS, 1), (MOST_BLOCKS - 1, 1)])
@pytest.mark.parametrize("end", [{"scheduler": EEVDF}, {"workload": GAME}, {"gap_s": 60}])
def test_a_shorter_one_is_taken_when_it_ends(blocks, count, end):
    assert len(Watch().run(blocks).run(1, **end).found) == count


def test_only_its_own_blocks_count():
    watch = Watch().run(MOST_BLOCKS, signals=Signals(run_queue_p99_us=9000.0)).run(1, EEVDF)
    watch.run(FEWEST_BLOCKS, signals=Signals(run_queue_p99_us=1000.0)).run(1, EEVDF)
    assert [stretch.medians[0] for stretch in watch.found] == [9000.0, 1000.0]


def test_what_few_blocks_know_is_unknown():
    watch = Watch()
    for number in range(MOST_BLOCKS + 1):
        known = Signals(run_queue_p99_us=1.0, cpu_pressure=0.2 if number < FEWEST_BLOCKS - 1 else None)
        before = watch.state
        watch.now_s += 3
        watch.state = guard.observe(before, now_ns=watch.now_s * S, workload=WEB, scheduler=NEW, signals=known)
    assert taken(before, watch.state, 0).medians == (1.0, None, None, None, None, None, None)


def test_a_guard_that_was_cleared_gives_nothing_that_was_never_measured():
    watch = Watch().run(3)
    assert taken(watch.state, GuardState(), 0) is None
    assert taken(GuardState(), watch.state, 0) is None
    assert taken(watch.state, watch.state, 0) is None


def stretch(queue_us=None, wakeup_us=None, pressure=None, timer_us=None, busy=None, runnable=None, switches=None):
    medians = (queue_us, wakeup_us, pressure, timer_us, busy, runnable, switches)
    return SampleWindow(workload=WEB, scheduler=NEW, at_ns=0, medians=medians)


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        ({"queue_us": 4000}, {"queue_us": 9000}, 1),
        ({"queue_us": 500}, {"queue_us": 1500}, 0),  # nobody feels it
        ({"queue_us": 40_000}, {"queue_us": 45_000}, 0),  # an eighth only
        ({"queue_us": 4000, "pressure": 0.6}, {"queue_us": 9000, "pressure": 0.6}, 1),
        ({"queue_us": 4000, "pressure": 0.6}, {"queue_us": 9000, "pressure": 0.2}, 0),
        ({"queue_us": 4000}, {"pressure": 0.2}, None),
        ({}, {}, None),
        ({"timer_us": 1000, "busy": 0.5}, {"timer_us": 9000, "busy": 0.65}, None),
        ({"timer_us": 1000, "busy": 0.5}, {"timer_us": 9000, "busy": 0.59}, 1),
        ({"wakeup_us": 1000, "runnable": 3.0}, {"wakeup_us": 9000, "runnable": 4.0}, None),
        ({"wakeup_us": 1000, "runnable": 20.0}, {"wakeup_us": 9000, "runnable": 23.0}, 1),
        ({"wakeup_us": 1000, "runnable": 3.0}, {"wakeup_us": 9000}, 1),
        # the worse one switched far more often: the use changed, not the scheduler
        ({"queue_us": 4000, "switches": 1_000}, {"queue_us": 9000, "switches": 90_000}, None),
        ({"queue_us": 4000, "switches": 90_000}, {"queue_us": 9000, "switches": 1_000}, 1),
        ({"queue_us": 4000, "switches": 1_000}, {"queue_us": 9000, "switches": 20_000}, 1),
        ({"queue_us": 4000, "switches": 1_000}, {"queue_us": 4000, "switches": 90_000}, 0),
    ],
)
def test_which_was_better(one, other, outcome):
    mine, its = stretch(**one), stretch(**other)
    assert compare(mine, its, 0.25) == outcome
    assert compare(its, mine, 0.25) == (None if outcome is None else -outcome)
