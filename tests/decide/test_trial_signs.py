# SPDX-License-Identifier: GPL-2.0-only
"""The sequential test of signs: its errors counted out, its power, its interval."""

import itertools
import random

import pytest

from asa.decide.trial_signs import LIKELY, MOST_PAIRS, SURE, Level, above, below, interval, middle


def drawn(seed, middle_=0.0, deviation=1.0, count=MOST_PAIRS):
    chance = random.Random(seed)  # noqa: S311  # the same each time
    return [chance.gauss(middle_, deviation) for _ in range(count)]


def test_signs_alone_are_enough_from_eight_pairs_on_and_from_five_for_what_is_left_undone():
    assert [above([0.1] * count, SURE) for count in (7, 8)] == [False, True]
    assert [above([0.1] * count, LIKELY) for count in (4, 5)] == [False, True]
    assert below([-0.1] * 8, SURE)
    assert not below([0.1] * 24, SURE)


@pytest.mark.parametrize("level", [SURE, LIKELY, Level(error=0.2, first=3, share=0.5)])
@pytest.mark.parametrize("sizes", [[1.0] * 12, [2.0**k for k in range(12)], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]])
def test_the_error_holds_for_any_sizes_when_a_coin_draws_the_signs(level, sizes):
    courses = itertools.product((1.0, -1.0), repeat=len(sizes))
    wrong = sum(above([sign * size for sign, size in zip(signs, sizes, strict=True)], level) for signs in courses)
    assert 0 < wrong / 2 ** len(sizes) <= level.spent(len(sizes)) + 1e-9


def test_what_was_shown_once_stays_shown():
    assert above([0.1] * 8 + [-0.1] * 16, SURE)


def test_the_error_may_not_be_spent_before_the_first_look_and_is_spent_at_the_last():
    assert SURE.spent(7) == 0.0
    assert SURE.spent(8) == pytest.approx(0.004)
    assert SURE.spent(MOST_PAIRS) == pytest.approx(0.008)


def test_pairs_beyond_the_most_do_not_count():
    undecided = [0.1, -0.1] * (MOST_PAIRS // 2)
    assert not above(undecided + [0.1] * 100, SURE)


def test_a_rare_large_one_does_not_hide_what_all_others_show():
    assert above([0.1] * 15 + [-50.0], SURE)
    assert not above([0.0] * MOST_PAIRS, SURE)
    assert not above([], SURE)


def test_a_difference_as_large_as_its_deviation_is_found_in_most_courses():
    found = sum(above(drawn(seed, 1.0), SURE) for seed in range(100))
    assert found >= 80
    assert sum(above(drawn(seed, -1.0), SURE) for seed in range(100)) == 0


def test_the_interval_holds_the_middle_and_agrees_with_the_test():
    held = 0
    for seed in range(60):
        low, high = interval(drawn(seed, 0.3), LIKELY)
        held += low <= 0.3 <= high
        assert low <= middle(drawn(seed, 0.3)) <= high
    assert held >= 51  # nine in ten, less two standard errors
    sure = drawn(1, 2.0, 0.5)
    low, high = interval(sure, SURE)
    assert above(sure, SURE, low)
    assert below(sure, SURE, high)
    assert 0.0 < low < high


def test_of_too_few_the_interval_has_no_ends():
    assert interval([0.1] * 4, LIKELY) == (None, None)
    assert interval([], LIKELY) == (None, None)
    low, high = interval([0.1] * 5, LIKELY)
    assert low == pytest.approx(0.1, abs=1e-4)
    assert high == pytest.approx(0.1, abs=1e-4)


def test_the_middle_is_moved_little_by_one_large_value():
    assert middle([1.0]) == 1.0
    assert middle([1.0, 2.0]) == 1.5
    assert middle([1.0, 1.1, 0.9, 1.0, 50.0]) == pytest.approx(1.05, abs=0.06)
