# SPDX-License-Identifier: GPL-2.0-only
"""What daily use teaches: which stretches are compared with which, and what a verdict of the guard counts."""

from dataclasses import replace

from learning_use import GAME, NEW, SETUP, S, Use

from asa.config import PolicySettings
from asa.core.decision import EEVDF
from asa.decide import learning
from asa.decide.guard import FEWEST_BLOCKS, MOST_BLOCKS, GuardState
from asa.decide.learning import PAIR_S
from asa.decide.power import Power
from asa.decide.signals import Signals


def test_two_stretches_make_one_comparison_and_are_used_up():
    use = Use()
    use.stretch(EEVDF, 9000, FEWEST_BLOCKS)
    use.stretch(NEW, 4000)
    assert use.counts() == (1, 0, 0)
    for _ in range(3):
        use.stretch(NEW, 4000)
    assert use.counts() == (1, 0, 0)
    use.stretch(EEVDF, 4000)
    assert use.counts() == (1, 0, 0)  # the other one has gone on: a trial gives one stretch
    use.stretch(NEW, 4000)
    assert use.counts() == (1, 0, 1)


def test_a_stretch_too_short_or_of_another_class_tells_nothing():
    use = Use()
    use.stretch(EEVDF, 9000, FEWEST_BLOCKS - 1)
    use.stretch(NEW, 4000)
    assert use.counts() is None
    use = Use()
    use.stretch(EEVDF, 9000)
    use.tick(EEVDF, Signals(), workload=GAME)
    use.stretch(NEW, 4000)
    assert use.counts() is use.counts(workload=GAME) is None


def test_other_loads_and_other_hours_are_not_compared():
    use = Use()
    use.stretch(EEVDF, 9000, busy=0.3)
    use.stretch(NEW, 4000, busy=0.6)
    assert use.counts() is None
    use.stretch(NEW, 4000, 1, busy=0.3)
    use.stretch(EEVDF, 9000, busy=0.6)  # which finds the busy one of before
    assert use.counts() == (1, 0, 0)
    use = Use()
    use.stretch(EEVDF, 9000)
    use.now_s += PAIR_S
    use.stretch(NEW, 4000)
    assert use.counts() is None
    assert [one.scheduler for one in use.lessons.open] == [NEW]


def test_other_power_begins_anew():
    use = Use()
    use.stretch(EEVDF, 9000)
    before = use.memory
    use.note(before, replace(before, power=Power(saver=True), guard=GuardState()))
    use.stretch(NEW, 4000)
    assert use.counts() is None


def test_what_was_measured_before_a_suspend_is_not_compared_with_what_comes_after():
    use = Use()
    use.stretch(EEVDF, 9000)
    assert use.lessons.open
    use.note(use.memory, use.memory, elapsed_s=0.0)
    assert use.lessons.open == ()
    use.stretch(NEW, 4000)
    assert use.counts() is None


def test_a_verdict_is_one_comparison_lost():
    use = Use()
    use.stretch(EEVDF, 4000)
    use.stretch(NEW, 9000)  # taken back with the first look
    assert use.verdicts == 1
    assert use.counts() == (0, 1, 0)
    use.stretch(EEVDF, 4000)  # which ends the trial of the verdict
    assert use.counts() == (0, 1, 0)
    use.stretch(NEW, 4000)
    assert use.counts() == (0, 1, 1)
    use.stretch(EEVDF, 4000)
    found = [
        use.tick(NEW, Signals(run_queue_p99_us=9000.0 + number % 5), judged=number == MOST_BLOCKS)
        for number in range(MOST_BLOCKS + 1)
    ]
    assert found[-1]  # with the last look, when the stretch is complete
    assert use.counts() == (0, 2, 1)


def test_a_verdict_that_nobody_follows_is_not_counted_again():
    use = Use()
    use.stretch(EEVDF, 4000)
    for number in range(3 * MOST_BLOCKS):  # the switch back failed: it goes on
        use.tick(NEW, Signals(run_queue_p99_us=9000.0 + number), judged=number < FEWEST_BLOCKS + 1)
    assert use.counts() == (0, 1, 0)


def test_nothing_is_learned_where_it_is_off():
    use = Use(replace(SETUP, policy=PolicySettings(learn=False)))
    use.pair(4000, 9000, 2)
    assert use.lessons is learning.NOTHING


def test_what_the_guard_takes_back_is_accounted_with_what_it_can_have_cost():
    use = Use()
    use.stretch(EEVDF, 4000)
    begun_s = use.now_s
    use.memory = replace(use.memory, last_switch_ns=begun_s * S, since_ns=0)
    use.stretch(NEW, 9000)
    kept = use.lessons.kept
    assert kept.taken_back_s == kept.lost_most == use.now_s - begun_s < 3.0 * MOST_BLOCKS
    assert (kept.watched_s, kept.tried_s, kept.credit_s) == (0.0, 0.0, 0.0)
