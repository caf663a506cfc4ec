# SPDX-License-Identifier: GPL-2.0-only
"""The policy's rules one by one, and over random histories."""

from dataclasses import replace
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from policy_bench import (
    CALM,
    CPU,
    DISK,
    FLASH,
    IDLE,
    RUSTY,
    SETUP,
    SIMPLE,
    WALL_NS,
    S,
    Setup,
    ask,
    decided,
    event,
    heard,
    learn,
    now,
    obey,
    obeyed,
    settled,
)

from asa.core.decision import (
    EEVDF,
    ExitKind,
    Order,
    OrderKind,
    Reason,
    SchedulerName,
    SwitchOutcome,
    Vote,
    Workload,
)
from asa.decide import penalties, policy
from asa.decide.books import Books
from asa.decide.learning import Lessons
from asa.decide.penalties import Bars, Cause
from asa.decide.policy import PolicyState, Revert
from asa.decide.table import Entry
from scenarios.planted import evidence


def test_dwell_comes_before_a_switch():
    state, verdict = ask(settled(), CPU, 1.9)
    assert (verdict.reason, verdict.switch_to) == (Reason.DWELL, None)
    state, verdict = ask(state, CPU, 2.0)
    assert (verdict.reason, verdict.switch_to) == (Reason.BETTER, RUSTY)
    assert state.pending == RUSTY


def measured(light, workload=CPU, name="scx_rusty", **more):
    found = msgspec.structs.replace(evidence(), light=light)
    ranking = (
        Entry(scheduler=name, why="measured", evidence=found, **more),
        Entry(scheduler="eevdf", why="the kernel's"),
    )
    return replace(SETUP, table=replace(SETUP.table, rankings={**SETUP.table.rankings, workload: ranking}))


def test_in_a_light_load_only_what_was_measured_in_one_is_switched_to():
    def asked(light, setup, state=None, **more):
        state = state or settled()
        _, _, verdict = decided(state, Bars(), CPU, 2.0, more.pop("current", EEVDF), light=light, setup=setup, **more)
        return verdict.reason, verdict.switch_to

    assert asked(True, measured(False)) == (Reason.LIGHT, None)
    for load, told in ((False, False), (True, True), (True, None)):  # an older table does not say
        assert asked(load, measured(told)) == (Reason.BETTER, RUSTY)
    part = measured(False, workload=Workload("web"))
    _, _, verdict = decided(
        settled(Workload("web+llm")), Bars(), Workload("web+llm"), 2.0, EEVDF, light=True, setup=part
    )
    assert verdict.reason is Reason.LIGHT  # its entry is that of its part
    saver = replace(settled(), power=replace(settled().power, saver=True))
    assert asked(True, measured(False, efficient=True), saver) == (Reason.BETTER, RUSTY)


def test_in_a_light_load_the_kernels_own_comes_back_and_who_may_not_serve_goes():
    state = replace(settled(IDLE), running=RUSTY)
    _, _, verdict = decided(state, Bars(), IDLE, 2.0, RUSTY, light=True)
    assert (verdict.reason, verdict.switch_to) == (Reason.BETTER, EEVDF)
    barred = replace(measured(False), table=replace(measured(False).table, never=frozenset({"scx_flash"})))
    _, _, verdict = decided(replace(settled(), running=FLASH), Bars(), CPU, 2.0, FLASH, light=True, setup=barred)
    assert (verdict.reason, verdict.switch_to) == (Reason.BETTER, RUSTY)


def test_what_the_settings_bar_is_left_for_another():
    barred = replace(SETUP, table=replace(SETUP.table, never=frozenset({"scx_rusty"})))
    state = replace(settled(), running=RUSTY)  # it was in force when the settings were read again
    _, verdict = ask(state, CPU, 2.0, current=RUSTY, setup=barred)
    assert (verdict.reason, verdict.switch_to) == (Reason.BETTER, FLASH)


def test_what_was_chosen_by_hand_and_is_barred_now_stays_no_longer():
    barred = replace(SETUP, table=replace(SETUP.table, never=frozenset({"scx_simple"})))
    state = obey(settled(), OrderKind.SWITCH, scheduler=SIMPLE)
    state = learn(state, event(SwitchOutcome.CONFIRMED, SIMPLE, 1.0))
    kept, verdict = ask(state, CPU, 20.0, current=SIMPLE)
    assert (verdict.reason, kept.held.scheduler) == (Reason.HOLD, SIMPLE)
    after, verdict = ask(state, CPU, 20.0, current=SIMPLE, setup=barred)
    assert (verdict.switch_to, after.held) == (RUSTY, None)


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
    state = learn(settled(DISK), event(SwitchOutcome.FAILED, SIMPLE, 3))
    _, verdict = ask(state, DISK, 20)
    assert (verdict.wanted, verdict.reason) == (EEVDF, Reason.SERVED)


