# SPDX-License-Identifier: GPL-2.0-only
"""What counts at once: waits and late timers, whose they are, for how long, and what excuses them."""

import pytest

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.harm import HUNG_S, REFERENCE_S, STALLED_S, Alarm, feel
from asa.decide.signals import Signals

S = 1_000_000_000
WEB, GAME = Workload("web"), Workload("game")
NEW = SchedulerName("scx_new")


class Machine:
    def __init__(self):
        self.alarm, self.now_ns = Alarm(), 0

    def tick(self, scheduler=NEW, workload=WEB, step_s=1.0, **signals):
        self.now_ns += int(step_s * S)
        self.alarm, found = feel(
            self.alarm, now_ns=self.now_ns, workload=workload, scheduler=scheduler, signals=Signals(**signals)
        )
        return found


@pytest.mark.parametrize(("waited_us", "harm"), [(None, False), (0.0, False), (499_000.0, False), (500_000.0, True)])
def test_half_a_second_is_enough_and_less_is_not(waited_us, harm):
    machine = Machine()
    found = machine.tick(waited_us=waited_us)
    assert (found is not None) is harm
    assert machine.tick(EEVDF, waited_us=waited_us) is None  # nothing is better than that
    if found:
        assert (found.workload, found.scheduler, found.than) == (WEB, NEW, EEVDF)
        assert found.sentence == "scx_new starves the machine: a task that could run waited for 0.5 s or more"


def test_it_says_when_a_thread_of_the_kernel_waited():
    assert "a thread of the kernel that could run" in Machine().tick(waited_us=2e6, kernel_waited_us=2e6).words
    assert Machine().tick(waited_us=2e6, kernel_waited_us=5e5).words.startswith("a task that could run")


def test_whatever_the_load_is():
    assert Machine().tick(waited_us=6e5, busy=1.0, wakeups=1e5, programs=99.0) is not None


def test_who_waits_as_long_under_eevdf_waits_for_no_scheduler_s_sake():
    machine = Machine()
    machine.tick(EEVDF, waited_us=400_000.0)
    assert machine.tick(waited_us=700_000.0) is None
    assert machine.tick(waited_us=900_000.0) is not None
    assert machine.tick(workload=GAME, waited_us=700_000.0) is not None  # another class
    machine.tick(EEVDF, waited_us=100_000.0)  # the longest counts
    assert machine.tick(waited_us=700_000.0) is None
    assert machine.tick(step_s=REFERENCE_S + 10, waited_us=700_000.0) is not None


def test_plain_starvation_is_excused_by_nothing_that_eevdf_once_did():
    machine = Machine()
    machine.tick(EEVDF, waited_us=2_800_000.0)
    assert machine.tick(waited_us=1_900_000.0) is None
    assert machine.tick(waited_us=2_000_000.0) is not None


def test_real_time_threads_are_above_any_scheduler():
    assert Machine().tick(waited_us=9e5, realtime_cores=1.0) is None
    assert Machine().tick(waited_us=9e5, realtime_cores=0.1) is not None
    machine = Machine()
    assert [machine.tick(timer_late_us=2e5, realtime_cores=1.0) for _ in range(9)] == [None] * 9


@pytest.mark.parametrize("step_s", [0.25, 1.0, 1.04])
def test_timers_have_to_be_late_for_three_seconds(step_s):
    machine = Machine()
    machine.tick(timer_late_us=50.0)
    started_ns = machine.now_ns
    while (found := machine.tick(step_s=step_s, timer_late_us=150_000.0)) is None:
        assert machine.now_ns - started_ns < 4 * S
    assert machine.now_ns - started_ns >= 2.7 * S
    assert found.words.startswith("timers came 150 ms late (p99) for ")


@pytest.mark.parametrize("better", [{"timer_late_us": 90_000.0}, {"timer_late_us": None}])
def test_a_tick_with_timers_in_time_or_unknown_begins_anew(better):
    machine = Machine()
    for _ in range(4):
        assert [machine.tick(timer_late_us=150_000.0) for _ in range(2)] == [None, None]
        assert machine.tick(**better) is None


def test_a_gap_begins_anew():
    machine = Machine()
    machine.tick(timer_late_us=150_000.0)
    assert machine.tick(step_s=60, timer_late_us=150_000.0) is None


def test_memory_is_bounded():
    machine = Machine()
    for number in range(200):
        machine.tick(EEVDF, workload=Workload(f"class {number}"), waited_us=2e5)
    assert len(machine.alarm.usual) == 64


@pytest.mark.parametrize(
    ("complaint", "least_s", "words"),
    [("hung_per_s", HUNG_S, "not run for 120 s"), ("stalls_per_s", STALLED_S, "stall of RCU")],
)
def test_the_kernel_s_complaint_is_the_doing_of_who_was_in_force_all_the_time(complaint, least_s, words):
    machine = Machine()
    machine.tick(SchedulerName("scx_old"))
    machine.tick()
    assert machine.tick(step_s=least_s - 1, **{complaint: 1.0}) is None  # it began under the one before
    assert words in machine.tick(step_s=2, **{complaint: 1.0}).sentence
    assert machine.tick(**{complaint: 0.0}) is None


def test_what_hangs_under_eevdf_too_hangs_by_itself():
    machine = Machine()
    machine.tick(EEVDF, hung_per_s=1.0)
    machine.tick()
    assert machine.tick(step_s=HUNG_S + 1, hung_per_s=1.0) is None
    assert machine.tick(step_s=REFERENCE_S, hung_per_s=1.0) is not None
