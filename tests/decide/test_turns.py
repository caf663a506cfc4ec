# SPDX-License-Identifier: GPL-2.0-only
"""Trials at work in the policy: when one begins, its turns, all that ends it, and who serves then."""

from dataclasses import replace
from random import Random

import pytest
from policy_bench import CPU, DISK, FLASH, RUSTY, SIMPLE, WALL_NS, S, Setup, event, now
from tried_here import tried

from asa.config import GuardSettings, Learn, PolicySettings, StandbySettings
from asa.core.decision import (
    EEVDF,
    ExitKind,
    Order,
    OrderKind,
    Permit,
    Reason,
    SwitchOutcome,
    Vote,
)
from asa.decide import guard, learning, policy, turns
from asa.decide.books import Books
from asa.decide.learning import Learning, begin
from asa.decide.policy import Revert
from asa.decide.policy_state import Around, Seen
from asa.decide.signals import Signal, Signals
from asa.decide.trial import FRESH_S, Cause
from asa.decide.trial_budget import MOST_BROKEN, MOST_SWITCHES, SAVED_S, Account, Stand
from asa.decide.trial_pairs import Verdict
from asa.decide.trial_signs import MOST_PAIRS

BY = Setup(policy=PolicySettings(cooldown_s=10.0, dwell_s=2.0), permit=Permit(switch=True, stand_by=True))
RICH = Account(credit_s=SAVED_S)
LIKE = {EEVDF: 9000.0, RUSTY: 9000.0, FLASH: 9000.0, SIMPLE: 9000.0}


def waits(value_us, wobble=0.0):
    value_us *= 1.0 + wobble
    return Signals(run_queue_p99_us=value_us, wakeup_p99_us=value_us, cpu_pressure=0.2 * (1.0 + wobble))


