# SPDX-License-Identifier: GPL-2.0-only
"""An hour of the step against a machine that does its worst: how often it switches all the same."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_machine import CLASSES, ONE, STANDING_BY, THREE, TWO, A, Machine

from asa.config import PolicySettings
from asa.core.decision import EEVDF, ExitKind, Reason, SwitchOutcome
from asa.decide import cooldown
from asa.decide.policy import MOST_REVERTS_PER_HOUR
from asa.decide.quarantine import FAILURES

HOUR = 3600
ENDS = [SwitchOutcome.CONFIRMED] * 6 + [SwitchOutcome.FAILED, SwitchOutcome.REFUSED, SwitchOutcome.LOST]
BLAMED = [ExitKind.ERROR, ExitKind.STALL, ExitKind.KILLED, ExitKind.QUIT]


def adversary(machine, seed, restless, hostile, failing):
    """An hour of `machine` in which classes, pressure and the ends of switches are whatever hurts. Its orders."""
    rng = random.Random(seed)  # noqa: S311  # an experiment that can be repeated
    worse = {(name, one): rng.random() < hostile for name in CLASSES for one in (ONE, TWO, THREE, EEVDF)}
    machine.workload = A
    orders = []
    for _ in range(HOUR):
        if rng.random() < restless:
            machine.workload = rng.choice(CLASSES)
            worse[machine.workload, rng.choice((ONE, TWO, THREE, EEVDF))] = rng.random() < hostile
        decision = machine.tick(0.8 if worse[machine.workload, machine.attached] else 0.05 * rng.random())
        target = decision.switch_to
        if target is not None:
            outcome = rng.choice(ENDS) if target != EEVDF and rng.random() < failing else SwitchOutcome.CONFIRMED
            if outcome is SwitchOutcome.LOST:
                machine.report(SwitchOutcome.CONFIRMED, target)
            machine.report(outcome, target, rng.choice(BLAMED) if outcome is not SwitchOutcome.CONFIRMED else None)
            machine.stood_by[machine.now_s] = target in machine.standbys
            orders.append((machine.now_s, decision, outcome))
    return orders


HOSTILITY = {
    "seed": st.integers(0, 2**32),
    "restless": st.sampled_from([0.0, 0.002, 0.02, 0.2]),
    "hostile": st.floats(0.0, 1.0),
    "failing": st.sampled_from([0.0, 0.1, 1.0]),
}


def reverts_and_failures_are_bounded(orders):
    """Gives the number of switches that no cooldown delays."""
    reverts = [decision for _, decision, _ in orders if decision.reason is Reason.REVERTED]
    for count in Counter(decision.workload for decision in reverts).values():
        assert count <= MOST_REVERTS_PER_HOUR
    for count in Counter((decision.workload, decision.current) for decision in reverts).values():
        assert count <= 3  # barred for 10, 20, 40 minutes
    bad = Counter(decision.switch_to for _, decision, end in orders if end is not SwitchOutcome.CONFIRMED)
    assert all(count <= FAILURES for count in bad.values())
    return len(reverts) + sum(end is SwitchOutcome.REFUSED for _, _, end in orders)


@settings(max_examples=12, deadline=None)
@given(**HOSTILITY)
def test_whatever_is_measured_switches_stay_bounded(seed, restless, hostile, failing):
    machine = Machine()
    orders = adversary(machine, seed, restless, hostile, failing)
    cooldown_s = machine.setup.policy.cooldown_s
    chosen = [(at_s, end) for at_s, decision, end in orders if decision.reason is Reason.BETTER]
    for (before_s, end), (at_s, _) in pairwise(chosen):
        if end is not SwitchOutcome.REFUSED:  # which changed nothing
            assert at_s - before_s >= cooldown_s
    assert len(orders) <= HOUR / cooldown_s + 1 + reverts_and_failures_are_bounded(orders)


@settings(max_examples=12, deadline=None)
@given(**HOSTILITY)
def test_with_a_cooldown_by_what_switches_take_too(seed, restless, hostile, failing):
    machine = Machine()
    machine.setup = replace(machine.setup, permit=STANDING_BY, policy=PolicySettings(cooldown_s="auto"))
    orders = adversary(machine, seed, restless, hostile, failing)
    reverts_and_failures_are_bounded(orders)
    ended_s = None
    for at_s, decision, end in orders:
        if decision.reason is Reason.BETTER and ended_s is not None:
            light = decision.switch_to == EEVDF or machine.stood_by[at_s]
            assert at_s - ended_s >= (cooldown.SHORTEST_S if light else cooldown.LONGEST_S)
        if end is not SwitchOutcome.REFUSED:
            ended_s = at_s


def test_without_a_reason_to_change_it_settles():
    """Every scheduler is worse than EEVDF for every class, for an hour: the machine ends on EEVDF and stays there."""
    machine = Machine()
    orders = [one for one in machine.run(HOUR, A, lambda name: 0.1 if name == EEVDF else 0.8) if one.switch_to]
    assert machine.attached == EEVDF
    assert len(orders) <= 2 * MOST_REVERTS_PER_HOUR
    assert [one.switch_to for one in orders][:6] == [ONE, EEVDF, TWO, EEVDF, THREE, EEVDF]