def test_eevdf_is_never_set_aside():
    state = learn(settled(), event(SwitchOutcome.FAILED, EEVDF, 1))
    assert ask(state, CPU, 2)[0].set_aside == frozenset()


def test_a_refused_one_is_set_aside_and_what_runs_stays_known():
    running = SchedulerName("scx_rusty:fast")
    state = replace(settled(DISK), running=running, pending=SIMPLE)
    state = learn(state, event(SwitchOutcome.REFUSED, SIMPLE, 3, old=running))
    state, verdict = ask(state, DISK, 4, current=running)
    assert (state.running, state.set_aside) == (running, {SIMPLE})
    assert verdict.switch_to == EEVDF  # nothing has changed, so there is nothing to cool down from


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


def test_undecided_keeps_for_a_dwell():
    state, verdict = ask(settled(), None, 60)
    assert (verdict.reason, verdict.switch_to, state.workload) == (Reason.UNDECIDED, None, CPU)
    state, verdict = ask(state, None, 61.9)
    assert (verdict.reason, verdict.switch_to, state.workload) == (Reason.UNDECIDED, None, CPU)
    back, _ = ask(state, CPU, 62.5)  # a tick that is known ends it
    kept, _ = ask(back, None, 63)
    assert (kept.workload, kept.nobody_ns) == (CPU, 63 * S)


def unrecognised(state=None, *, at_s=60, current=RUSTY, **more):
    state = replace(settled(), running=RUSTY) if state is None else state
    return ask(ask(state, None, at_s, current=current, **more)[0], None, at_s + 2, current=current, **more)


def test_what_is_not_recognised_for_a_dwell_ends_the_class_and_brings_the_kernels_own_back():
    state, verdict = unrecognised()
    assert (verdict.reason, verdict.switch_to, verdict.wanted) == (Reason.UNDECIDED, EEVDF, EEVDF)
    assert verdict.sentence == "no workload has enough votes, back to eevdf"
    assert (state.workload, state.pending) == (None, EEVDF)
    _, verdict = ask(state, None, 63, current=RUSTY)
    assert (verdict.reason, verdict.switch_to) == (Reason.BUSY, None)
    served = learn(state, event(SwitchOutcome.CONFIRMED, EEVDF, 63))
    served, verdict = ask(served, None, 64)
    assert (verdict.reason, verdict.switch_to, verdict.wanted) == (Reason.UNDECIDED, None, None)
    again, verdict = ask(served, CPU, 80)
    assert (again.workload, again.since_ns, verdict.reason) == (CPU, 80 * S, Reason.DWELL)


def test_the_kernels_own_does_not_come_back_where_the_policy_may_not_switch():
    held = obey(replace(settled(), running=RUSTY), OrderKind.HOLD, current=RUSTY)
    for before, more in ((held, {}), (None, {"may_switch": False}), (None, {"current": None})):
        after, verdict = unrecognised(before, **more)
        assert (verdict.reason, verdict.switch_to, after.workload) == (Reason.UNDECIDED, None, None)
    stranger = learn(settled(), event(SwitchOutcome.FOREIGN, SchedulerName("scx_layered"), 1))
    _, verdict = unrecognised(stranger, current=SchedulerName("scx_layered"))
    assert (verdict.reason, verdict.switch_to) == (Reason.UNDECIDED, None)


def test_the_kernels_own_comes_back_no_sooner_than_the_cooldown_lets_it():
    state = replace(settled(), running=RUSTY, last_switch_ns=55 * S)
    state, verdict = unrecognised(state)
    assert (verdict.reason, verdict.switch_to) == (Reason.COOLDOWN, None)
    assert ask(state, None, 65, current=RUSTY)[1].switch_to == EEVDF


def test_for_a_class_the_table_does_not_know_the_kernels_own_comes_back():
    new = Workload("new")
    assert ask(settled(new), new, 60)[1].reason is Reason.NO_ENTRY
    state, verdict = ask(replace(settled(), running=RUSTY), new, 60, current=RUSTY)
    assert (verdict.reason, verdict.switch_to) == (Reason.NO_ENTRY, None)
    _, verdict = ask(state, new, 62, current=RUSTY)
    assert (verdict.reason, verdict.switch_to) == (Reason.NO_ENTRY, EEVDF)
    assert verdict.sentence == "the mapping table has no entry for new, back to eevdf"