class Life:
    """Ticks of one second; an order is carried out with the next tick. `wait_us`: by the scheduler in force."""

    def __init__(self, setup=BY, account=RICH, wait_us=LIKE, asked=()):
        self.setup, self.wait_us = setup, dict(wait_us)
        lessons = begin(Learning(account=account, asked=asked), Stand(kernel="", versions=setup.versions))
        self.books, self.current, self.now_s = Books(lessons=lessons), EEVDF, 0
        self.noisy, self.under_s, self.ready = False, 0, None
        self.ordered, self.fails, self.log, self.loaded = None, set(), [], {RUSTY, FLASH, SIMPLE}
        self.around = Around(awake_s=FRESH_S, suspended_ns=0)

    @property
    def state(self):
        return self.books.policy

    @property
    def trial(self):
        return self.books.policy.trial

    @property
    def asked(self):
        return {(one.use, one.in_force, one.candidate): one for one in self.books.lessons.kept.asked}

    def hear(self, *told):
        for one in told:
            self.books = policy.learn(self.books, one, wall_ns=WALL_NS, setup=self.setup)

    def dies(self):
        """The scheduler in force ends by itself."""
        self.hear(event(SwitchOutcome.LOST, self.current, self.now_s, kind=ExitKind.ERROR))
        self.current = EEVDF

    def obey(self, kind, scheduler=None):
        self.books = policy.obey(self.books, Order(kind=kind, scheduler=scheduler), self.current)

    def tick(self, workload=CPU, saver=None, unknown=False, **around):
        self.now_s += 1
        before = self.books.policy
        self.books = replace(self.books, policy=policy.powered(before, saver, None))
        if self.ordered is not None:
            fails = self.ordered in self.fails
            outcome = SwitchOutcome.FAILED if fails else SwitchOutcome.CONFIRMED
            self.hear(event(outcome, self.ordered, self.now_s - 0.5, old=self.current, elapsed_s=0.02))
            self.current, self.ordered = EEVDF if fails else self.ordered, None
        wobble = ((self.now_s * 7) % 11 - 5) / 100.0
        if self.noisy:  # by the time of day alone
            wobble = 2.0 if Random(self.now_s // 8).random() < 0.5 else 0.0  # noqa: S311
        tried_now = before.trial is not None and before.trial.last.in_force == before.trial.plan.candidate
        self.under_s += tried_now
        seen = Seen(
            vote=Vote(workload=workload, confidence=0.9, unknown=unknown),
            current=self.current,
            signals=waits(self.wait_us[self.current], wobble),
            ready=self.ready or self.loaded,
            around=replace(self.around, loaded=self.loaded, **around),
        )
        at = now(self.now_s)
        self.books, verdict = policy.decide(self.books, seen, at, self.setup)
        lesson = learning.Tick(before=before, after=self.books.policy, elapsed_s=1.0, now=at)
        self.books = replace(self.books, lessons=learning.note(self.books.lessons, lesson, self.setup))
        self.ordered = verdict.switch_to
        self.log.append((self.now_s, self.current, verdict))
        return verdict

    def run(self, seconds, workload=CPU, **changes):
        for _ in range(seconds):
            self.tick(workload, **changes)
        return self

    def until(self, holds, limit=4000, **changes):
        for _ in range(limit):
            if holds(self):
                return self
            self.tick(**changes)
        raise AssertionError("it never came")

    def until_under(self, name):
        """In the middle of a block under it."""
        return self.until(
            lambda life: life.trial is not None and life.current == name and life.trial.block.known[0] > 2
        )

    def orders(self):
        return [(verdict.reason, verdict.switch_to) for _, _, verdict in self.log if verdict.switch_to is not None]

    def poor(self):
        """Nothing is earned yet."""
        self.books = replace(self.books, lessons=learning.charge(self.books.lessons, Account()))
        return self

    def why_not(self):
        return self.run(60).state.upcoming.why_not


def begun(life):
    return life.trial is not None


def over(life):
    return life.trial is None


def by_hand(candidate=FLASH, **changes):
    """A trial that the user asked for: it is not bound by the budget."""
    life = Life(**({"account": Account()} | changes)).run(30)
    life.obey(OrderKind.TRY, candidate)
    return life.until(begun)


def test_by_itself_one_begins_takes_turns_and_goes_on_for_as_long_as_the_budget_allows():
    life = Life()
    life.noisy = True
    life.until(begun)
    assert (life.current, life.trial.plan.candidate, life.trial.plan.in_force) == (RUSTY, FLASH, RUSTY)
    assert life.log[-1][2].reason is Reason.TRYING
    words = "scx_flash is tried for cpu against scx_rusty, in turns of 20 s: pair 1 of 24 at most"
    assert life.log[-1][2].sentence == words
    life.until(over)
    (one,) = life.asked.values()
    assert (one.verdict, len(one.pairs)) == (None, one.count)
    assert 2 <= one.count <= 8
    assert 20 <= one.tried_s <= SAVED_S
    assert one.switches <= MOST_SWITCHES
    assert life.run(30).current == RUSTY
    assert "void by budget" in one.words
    assert life.state.upcoming.before == one.pairs  # the next run goes on with them
    refused = life.state.upcoming.why_not
    assert "switches in the last hour" in refused or "of the time is used up" in refused


def test_the_time_and_the_switches_are_bounded_whatever_happens():
    life = Life(account=Account(), wait_us=LIKE | {FLASH: 8500.0})
    for second in range(4 * 3600):
        life.tick(DISK if second % 1800 > 1700 else CPU)
        account = life.books.lessons.kept.account
        assert account.tried_s <= 0.05 * account.watched_s + 3.0
        assert len(account.switched_ns) <= MOST_SWITCHES
    assert account.tried_s > 0.02 * account.watched_s
    tried_here = [verdict.switch_to for _, _, verdict in life.log if verdict.reason is Reason.TRYING]
    assert FLASH in tried_here
    assert life.under_s == account.tried_s


def test_one_that_is_better_serves_from_then_on():
    life = by_hand(wait_us=LIKE | {FLASH: 5000.0}).until(over)
    one = life.asked[CPU, RUSTY, FLASH]
    assert (one.verdict, one.count, one.pairs) == (Verdict.BETTER, 8, ())
    assert one.effect.share > 0.2
    assert life.run(200).current == FLASH
    assert life.log[-1][2].reason is Reason.SERVED
    assert life.state.upcoming.in_force == FLASH
    assert life.state.upcoming.candidate == EEVDF  # not scx_rusty, which was worse
    again = Life(account=Account(), asked=tuple(life.asked.values())).run(60)
    assert again.current == FLASH
    assert again.orders() == [(Reason.BETTER, FLASH)]


def test_one_that_is_worse_is_barred_and_what_served_serves():
    life = by_hand(wait_us=LIKE | {FLASH: 14_000.0}).until(over)
    one = life.asked[CPU, RUSTY, FLASH]
    assert (one.verdict, one.count) == (Verdict.WORSE, 5)
    (mark,) = life.books.bars.marks
    assert (mark.scheduler, mark.workload, mark.why) == (FLASH, CPU, one.words)
    assert life.run(30).current == RUSTY
    assert life.state.upcoming.candidate == EEVDF


def test_of_two_alike_the_kernels_own_serves():
    life = by_hand(EEVDF).until(over)
    one = life.asked[CPU, RUSTY, EEVDF]
    assert (one.verdict, one.serves) == (Verdict.ALIKE, EEVDF)
    assert life.run(30).current == EEVDF
    assert life.log[-1][2].reason is Reason.SERVED
    life = by_hand(FLASH).until(over)
    assert life.asked[CPU, RUSTY, FLASH].verdict is Verdict.ALIKE
    assert life.run(30).current == RUSTY


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"workload": DISK}, Cause.USE),
        ({"workload": None, "unknown": True}, Cause.USE),
        ({"saver": True}, Cause.SAVER),
        ({"inhibited": "a sound card records"}, Cause.INHIBITED),
        ({"leased": False}, Cause.LEASE),
        ({"suspended_ns": 5 * S}, Cause.SUSPEND),
        ({"awake_s": 1.0}, Cause.FRESH),
    ],
)
def test_what_stops_one_has_what_served_come_back_at_once(changes, cause):
    life = by_hand().until_under(FLASH)
    verdict = life.tick(**changes)
    back = EEVDF if "saver" in changes else RUSTY  # the table has nobody else for battery saver
    assert (verdict.reason, verdict.switch_to) == (Reason.TRYING, back)
    assert cause in verdict.sentence
    (one,) = life.asked.values()
    assert one.verdict is None
    life.tick(**({"workload": changes["workload"]} if "workload" in changes else {}))
    assert (life.current, life.trial) == (back, None)


