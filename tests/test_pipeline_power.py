# SPDX-License-Identifier: GPL-2.0-only
"""The step on a laptop: battery saver, the plug, and a suspend."""

from dataclasses import replace
from itertools import pairwise

from pipeline_machine import ONE, STANDING_BY, THREE, A, B, Machine, S

from asa.core.decision import EEVDF, Reason, SchedulerName
from asa.decide.policy import Revert
from asa.decide.table import Entry
from scenarios.planted import evidence

FRUGAL = SchedulerName("scx_two:powersave")


def laptop():
    """A machine whose table has an entry for battery saver, for class A alone."""
    machine = Machine()
    frugal = Entry(scheduler="scx_two", mode="powersave", why=".", efficient=True, evidence=evidence())
    table = machine.setup.table
    table = replace(table, rankings=table.rankings | {A: (*table.rankings[A], frugal)})
    machine.setup = replace(machine.setup, table=table)
    return machine


def test_battery_saver_is_a_reason_to_switch_at_once():
    machine = laptop()
    machine.run(60, A)
    assert machine.attached == ONE
    machine.battery_saver = True
    decision = machine.run(1, A)[0]
    assert (decision.switch_to, decision.reason, decision.workload) == (FRUGAL, Reason.BETTER, A)
    assert decision.sentence == "scx_two:powersave suits a better than scx_one on battery saver"
    machine.attached = SchedulerName("scx_two")  # sysfs knows no modes
    assert machine.run(30, A)[-1].sentence == "scx_two:powersave is in force, as wanted for a on battery saver"
    assert machine.run(30, B)[-1].sentence == "eevdf is in force, as wanted for b on battery saver"
    machine.run(30, A)
    machine.attached = SchedulerName("scx_two")
    machine.battery_saver = False
    decisions = machine.run(30, A)
    assert [decision.switch_to for decision in decisions if decision.switch_to is not None] == [ONE]
    assert decisions[0].switch_to == ONE or decisions[0].reason is Reason.COOLDOWN


def test_nobody_stands_by_on_battery_saver_also_in_ticks_that_do_not_know_of_it():
    machine = laptop()
    machine.setup = replace(machine.setup, permit=STANDING_BY)
    machine.battery_saver = True
    machine.run(30, B)
    machine.battery_saver = None
    assert {decision.standbys for decision in machine.run(60, B)} == {()}
    machine.battery_saver = False
    assert machine.run(60, B)[-1].standbys


def test_a_plug_that_is_loose_causes_no_more_than_a_switch_in_each_cooldown():
    machine = laptop()
    machine.run(60, A)
    switches = []
    for second in range(300):
        machine.battery_saver = machine.on_battery = second % 2 == 0
        switches += [machine.now_s for decision in machine.run(1, A) if decision.switch_to is not None]
        machine.attached = SchedulerName(machine.attached.partition(":")[0])
    assert len(switches) > 5
    assert min(after - before for before, after in pairwise(switches)) >= 10


def test_the_guard_does_not_compare_across_a_change_of_power():
    machine = laptop()
    machine.on_battery = False
    machine.run(60, A, lambda _: 0.05)
    assert machine.state.books.policy.guard.seen
    machine.on_battery = True
    machine.run(1, A)
    assert not machine.state.books.policy.guard.seen
    # much worse than on mains, as it is with slow processors: nobody's fault
    decisions = machine.run(120, A, lambda _: 0.7)
    assert Reason.REVERTED not in {decision.reason for decision in decisions}
    assert machine.attached == ONE


def test_what_the_guard_kept_to_is_not_kept_to_on_battery_saver():
    machine = laptop()
    machine.run(60, A, lambda _: 0.05)
    memory = machine.state.books.policy
    revert = Revert(workload=A, back=THREE, count=1, at_ns=machine.now_s * S)
    machine.state = replace(
        machine.state, books=replace(machine.state.books, policy=replace(memory, reverts=(revert,)))
    )
    assert machine.run(1, A)[0].wanted == THREE
    machine.battery_saver = True
    assert machine.run(1, A)[0].wanted == EEVDF


def test_what_was_seen_before_a_suspend_does_not_vote_after_it():
    machine = Machine()
    machine.run(60, A)
    assert len(machine.state.votes.window.entries) > 1
    assert machine.state.awake_ns == 1 * S
    assert machine.state.books.policy.guard.trial.blocks > 1
    machine.suspended_s = 3600  # CLOCK_MONOTONIC goes on as if nothing had been
    woken = machine.run(1, A)[0]
    assert (woken.probabilities, woken.vote.workload, woken.reason) == (None, None, Reason.NO_RATES)
    assert machine.state.votes.window.entries == ()
    assert machine.state.awake_ns == machine.now_s * S
    assert machine.state.books.policy.guard.trial is None  # the next block is of a new stretch
    decisions = machine.run(10, A)
    assert decisions[0].vote.workload == A
    assert {decision.switch_to for decision in decisions} == {None}  # what ran goes on
    assert machine.attached == ONE
