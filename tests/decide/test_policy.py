# SPDX-License-Identifier: GPL-2.0-only
"""The policy's rules one by one, and over random histories."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from asa.config import PolicySettings
from asa.core.decision import EEVDF, Reason, SchedulerName, SwitchEvent, SwitchOutcome, Vote, Workload
from asa.decide.policy import PolicyState, decide, learn
from asa.decide.table import Entry, MappingTable

S = 1_000_000_000
CPU, DISK, IDLE = Workload("cpu"), Workload("disk"), Workload("idle")
RUSTY, FLASH, SIMPLE = SchedulerName("scx_rusty"), SchedulerName("scx_flash"), SchedulerName("scx_simple")
TABLE = MappingTable(
    path="t.yaml",
    machine="test",
    provenance="test",
    rankings={
        IDLE: (Entry(scheduler="eevdf", why="."),),
        CPU: (Entry(scheduler="scx_rusty", why="."), Entry(scheduler="scx_flash", why=".")),
        DISK: (Entry(scheduler="scx_simple", why="."),),
    },
)
RULES = PolicySettings(cooldown_s=10.0, dwell_s=2.0)


def ask(state, workload, now_s, current=EEVDF, may_switch=True):
    vote = Vote(workload=workload, confidence=0.9 if workload else 0.0)
    return decide(state, vote, now_ns=int(now_s * S), current=current, may_switch=may_switch, table=TABLE, rules=RULES)


def event(outcome, new, at_s, old=EEVDF):
    return SwitchEvent(monotonic_ns=int(at_s * S), outcome=outcome, old=old, new=new, elapsed_ns=S, detail="", undo="")


def settled(workload=CPU):
    state, _ = ask(PolicyState(), workload, 0)
    return state


def test_dwell_comes_before_a_switch():
    state, verdict = ask(settled(), CPU, 1.9)
    assert (verdict.reason, verdict.switch_to) == (Reason.DWELL, None)
    state, verdict = ask(state, CPU, 2.0)
    assert (verdict.reason, verdict.switch_to) == (Reason.BETTER, RUSTY)
    assert state.pending == RUSTY


def test_a_class_that_changes_starts_its_dwell_anew():
    state, _ = ask(settled(), DISK, 1.5)
    _, verdict = ask(state, DISK, 3.0)
    assert verdict.reason is Reason.DWELL


def test_nothing_is_ordered_while_a_switch_is_under_way():
    state, _ = ask(settled(), CPU, 2)
    state, verdict = ask(state, CPU, 3)
    assert (verdict.reason, verdict.switch_to) == (Reason.BUSY, None)


def test_served_when_the_wanted_one_runs():
    _, verdict = ask(settled(), CPU, 5, current=RUSTY)
    assert verdict.reason is Reason.SERVED


def test_cooldown_counts_from_the_end_of_a_switch():
    state = learn(replace(settled(), pending=RUSTY), event(SwitchOutcome.CONFIRMED, RUSTY, 3))
    state, _ = ask(state, DISK, 4, current=RUSTY)
    state, verdict = ask(state, DISK, 12.9, current=RUSTY)
    assert verdict.reason is Reason.COOLDOWN
    _, verdict = ask(state, DISK, 13.0, current=RUSTY)
    assert verdict.switch_to == SIMPLE


def test_a_failed_one_is_set_aside_and_the_next_serves():
    state = learn(replace(settled(), pending=RUSTY), event(SwitchOutcome.FAILED, RUSTY, 3))
    _, verdict = ask(state, CPU, 14)
    assert verdict.switch_to == FLASH


def test_when_all_are_set_aside_eevdf_serves():
    state = replace(settled(DISK), set_aside=frozenset({SIMPLE}))
    _, verdict = ask(state, DISK, 20)
    assert (verdict.wanted, verdict.reason) == (EEVDF, Reason.SERVED)


def test_eevdf_is_never_set_aside():
    assert learn(PolicyState(), event(SwitchOutcome.FAILED, EEVDF, 1)).set_aside == frozenset()


def test_a_refused_one_is_set_aside_and_what_runs_stays_known():
    running = SchedulerName("scx_rusty:fast")
    state = replace(settled(DISK), running=running, pending=SIMPLE)
    state = learn(state, event(SwitchOutcome.REFUSED, SIMPLE, 3, old=running))
    assert (state.running, state.pending, state.set_aside) == (running, None, {SIMPLE})


def test_one_that_vanished_is_not_started_again_before_its_end_is_known():
    state = learn(settled(), event(SwitchOutcome.CONFIRMED, RUSTY, 3))
    state, verdict = ask(state, CPU, 60, current=EEVDF)  # evicted: sysfs shows it before its process has ended
    assert (verdict.reason, verdict.switch_to) == (Reason.BUSY, None)
    state = learn(state, event(SwitchOutcome.LOST, RUSTY, 61))
    assert ask(state, CPU, 72, current=EEVDF)[1].switch_to == FLASH


def test_a_stranger_that_nobody_reported_yet_is_not_switched_away_from():
    _, verdict = ask(settled(), CPU, 60, current=SchedulerName("scx_layered"))
    assert (verdict.reason, verdict.switch_to) == (Reason.BUSY, None)


def test_a_stranger_means_hold():
    state = learn(settled(), event(SwitchOutcome.FOREIGN, SchedulerName("scx_layered"), 1))
    _, verdict = ask(state, CPU, 60, current=SchedulerName("scx_layered"))
    assert (verdict.reason, verdict.switch_to) == (Reason.HOLD, None)


def test_observing_never_switches():
    assert ask(settled(), CPU, 60, may_switch=False)[1].reason is Reason.OBSERVING
    assert ask(settled(), CPU, 60, current=None)[1].reason is Reason.OBSERVING


def test_undecided_keeps():
    state, verdict = ask(settled(), None, 60)
    assert (verdict.reason, verdict.switch_to, state.workload) == (Reason.UNDECIDED, None, CPU)


def test_a_class_the_table_does_not_know_keeps():
    assert ask(settled(Workload("new")), Workload("new"), 60)[1].reason is Reason.NO_ENTRY


@given(st.lists(st.tuples(st.sampled_from([IDLE, CPU, DISK, None]), st.sampled_from(list(SwitchOutcome))), max_size=80))
def test_switches_keep_their_distance(history):
    state, current, orders = PolicyState(), EEVDF, []
    for second, (workload, outcome) in enumerate(history):
        state, verdict = ask(state, workload, second, current=current)
        if verdict.switch_to is None:
            continue
        if outcome is not SwitchOutcome.REFUSED:  # which changes nothing, so the next may be asked for at once
            orders.append(second)
        assert verdict.switch_to != current
        assert verdict.switch_to not in state.set_aside
        state = learn(state, event(outcome, verdict.switch_to, second, old=current))
        if outcome is SwitchOutcome.CONFIRMED:
            current = verdict.switch_to
        elif outcome is not SwitchOutcome.REFUSED:
            current = EEVDF
    assert all(later - earlier >= RULES.cooldown_s for earlier, later in pairwise(orders))
