# SPDX-License-Identifier: GPL-2.0-only
"""The statistics on made-up data: what does not differ is seldom found, what does is, and corrections only raise p."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibration.paired import LEAST_PAIRS, benjamini_hochberg, holm, overall, paired

SCENARIOS = 28
PS = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40)


@pytest.fixture(autouse=True, scope="module")
def no_garbage_collected():
    """multipletests by Holm's method collects it each time: 50 ms, a thousand times in these tests."""
    with patch("gc.collect"):
        yield


def found(chance, spread, shift, pairs):
    """Which of 28 scenarios are significant after Holm's correction."""
    tests = [paired(list(shift[i] + spread[i] * chance.normal(size=pairs)), 0.002) for i in range(SCENARIOS)]
    return np.array(holm([test.p for test in tests])) < 0.05


@pytest.mark.parametrize("pairs", [3, 5])
@pytest.mark.parametrize("spreads", ["equal", "unequal", "most without any"])
def test_a_against_a_is_wrong_in_one_evaluation_of_twenty_at_most(pairs, spreads):
    chance = np.random.default_rng(1)
    wrong, times = 0, 150
    for _ in range(times):
        spread = np.full(SCENARIOS, 0.03)
        if spreads == "unequal":
            spread = 0.03 * np.exp(chance.normal(size=SCENARIOS))
        elif spreads != "equal":
            spread[:20] = 1e-9  # a score that has reached its end
        wrong += found(chance, spread, np.zeros(SCENARIOS), pairs).any()
    assert wrong / times <= 0.05 + 3.0 * math.sqrt(0.05 * 0.95 / times)


def test_b_is_found_where_it_differs_and_hardly_elsewhere():
    chance = np.random.default_rng(2)
    shift = np.where(np.arange(SCENARIOS) < 10, -0.3, 0.0)
    hits = np.mean([found(chance, np.full(SCENARIOS, 0.03), shift, 5) for _ in range(60)], axis=0)
    assert hits[:10].mean() > 0.9
    assert hits[10:].mean() < 0.01


def test_the_t_test_is_that_of_scipy():
    values = [0.1, 0.14, 0.08, 0.2]
    test = paired(values, 1e-9)
    assert test.p == pytest.approx(float(stats.ttest_1samp(values, 0.0).pvalue))
    between = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (test.low, test.high) == pytest.approx((between.low, between.high))
    assert test.effect == pytest.approx(np.mean(values) / np.std(values, ddof=1))


def test_equal_differences_are_as_good_as_the_floor_and_not_certain():
    assert paired([0.0] * 5, 0.002).p == 1.0
    assert paired([0.0001] * 5, 0.002).p > 0.5
    assert paired([0.1] * 5, 0.002).p < 1e-6


def test_few_pairs_have_a_mean_alone():
    assert paired([], 0.1) is None
    test = paired([1.0] * (LEAST_PAIRS - 1), 0.1)
    assert (test.mean, test.p, test.effect, test.low) == (1.0, None, None, None)


@given(PS)
def test_corrections_keep_the_order_and_only_raise(ps):
    for correct in (holm, benjamini_hochberg):
        adjusted = correct(ps)
        assert all(p <= one * (1.0 + 1e-12) <= 1.0 + 1e-11 for p, one in zip(ps, adjusted, strict=True))
        order = sorted(range(len(ps)), key=lambda place: ps[place])
        assert [adjusted[place] for place in order] == sorted(adjusted)
    assert all(one <= other * (1.0 + 1e-12) for one, other in zip(benjamini_hochberg(ps), holm(ps), strict=True))


def test_corrections_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert benjamini_hochberg([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.04, 0.04])


def test_overall_sees_a_small_lean_of_all():
    chance = np.random.default_rng(3)
    assert overall(list(chance.normal(0.02, 0.02, SCENARIOS))) < 0.01
    assert overall([0.0] * 5) is None
