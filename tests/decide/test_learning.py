# SPDX-License-Identifier: GPL-2.0-only
"""What daily use teaches: how much evidence moves an order and how seldom that is wrong, and what the order is then."""

import math
import random
from dataclasses import replace

import pytest
from learning_use import GAME, NEW, OLD, SETUP, WEB, Use, a_duel

from asa.core.decision import EEVDF, Order, OrderKind, SchedulerName
from asa.decide import learning
from asa.decide.guard import FEWEST_BLOCKS
from asa.decide.learning import ALIKE, ALPHA, MOST_COUNTED, Learning, Lessons, begin, evidence, preferred
from asa.decide.signals import Signals


def by_integral(won, lost):
    """The statistic as it is defined: the mean likelihood ratio over ALIKE..1."""
    steps = 20_000
    width = (1 - ALIKE) / steps
    middles = (ALIKE + width * (step + 0.5) for step in range(steps))
    return sum((p / ALIKE) ** won * ((1 - p) / (1 - ALIKE)) ** lost for p in middles) / steps


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (1, 0), (0, 1), (13, 0), (7, 5), (30, 20), (3, 40)])
def test_the_evidence_is_the_mean_likelihood_ratio(won, lost):
    assert evidence(won, lost) == pytest.approx(by_integral(won, lost), rel=1e-5)


def test_it_is_a_martingale_where_each_is_won_with_the_probability_of_no_difference():
    for won, lost in ((0, 0), (5, 1), (12, 0), (40, 30), (MOST_COUNTED - 1, 0)):
        following = ALIKE * evidence(won + 1, lost) + (1 - ALIKE) * evidence(won, lost + 1)
        assert following == pytest.approx(evidence(won, lost))


def test_how_much_is_enough():
    def better(won, lost):
        return a_duel(won=won, lost=lost).better

    assert [better(12, 0), better(13, 0), better(0, 13)] == ["", EEVDF, NEW]
    assert [better(16, 1), better(17, 1), better(23, 3), better(24, 3)] == ["", EEVDF, "", EEVDF]
    assert better(110, 90) == ""


