# SPDX-License-Identifier: GPL-2.0-only
"""Trying others than the first choice: never by itself, within the share that the user allows, watched by the guard."""

from dataclasses import replace

import pytest
from policy_bench import CPU, DISK, FLASH, RUSTY, SIMPLE, TABLE, WALL_NS, S, Setup, decided, event, heard, now, obeyed

from asa.config import GuardSettings, PolicySettings
from asa.core.decision import EEVDF, Order, OrderKind, Permit, Reason, SwitchOutcome, Vote
from asa.decide import guard, learning, policy, trying
from asa.decide.books import Books
from asa.decide.learning import TRIAL_S, Comparison, Learning, begin, comparison_of
from asa.decide.penalties import Bars
from asa.decide.policy import PolicyState, Revert
from asa.decide.signals import Signals
from asa.decide.table import Entry

ALLOWED = Setup(policy=PolicySettings(cooldown_s=10.0, dwell_s=2.0, explore_share=0.1))
LIKE = {EEVDF: 0.4, RUSTY: 0.4, FLASH: 0.4, SIMPLE: 0.4}
EARNED = begin(Learning(credit_s=TRIAL_S), ALLOWED.versions)


def next_one(state, lessons, workload, **asked):
    return trying.next_one(Books(policy=state, lessons=lessons), workload, RUSTY, **asked)


class Life:
    """Ticks of one second; an order is carried out with the next tick. `pressure`: by the scheduler in force."""

    def __init__(self, setup=ALLOWED, lessons=EARNED, pressure=LIKE):
        self.setup, self.lessons, self.pressure = setup, lessons, dict(pressure)
        self.state, self.bars, self.current, self.now_s = PolicyState(), Bars(), EEVDF, 0
        self.ordered, self.fails, self.log = None, set(), []

    def tick(self, workload=CPU, saver=None):
        self.now_s += 1
        now_ns, before = self.now_s * S, self.state
        state = policy.powered(before, saver, None)
        if self.ordered is not None:
            outcome = SwitchOutcome.FAILED if self.ordered in self.fails else SwitchOutcome.CONFIRMED
            done = event(outcome, self.ordered, self.now_s - 0.5, old=self.current)
            self.current = self.ordered if outcome is SwitchOutcome.CONFIRMED else EEVDF
            self.ordered = None
            state, self.bars = heard(state, self.bars, done, wall_ns=WALL_NS + now_ns, setup=self.setup)
        wobble = self.now_s % 3 / 100
        self.state, self.bars, verdict = decided(
            state,
            self.bars,
            Vote(workload=workload, confidence=0.9),
            self.now_s,
            self.current,
            signals=Signals(cpu_pressure=self.pressure[self.current] + wobble),
            setup=self.setup,
            lessons=self.lessons,
        )
        self.lessons = learning.note(
            self.lessons,
            learning.Tick(before=before, after=self.state, worse=verdict.worse, elapsed_s=1.0, now=now(self.now_s)),
            self.setup,
        )
        self.ordered = verdict.switch_to
        self.log.append((self.now_s, self.current, verdict))
        return verdict

    def run(self, seconds, workload=CPU, **changes):
        for _ in range(seconds):
            self.tick(workload, **changes)
        return self

    def until(self, reason, limit=400, workload=CPU):
        for _ in range(limit):
            if self.tick(workload).reason is reason:
                return self
        raise AssertionError(f"never {reason}")

    def orders(self):
        return [(verdict.reason, verdict.switch_to) for _, _, verdict in self.log if verdict.switch_to is not None]


def test_nothing_is_tried_unless_the_user_allows_it():
    never = Setup(policy=PolicySettings(cooldown_s=10.0))
    life = Life(never, begin(Learning(credit_s=TRIAL_S), never.versions)).run(3000)
    assert life.orders() == [(Reason.BETTER, RUSTY)]
    assert life.lessons.kept.tried_s == life.lessons.kept.watched_s == 0.0
    assert PolicySettings().explore_share == 0.0


