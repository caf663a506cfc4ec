# SPDX-License-Identifier: GPL-2.0-only
"""A trial's course: turns, their order, what is left out, every reason to stop, and what it answers."""

import math
from dataclasses import replace
from random import Random

import pytest

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import AsaError
from asa.decide.signals import Signals
from asa.decide.trial import (
    FRESH_S,
    LONGEST_S,
    SETTLE_S,
    SHORTEST_S,
    SWITCH_S,
    Cause,
    Plan,
    TrialTick,
    begin,
    block_s,
    candidate_first,
    take,
)
from asa.decide.trial_pairs import Verdict, effect
from asa.decide.trial_signs import MOST_PAIRS

S = 1_000_000_000
WEB, GAME = Workload("web"), Workload("game")
NEW, OTHER = SchedulerName("scx_new"), SchedulerName("scx_other")
PLAN = Plan(use=WEB, in_force=EEVDF, candidate=NEW, block_s=10.0, seed=1)
TICK = TrialTick(
    now_ns=1000 * S, wall_ns=5000 * S, suspended_ns=7 * S, awake_s=600.0, use=WEB, in_force=EEVDF, signals=None
)


def waits(value_us):
    return Signals(run_queue_p99_us=value_us, wakeup_p99_us=value_us, cpu_pressure=0.2, timer_late_us=100.0)


class Machine:
    """Does what a trial wants, one tick a second; a switch is seen a tick later. `under`: signals by scheduler."""

    def __init__(self, plan=PLAN, under=lambda name, at_s: waits(5000.0), **changes):
        self.under, self.start = under, replace(TICK, in_force=plan.in_force, **changes)
        self.seconds, self.in_force, self.seen = 0, plan.in_force, []
        self.trial = begin(plan, self.tick())

    def tick(self, **changes):
        ns = self.seconds * S
        usual = replace(
            self.start,
            now_ns=self.start.now_ns + ns,
            wall_ns=self.start.wall_ns + ns,
            awake_s=self.start.awake_s + self.seconds,
            in_force=self.in_force,
            signals=self.under(self.in_force, self.seconds),
        )
        return replace(usual, **changes)

    def step(self, **changes):
        self.seconds += 1
        wanted = self.trial.wants
        self.trial = take(self.trial, self.tick(**changes))
        self.seen.append(self.in_force)
        self.in_force = wanted
        return self.trial.outcome

    def run(self, seconds=4000, **changes):
        for _ in range(seconds):
            if self.step(**changes) is not None:
                break
        return self.trial.outcome

    def until_pairs(self, count):
        """Goes on until so many are whole."""
        while len(self.trial.pairs) < count:
            assert self.step() is None
        return self

    def until(self, name):
        """Goes on to the middle of a block under `name`."""
        while not (self.in_force == name and self.trial.since_ns is not None and self.trial.block.known[0] >= 3):
            assert self.step() is None
        return self


def faster(times, noise=0.02):
    def under(name, at_s):
        wobble = 1.0 + noise * math.sin(at_s * 1.7)
        return waits(5000.0 * wobble * (times if name == NEW else 1.0))

    return under


