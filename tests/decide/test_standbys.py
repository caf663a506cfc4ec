# SPDX-License-Identifier: GPL-2.0-only
"""Who is kept loaded: the most probable ones, for long enough, within the budget, and not at the battery's cost."""

import random

from hypothesis import given
from hypothesis import strategies as st

from asa.core.decision import EEVDF, Probabilities, SchedulerName, Workload
from asa.decide import standbys
from asa.decide.standbys import Readiness, Scene, choose, observe, scores, weigh

S = 1_000_000_000
MB = 1_000_000
A, B, C, D, IDLE = (Workload(name) for name in ("a", "b", "c", "d", "idle"))
ONE, TWO, THREE, FOUR = (SchedulerName(f"scx_{name}") for name in ("one", "two", "three", "four"))
SERVED = {A: ONE, B: TWO, C: THREE, D: FOUR, IDLE: EEVDF}


class Bench:
    """Ticks of one second."""

    def __init__(self, served=SERVED, count=2):
        self.state, self.now_s, self.served, self.count, self.running = Readiness(), 0, served, count, EEVDF
        self.partner = None

    def tick(self, pressure=None, spare=True, pending=None, **shares):
        self.now_s += 1
        probabilities = None
        if shares:
            values = tuple(shares.get(str(name), 0.0) for name in (A, B, C, D, IDLE))
            probabilities = Probabilities(classes=(A, B, C, D, IDLE), values=values)
        self.state = observe(self.state, probabilities, self.now_s * S, window_s=6.0)
        self.state = choose(
            self.state,
            now_ns=self.now_s * S,
            served=self.served,
            scene=Scene(
                running=self.running,
                pending=pending,
                memory_pressure=pressure,
                spare=spare,
                partner=self.partner,
            ),
            count=self.count,
        )
        return self.state.chosen

    def ticks(self, number, **shares):
        for _ in range(number):
            chosen = self.tick(**shares)
        return chosen


def test_the_most_probable_ones_stand_by_once_they_are_wanted_for_long_enough():
    bench = Bench()
    assert bench.ticks(5, b=0.5, c=0.3, a=0.1, idle=0.1) == ()
    assert bench.tick(b=0.5, c=0.3, a=0.1, idle=0.1) == (TWO, THREE)


def test_what_runs_and_eevdf_need_no_standby():
    bench = Bench()
    bench.running = TWO
    assert bench.ticks(9, b=0.6, idle=0.3, c=0.1) == (THREE, ONE)


def test_a_scheduler_that_serves_several_classes_counts_for_all_of_them():
    bench = Bench(served=SERVED | {C: FOUR}, count=1)
    assert bench.ticks(9, b=0.4, c=0.3, d=0.3) == (FOUR,)


def test_who_takes_turns_with_the_one_in_force_comes_first_and_at_once():
    bench = Bench()
    assert bench.ticks(9, b=0.5, c=0.3, a=0.1, idle=0.1) == (TWO, THREE)
    bench.partner = FOUR
    assert bench.tick(b=0.5, c=0.3, a=0.1, idle=0.1) == (FOUR, TWO)
    assert bench.tick(pressure=0.5, b=1.0) == ()  # memory comes before it
    bench = Bench()
    bench.partner = bench.running = FOUR
    assert FOUR not in bench.ticks(9, d=1.0)


def test_scores_sum_to_one():
    bench = Bench()
    bench.ticks(20, b=0.4, c=0.3, d=0.3)
    bench.ticks(20, a=1.0)
    assert abs(sum(scores(bench.state, SERVED).values()) - 1.0) < 1e-9


def test_a_newcomer_must_be_clearly_more_probable_and_stay_so():
    bench = Bench(count=1)
    assert bench.ticks(9, a=0.5, b=0.5) == (ONE,)
    assert bench.ticks(60, a=0.49, b=0.51) == (ONE,)  # not clearly
    assert bench.ticks(3, b=1.0) == (ONE,)  # not for long enough
    assert bench.ticks(20, a=0.8, b=0.2) == (ONE,)
    assert bench.ticks(12, b=1.0) == (TWO,)