def test_one_is_tried_measured_and_left_again():
    life = Life().until(Reason.TRYING)
    assert (life.current, life.ordered, life.state.trying.instead_of) == (RUSTY, FLASH, RUSTY)
    sentence = life.log[-1][2].sentence
    assert sentence == (
        "scx_flash is tried for cpu instead of scx_rusty, for 90 s at most: policy.explore_share allows 10.0% of the "
        "time"
    )
    begun_s = life.now_s
    while life.state.trying is not None:
        life.tick()
    assert life.current == RUSTY
    assert 60 <= life.now_s - begun_s <= TRIAL_S + 12
    tried = [verdict for at_s, name, verdict in life.log if at_s > begun_s and name == FLASH]
    assert {verdict.reason for verdict in tried} == {Reason.TRYING, Reason.BETTER}
    assert life.orders()[-2:] == [(Reason.TRYING, FLASH), (Reason.BETTER, RUSTY)]
    back = next(verdict.sentence for at_s, _, verdict in life.log if at_s > begun_s and verdict.switch_to == RUSTY)
    assert back == "the trial of scx_flash for cpu is over: scx_rusty for cpu"
    life.run(70)  # the stretch is compared with the next one of the first choice
    duel = comparison_of(life.lessons, CPU, FLASH, RUSTY)
    assert (duel.won, duel.lost, duel.alike) == (0, 0, 1)
    kept = life.lessons.kept
    assert 60 <= kept.tried_s <= TRIAL_S + 12
    assert kept.lost_most == kept.tried_s  # the table has no scores: all of it may have been lost


def test_the_time_is_bounded_by_the_share():
    life = Life(lessons=begin(Learning(), ALLOWED.versions))
    for second in range(4 * 3600):
        life.tick(DISK if second % 1800 > 1700 else CPU)
        kept = life.lessons.kept
        assert kept.tried_s <= 0.1 * kept.watched_s + 15.0  # the last one may take a cooldown to leave
    assert kept.watched_s == pytest.approx(4 * 3600, abs=10)
    assert kept.tried_s > 0.05 * kept.watched_s
    tried = [name for reason, name in life.orders() if reason is Reason.TRYING]
    assert {FLASH, EEVDF} <= set(tried)
    counts = [comparison_of(life.lessons, CPU, RUSTY, name) for name in (FLASH, EEVDF)]
    assert abs(counts[0].alike - counts[1].alike) <= 2  # each in its turn


def test_credit_is_not_saved_up():
    life = Life(lessons=begin(Learning(), ALLOWED.versions))
    life.run(5000, DISK)  # whose ranking is one entry, and EEVDF
    assert life.lessons.kept.credit_s <= TRIAL_S


def test_never_on_battery_saver():
    life = Life().run(600, saver=True)
    assert all(verdict.reason is not Reason.TRYING for _, _, verdict in life.log)
    life = Life().until(Reason.TRYING).run(5)
    assert life.current == FLASH
    life.run(30, saver=True)
    assert life.current == EEVDF  # the table has nothing for battery saver
    assert life.state.trying is None


def test_what_the_guard_takes_back_goes_to_the_first_choice_which_does_not_rest():
    life = Life(pressure=LIKE | {FLASH: 0.9}).until(Reason.TRYING).until(Reason.REVERTED)
    assert life.log[-1][2].switch_to == RUSTY
    assert life.state.reverts == ()
    life.run(3)
    assert (life.current, life.state.trying) == (RUSTY, None)
    assert FLASH in life.state.barred
    assert life.lessons.kept.taken_back_s == 0.0  # it is in the time of trying
    duel = comparison_of(life.lessons, CPU, FLASH, RUSTY) or comparison_of(life.lessons, CPU, FLASH, EEVDF)
    assert duel.counted == 1
    assert not any(name == FLASH for _, name, _ in life.run(500).log[-490:])  # barred


def test_another_class_ends_it():
    life = Life().until(Reason.TRYING).run(20)
    assert life.current == FLASH
    life.run(20, DISK)
    assert (life.current, life.state.trying) == (SIMPLE, None)