def test_what_came_before_a_scheduler_that_may_not_serve_any_more_is_the_kernels_own():
    life = by_hand().until_under(FLASH)
    life.setup = replace(life.setup, table=replace(life.setup.table, never=frozenset({RUSTY})))
    life.tick(inhibited="a call is on")
    assert life.ordered == EEVDF


def test_a_gap_and_a_jump_of_the_clock_drop_the_pairs_of_this_run():
    for jump_s in (60, -3000):
        life = by_hand().until(lambda life: len(life.trial.pairs) >= 1).until_under(FLASH)
        life.now_s += jump_s
        life.tick()
        assert (life.ordered, life.asked[CPU, RUSTY, FLASH].pairs) == (RUSTY, ())


def test_a_candidate_that_dies_in_a_block_leaves_the_machine_on_what_it_had():
    life = by_hand().until_under(FLASH)
    life.dies()
    life.tick()
    assert life.trial is None
    assert "void by scheduler died" in life.asked[CPU, RUSTY, FLASH].words
    assert life.run(20).current == RUSTY
    assert FLASH in life.state.set_aside


def test_a_candidate_that_does_not_come_up_ends_it():
    life = Life(account=Account()).run(30)
    life.fails.add(FLASH)
    life.obey(OrderKind.TRY, FLASH)
    life.until(lambda life: life.current == EEVDF)
    assert life.trial is None
    assert "scx_flash may not serve any more" in life.asked[CPU, RUSTY, FLASH].words
    assert [to for _, to in life.orders()].count(FLASH) == 1
    assert life.run(20).current == RUSTY


