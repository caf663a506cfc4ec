# SPDX-License-Identifier: GPL-2.0-only
"""Turns of seconds between EEVDF and a scheduler that looks worse: when they begin, and what they show."""

from dataclasses import dataclass, field, replace

import pytest

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import check, guard
from asa.decide.check import MOST_CHECKS, Check, Checks, End
from asa.decide.guard import GuardState
from asa.decide.signals import Signals

S = 1_000_000_000
WEB, NEW = Workload("web"), SchedulerName("scx_new")


@dataclass
class Machine:
    """Ticks of a second; what is asked is in force in the same tick."""

    state: GuardState = field(default_factory=GuardState)
    checks: Checks = field(default_factory=Checks)
    second: int = 0

    def seen(self, scheduler, *waits_us, **others):
        """What the guard sees, and whether a check begins."""
        for wait_us in waits_us:
            self.second += 1
            now_ns = self.second * S
            signals = Signals(wakeup_p99_us=wait_us, **others)
            self.state = guard.observe(self.state, now_ns=now_ns, workload=WEB, scheduler=scheduler, signals=signals)
            self.checks = check.begun(self.checks, self.state, now_ns)
        return self.checks.now

    def turns(self, under_new, under_eevdf, **loads):
        """Turns until it is over; `loads`: quantity -> under the new one, under EEVDF."""
        one, in_force = self.checks.now, NEW
        for _ in range(200):
            if one.end is not None:
                return one
            in_force, self.second = one.wants, self.second + 1
            of_new = in_force == NEW
            load = {name: values[0 if of_new else 1] for name, values in loads.items()}
            signals = Signals(wakeup_p99_us=under_new if of_new else under_eevdf, **load)
            one = check.take(one, now_ns=self.second * S, in_force=in_force, signals=signals)
        raise AssertionError("never over")


def suspicious(under_new=9000.0, before=2000.0, **others):
    """After half a minute of EEVDF the first block under another scheduler ends."""
    machine = Machine()
    machine.seen(EEVDF, *[before] * 30, **others)
    assert machine.seen(NEW, *[under_new] * 4, **others) is not None
    return machine


def test_one_block_that_lies_above_all_references_begins_turns():
    one = suspicious().checks.now
    assert (one.wants, one.scheduler, one.workload) == (EEVDF, NEW, WEB)
    assert one.words == (
        "scx_new looks worse than eevdf for web (wakeup latency (p99)): they take turns of 3 s, eevdf's is number 1"
    )


@pytest.mark.parametrize("under_new", [2000.0, 3900.0])
def test_what_nobody_feels_begins_none(under_new):
    machine = Machine()
    machine.seen(EEVDF, *[2000.0] * 30)
    assert machine.seen(NEW, *[under_new] * 60) is None


def test_two_blocks_are_enough_where_one_is_not():
    machine = Machine()
    machine.seen(EEVDF, *[5000.0] * 30)
    assert machine.seen(NEW, *[8000.0] * 4) is None
    assert machine.seen(NEW, *[8000.0] * 3) is not None


def test_without_references_none_begins():
    machine = Machine()
    machine.seen(EEVDF, *[2000.0] * 8)
    assert machine.seen(NEW, *[9000.0] * 60) is None


def test_the_reference_is_of_no_less_work():
    machine = Machine()
    machine.seen(EEVDF, *[2000.0] * 30, programs=2.0)
    assert machine.seen(NEW, *[9000.0] * 60, programs=6.0) is None


def test_four_times_the_wait_that_comes_and_goes_is_worse_after_two_turns():
    machine = suspicious()
    begun = machine.second
    over = machine.turns(9000.0, 2000.0)
    assert (over.end, len(over.mine), len(over.theirs)) == (End.WORSE, 2, 2)
    assert machine.second - begun == 12  # three blocks of three seconds, each after a tick with the switch in it
    assert over.worse.sentence == (
        "web regressed under scx_new compared with eevdf: wakeup latency (p99) 9.0 ms against 2.0 ms "
        "(medians of 2 and 2 blocks of 3 s in turns)"
    )


def test_twice_the_wait_needs_a_turn_more():
    over = suspicious(5200.0).turns(5200.0, 2000.0)
    assert (over.end, len(over.theirs)) == (End.WORSE, 2)
    over = suspicious(4800.0).turns(4800.0, 2000.0)
    assert (over.end, len(over.theirs)) == (End.WORSE, 3)


def test_a_load_that_came_by_itself_clears_the_scheduler_in_one_turn():
    over = suspicious().turns(9000.0, 9000.0)
    assert (over.end, len(over.theirs), over.worse) == (End.CLEAR, 1, None)


def test_a_load_that_is_less_under_eevdf_excuses_unless_a_scheduler_can_move_it():
    over = suspicious(programs=5.0).turns(9000.0, 2000.0, programs=(5.0, 2.0))
    assert (over.end, len(over.theirs)) == (End.CLEAR, 3)
    # wakeups that come and go with it are of its making
    over = suspicious(wakeups=2000.0).turns(9000.0, 2000.0, wakeups=(6000.0, 2000.0))
    assert (over.end, len(over.theirs)) == (End.WORSE, 3)


def test_the_timer_and_the_pressure_need_four_turns():
    machine = Machine()
    machine.seen(EEVDF, *[100.0] * 30, timer_late_us=500.0)
    machine.seen(NEW, *[100.0] * 4, timer_late_us=7000.0)
    over = machine.turns(100.0, 100.0, timer_late_us=(7000.0, 500.0))
    assert (over.end, len(over.theirs)) == (End.WORSE, 4)


def test_of_one_scheduler_three_in_a_working_day_and_later_ones_are_slower():
    machine = suspicious()
    turns = []
    for _ in range(MOST_CHECKS):
        turns.append(len(machine.turns(9000.0, 2000.0).theirs))
        machine.checks = replace(machine.checks, now=None)
        machine.state = guard.broken_off(machine.state)
        machine.seen(NEW, *[9000.0] * 4)
    assert turns == [2, 3, 3]
    assert machine.checks.now is None
    machine.second += int(guard.REFERENCE_S)
    machine.seen(EEVDF, *[2000.0] * 30)
    assert machine.seen(NEW, *[9000.0] * 4) is not None


def taken(one: Check, second, in_force, signals=None):
    return check.take(one, now_ns=one.last_ns + second * S, in_force=in_force, signals=signals)


def test_what_puts_in_doubt_what_was_in_force_voids_it():
    one = suspicious().checks.now
    assert taken(one, 11, EEVDF).end is End.VOID
    assert taken(one, -1, EEVDF).end is End.VOID
    assert taken(one, 1, SchedulerName("scx_other")).end is End.VOID
    assert taken(one, 1, None).end is End.VOID
    begun = taken(one, 1, EEVDF)
    assert (begun.end, begun.block is not None) == (None, True)
    assert taken(begun, 1, NEW).end is End.VOID
    for _ in range(31):  # the switch does not come
        one = taken(one, 1, NEW)
    assert one.end is End.VOID
    assert taken(one, 1, EEVDF) == one


def test_a_turn_in_which_nothing_was_measured_clears():
    one = suspicious().checks.now
    for _ in range(4):
        one = taken(one, 1, EEVDF)
    assert one.end is End.CLEAR
