# SPDX-License-Identifier: GPL-2.0-only
"""The user's word: a hold, and a scheduler chosen by hand, until their time has come or something ends them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_bench import (
    BAD,
    CALM,
    CPU,
    DISK,
    FLASH,
    RUSTY,
    SETUP,
    SIMPLE,
    WALL_NS,
    S,
    ask,
    event,
    heard,
    learn,
    obey,
    settled,
)

from asa.core.decision import EEVDF, ExitKind, OrderKind, Reason, SchedulerName, SwitchOutcome
from asa.decide.penalties import Bars
from asa.decide.policy import PolicyState
from asa.decide.quarantine import Quarantine

LAYERED = SchedulerName("scx_layered")


def chosen(name=FLASH, until_s=None):
    """At second 5 the user's choice runs, while the class would have had another."""
    state = obey(settled(), OrderKind.SWITCH, scheduler=name, until_s=until_s)
    state, verdict = ask(state, CPU, 4)
    assert (verdict.switch_to, verdict.reason, state.pending) == (name, Reason.BY_HAND, name)
    return learn(state, event(SwitchOutcome.CONFIRMED, name, 5))


def test_a_hold_ends_when_its_time_has_come():
    state = obey(settled(), OrderKind.HOLD, until_s=100)
    state, verdict = ask(state, CPU, 99)
    assert (verdict.reason, verdict.switch_to) == (Reason.HOLD, None)
    assert verdict.sentence == "on hold: held by the user until second 100"
    state, verdict = ask(state, CPU, 100)
    assert (verdict.switch_to, state.hold, state.held) == (RUSTY, "", None)


def test_a_hold_without_an_end_lasts_until_resume():
    state = obey(settled(), OrderKind.HOLD)
    state, verdict = ask(state, CPU, 1_000_000)
    assert verdict.sentence == "on hold: held by the user until `asa resume`"
    assert ask(obey(state, OrderKind.RELOAD), CPU, 1_000_001)[1].reason is Reason.HOLD  # settings read again
    assert ask(obey(state, OrderKind.RESUME), CPU, 1_000_001)[1].switch_to == RUSTY


def test_the_last_word_counts():
    state = obey(obey(settled(), OrderKind.HOLD), OrderKind.HOLD, until_s=10)
    assert ask(state, CPU, 10)[1].switch_to == RUSTY
    state = obey(obey(settled(), OrderKind.HOLD, until_s=10), OrderKind.HOLD)
    assert ask(state, CPU, 11)[1].reason is Reason.HOLD


def test_a_switch_that_is_under_way_is_not_broken_off():
    state, _ = ask(settled(), CPU, 2)
    state = learn(obey(state, OrderKind.HOLD), event(SwitchOutcome.CONFIRMED, RUSTY, 5))
    state, verdict = ask(state, DISK, 60, current=RUSTY)
    assert (state.running, verdict.reason) == (RUSTY, Reason.HOLD)


def test_a_choice_by_hand_comes_at_once_and_stays():
    state = chosen(until_s=100)
    state, verdict = ask(state, DISK, 99, current=FLASH)
    assert (verdict.reason, verdict.switch_to) == (Reason.HOLD, None)
    assert verdict.sentence == "on hold: held by the user on scx_flash until second 100"
    state, _ = ask(state, DISK, 100, current=FLASH)
    assert state.hold == ""
    assert ask(state, DISK, 102, current=FLASH)[1].switch_to == SIMPLE


@pytest.mark.parametrize("workload", [None, "unheard of"])
def test_a_choice_needs_no_class(workload):
    state = obey(PolicyState(), OrderKind.SWITCH, scheduler=FLASH)
    assert ask(state, workload, 0)[1].switch_to == FLASH


def test_a_choice_needs_neither_dwell_nor_cooldown_nor_a_good_record():
    state = learn(settled(), event(SwitchOutcome.FAILED, FLASH, 3))
    state, _ = ask(state, DISK, 4)
    assert FLASH in state.set_aside
    assert ask(obey(state, OrderKind.SWITCH, scheduler=FLASH), DISK, 4)[1].switch_to == FLASH


def test_eevdf_by_hand():
    state = learn(settled(), event(SwitchOutcome.CONFIRMED, RUSTY, 3))
    state, verdict = ask(obey(state, OrderKind.SWITCH, RUSTY, scheduler=EEVDF), CPU, 4, current=RUSTY)
    assert verdict.switch_to == EEVDF
    state = learn(state, event(SwitchOutcome.CONFIRMED, EEVDF, 5, old=RUSTY))
    state, verdict = ask(state, CPU, 60)
    assert (verdict.reason, verdict.sentence) == (
        Reason.HOLD,
        "on hold: held by the user on eevdf until `asa resume`",
    )