def test_a_hold_ends_it_and_keeps_what_served_before():
    life = by_hand().until_under(FLASH)
    life.obey(OrderKind.HOLD)
    assert life.tick().switch_to == RUSTY
    life.run(100)
    assert (life.current, life.trial, life.log[-1][2].reason) == (RUSTY, None, Reason.HOLD)


def test_a_choice_by_hand_ends_it():
    life = by_hand().until_under(FLASH)
    life.obey(OrderKind.SWITCH, SIMPLE)
    assert life.tick().switch_to == SIMPLE
    life.run(100)
    assert (life.current, life.trial, life.log[-1][2].reason) == (SIMPLE, None, Reason.HOLD)


def test_the_user_stops_one_and_it_is_not_begun_again():
    life = Life().until(begun).until_under(FLASH)
    life.obey(OrderKind.UNTRY)
    assert life.tick().switch_to == RUSTY
    assert turns.STOPPED in life.asked[CPU, RUSTY, FLASH].words
    assert life.poor().run(60).state.upcoming.candidate == EEVDF
    life.obey(OrderKind.UNTRY)
    assert life.run(2).state.upcoming is None
    life.obey(OrderKind.TRY, FLASH)
    assert life.until(begun, limit=5).trial.plan.candidate == FLASH


def test_one_that_the_user_asked_for_is_not_bound_by_the_budget():
    life = by_hand(account=Account(), setup=replace(BY, policy=PolicySettings(learn=Learn.OFF, cooldown_s=10.0)))
    life.noisy = True
    life.until(over)
    assert life.asked[CPU, RUSTY, FLASH].count == MOST_PAIRS
    assert len(life.books.lessons.kept.account.switched_ns) > MOST_SWITCHES


def test_where_the_user_is_asked_nothing_begins_without_a_yes():
    asks = replace(BY, policy=PolicySettings(learn=Learn.ASK, cooldown_s=10.0))
    life = Life(asks).run(200)
    assert (life.trial, life.state.upcoming.question, life.state.upcoming.load) == (None, True, False)
    life.obey(OrderKind.TRY)
    assert life.until(begun, limit=5).trial.plan.candidate == FLASH
    life = Life(asks).run(200)
    life.obey(OrderKind.UNTRY)
    assert (life.run(5).state.upcoming.candidate, life.state.upcoming.question) == (EEVDF, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"guard": GuardSettings(enabled=False)},
        {"shadow": True},
        {"policy": PolicySettings(cooldown_s=10.0, learn=Learn.OFF)},
        {"permit": Permit(switch=False)},
        {"standby": StandbySettings(count=0)},  # nobody knows how long a switch takes
    ],
)
def test_where_nothing_is_tried(changes):
    life = Life(replace(BY, **changes)).run(600)
    assert not any(verdict.reason is Reason.TRYING for _, _, verdict in life.log)


def test_what_is_not_allowed_any_more_ends_at_once():
    for changes in ({"guard": GuardSettings(enabled=False)}, {"policy": PolicySettings(learn=Learn.OFF)}):
        life = Life().until(begun).until_under(FLASH)
        life.setup = replace(life.setup, **changes)
        assert life.tick().switch_to == RUSTY


def test_who_may_not_serve_any_more_is_not_tried_any_more():
    life = by_hand().until_under(FLASH)
    life.setup = replace(life.setup, table=replace(life.setup.table, limited=frozenset({FLASH})))
    assert life.tick().switch_to == RUSTY
    assert "scx_flash may not serve any more" in life.asked[CPU, RUSTY, FLASH].words
    life = by_hand().until_under(FLASH)
    life.hear(event(SwitchOutcome.REFUSED, RUSTY, life.now_s, old=FLASH))  # it could not be loaded for its turn
    assert life.tick().switch_to == EEVDF


