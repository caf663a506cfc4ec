# SPDX-License-Identifier: GPL-2.0-only
"""The rank test against scipy's, and what serial dependence does to it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from asa.decide.ranks import independent, larger

FEW = st.lists(st.integers(0, 6), min_size=6, max_size=30)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=24, unique=True), st.data())
def test_exact_without_ties(values, data):
    n = data.draw(st.integers(1, len(values) - 1).filter(lambda n: max(n, len(values) - n) <= 20))
    mine, others = values[:n], values[n:]
    expected = mannwhitneyu(mine, others, alternative="greater", method="exact").pvalue
    assert independent(mine, others) == pytest.approx(expected, rel=1e-9)


@settings(deadline=None)
@given(FEW, FEW)
def test_normal_with_ties(mine, others):
    expected = mannwhitneyu(mine, others, alternative="greater", method="asymptotic").pvalue
    if len({*mine, *others}) == 1:
        expected = 1.0  # scipy divides nothing by nothing
    assert independent(mine, others) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_normal_where_exact_would_take_long():
    mine, others = list(range(10, 35)), [*range(-1000, -970), 20.5]
    expected = mannwhitneyu(mine, others, alternative="greater", method="asymptotic").pvalue
    assert independent(mine, others) == pytest.approx(expected, rel=1e-9)


@settings(deadline=None)
@given(FEW, FEW)
def test_dependence_never_makes_evidence_stronger(mine, others):
    assert independent(mine, others) <= larger(mine, others) <= 1.0


def test_a_drift_is_weaker_evidence_than_noise():
    """The same values: in random order they are twenty witnesses, sorted they are few."""
    rng = random.Random(3)  # noqa: S311
    mine, others = [rng.gauss(1.5, 1) for _ in range(20)], [rng.gauss(0, 1) for _ in range(20)]
    assert larger(mine, others) < 0.001
    assert larger(sorted(mine), sorted(others)) > 0.01
    assert independent(mine, others) == independent(sorted(mine), sorted(others))


def test_ends_of_the_range():
    for mine, others in (([1.0], [2.0]), ([2.0], [1.0]), ([1.0] * 6, [1.0] * 6)):
        assert 0.0 <= larger(mine, others) <= 1.0
    assert larger([1.0] * 6, [1.0] * 6) == 1.0
    assert larger([1.0] * 30, [0.0] * 30) < 1e-6