def test_a_failed_one_is_tried_again_after_its_backoff():
    state = learn(settled(), event(SwitchOutcome.FAILED, RUSTY, 3))
    assert ask(state, CPU, 32.9)[1].wanted == FLASH
    state, verdict = ask(state, CPU, 33)
    assert (verdict.switch_to, state.set_aside) == (RUSTY, frozenset())


def test_too_many_failures_are_off_for_every_class_and_every_later_run():
    state, bars = settled(), Bars()
    for at_s in (3, 100, 200):
        failed = event(SwitchOutcome.FAILED, RUSTY, at_s)
        state, bars = heard(state, bars, failed, wall_ns=WALL_NS, setup=Setup(versions={RUSTY: "v1"}))
    (mark,) = bars.marks
    assert (mark.scheduler, mark.cause, mark.version, mark.until_ns, mark.count) == (RUSTY, Cause.FAILED, "v1", None, 3)
    again = Setup(versions={RUSTY: "v1"})
    state, verdict = ask(settled(), CPU, 5, bars=bars, setup=again)  # another run
    assert (verdict.switch_to, state.set_aside, state.barred) == (FLASH, {RUSTY}, frozenset())
    assert ask(settled(), CPU, 5, bars=bars, setup=Setup(versions={RUSTY: "v2"}))[1].switch_to == RUSTY
    order = Order(kind=OrderKind.RESUME, scheduler=RUSTY)
    _, bars = obeyed(state, bars, order, EEVDF)
    assert ask(settled(), CPU, 5, bars=bars, setup=again)[1].switch_to == RUSTY


def test_one_that_let_go_in_order_may_come_again_after_the_cooldown():
    state = learn(settled(), event(SwitchOutcome.CONFIRMED, RUSTY, 3))
    state = learn(state, event(SwitchOutcome.LOST, RUSTY, 60, kind=ExitKind.UNREGISTERED))
    assert ask(state, CPU, 69.9)[1].reason is Reason.COOLDOWN
    assert ask(state, CPU, 70)[1].switch_to == RUSTY


def test_a_standby_that_fails_does_not_end_the_wait_for_another():
    state = replace(settled(), pending=RUSTY)
    state = learn(state, event(SwitchOutcome.REFUSED, FLASH, 3))
    state, verdict = ask(state, CPU, 4)
    assert (verdict.reason, state.set_aside) == (Reason.BUSY, {FLASH})
    state = learn(state, event(SwitchOutcome.LOST, SIMPLE, 5))  # what ran, while the next one loads
    assert (state.pending, state.running) == (RUSTY, EEVDF)


def test_the_administrators_no_holds_until_resume():
    state = learn(settled(), event(SwitchOutcome.CONFIRMED, RUSTY, 3))
    state = learn(state, event(SwitchOutcome.LOST, RUSTY, 60, kind=ExitKind.SYSRQ))
    state, verdict = ask(state, CPU, 100)
    assert (verdict.reason, verdict.sentence) == (Reason.HOLD, "on hold: scx_rusty was taken out by SysRq-S")
    assert state.set_aside == frozenset()
    assert ask(obey(state, OrderKind.RELOAD), CPU, 101)[1].reason is Reason.HOLD
    assert ask(obey(state, OrderKind.RESUME), CPU, 101)[1].switch_to == RUSTY


def test_a_strangers_hold_ends_with_the_stranger_and_an_order():
    layered = SchedulerName("scx_layered")
    state = learn(settled(), event(SwitchOutcome.FOREIGN, layered, 1))
    assert ask(state, CPU, 60, current=EEVDF)[1].reason is Reason.HOLD  # it has just gone
    assert ask(obey(state, OrderKind.RELOAD, layered), CPU, 60, current=EEVDF)[1].reason is Reason.HOLD
    assert ask(obey(state, OrderKind.RELOAD), CPU, 60)[1].switch_to == RUSTY
    state = obey(state, OrderKind.RESUME, layered)
    state, verdict = ask(state, CPU, 61, current=layered)  # never switched away from; going on waits
    assert (verdict.reason, "when that scheduler has gone" in verdict.sentence) == (Reason.HOLD, True)
    assert ask(state, CPU, 62)[1].switch_to == RUSTY
    state = learn(state, event(SwitchOutcome.FOREIGN, layered, 63))  # another one: that was not meant
    assert ask(state, CPU, 64)[1].reason is Reason.HOLD