def test_what_runs_already_is_only_held():
    state = obey(settled(), OrderKind.SWITCH, scheduler=EEVDF)
    state, verdict = ask(state, CPU, 60)
    assert (verdict.switch_to, verdict.reason) == (None, Reason.HOLD)


def test_a_choice_waits_for_the_switch_under_way():
    state, _ = ask(settled(), CPU, 2)
    state = obey(state, OrderKind.SWITCH, scheduler=FLASH)
    assert ask(state, CPU, 3)[1].switch_to is None
    state = learn(state, event(SwitchOutcome.CONFIRMED, RUSTY, 4))
    assert ask(state, CPU, 5, current=RUSTY)[1].switch_to == FLASH


def test_a_choice_waits_for_word_of_what_should_run():
    state = learn(settled(), event(SwitchOutcome.CONFIRMED, RUSTY, 3))
    state = obey(state, OrderKind.SWITCH, scheduler=FLASH)
    assert ask(state, CPU, 4, current=EEVDF)[1].switch_to is None
    state = learn(state, event(SwitchOutcome.LOST, RUSTY, 5))
    assert ask(state, CPU, 6, current=EEVDF)[1].switch_to == FLASH


@pytest.mark.parametrize(
    ("outcome", "kind", "words"),
    [
        (SwitchOutcome.LOST, ExitKind.STALL, "ended by itself, and the kernel is on eevdf (it ended)"),
        (SwitchOutcome.FAILED, None, "did not come up, and the kernel is on eevdf"),
        (SwitchOutcome.REFUSED, None, "could not be loaded, and what ran goes on"),
    ],
)
def test_a_choice_that_fails_ends_on_hold_and_nothing_is_held_against_it(outcome, kind, words):
    if outcome is SwitchOutcome.LOST:
        state = chosen(until_s=100)
    else:
        state, _ = ask(obey(settled(), OrderKind.SWITCH, scheduler=FLASH, until_s=100), CPU, 4)
    state = learn(state, event(outcome, FLASH, 50, kind=kind))
    state, verdict = ask(state, CPU, 90)
    assert (verdict.reason, verdict.switch_to) == (Reason.HOLD, None)
    assert verdict.sentence == f"on hold: scx_flash, chosen by hand, {words}; held by the user until second 100"
    assert (state.quarantine, state.set_aside, state.pending) == (Quarantine(), frozenset(), None)
    assert ask(state, CPU, 100)[1].switch_to == RUSTY


def test_a_choice_comes_back_with_the_lease():
    """Another session came to the front, or the helper was updated: nobody took the choice back."""
    state = learn(chosen(), event(SwitchOutcome.LOST, FLASH, 70, kind=ExitKind.WITHDRAWN))
    _, verdict = ask(state, CPU, 71, may_switch=False)
    assert verdict.reason is Reason.OBSERVING
    state, verdict = ask(state, CPU, 160)
    assert (verdict.switch_to, verdict.reason) == (FLASH, Reason.BY_HAND)
    state = learn(state, event(SwitchOutcome.REFUSED, FLASH, 161, kind=ExitKind.WITHDRAWN))
    assert state.held.scheduler is None  # that is an answer, and is not asked for again each second
    assert "scx_flash, chosen by hand, could not be loaded" in state.hold


def test_a_choice_that_takes_the_helper_with_it_is_not_ordered_for_ever():
    state = learn(chosen(), event(SwitchOutcome.LOST, FLASH, 30, kind=ExitKind.WITHDRAWN))
    assert state.held.scheduler is None
    state = obey(settled(), OrderKind.SWITCH, scheduler=FLASH)
    state = learn(ask(state, CPU, 4)[0], event(SwitchOutcome.LOST, FLASH, 90, kind=ExitKind.WITHDRAWN))
    assert state.held.scheduler is None  # it was still on its way


def test_others_that_fail_meanwhile_are_blamed():
    state = learn(chosen(), event(SwitchOutcome.REFUSED, SIMPLE, 6, old=FLASH))
    state, _ = ask(state, CPU, 7, current=FLASH)
    assert (state.set_aside, state.held.scheduler) == ({SIMPLE}, FLASH)


def test_a_standby_of_that_name_that_fails_is_not_the_choice():
    state = replace(settled(), pending=RUSTY)
    state = obey(state, OrderKind.SWITCH, scheduler=FLASH)
    state = learn(state, event(SwitchOutcome.REFUSED, FLASH, 3))
    assert (state.held.scheduler, state.held.lost) == (FLASH, "")


def test_a_hold_after_a_choice_keeps_to_it():
    state = obey(chosen(), OrderKind.HOLD, FLASH, until_s=200)
    _, verdict = ask(state, CPU, 60, current=FLASH)
    assert verdict.sentence == "on hold: held by the user on scx_flash until second 200"
    state = learn(state, event(SwitchOutcome.LOST, FLASH, 61, kind=ExitKind.KILLED))
    assert state.quarantine == Quarantine()


