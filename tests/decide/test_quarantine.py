# SPDX-License-Identifier: GPL-2.0-only
"""For how long a scheduler that failed is out, and when it is off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.decision import EEVDF, ExitKind, SchedulerExit, SchedulerName, SwitchEvent, SwitchOutcome
from asa.decide.quarantine import FAILURES, LONGEST_S, Quarantine, lift, take_note

S = 1_000_000_000
HOUR = 3600
LAVD, FAST, FLASH = SchedulerName("scx_lavd"), SchedulerName("scx_lavd:performance"), SchedulerName("scx_flash")
BACKOFF_S = 30.0


def event(at_s, name=LAVD, outcome=SwitchOutcome.FAILED, kind=None):
    end = None if kind is None else SchedulerExit(kind=kind, reason=f"EXIT: {kind}", source="the scheduler")
    return SwitchEvent(
        monotonic_ns=int(at_s * S),
        outcome=outcome,
        old=EEVDF,
        new=name,
        elapsed_ns=0,
        detail=f"{name} went wrong",
        undo="",
        exit=end,
    )


def after(*events):
    quarantine, offs = Quarantine(), []
    for one in events:
        quarantine, off = take_note(quarantine, one, BACKOFF_S)
        offs.append(off)
    return quarantine, offs


def out_s(quarantine, at_s):
    """For how many seconds from `at_s` LAVD is out."""
    (one,) = (one for one in quarantine.outs if one.scheduler == LAVD)
    assert (LAVD in quarantine.out(one.until_ns - 1), LAVD in quarantine.out(one.until_ns)) == (True, False)
    return (one.until_ns - at_s * S) / S


@pytest.mark.parametrize("outcome", [SwitchOutcome.FAILED, SwitchOutcome.LOST, SwitchOutcome.REFUSED])
def test_a_failure_is_out_for_the_backoff(outcome):
    quarantine, offs = after(event(100, outcome=outcome))
    assert (out_s(quarantine, 100), offs) == (30.0, [None])
    assert quarantine.outs[0].why == "scx_lavd went wrong"


@pytest.mark.parametrize("outcome", [SwitchOutcome.CONFIRMED, SwitchOutcome.FOREIGN, SwitchOutcome.SHADOWED])
def test_the_rest_is_no_failure(outcome):
    assert after(event(100, outcome=outcome)) == (Quarantine(), [None])


def test_what_the_helper_does_not_take_is_asked_for_later_and_later_and_never_off():
    """`asa machine revoke`, say: once it is approved again it serves again, by itself."""
    at_s, waits, quarantine = 0.0, [], Quarantine()
    while at_s < 6 * HOUR:
        refused = event(at_s, outcome=SwitchOutcome.REFUSED, kind=ExitKind.WITHDRAWN)
        quarantine, off = take_note(quarantine, refused, BACKOFF_S)
        assert off is None
        waits.append(out_s(quarantine, at_s))
        at_s += waits[-1]
    assert waits[:4] == [30.0, 60.0, 120.0, 240.0]
    assert len(waits) <= 7 * 6  # seven an hour
    assert max(waits) <= LONGEST_S
    assert quarantine.outs[0].words == "not started: EXIT: withdrawn"
    for number in range(FAILURES):  # neither do these count together
        ended = event(at_s + number, outcome=SwitchOutcome.LOST, kind=ExitKind.HOTPLUG)
        quarantine, off = take_note(quarantine, ended, BACKOFF_S)
        assert off is None
    quarantine, off = take_note(quarantine, event(at_s + 9), BACKOFF_S)  # its first failure
    assert (off, quarantine.outs[0].words) == (None, "failed once: scx_lavd went wrong")


def test_eevdf_is_never_out():
    assert after(*[event(at_s, EEVDF) for at_s in range(9)])[0] == Quarantine()


def test_the_backoff_doubles_up_to_its_limit():
    times = [number * 2 * HOUR for number in range(10)]  # never two in an hour
    backoffs = [out_s(after(*[event(at_s) for at_s in times[: number + 1]])[0], times[number]) for number in range(10)]
    assert backoffs == [30.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0, 3600.0]


def test_after_a_calm_day_it_begins_anew():
    quarantine, _ = after(event(0), event(2 * HOUR), event(26 * HOUR))
    assert out_s(quarantine, 26 * HOUR) == 30.0
    quarantine, _ = after(event(0), event(2 * HOUR), event(25 * HOUR))
    assert out_s(quarantine, 25 * HOUR) == 120.0


def test_three_in_an_hour_are_off_and_then_it_begins_anew():
    quarantine, offs = after(event(0), event(HOUR - 2), event(HOUR - 1))
    assert (quarantine, offs) == (Quarantine(), [None, None, LAVD])
    assert after(event(0), event(HOUR - 2), event(HOUR))[1] == [None, None, None]


def test_modes_and_others_are_counted_alone():
    _, offs = after(event(0), event(1, FAST), event(2, FLASH), event(3, FAST), event(4))
    assert offs == [None] * 5


@pytest.mark.parametrize("kind", [ExitKind.UNREGISTERED, ExitKind.HOTPLUG])
def test_one_that_let_go_in_order_is_not_blamed_until_it_does_so_again_and_again(kind):
    ends = [event(at_s, outcome=SwitchOutcome.LOST, kind=kind) for at_s in (0, 60, 120)]
    quarantine, offs = after(*ends)
    assert (quarantine.out(120 * S), offs) == (frozenset(), [None] * 3)
    quarantine, _ = after(*ends, event(180, outcome=SwitchOutcome.LOST, kind=kind))
    assert quarantine.out(180 * S) == {LAVD}
    quarantine, _ = after(*ends, event(HOUR + 61, outcome=SwitchOutcome.LOST, kind=kind))  # one remains in the hour
    assert quarantine.out((HOUR + 61) * S) == frozenset()


@pytest.mark.parametrize("kind", [ExitKind.ERROR, ExitKind.STALL, ExitKind.KILLED, ExitKind.QUIT])
def test_other_ends_are_blamed_with_the_words(kind):
    quarantine, _ = after(event(5, outcome=SwitchOutcome.LOST, kind=kind))
    assert quarantine.out(5 * S) == {LAVD}
    assert quarantine.outs[0].why == f"EXIT: {kind}"


def test_lifting():
    quarantine, _ = after(event(0), event(0, FAST), event(0, FLASH))
    assert lift(quarantine).out(S) == frozenset()
    assert lift(quarantine, LAVD).out(S) == {FLASH}  # with its modes
    assert lift(quarantine, FAST).out(S) == {LAVD, FLASH}
    assert FAST.answers_to(LAVD)
    assert not LAVD.answers_to(FAST)


@given(st.lists(st.tuples(st.floats(0, 4000), st.sampled_from([None, *ExitKind])), max_size=60))
def test_it_never_fails_more_often_than_allowed_before_it_is_off(history):
    """Whoever obeys `out` starts it at most three times in an hour that end badly, however they end."""
    quarantine, now_s, bad = Quarantine(), 0.0, []
    for pause_s, kind in history:
        now_s += pause_s
        if LAVD in quarantine.out(int(now_s * S)):
            continue
        quarantine, off = take_note(quarantine, event(now_s, outcome=SwitchOutcome.LOST, kind=kind), BACKOFF_S)
        if LAVD in quarantine.out(int(now_s * S)) or off:
            bad.append(now_s)
        assert sum(now_s - at_s < HOUR for at_s in bad) <= FAILURES
        if off:
            return