def test_an_order_that_is_none_is_hardly_ever_found_however_long_one_looks():
    enough = []  # by the number of comparisons: so many won, or more
    for count in range(1, MOST_COUNTED + 1):
        least = next((won for won in range(count // 2, count + 1) if evidence(won, count - won) * ALPHA >= 1.0), None)
        enough.append(math.inf if least is None else least)
    chance, lives = random.Random(1), 3000  # noqa: S311  # the same each time
    wrong = 0
    for _ in range(lives):
        won = 0
        for least in enough:
            won += chance.random() < ALIKE
            if won >= least:
                wrong += 1
                break
    assert 0 < wrong <= lives * ALPHA


class Noise:
    """Stretches differ among each other by more than their ticks do; logarithms are normal, ticks autoregressive."""

    def __init__(self, seed, between=0.4, within=0.3, r=0.5):
        self.chance = random.Random(seed)  # noqa: S311
        self.between, self.within, self.r = between, within, r

    def stretch(self, base_us):
        level, state = self.chance.gauss(0, self.between), self.chance.gauss(0, 1)

        def value_us(_):
            nonlocal state
            state = self.r * state + math.sqrt(1 - self.r**2) * self.chance.gauss(0, 1)
            return base_us * math.exp(level + self.within * state)

        return value_us


def lived(seed, pairs, times=1.0):
    """A scheduler that makes the latency so many times as long, and the guard at work."""
    noise, use = Noise(seed), Use()
    for _ in range(pairs):
        use.stretch(EEVDF, noise.stretch(20_000.0), FEWEST_BLOCKS)
        use.stretch(NEW, noise.stretch(20_000.0 * times))
    return use


def test_schedulers_that_are_alike_are_not_ordered_also_with_a_guard_that_looks_for_the_worse():
    lives = [lived(seed, 60) for seed in range(40)]
    counts = [use.counts() for use in lives]
    assert {sum(one) for one in counts} == {60}  # each pair of stretches once
    won, lost = (sum(one[place] for one in counts) for place in (0, 1))
    assert won + lost > 1000
    # stretches differ, and the guard sees one of each: its verdicts alone would be no proof
    assert sum(use.verdicts for use in lives) > 40
    assert max(won, lost) / (won + lost) < ALIKE  # the bias is within what ALIKE allows for
    assert sum(bool(use.lessons.better) for use in lives) <= 1


@pytest.mark.parametrize(("times", "better"), [(2.0, EEVDF), (0.5, NEW)])
def test_one_that_doubles_the_latency_is_found(times, better):
    found = [lived(seed, 50, times).lessons.better for seed in range(8)]
    worse = NEW if better == EEVDF else EEVDF
    assert sum(lessons == {WEB: {worse: (better,)}} for lessons in found) >= 7


def test_orders_are_moved_by_enough_of_them_for_that_class_alone():
    use = Use()
    use.pair(4000, 9000, 12)
    assert use.counts() == (12, 0, 0)
    assert not use.lessons.better
    use.pair(4000, 9000)
    assert use.lessons.better == {WEB: {EEVDF: (NEW,)}}
    assert preferred(use.lessons, WEB, EEVDF, lambda _: True) == NEW
    assert preferred(use.lessons, WEB, EEVDF, lambda name: name != NEW) == EEVDF
    assert preferred(use.lessons, GAME, EEVDF, lambda _: True) == EEVDF
    assert preferred(use.lessons, WEB, NEW, lambda _: True) == NEW


def test_the_surest_of_several_is_preferred_and_a_circle_ends():
    third = SchedulerName("scx_third")
    duels = (a_duel(won=13), a_duel(one=EEVDF, other=third, lost=40), a_duel(one=third, other=NEW, won=0, lost=13))
    lessons = begin(Learning(duels=(a_duel(lost=13), a_duel(other=third, lost=40))), {})
    assert lessons.better == {WEB: {EEVDF: (third, NEW)}}
    circle = begin(Learning(duels=duels), {}).better
    assert circle == {WEB: {NEW: (EEVDF,), EEVDF: (third,), third: (NEW,)}}
    assert preferred(Lessons(better=circle), WEB, NEW, lambda _: True) == third
    assert preferred(Lessons(better=circle), WEB, third, lambda _: True) == EEVDF


def test_another_version_begins_anew():
    versions = {"scx_new": "v1", "scx_old": "v1"}
    use = Use(replace(SETUP, versions=versions), begin(Learning(), versions))
    use.pair(4000, 9000, 13)
    kept = use.lessons.kept
    assert (kept.duels[0].one_version, kept.duels[0].other_version) == ("", "v1")
    assert begin(kept, versions).kept is kept
    assert begin(kept, {}).better  # not installed any more, or not known: it harms nobody
    assert begin(kept, versions | {"scx_new": "v2"}).kept.duels == ()
    use.setup = replace(use.setup, versions=versions | {"scx_new": "v2"})  # the settings were read again
    use.tick(NEW, Signals())
    assert use.lessons.kept.duels == ()
    assert not use.lessons.better


def test_a_user_who_trusts_a_scheduler_again_makes_it_be_learned_anew():
    lessons = begin(Learning(duels=(a_duel(lost=13), a_duel(other="scx_old:fast", lost=13))), {})
    same = learning.obey(lessons, Order(kind=OrderKind.RESUME))
    assert same is lessons
    assert learning.obey(lessons, Order(kind=OrderKind.HOLD, scheduler=NEW)) is lessons
    assert learning.obey(lessons, Order(kind=OrderKind.RESUME, scheduler=SchedulerName("scx_none"))) is lessons
    left = learning.obey(lessons, Order(kind=OrderKind.RESUME, scheduler=OLD))
    assert left.better == {WEB: {EEVDF: (NEW,)}}
    assert learning.obey(left, Order(kind=OrderKind.RESUME, scheduler=NEW)).better == {}
    use = Use()
    use.stretch(NEW, 9000)
    assert learning.obey(use.lessons, Order(kind=OrderKind.RESUME, scheduler=OLD)).open == use.lessons.open
    assert learning.obey(use.lessons, Order(kind=OrderKind.RESUME, scheduler=NEW)).open == ()
