# SPDX-License-Identifier: GPL-2.0-only
"""The step on a machine that is used for this and that: what the guard sees and takes back, who stands by, what the
user orders, and shadow mode."""

from dataclasses import replace

import pytest
from pipeline_machine import ONE, STANDING_BY, THREE, TWO, A, B, C, Machine, S

from asa.config import PolicySettings
from asa.core.decision import EEVDF, ExitKind, Order, OrderKind, Permit, Reason, SchedulerName, SwitchOutcome
from asa.decide.books import Books
from asa.pipeline import State


def test_what_the_guard_takes_back_is_remembered_as_a_bar():
    machine = Machine()
    decisions = machine.run(120, A, lambda scheduler: 0.1 if scheduler == EEVDF else 0.7)
    revert = next(decision for decision in decisions if decision.reason is Reason.REVERTED)
    assert (revert.switch_to, revert.current) == (EEVDF, ONE)
    assert "a regressed under scx_one compared with eevdf" in revert.sentence
    assert {mark.scheduler for mark in machine.state.books.bars.marks} >= {ONE}
    again = Machine()  # after a restart
    again.state = State(books=Books(bars=machine.state.books.bars))
    assert ONE not in {decision.switch_to for decision in again.run(60, A)}


def test_standbys_follow_what_the_machine_is_used_for():
    machine = Machine()
    machine.setup = replace(machine.setup, permit=STANDING_BY)
    for _ in range(3):
        machine.run(60, A)
        machine.run(60, B)
    assert machine.attached == TWO
    assert machine.state.decision.standbys[0] == ONE
    machine.battery_saver = True
    assert machine.run(1, B)[-1].standbys == ()
    machine.battery_saver = False
    assert machine.run(30, B)[-1].standbys[0] == ONE
    assert machine.run(1, B, memory=0.5)[-1].standbys == ()
    assert machine.run(70, B)[-1].standbys[0] == ONE
    machine.sizes = {ONE: 10**9}
    assert ONE not in machine.run(10, B)[-1].standbys
    machine.report(SwitchOutcome.FOREIGN, SchedulerName("scx_layered"))
    assert machine.run(1, B)[-1].standbys == ()


def test_without_a_gate_nobody_stands_by():
    assert Machine().run(120, A)[-1].standbys == ()


def test_orders_are_heard():
    machine = Machine()
    machine.run(60, A)
    machine.report(SwitchOutcome.LOST, ONE, ExitKind.SYSRQ)
    assert machine.run(60, A)[-1].reason is Reason.HOLD
    machine.orders = [Order(kind=OrderKind.RESUME)]
    machine.run(30, A)
    assert machine.attached == ONE


def test_what_the_user_says_goes_before_what_is_recognised():
    machine = Machine()
    machine.setup = replace(machine.setup, permit=STANDING_BY)
    machine.run(60, A)
    assert machine.state.decision.standbys != ()
    machine.orders = [Order(kind=OrderKind.SWITCH, scheduler=THREE, until_ns=10**18 + 100 * S, until="later")]
    first = machine.run(1, A)[0]
    assert (first.switch_to, first.reason, first.wanted, machine.attached) == (THREE, Reason.BY_HAND, THREE, THREE)
    decisions = machine.run(30, B)
    assert {decision.reason for decision in decisions} == {Reason.HOLD}
    assert decisions[-1].sentence == "on hold: held by the user on scx_three until later"
    assert (decisions[-1].wanted, decisions[-1].standbys) == (TWO, ())
    machine.run(60, B)
    assert machine.attached == TWO
    machine.orders = [Order(kind=OrderKind.HOLD)]
    machine.run(60, A)
    assert machine.attached == TWO


@pytest.mark.parametrize(("setting", "most_s"), [("auto", 9), (10.0, 14)])
def test_what_stands_by_is_switched_to_sooner(setting, most_s):
    machine = Machine()
    machine.setup = replace(machine.setup, permit=STANDING_BY, policy=PolicySettings(cooldown_s=setting))
    for workload in (A, B, C) * 4:  # until all are measured
        machine.run(60, workload)
    machine.run(60, A)
    assert set(machine.state.decision.standbys) == {TWO, THREE}
    start_s = machine.now_s
    for workload, scheduler in ((B, TWO), (C, THREE)):
        while machine.attached != scheduler:
            machine.run(1, workload)
    assert most_s - 5 < machine.now_s - start_s <= most_s


def test_in_shadow_mode_the_choice_is_believed_and_the_truth_is_told():
    machine = Machine()
    machine.setup = replace(machine.setup, shadow=True, permit=Permit(switch=True))
    machine.attached = SchedulerName("scx_layered")  # somebody else's: nothing is done to it
    machine.workload = A
    orders = []
    for _ in range(60):
        decision = machine.tick(0.9)
        if decision.switch_to is not None:
            orders.append(decision.switch_to)
            machine.report(SwitchOutcome.SHADOWED, decision.switch_to)
    assert orders == [ONE]
    assert (decision.reason, decision.current) == (Reason.SERVED, "scx_layered")