def undecided(name, at_s):
    """Three times as long or not, by the time of day alone."""
    return waits(5000.0 * (3.0 if Random(at_s // 8).random() < 0.5 else 1.0))  # noqa: S311


def test_a_candidate_under_which_tasks_wait_less_is_better_after_eight_pairs():
    outcome = Machine(under=faster(0.6)).run()
    assert (outcome.verdict, outcome.cause, len(outcome.pairs)) == (Verdict.BETTER, Cause.SHOWN, 8)
    assert outcome.serves == NEW
    assert outcome.effect.low <= outcome.effect.share <= outcome.effect.high
    assert outcome.effect.share == pytest.approx(1 - 0.6 ** (2 / 3), abs=0.03)  # the pressure is the same
    assert "better by shown; it saves +2" in outcome.sentence


def test_one_under_which_they_wait_more_is_worse_after_five():
    machine = Machine(under=faster(1.6))
    outcome = machine.run()
    assert (outcome.verdict, len(outcome.pairs), outcome.serves) == (Verdict.WORSE, 5, EEVDF)
    assert outcome.effect.share < 0.0
    assert machine.trial.wants == EEVDF


def test_of_two_alike_the_kernels_own_serves():
    outcome = Machine(under=faster(1.0)).run()
    assert (outcome.verdict, outcome.serves) == (Verdict.ALIKE, EEVDF)
    assert outcome.effect.low > -0.05
    assert outcome.effect.high < 0.05
    swapped = Machine(Plan(use=WEB, in_force=NEW, candidate=EEVDF, block_s=10.0, seed=2), faster(1.0)).run()
    assert (swapped.verdict, swapped.serves) == (Verdict.ALIKE, EEVDF)


def test_without_a_difference_in_so_many_pairs_it_is_alike_too():
    outcome = Machine(under=undecided).run()
    assert (outcome.verdict, outcome.cause, len(outcome.pairs)) == (Verdict.ALIKE, Cause.MOST, MOST_PAIRS)


def test_what_is_better_in_all_but_felt_worse_in_one_signal_is_not_better():
    def under(name, at_s):
        signals = faster(0.5)(name, at_s)
        return replace(signals, timer_late_us=20_000.0 if name == NEW else 100.0)

    outcome = Machine(under=under).run()
    assert (outcome.verdict, outcome.serves, len(outcome.pairs)) == (Verdict.ALIKE, EEVDF, MOST_PAIRS)
    assert "worse in timer-late-p99" in outcome.sentence


def test_turns_last_as_planned_and_the_order_of_pairs_is_drawn():
    machine = Machine(under=undecided)
    blocks = []
    while len(machine.trial.pairs) < 8:
        assert machine.step() is None
        if not blocks or blocks[-1] != machine.trial.wants:
            blocks.append(machine.trial.wants)
    orders = [candidate_first(PLAN.seed, number) for number in range(200)]
    assert 80 <= sum(orders) <= 120
    assert orders != [candidate_first(PLAN.seed + 1, number) for number in range(200)]
    wanted = [name for first in orders[:8] for name in ((NEW, EEVDF) if first else (EEVDF, NEW))]
    runs = [name for at, name in enumerate(wanted) if not at or wanted[at - 1] != name]
    assert blocks[: len(runs)] == runs
    assert machine.seconds == pytest.approx(16 * 10 + machine.trial.switches * 2, abs=12)


def test_the_first_seconds_of_each_block_are_left_out():
    machine = Machine()
    left = []

    def under(name, at_s):
        since_ns = machine.trial.since_ns if at_s else None
        young = since_ns is None or TICK.now_ns + (at_s - 1) * S - since_ns < SETTLE_S * S
        left.append(young)
        return waits(9e9 if young else 5000.0)

    machine.under = under
    machine.until_pairs(1)
    assert {
        round(value)
        for side in (machine.trial.pairs[0].in_force, machine.trial.pairs[0].candidate)
        for value in side.means[:2]
    } == {5000}
    assert sum(left) >= 6


STOPS = {
    Cause.USE: {"use": GAME},
    Cause.SAVER: {"saver": True},
    Cause.INHIBITED: {"inhibited": "a call"},
    Cause.HOLD: {"hold": "by hand"},
    Cause.FRESH: {"awake_s": FRESH_S - 1},
}


@pytest.mark.parametrize("cause", STOPS)
@pytest.mark.parametrize("under", [EEVDF, NEW])
def test_it_stops_at_once_and_keeps_the_whole_pairs(cause, under):
    machine = Machine(under=undecided).until_pairs(2).until(under)
    outcome = machine.step(**STOPS[cause])
    assert (outcome.verdict, outcome.cause, len(outcome.pairs)) == (Verdict.VOID, cause, 2)
    assert (machine.trial.wants, outcome.serves) == (EEVDF, EEVDF)
    assert outcome.effect is not None
    assert machine.step() is outcome  # it is over for good


@pytest.mark.parametrize("cause", STOPS)
def test_it_does_not_begin_then(cause):
    trial = begin(PLAN, replace(TICK, **STOPS[cause]))
    assert (trial.outcome.cause, trial.wants, trial.outcome.switches) == (cause, EEVDF, 0)


def test_an_unknown_use_is_a_change_of_use():
    outcome = Machine().step(use=None)
    assert (outcome.cause, outcome.words) == (Cause.USE, "to an unknown one")


SPOILS = {
    "the wall clock was set": (Cause.CLOCK, {"wall_ns": 0}),
    "time goes back": (Cause.CLOCK, {"now_ns": 0}),
    "suspend": (Cause.SUSPEND, {"suspended_ns": 60 * S}),
    "lease": (Cause.LEASE, {"leased": False}),
    "unknown": (Cause.UNKNOWN, {"in_force": None}),
    "stranger": (Cause.STRANGER, {"in_force": OTHER}),
    "died": (Cause.DIED, {"in_force": EEVDF}),
}


@pytest.mark.parametrize("name", SPOILS)
def test_what_puts_the_measurement_in_doubt_makes_it_void_and_keeps_what_was_known_before(name):
    earlier = Machine(under=undecided).until_pairs(3)
    machine = Machine(replace(PLAN, before=earlier.trial.pairs), undecided).until_pairs(5).until(NEW)
    cause, changes = SPOILS[name]
    outcome = machine.step(**changes)
    assert (outcome.verdict, outcome.cause, outcome.pairs) == (Verdict.VOID, cause, earlier.trial.pairs)
    assert machine.trial.wants == EEVDF
    assert f"void by {cause}" in outcome.sentence
    assert "3 pairs are kept" in outcome.sentence


def test_a_gap_without_ticks_makes_it_void():
    machine = Machine().until(NEW)
    machine.seconds += 30
    outcome = machine.step()
    assert (outcome.cause, outcome.pairs) == (Cause.GAP, ())


def test_clocks_that_are_read_one_after_the_other_are_no_jump():
    machine = Machine()
    assert machine.step(suspended_ns=7 * S + 40_000) is None
    assert machine.step(suspended_ns=None) is None
    assert machine.step(wall_ns=machine.tick().wall_ns + S + 900_000_000) is None


def test_a_switch_that_does_not_come_is_given_up():
    machine = Machine(under=undecided)
    while machine.trial.wants == EEVDF:
        assert machine.step() is None
    for _ in range(int(SWITCH_S) + 2):
        outcome = machine.step(in_force=EEVDF)
    assert (outcome.verdict, outcome.cause, outcome.words) == (Verdict.VOID, Cause.SWITCH, "to scx_new")


def test_on_the_way_to_another_one_the_kernels_own_is_in_force_and_nobody_else():
    plan = Plan(use=WEB, in_force=OTHER, candidate=NEW, block_s=8.0, seed=1)
    machine = Machine(plan, undecided)
    while machine.trial.since_ns is not None or machine.seconds == 0:
        assert machine.step() is None
    assert machine.step(in_force=EEVDF) is None
    assert machine.step(in_force=SchedulerName("scx_third")).cause is Cause.STRANGER


@pytest.mark.parametrize(("under", "verdict"), [(NEW, Verdict.WORSE), (EEVDF, Verdict.VOID)])
def test_harm_ends_it_at_once_and_is_the_candidates_doing_where_it_was_in_force(under, verdict):
    outcome = Machine().until(under).step(harm="kworker waited for 700 ms")
    assert (outcome.verdict, outcome.cause, outcome.serves) == (verdict, Cause.HARM, EEVDF)
    assert "kworker waited for 700 ms" in outcome.sentence


def test_harm_just_after_the_candidate_is_its_doing_too():
    machine = Machine().until(NEW)
    while machine.in_force == NEW:
        assert machine.step() is None
    assert machine.step(harm="starved").verdict is Verdict.WORSE


def test_harm_under_which_even_the_agent_got_no_turn_is_harm_still():
    machine = Machine().until(NEW)
    machine.seconds += 30
    assert machine.step(harm="starved", leased=False).verdict is Verdict.WORSE


def test_it_does_not_begin_in_harm_or_under_another_scheduler():
    assert begin(PLAN, replace(TICK, harm="starved")).outcome.verdict is Verdict.VOID
    assert begin(PLAN, replace(TICK, in_force=OTHER)).outcome.cause is Cause.STRANGER
    assert begin(PLAN, replace(TICK, in_force=None)).outcome.cause is Cause.UNKNOWN
    assert begin(PLAN, replace(TICK, leased=False)).outcome.cause is Cause.LEASE


def test_where_the_budget_ends_the_next_run_goes_on_with_its_pairs():
    pairs = ()
    for run in range(8):
        plan = replace(PLAN, before=pairs, seed=run)
        machine = Machine(plan, faster(0.6))
        outcome = machine.run(go_on=False)
        pairs = outcome.pairs
        assert len(pairs) == run + 1
        assert outcome.cause is (Cause.BUDGET if run < 7 else Cause.SHOWN)
        assert outcome.switches == 2
        assert EEVDF in (machine.in_force, machine.trial.wants)
    assert outcome.verdict is Verdict.BETTER


def test_where_nothing_is_measured_it_ends_after_a_pair():
    outcome = Machine(under=lambda name, at_s: None).run()
    assert (outcome.cause, outcome.pairs, outcome.effect) == (Cause.UNMEASURED, (), None)
    only_load = Machine(under=lambda name, at_s: Signals(busy=0.5, timer_late_us=50.0)).run()
    assert only_load.cause is Cause.UNMEASURED


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, None])
def test_a_value_that_is_none_is_left_out(value):
    def under(name, at_s):
        bad = at_s % 2 == 0
        return replace(faster(0.6)(name, at_s), **({"run_queue_p99_us": value} if bad else {}))

    outcome = Machine(replace(PLAN, block_s=20.0), under).run()
    assert outcome.verdict is Verdict.BETTER
    assert outcome.effect.share == pytest.approx(1 - 0.6 ** (2 / 3), abs=0.03)


def test_what_it_took_is_told():
    outcome = Machine(under=faster(0.6)).run()
    assert outcome.tried_s == pytest.approx(outcome.seconds / 2, rel=0.15)
    assert outcome.seconds == pytest.approx(8 * 20 + 2 * outcome.switches, abs=20)
    assert 8 <= outcome.switches <= 16


@pytest.mark.parametrize(
    "changes",
    [
        {"candidate": EEVDF},
        {"block_s": SHORTEST_S - 1},
        {"block_s": LONGEST_S + 1},
        {"block_s": math.nan},
        {"before": ("pair",) * MOST_PAIRS},
    ],
)
def test_what_cannot_be_tried_is_refused(changes):
    with pytest.raises(AsaError, match=r"trial of .*: .*[a-z]"):
        replace(PLAN, **changes)


@pytest.mark.parametrize(
    ("switch_s", "stay_s", "length"),
    [
        (0.01, 600.0, LONGEST_S),
        (0.01, 96.0, 12.0),
        (0.01, 0.0, SHORTEST_S),
        (0.7, 0.0, 14.0),
        (1.0, 0.0, LONGEST_S),
        (1.1, 600.0, None),
        (None, 600.0, None),
        (math.nan, 600.0, None),
        (-1.0, 600.0, None),
        (0.01, math.nan, None),
    ],
)
def test_the_length_of_a_block_is_by_the_switch_and_the_stay(switch_s, stay_s, length):
    assert block_s(switch_s, stay_s) == length


def test_no_pairs_have_no_effect():
    assert effect(()) is None


def test_whatever_comes_the_machine_ends_on_what_it_had_and_the_accounts_are_bounded():
    changes = [{}] * 60 + [{}, *STOPS.values(), *(change for _, change in SPOILS.values()), {"harm": "starved"}]
    ended = set()
    for seed in range(150):
        chance = Random(seed)  # noqa: S311
        machine = Machine(replace(PLAN, seed=seed), undecided)
        while machine.trial.outcome is None:
            assert machine.trial.wants in (EEVDF, NEW)
            machine.step(**chance.choice(changes))
        outcome = machine.trial.outcome
        ended.add(outcome.cause)
        assert machine.trial.wants == EEVDF
        assert 0.0 <= outcome.tried_s <= outcome.seconds or outcome.cause is Cause.CLOCK
        assert outcome.switches <= 2 * (len(outcome.pairs) + 2) + 2 or not outcome.cause.keeps
        assert machine.step(harm="more") is outcome
    assert ended >= {*STOPS, Cause.CLOCK, Cause.SUSPEND, Cause.LEASE, Cause.UNKNOWN, Cause.STRANGER, Cause.HARM}