def test_resume_ends_a_choice():
    state = obey(chosen(), OrderKind.RESUME, FLASH)
    assert ask(state, DISK, 60, current=FLASH)[0].hold == ""


def test_a_strangers_scheduler_is_not_replaced_by_hand():
    state = learn(settled(), event(SwitchOutcome.FOREIGN, LAYERED, 1))
    state = obey(state, OrderKind.SWITCH, LAYERED, scheduler=FLASH)
    state, verdict = ask(state, CPU, 60, current=LAYERED)
    assert (verdict.switch_to, state.held) == (None, None)
    state = obey(state, OrderKind.SWITCH, EEVDF, scheduler=FLASH)  # the stranger has gone
    assert ask(state, CPU, 61)[1].switch_to == FLASH


def test_a_stranger_ends_a_choice_but_not_the_hold():
    state = learn(chosen(until_s=100), event(SwitchOutcome.FOREIGN, LAYERED, 6))
    state, verdict = ask(state, CPU, 60, current=LAYERED)
    assert verdict.sentence == ("on hold: scx_layered was attached by somebody else; held by the user until second 100")
    state, verdict = ask(state, CPU, 100, current=EEVDF)  # its time is over; the stranger has just gone
    assert (verdict.reason, state.hold) == (Reason.HOLD, "scx_layered was attached by somebody else")


def test_sysrq_ends_a_choice_and_a_choice_ends_what_sysrq_meant():
    state = learn(chosen(), event(SwitchOutcome.LOST, FLASH, 6, kind=ExitKind.SYSRQ))
    state, verdict = ask(state, CPU, 60)
    assert (verdict.switch_to, state.held.scheduler) == (None, None)
    assert state.hold == "scx_flash was taken out by SysRq-S; held by the user until `asa resume`"
    state, verdict = ask(obey(state, OrderKind.SWITCH, scheduler=SIMPLE), CPU, 61)
    assert (verdict.switch_to, state.hold) == (SIMPLE, "held by the user on scx_simple until `asa resume`")


def test_the_guard_does_not_judge_a_choice():
    state = chosen(RUSTY)  # what the class wants, too
    for second in range(6, 200):
        signals = CALM if second < 60 else BAD
        state, verdict = ask(state, CPU, second, current=RUSTY, signals=signals)
        assert verdict.switch_to is None
    assert state.guard == PolicyState().guard


def test_an_observer_obeys_nothing():
    state = obey(settled(), OrderKind.SWITCH, scheduler=FLASH)
    assert ask(state, CPU, 60, may_switch=False)[1].switch_to is None
    assert ask(state, CPU, 60, current=None)[1].switch_to is None


WORDS = st.tuples(
    st.sampled_from([None, *OrderKind]),
    st.sampled_from([EEVDF, RUSTY, FLASH, SIMPLE]),
    st.sampled_from([None, 3, 30]),
    st.sampled_from(
        [
            SwitchOutcome.CONFIRMED,
            SwitchOutcome.REFUSED,
            SwitchOutcome.FAILED,
            SwitchOutcome.LOST,
            SwitchOutcome.FOREIGN,
        ]
    ),
    st.sampled_from([CPU, DISK, None]),
)


@given(st.lists(WORDS, max_size=60))
def test_on_hold_nothing_is_switched_but_what_the_user_chose(history):
    state, bars, current = PolicyState(), Bars(), EEVDF
    for second, (kind, name, for_s, outcome, workload) in enumerate(history):
        if kind is not None:
            until_s = None if for_s is None else second + for_s
            scheduler = name if kind is OrderKind.SWITCH else None
            state = obey(state, kind, current, scheduler=scheduler, until_s=until_s)
        if current == LAYERED and second % 7 == 0:
            current = EEVDF  # the stranger goes, and nobody is told
        before = state.held
        state, verdict = ask(state, workload, second, current=current, bars=bars)
        if verdict.switch_to is not None and state.hold:
            assert before is not None
            assert verdict.switch_to == before.scheduler
            assert verdict.reason is Reason.BY_HAND
        if state.held is not None and state.held.until_ns is not None:
            assert state.held.until_ns > WALL_NS + second * S
        if state.pending is None:
            continue
        new = LAYERED if outcome is SwitchOutcome.FOREIGN else state.pending
        if outcome is SwitchOutcome.LOST:
            done = event(SwitchOutcome.CONFIRMED, new, second, old=current)
            state, bars = heard(state, bars, done, wall_ns=WALL_NS + second * S, setup=SETUP)
        done = event(outcome, new, second, old=current)
        state, bars = heard(state, bars, done, wall_ns=WALL_NS + second * S, setup=SETUP)
        if outcome in (SwitchOutcome.CONFIRMED, SwitchOutcome.FOREIGN):
            current = new
        elif outcome is not SwitchOutcome.REFUSED:
            current = EEVDF