def test_where_a_verdict_of_the_guard_is_near_a_trial_decides_it(monkeypatch):
    life = Life(account=Account()).run(30)
    monkeypatch.setattr(guard, "near", lambda *_, **__: found_worse(RUSTY))
    life.tick()
    monkeypatch.undo()
    assert (life.state.suspected, life.current) == (EEVDF, RUSTY)
    life.books = replace(life.books, lessons=learning.charge(life.books.lessons, RICH))
    plan = life.until(begun).trial.plan
    assert (plan.candidate, plan.in_force) == (EEVDF, RUSTY)  # not scx_flash, whose turn it would be
    life.poor().until(over)
    assert life.state.suspected == (None if life.asked[CPU, RUSTY, EEVDF].verdict else EEVDF)
    life.run(10, workload=DISK)
    assert life.state.suspected is None


def test_why_one_does_not_begin_is_told():
    assert "first 60 s" in Life().run(60, awake_s=3.0).state.upcoming.why_not
    assert Life().run(60, inhibited="a call is on").state.upcoming.why_not == "a call is on"
    assert Life().run(30).state.upcoming.why_not == "cpu is not expected to stay for a pair of turns"
    assert "3 s are left of 20 s" in Life(account=Account()).why_not()
    life = Life()
    life.loaded = {RUSTY}
    assert life.why_not() == "scx_flash is loaded for its turn"
    assert turns.partner(life.state) == FLASH
    life.loaded |= {FLASH}
    assert life.until(begun, limit=3).trial.plan.candidate == FLASH
    life = Life(account=Account()).run(60)
    revert = Revert(workload=CPU, back=RUSTY, count=1, at_ns=life.now_s * S)
    life.books = replace(life.books, policy=replace(life.state, reverts=(revert,)))
    assert life.run(1).state.upcoming.why_not == "a switch was taken back lately"


def test_without_standbys_one_begins_where_switches_are_known_to_be_short():
    plain = replace(BY, permit=Permit(switch=True))
    life = Life(plain)
    life.run(60)
    assert (life.trial, life.state.upcoming.block_s) == (None, None)
    assert "nobody knows how long" in life.state.upcoming.why_not
    life.hear(event(SwitchOutcome.CONFIRMED, FLASH, 50, old=RUSTY, elapsed_s=0.1))
    life.hear(event(SwitchOutcome.CONFIRMED, RUSTY, 55, old=FLASH, elapsed_s=0.1))
    assert life.until(begun, limit=30).trial.plan.candidate == FLASH
    life = Life(plain).run(60)
    life.hear(event(SwitchOutcome.CONFIRMED, FLASH, 50, old=RUSTY, elapsed_s=3.0))
    life.hear(event(SwitchOutcome.CONFIRMED, RUSTY, 55, old=FLASH, elapsed_s=0.1))
    assert life.run(200).state.upcoming.block_s is None


def test_while_the_other_one_is_loaded_nothing_is_measured():
    life = by_hand().until_under(FLASH)
    known = life.trial.block.known
    life.ready, life.loaded = {RUSTY}, set()
    life.tick()
    assert life.trial.block.known == known
    life.loaded = {RUSTY}
    life.tick()
    assert life.trial.block.known != known


def test_who_is_not_here_or_took_the_agent_down_twice_is_not_tried():
    versions = {"scx_rusty": "1", "scx_simple": "1"}
    assert Life(replace(BY, versions=versions)).until(begun).trial.plan.candidate == EEVDF
    broken = tried(FLASH, None, in_force=RUSTY, broken=MOST_BROKEN)
    assert Life(asked=(broken,)).until(begun).trial.plan.candidate == EEVDF


