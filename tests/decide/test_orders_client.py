# SPDX-License-Identifier: GPL-2.0-only
"""A client's word: it is worth less than the user's, ends with its lease, and the guard judges what it chose."""

import pytest
from policy_bench import BAD, CALM, CPU, FLASH, RUSTY, SIMPLE, WALL_NS, S, ask, decided, event, heard, learn, settled

from asa.core.decision import EEVDF, ExitKind, Order, OrderKind, Reason, SwitchOutcome
from asa.decide import policy
from asa.decide.books import Books
from asa.decide.penalties import Bars, Cause

CLIENT = {"client": "bot", "lease": "one"}


def told(state, kind, current=RUSTY, scheduler=None, until_s=None, **more):
    until_ns, until = (None, "") if until_s is None else (WALL_NS + int(until_s * S), f"second {until_s}")
    order = Order(kind=kind, scheduler=scheduler, until_ns=until_ns, until=until, **more)
    return policy.obey(Books(policy=state), order, current).policy


def served():
    """RUSTY serves CPU as wanted."""
    state, verdict = ask(settled(), CPU, 2)
    assert verdict.switch_to == RUSTY
    return learn(state, event(SwitchOutcome.CONFIRMED, RUSTY, 3))


def trying(until_s=1000, **more):
    """FLASH is in force by a client's word, at second 21."""
    state = told(served(), OrderKind.SWITCH, scheduler=FLASH, until_s=until_s, **CLIENT, **more)
    state, verdict = ask(state, CPU, 20, RUSTY)
    assert (verdict.switch_to, verdict.reason) == (FLASH, Reason.BY_HAND)
    return learn(state, event(SwitchOutcome.CONFIRMED, FLASH, 21, old=RUSTY))


def is_back(state, at_s):
    """At that second what served before is ordered; once it is in force, nothing of the client is left."""
    state, verdict = ask(state, CPU, at_s, FLASH)
    assert (verdict.switch_to, verdict.sentence) == (RUSTY, "the trial by bot is over: back to scx_rusty")
    state = learn(state, event(SwitchOutcome.CONFIRMED, RUSTY, at_s + 1, old=FLASH))
    state, verdict = ask(state, CPU, at_s + 1, RUSTY)
    assert (state.held, verdict.reason, state.running) == (None, Reason.SERVED, RUSTY)


def test_it_says_who_tries_and_who_holds():
    state = told(served(), OrderKind.SWITCH, scheduler=FLASH, until_s=50, **CLIENT)
    assert ask(state, CPU, 20, RUSTY)[1].sentence == "the client bot tries scx_flash"
    state, verdict = ask(trying(), CPU, 22, FLASH)
    assert verdict.sentence == "on hold: held by the client bot on scx_flash until second 1000"
    assert state.held.back == RUSTY


def test_what_served_before_comes_back_at_once_when_the_time_is_over():
    is_back(trying(until_s=30), 30)  # within the cooldown


def test_and_when_the_lease_has_ended_whatever_turn_it_was():
    state = trying()
    assert told(state, OrderKind.LAPSE, FLASH, lease="another").held == state.held
    is_back(told(state, OrderKind.LAPSE, FLASH, lease="one"), 22)
    again = told(state, OrderKind.SWITCH, FLASH, scheduler=RUSTY, until_s=900, **CLIENT)
    again, verdict = ask(again, CPU, 25, FLASH)
    assert (verdict.switch_to, again.held.back) == (RUSTY, RUSTY)
    again = learn(again, event(SwitchOutcome.CONFIRMED, RUSTY, 26, old=FLASH))
    again, verdict = ask(told(again, OrderKind.LAPSE, lease="one"), CPU, 27, RUSTY)
    again, verdict = ask(again, CPU, 28, RUSTY)
    assert (again.held, verdict.reason) == (None, Reason.SERVED)


def test_a_lease_that_ends_before_the_switch_is_made_or_while_it_is_made():
    state = told(served(), OrderKind.SWITCH, scheduler=FLASH, until_s=50, **CLIENT)
    early = told(state, OrderKind.LAPSE, lease="one")
    early, verdict = ask(early, CPU, 20, RUSTY)
    assert (verdict.switch_to, ask(early, CPU, 21, RUSTY)[0].held) == (None, None)
    amid, _ = ask(state, CPU, 20, RUSTY)
    amid, verdict = ask(told(amid, OrderKind.LAPSE, lease="one"), CPU, 21, RUSTY)
    assert (verdict.switch_to, amid.pending) == (None, FLASH)
    is_back(learn(amid, event(SwitchOutcome.CONFIRMED, FLASH, 22, old=RUSTY)), 23)