def test_a_wait_is_told_with_its_figures():
    state, verdict = ask(settled(), CPU, 0.8)
    assert verdict.sentence == "cpu seen for 0.8 s, waiting for 2 s (dwell)"
    state = learn(state, event(SwitchOutcome.CONFIRMED, FLASH, 3))
    _, verdict = ask(state, CPU, 7.5, current=FLASH)
    assert verdict.sentence == "last switch 4.5 s ago, waiting for 10 s (cooldown) before scx_rusty"


def test_a_strangers_hold_ends_when_it_goes_by_itself():
    layered = SchedulerName("scx_layered")
    state = learn(settled(), event(SwitchOutcome.FOREIGN, layered, 1))
    for second in range(2, 3600, 60):
        state, verdict = ask(state, CPU, second, current=layered)
        assert verdict.reason is Reason.HOLD
    state, verdict = ask(state, CPU, 3600)
    assert verdict.reason is Reason.HOLD
    state, verdict = ask(state, CPU, 3602, current=layered)  # it was only started anew
    state, verdict = ask(state, CPU, 3604)
    assert ask(state, CPU, 3608.9)[1].reason is Reason.HOLD
    state, verdict = ask(state, CPU, 3609)
    assert (verdict.switch_to, state.hold) == (RUSTY, "")
    state = learn(state, event(SwitchOutcome.FOREIGN, layered, 3610))  # the next game
    assert ask(state, CPU, 3620, current=layered)[1].reason is Reason.HOLD


def test_a_hold_of_the_users_outlives_the_stranger():
    layered = SchedulerName("scx_layered")
    state = obey(settled(), OrderKind.HOLD)
    state = learn(state, event(SwitchOutcome.FOREIGN, layered, 1))
    for second in range(2, 100):
        state, verdict = ask(state, CPU, second, current=layered if second < 50 else EEVDF)
        assert (verdict.reason, verdict.switch_to) == (Reason.HOLD, None)
    assert ask(obey(state, OrderKind.RESUME), CPU, 100)[1].switch_to == RUSTY


def test_orders_end_backoffs():
    state = learn(settled(), event(SwitchOutcome.FAILED, RUSTY, 3))
    state = learn(state, event(SwitchOutcome.FAILED, FLASH, 3))
    for order, scheduler, wanted in (
        (OrderKind.RELOAD, None, RUSTY),
        (OrderKind.RESUME, None, RUSTY),
        (OrderKind.RESUME, FLASH, FLASH),
    ):
        assert ask(obey(state, order, scheduler=scheduler), CPU, 20)[1].switch_to == wanted


def test_in_shadow_mode_the_choice_counts():
    setup = Setup(shadow=True)
    state = learn(settled(), event(SwitchOutcome.SHADOWED, RUSTY, 3))
    _, verdict = ask(state, CPU, 20, current=RUSTY, signals=CALM, setup=setup)
    assert verdict.reason is Reason.SERVED


@given(st.lists(st.tuples(st.sampled_from([IDLE, CPU, DISK, None]), st.sampled_from(list(SwitchOutcome))), max_size=80))
def test_switches_keep_their_distance(history):
    state, bars, current, orders = PolicyState(), Bars(), EEVDF, []
    for second, (workload, outcome) in enumerate(history):
        state, verdict = ask(state, workload, second, current=current, bars=bars)
        if verdict.switch_to is None:
            continue
        if outcome is not SwitchOutcome.REFUSED:  # which changes nothing, so the next may be asked for at once
            orders.append(second)
        assert verdict.switch_to != current
        assert verdict.switch_to not in state.set_aside
        assert verdict.reason is Reason.BETTER
        done = event(outcome, verdict.switch_to, second, old=current)
        state, bars = heard(state, bars, done, wall_ns=WALL_NS + second * S, setup=SETUP)
        if state.hold:
            return
        if outcome in (SwitchOutcome.CONFIRMED, SwitchOutcome.SHADOWED):
            current = verdict.switch_to
        elif outcome is not SwitchOutcome.REFUSED:
            current = EEVDF
    assert all(later - earlier >= SETUP.policy.cooldown_s for earlier, later in pairwise(orders))


