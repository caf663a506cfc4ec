# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons of daily use: which of two minutes was better, how much evidence is enough and how seldom it is wrong."""

import math
import random

import pytest

from asa.decide.signals import Signals, values_of
from calibration.trials.daily import ALIKE, ALPHA, MOST_COUNTED, SampleWindow, compare, evidence


def stretch(queue_us=None, wakeup_us=None, pressure=None, timer_us=None, busy=None, wakeups=None, programs=None):
    tick = Signals(
        run_queue_p99_us=queue_us,
        wakeup_p99_us=wakeup_us,
        cpu_pressure=pressure,
        timer_late_us=timer_us,
        busy=busy,
        wakeups=wakeups,
        programs=programs,
    )
    return SampleWindow(medians=values_of(tick))


@pytest.mark.parametrize(
    ("one", "other", "outcome"),
    [
        ({"queue_us": 4000}, {"queue_us": 9000}, 1),
        ({"queue_us": 500}, {"queue_us": 1500}, 0),  # nobody feels it
        ({"queue_us": 40_000}, {"queue_us": 45_000}, 0),  # an eighth only
        ({"queue_us": 4000, "pressure": 0.6}, {"queue_us": 9000, "pressure": 0.6}, 1),
        ({"queue_us": 4000, "pressure": 0.6}, {"queue_us": 9000, "pressure": 0.2}, 0),
        ({"queue_us": 4000}, {"pressure": 0.2}, None),
        ({}, {}, None),
        ({"timer_us": 1000, "busy": 0.5}, {"timer_us": 9000, "busy": 0.65}, None),
        ({"timer_us": 1000, "busy": 0.5}, {"timer_us": 9000, "busy": 0.59}, 1),
        ({"wakeup_us": 1000, "programs": 3.0}, {"wakeup_us": 9000, "programs": 5.0}, None),
        ({"wakeup_us": 1000, "programs": 20.0}, {"wakeup_us": 9000, "programs": 23.0}, 1),
        ({"wakeup_us": 1000, "programs": 3.0}, {"wakeup_us": 9000}, 1),
        # the worse one was asked for far more: the use changed, not the scheduler
        ({"queue_us": 4000, "wakeups": 1_000}, {"queue_us": 9000, "wakeups": 9_000}, None),
        ({"queue_us": 4000, "wakeups": 9_000}, {"queue_us": 9000, "wakeups": 1_000}, 1),
        ({"queue_us": 4000, "wakeups": 1_000}, {"queue_us": 9000, "wakeups": 1_400}, 1),
        ({"queue_us": 4000, "wakeups": 1_000}, {"queue_us": 4000, "wakeups": 9_000}, 0),
    ],
)
def test_which_was_better(one, other, outcome):
    mine, its = stretch(**one), stretch(**other)
    assert compare(mine, its, 0.25) == outcome
    assert compare(its, mine, 0.25) == (None if outcome is None else -outcome)


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
    def enough(won, lost):
        return evidence(won, lost) * ALPHA >= 1.0

    assert [enough(12, 0), enough(13, 0), enough(0, 13)] == [False, True, False]
    assert [enough(16, 1), enough(17, 1), enough(23, 3), enough(24, 3)] == [False, True, False, True]
    assert not enough(110, 90)


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