def test_one_that_does_not_come_up_is_over_at_once():
    life = Life()
    life.fails.add(FLASH)
    life.until(Reason.TRYING).run(2)
    assert life.state.trying is None
    assert life.run(12).current == RUSTY
    assert FLASH in life.state.set_aside


def test_a_hold_ends_it():
    life = Life().until(Reason.TRYING).run(5)
    life.state, _ = obeyed(life.state, life.bars, Order(kind=OrderKind.HOLD), FLASH)
    life.run(100)
    assert (life.current, life.state.trying, life.log[-1][2].reason) == (FLASH, None, Reason.HOLD)


@pytest.mark.parametrize(
    "changes",
    [
        {"guard": GuardSettings(enabled=False)},
        {"shadow": True},
        {"policy": PolicySettings(cooldown_s=10.0, explore_share=0.1, learn=False)},
        {"permit": Permit(switch=False)},
    ],
)
def test_nothing_is_tried_where_nothing_is_measured(changes):
    life = Life(replace(ALLOWED, **changes)).run(600)
    assert not any(verdict.reason is Reason.TRYING for _, _, verdict in life.log)


def test_a_first_choice_of_which_nothing_is_measured_is_not_left():
    life = Life(Setup()).run(200)
    memory = life.state
    asked = {"now_ns": life.now_s * S, "setup": ALLOWED}
    assert next_one(memory, EARNED, CPU, **asked).scheduler == FLASH
    assert next_one(memory, learning.NOTHING, CPU, **asked) is None  # nothing earned
    assert next_one(memory, EARNED, DISK, **asked) is None
    blind = {pair: tuple((None,) * 7 for _ in blocks) for pair, blocks in memory.guard.seen.items()}
    memory = replace(memory, guard=replace(memory.guard, seen=blind))
    assert next_one(memory, EARNED, CPU, **asked) is None


def a_duel(**changes):
    values = {"workload": CPU, "one": FLASH, "other": RUSTY, "one_version": "", "other_version": "", "at_ns": 0}
    return Comparison(**(values | changes))


def test_who_is_settled_is_not_tried_and_who_proved_better_is_the_first_choice():
    settled = a_duel(one=EEVDF, lost=40)
    kept = Learning(credit_s=TRIAL_S, duels=(a_duel(won=12), settled))
    life = Life(lessons=begin(kept, {}), pressure=LIKE | {FLASH: 0.1}).until(Reason.TRYING)
    assert life.ordered == FLASH
    life.run(250)
    assert comparison_of(life.lessons, CPU, FLASH, RUSTY).won == 13
    assert life.current == FLASH
    assert life.log[-1][2].reason is Reason.SERVED
    assert life.orders()[-1][1] == FLASH  # the guard saw it at once, when the first choice came back


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": PolicySettings(cooldown_s=10.0)},
        {"policy": PolicySettings(cooldown_s=10.0, explore_share=0.1, learn=False)},
        {"guard": GuardSettings(enabled=False)},
    ],
)
def test_what_the_user_allows_no_more_ends_at_once(changes):
    life = Life().until(Reason.TRYING).run(20)
    before = life.lessons.kept
    life.setup = replace(life.setup, **changes)
    life.run(1)
    assert life.ordered == RUSTY
    assert life.run(100).orders()[-1] == (Reason.BETTER, RUSTY)
    assert life.state.trying is None
    if life.setup.policy.learn:
        assert life.lessons.kept.tried_s == before.tried_s + 2.0  # until it had gone, and no more
    if not life.setup.policy.explore_share:
        assert life.lessons.kept.watched_s == before.watched_s


def test_one_that_cannot_be_measured_in_time_goes_at_its_time(monkeypatch):
    monkeypatch.setattr(guard, "SETTLE_S", 80.0)
    life = Life(ALLOWED).until(Reason.TRYING)
    begun_s = life.now_s
    while life.state.trying is not None:
        life.tick()
    assert life.current == RUSTY
    assert life.now_s - begun_s == TRIAL_S + 1  # the tick that orders the switch back, and the one that hears of it