def test_that_one_began_is_kept_until_its_end_is_seen():
    life = Life().until(begun)
    assert life.asked[CPU, RUSTY, FLASH].broken == 1
    assert turns.ended(life.books).lessons.kept.asked[0].broken == 0
    life.until(over)
    assert life.asked[CPU, RUSTY, FLASH].broken == 0
    assert turns.ended(life.books) is life.books


def test_what_takes_turns_is_nothing_to_go_back_to():
    life = by_hand().until(over).run(30)
    assert life.state.previous in (EEVDF, None)


def found_worse(scheduler):
    return guard.Regression(
        workload=CPU,
        scheduler=scheduler,
        than=EEVDF,
        signal=Signal.RUN_QUEUE,
        median=9000.0,
        reference_median=1000.0,
        blocks=6,
        reference_blocks=6,
        p=0.0001,
        level=0.001,
    )


def test_what_the_guard_says_against_the_one_in_force_is_done_and_voids_it(monkeypatch):
    life = by_hand().until_under(RUSTY)
    before = life.trial
    life.books = replace(life.books, policy=replace(life.state, trial=replace(before, candidate_ns=None)))
    monkeypatch.setattr(guard, "judge", lambda *_, **__: found_worse(RUSTY))
    verdict = life.tick()
    assert (verdict.reason, verdict.switch_to) == (Reason.REVERTED, EEVDF)
    assert (life.trial, RUSTY in life.state.barred) == (None, True)


def test_harm_under_the_candidate_bars_it_at_once(monkeypatch):
    life = by_hand().until_under(FLASH)
    monkeypatch.setattr(guard, "judge", lambda *_, **__: found_worse(FLASH))
    verdict = life.tick()
    monkeypatch.undo()
    assert (verdict.reason, verdict.switch_to) == (Reason.REVERTED, RUSTY)
    assert life.asked[CPU, RUSTY, FLASH].verdict is Verdict.WORSE
    assert FLASH in life.state.barred
    assert life.state.reverts == ()  # the one in force has done nothing wrong: the class does not rest
    assert life.run(5).current == RUSTY


def test_a_replay_draws_the_same_turns():
    def played():
        life = by_hand()
        life.until(over)
        return [(at_s, current, verdict.switch_to) for at_s, current, verdict in life.log]

    assert played() == played()
    later = Life(account=Account()).run(40)
    later.obey(OrderKind.TRY, FLASH)
    assert later.until(begun).trial.plan.seed != by_hand().trial.plan.seed


def test_what_was_tried_in_a_light_load_says_so_and_what_was_not_waits_for_more():
    life = by_hand(wait_us=LIKE | {FLASH: 5000.0}).until(over)
    assert (life.asked[CPU, RUSTY, FLASH].light, life.asked[CPU, RUSTY, FLASH].evidence.light) == (False, False)
    again = Life(account=Account(), asked=tuple(life.asked.values())).run(60, light=True)
    assert (again.current, again.log[-1][2].reason) == (EEVDF, Reason.LIGHT)
    assert again.run(5).current == FLASH
    asked = Life(account=Account()).run(30, light=True)
    asked.obey(OrderKind.TRY, FLASH)
    assert asked.until(begun, limit=5, light=True).asked[CPU, RUSTY, FLASH].light is True


def test_in_a_light_load_nothing_is_tried_unless_the_user_or_the_guard_asks_for_it():
    life = Life()
    assert life.run(60, light=True).trial is None
    assert life.state.upcoming.why_not == "the load is light, and no wait is felt"
    assert life.orders() == [(Reason.BETTER, RUSTY)]  # what the table was measured by
    assert life.until(begun, limit=2).trial.plan.candidate == FLASH
    asked = Life(account=Account()).run(30, light=True)
    asked.obey(OrderKind.TRY, FLASH)
    assert asked.until(begun, limit=5, light=True).trial.plan.candidate == FLASH
    near = Life().run(30, light=True)
    near.books = replace(near.books, policy=replace(near.state, suspected=SIMPLE))
    assert near.run(2, light=True).state.upcoming is None or near.state.upcoming.why_not != (
        "the load is light, and no wait is felt"
    )