def test_habit_brings_back_what_was_used_before():
    bench = Bench(count=1)
    bench.running = FOUR
    bench.ticks(600, c=1.0)
    bench.ticks(60, d=1.0)
    assert bench.tick(d=1.0) == (THREE,)


def test_after_a_switch_the_one_that_ran_takes_the_free_place():
    bench = Bench(count=1)
    bench.running = ONE
    bench.ticks(30, a=0.6, b=0.4)
    assert bench.tick(pending=TWO, b=1.0) == (TWO,)  # it is loaded already, and about to be attached
    bench.running = TWO
    assert bench.tick(b=1.0) == ()
    assert bench.ticks(9, b=1.0) == (ONE,)


def test_nothing_changes_while_a_switch_is_under_way():
    bench = Bench()
    bench.ticks(9, a=0.6, b=0.4)
    assert [bench.tick(pending=ONE, c=0.5, d=0.5) for _ in range(20)] == [(ONE, TWO)] * 20


def test_one_that_is_out_does_not_stand_by():
    bench = Bench()
    assert bench.ticks(9, a=0.6, b=0.4) == (ONE, TWO)
    bench.served = SERVED | {A: EEVDF}
    assert ONE not in bench.tick(a=0.6, b=0.4)


def test_memory_pressure_lets_all_go_until_it_was_calm_for_a_while():
    bench = Bench()
    bench.ticks(9, a=0.6, b=0.4)
    assert bench.tick(pressure=0.05, a=0.6, b=0.4) == (ONE, TWO)
    assert bench.tick(pressure=0.2, a=0.6, b=0.4) == ()
    assert bench.ticks(59, pressure=0.0, a=0.6, b=0.4) == ()
    assert bench.ticks(7, pressure=0.0, a=0.6, b=0.4) == (ONE, TWO)


def test_unknown_pressure_is_no_pressure():
    bench = Bench()
    bench.ticks(9, a=0.6, b=0.4)
    assert bench.tick(pressure=None, a=0.6, b=0.4) == (ONE, TWO)


def test_nothing_to_spare_lets_all_go():
    bench = Bench()
    bench.ticks(9, a=0.6, b=0.4)
    assert bench.tick(spare=False, a=0.6, b=0.4) == ()
    assert Bench(count=0).ticks(20, a=0.6, b=0.4) == ()


def test_the_budget_holds_by_known_sizes(monkeypatch):
    monkeypatch.setattr(standbys, "BUDGET_MB", 20.0)
    bench = Bench()
    assert bench.ticks(9, a=0.6, b=0.3, c=0.1) == (ONE,)  # 12 MB each while nothing is known
    bench.state = weigh(bench.state, {ONE: 3 * MB, TWO: 18 * MB, THREE: 5 * MB})
    assert bench.ticks(9, a=0.6, b=0.3, c=0.1) == (ONE, THREE)  # the second is too large, the third fits
    bench.state = weigh(bench.state, {ONE: 21 * MB})
    assert bench.tick(a=0.6, b=0.3, c=0.1) == (THREE,)  # it turned out to be too large
    assert weigh(bench.state, {ONE: 21 * MB}) is bench.state


def test_before_anything_is_known_nobody_stands_by():
    assert Bench().ticks(30) == ()


def test_another_model_begins_anew():
    state = observe(Readiness(), Probabilities(classes=(A, B), values=(1.0, 0.0)), S, 6.0)
    state = observe(state, Probabilities(classes=(A, C), values=(0.0, 1.0)), 2 * S, 6.0)
    assert (state.classes, state.now) == ((A, C), (0.0, 1.0))


@given(st.integers(0, 2**32), st.floats(0.0, 1.0))
def test_noise_does_not_make_them_churn(seed, noise):
    """Two classes that a model cannot tell apart, tick by tick: whoever stands by is not replaced all the time."""
    bench, changes, before = Bench(count=1), 0, ()
    rng = random.Random(seed)  # noqa: S311  # noise
    for _ in range(600):
        share = 0.5 + noise * (rng.random() - 0.5)
        chosen = bench.tick(a=share, b=1.0 - share)
        changes, before = changes + (chosen != before), chosen
        assert len(chosen) <= 1
    assert changes <= 40  # a load of some seconds each: at most one in 15 s, whatever the noise