@pytest.mark.parametrize(("settle_s", "other_class_after"), [(2.0, 300), (2.0, 20), (80.0, 300)])
def test_a_trial_is_paid_for_when_it_begins_and_gets_back_what_it_did_not_take(
    monkeypatch, settle_s, other_class_after
):
    monkeypatch.setattr(guard, "SETTLE_S", settle_s)
    life = Life(ALLOWED).until(Reason.TRYING)
    assert life.lessons.kept.credit_s == 0.0  # which is written before the switch: asa.daemon
    begun_s = life.now_s
    while life.state.trying is not None:
        life.tick(DISK if life.now_s - begun_s > other_class_after else CPU)
    kept, passed_s = life.lessons.kept, life.now_s - begun_s
    assert kept.tried_s == passed_s
    assert kept.credit_s == pytest.approx(TRIAL_S - passed_s + 0.1 * passed_s)


def test_no_trial_comes_within_a_cooldown_or_could_not_end_for_one():
    life = Life(Setup()).run(200)
    asked = {"now_ns": life.now_s * S}

    def made_setup(cooldown_s):
        return Setup(policy=PolicySettings(cooldown_s=cooldown_s, explore_share=0.1))

    lately = replace(life.state, last_switch_ns=(life.now_s - 75) * S)
    for cooldown_s, state, begins in (
        ("auto", lately, True),
        (75.0, lately, True),
        (76.0, lately, False),
        (TRIAL_S, life.state, True),
        (TRIAL_S + 1, life.state, False),  # "for 90 s at most" would not be true
    ):
        found = next_one(state, EARNED, CPU, setup=made_setup(cooldown_s), **asked)
        assert (found is not None) == begins, cooldown_s


def test_a_class_that_rests_is_left_alone():
    life = Life(Setup()).run(200)
    asked = {"now_ns": life.now_s * S, "setup": ALLOWED}
    revert = Revert(workload=CPU, back=RUSTY, count=1, at_ns=life.now_s * S)
    assert next_one(replace(life.state, reverts=(revert,)), EARNED, CPU, **asked) is None
    over = replace(revert, at_ns=(life.now_s - 20) * S)
    assert next_one(replace(life.state, reverts=(over,)), EARNED, CPU, **asked) is not None


def test_what_many_comparisons_have_not_settled_is_tried_no_more():
    life = Life(Setup()).run(200)
    asked = {"now_ns": life.now_s * S, "setup": ALLOWED}
    duels = (a_duel(won=100, lost=100), a_duel(one=EEVDF, won=99, lost=100))
    found = trying.next_one(
        Books(policy=life.state, lessons=begin(Learning(credit_s=TRIAL_S, duels=duels), {})), CPU, RUSTY, **asked
    )
    assert found.scheduler == EEVDF
    duels = (duels[0], a_duel(one=EEVDF, won=100, lost=100))
    lessons = begin(Learning(credit_s=TRIAL_S, duels=duels), {})
    assert next_one(life.state, lessons, CPU, **asked) is None


@pytest.mark.parametrize("changes", [{"shadow": True}, {"permit": Permit(switch=False)}])
def test_only_time_in_which_something_might_be_tried_earns_any(changes):
    life = Life(replace(ALLOWED, **changes), begin(Learning(), {})).run(50)
    assert life.lessons.kept == Learning()
    life = Life(lessons=begin(Learning(), {}))
    life.state, _ = obeyed(life.state, life.bars, Order(kind=OrderKind.HOLD), EEVDF)
    assert life.run(50).lessons.kept == Learning()
    assert Life(lessons=begin(Learning(), {})).run(50, None).lessons.kept == Learning()


def test_it_can_have_cost_what_the_first_choice_was_to_score_at_most():
    ranking = (Entry(scheduler=RUSTY, why=".", score=0.5), Entry(scheduler=FLASH, why=".", score=0.4))
    scored = replace(ALLOWED, table=replace(TABLE, rankings=TABLE.rankings | {CPU: ranking}))
    kept = Life(scored).until(Reason.TRYING).run(30).lessons.kept
    assert kept.tried_s == 30.0
    assert kept.lost_most == pytest.approx(0.5 * kept.tried_s)