def test_what_was_learned_is_bound_by_who_is_out_the_battery_and_the_rest():
    def serves(better, state=None, out=frozenset()):
        books = Books(policy=state or settled(), lessons=Lessons(better={CPU: better}))
        return policy.first_choice(books, CPU, now(5), SETUP, out=out)

    assert serves({RUSTY: FLASH}) == FLASH
    assert serves({RUSTY: EEVDF}) == EEVDF
    assert serves({RUSTY: SIMPLE}) == SIMPLE  # tried by hand: the table does not name it for this class
    assert serves({RUSTY: FLASH, FLASH: SIMPLE}) == SIMPLE
    assert serves({RUSTY: FLASH, FLASH: SIMPLE}, out=frozenset({SIMPLE})) == FLASH
    assert serves({RUSTY: FLASH}, out=frozenset({FLASH})) == RUSTY
    assert serves({EEVDF: RUSTY}, policy.powered(settled(), True, None)) == EEVDF
    rests = replace(settled(), reverts=(Revert(workload=CPU, back=RUSTY, count=1, at_ns=0),))
    assert serves({RUSTY: FLASH}, rests) == RUSTY


HEAVY = Workload("regime:heavy-computing")
UNKNOWN = Vote(workload=None, confidence=0.9, unknown=True, regime=HEAVY)


def test_a_regime_without_an_entry_changes_nothing_for_a_dwell():
    state, verdict = ask(settled(), UNKNOWN, 20.0)
    assert (verdict.reason, verdict.switch_to, verdict.wanted) == (Reason.UNDECIDED, None, None)
    assert state.workload == CPU  # the class in force stays, and has stood since it won
    _, verdict = ask(state, CPU, 20.5)
    assert verdict.reason is Reason.BETTER
    state, verdict = ask(replace(state, running=RUSTY), UNKNOWN, 22.0, current=RUSTY)
    assert (verdict.reason, verdict.switch_to, state.workload) == (Reason.UNDECIDED, EEVDF, None)


def test_a_regime_with_an_entry_works_as_a_class():
    table = replace(
        SETUP.table,
        rankings={**SETUP.table.rankings, HEAVY: (Entry(scheduler="scx_flash", why=".", evidence=evidence()),)},
    )
    ranked = replace(SETUP, table=table)
    state, verdict = ask(settled(), UNKNOWN, 20.0, setup=ranked)
    assert (state.workload, verdict.reason, verdict.wanted) == (HEAVY, Reason.DWELL, FLASH)
    state, verdict = ask(state, UNKNOWN, 22.0, setup=ranked)
    assert (verdict.reason, verdict.switch_to) == (Reason.BETTER, FLASH)
    other = replace(UNKNOWN, regime=Workload("regime:light-waiting"))
    kept, verdict = ask(state, other, 23.0, setup=ranked)
    assert (kept.workload, verdict.reason) == (HEAVY, Reason.UNDECIDED)
    back, verdict = ask(state, CPU, 23.0, setup=ranked)
    assert (back.workload, back.since_ns) == (CPU, 23 * S)


def test_what_was_learnt_of_a_regime_comes_before_its_table():
    entries = (
        Entry(scheduler="scx_flash", why=".", evidence=evidence()),
        Entry(scheduler="scx_rusty", why=".", evidence=evidence()),
    )
    ranked = replace(SETUP, table=replace(SETUP.table, rankings={HEAVY: entries}))
    state, _ = ask(settled(), UNKNOWN, 20.0, setup=ranked)
    lessons = Lessons(better={HEAVY: {FLASH: RUSTY}})
    _, _, verdict = decided(state, Bars(), UNKNOWN, 22.0, EEVDF, lessons=lessons, setup=ranked)
    assert verdict.switch_to == RUSTY


def test_what_failed_or_was_worse_is_out_of_a_regime_too():
    entries = (
        Entry(scheduler="scx_flash", why=".", evidence=evidence()),
        Entry(scheduler="scx_rusty", why=".", evidence=evidence()),
    )
    ranked = replace(SETUP, table=replace(SETUP.table, rankings={HEAVY: entries}))
    lower = {"version": "", "wall_ns": WALL_NS, "why": "worse"}
    bars = penalties.lower(Bars(), workload=HEAVY, scheduler=FLASH, **lower)
    state, bars, _ = decided(settled(), bars, UNKNOWN, 20.0, EEVDF, setup=ranked)
    _, _, verdict = decided(state, bars, UNKNOWN, 22.0, EEVDF, setup=ranked)
    assert verdict.switch_to == RUSTY