def test_it_does_not_count_against_the_users_word_or_a_strangers_scheduler():
    held = told(served(), OrderKind.HOLD, until_s=500)
    chosen = told(served(), OrderKind.SWITCH, scheduler=SIMPLE)
    stranger = learn(served(), event(SwitchOutcome.FOREIGN, SIMPLE, 9))
    for state in (held, chosen, stranger):
        for kind in (OrderKind.SWITCH, OrderKind.HOLD):
            assert told(state, kind, scheduler=FLASH, until_s=90, **CLIENT) == state


def test_the_users_word_ends_it():
    state = trying()
    held = told(state, OrderKind.HOLD, FLASH).held
    assert (held.scheduler, held.client, held.lease) == (RUSTY, "", "")  # what served before is kept
    chosen = told(state, OrderKind.SWITCH, FLASH, scheduler=SIMPLE).held
    assert (chosen.scheduler, chosen.client, chosen.back) == (SIMPLE, "", None)
    assert told(state, OrderKind.RESUME, FLASH).held is None
    assert learn(state, event(SwitchOutcome.FOREIGN, SIMPLE, 30)).held is None


def test_what_is_kept_ends_by_its_time_and_nothing_comes_back_by_itself():
    state = trying(until_s=100, kept=True)
    assert state.held.back is None
    state, verdict = ask(state, CPU, 100, FLASH)
    assert (state.held, verdict.switch_to) == (None, RUSTY)  # as the table has it
    assert told(trying(kept=True), OrderKind.LAPSE, FLASH, lease="one").held is None


def test_a_hold_of_a_client_ends_with_its_lease():
    state = told(served(), OrderKind.HOLD, until_s=500, **CLIENT)
    state, verdict = ask(state, CPU, 20, RUSTY)
    assert verdict.sentence == "on hold: held by the client bot until second 500"
    assert told(state, OrderKind.LAPSE, lease="one").held is None


@pytest.mark.parametrize("outcome", [SwitchOutcome.FAILED, SwitchOutcome.LOST, SwitchOutcome.REFUSED])
def test_a_scheduler_that_fails_in_a_trial_is_set_aside_as_any_other(outcome):
    state = told(served(), OrderKind.SWITCH, scheduler=FLASH, until_s=500, **CLIENT)
    state, _ = ask(state, CPU, 20, RUSTY)
    if outcome is SwitchOutcome.LOST:
        state = learn(state, event(SwitchOutcome.CONFIRMED, FLASH, 21, old=RUSTY))
    state, _ = heard(state, Bars(), event(outcome, FLASH, 25, kind=ExitKind.ERROR), wall_ns=WALL_NS + 25 * S)
    current = RUSTY if outcome is SwitchOutcome.REFUSED else EEVDF
    state, verdict = ask(state, CPU, 26, current)
    assert FLASH in state.set_aside
    assert verdict.switch_to == (None if current == RUSTY else RUSTY)


def test_the_guard_judges_what_a_client_tries_and_ends_the_trial():
    state, bars = served(), Bars()
    for second in range(10, 200):
        state, bars, verdict = decided(state, bars, CPU, second, RUSTY, signals=CALM)
        assert verdict.switch_to is None
    state = told(state, OrderKind.SWITCH, scheduler=FLASH, until_s=5000, **CLIENT)
    state, _ = ask(state, CPU, 200, RUSTY)
    state = learn(state, event(SwitchOutcome.CONFIRMED, FLASH, 201, old=RUSTY))
    for second in range(202, 2000):
        state, bars, verdict = decided(state, bars, CPU, second, FLASH, signals=BAD)
        if verdict.switch_to is not None:
            break
    assert (verdict.reason, verdict.switch_to, state.held) == (Reason.REVERTED, RUSTY, None)
    assert [(mark.scheduler, mark.cause) for mark in bars.marks] == [(FLASH, Cause.REVERTED)]
    assert second < 400
