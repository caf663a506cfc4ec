# SPDX-License-Identifier: GPL-2.0-only
"""Voting against a direct transcription of the paper's Algorithm 1, and the rules the paper leaves open."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.config import Method, Voting
from asa.core.decision import Judgement, Probabilities, Workload
from asa.decide.voting import FilterState, Window, push, regime_vote, take, vote

A, B, C = (Workload(name) for name in "abc")
S = 1_000_000_000


def distribution(*values, classes=(A, B, C)):
    return Probabilities(classes=classes, values=values)


def filled(*distributions, window_s=6.0):
    window = Window()
    for second, one in enumerate(distributions):
        window = push(window, second * S, one, window_s)
    return window


def algorithm_1(distributions, theta, alpha):
    """Line for line from the paper: lines 4 to 11."""
    w = len(distributions)
    a = dict.fromkeys(distributions[0].classes, 0.0)
    for t in range(1, w + 1):
        p_t = distributions[t - 1]
        for c, p_tc in zip(p_t.classes, p_t.values, strict=True):
            p = p_tc if p_tc > theta else 0.0
            a[c] = a[c] + p * alpha ** (w - t)
    return a


@st.composite
def windows(draw):
    count = draw(st.integers(1, 6))
    rows = []
    for _ in range(count):
        parts = draw(st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
        total = sum(parts) or 1.0
        rows.append(distribution(*(part / total for part in parts)))
    return rows


@given(windows(), st.floats(0.0, 1.0), st.floats(0.01, 1.0))
def test_winner_is_that_of_algorithm_1(rows, theta, alpha):
    sums = algorithm_1(rows, theta, alpha)
    best = max(sums.values())
    result = vote(filled(*rows), threshold=theta, decay=alpha, current=None)
    if best <= 0.0:
        assert result.workload is None
        assert result.confidence == 0.0
    else:
        assert sums[result.workload] == pytest.approx(best, abs=0.0)
        weights = sum(alpha**age for age in range(len(rows)))
        assert result.confidence == pytest.approx(min(1.0, best / weights))


def test_nothing_above_the_threshold_is_no_winner():
    assert vote(filled(distribution(0.4, 0.3, 0.3)), threshold=0.5, decay=0.8, current=A).workload is None


def test_the_threshold_itself_does_not_pass():
    assert vote(filled(distribution(0.5, 0.5, 0.0)), threshold=0.5, decay=0.8, current=None).workload is None


def test_tie_goes_to_the_current_class():
    tied = filled(distribution(0.5, 0.5, 0.0))
    assert vote(tied, threshold=0.3, decay=1.0, current=B).workload == B


def test_tie_without_a_current_class_goes_to_the_newest():
    window = filled(distribution(0.6, 0.4, 0.0), distribution(0.4, 0.6, 0.0))
    assert vote(window, threshold=0.3, decay=1.0, current=C).workload == B


def test_full_tie_goes_to_the_models_order():
    assert vote(filled(distribution(0.0, 0.5, 0.5)), threshold=0.3, decay=1.0, current=None).workload == B


def test_the_newest_weighs_most():
    window = filled(distribution(0.9, 0.1, 0.0), distribution(0.1, 0.9, 0.0))
    assert vote(window, threshold=0.3, decay=0.5, current=A).workload == B


def test_one_outlier_does_not_win():
    rows = [distribution(0.9, 0.1, 0.0)] * 5 + [distribution(0.1, 0.9, 0.0)]
    assert vote(filled(*rows), threshold=0.3, decay=0.9, current=A).workload == A


def test_the_window_holds_w_seconds():
    window = filled(*[distribution(1.0, 0.0, 0.0)] * 20)
    assert len(window.entries) == 6


def test_a_gap_forgets():
    window = push(filled(distribution(1.0, 0.0, 0.0)), 3600 * S, None, 6.0)
    assert window.entries == ()
    assert vote(window, threshold=0.3, decay=0.8, current=A).workload is None


def test_time_that_went_back_forgets():
    window = push(filled(distribution(1.0, 0.0, 0.0), distribution(1.0, 0.0, 0.0)), 0, distribution(0.0, 1.0, 0.0), 6.0)
    assert [time for time, _ in window.entries] == [0, 0]


def test_another_models_classes_are_forgotten():
    other = Probabilities(classes=(A, B), values=(0.0, 1.0))
    window = push(filled(distribution(1.0, 0.0, 0.0)), S, other, 6.0)
    assert window.entries == ((S, other),)


@given(windows(), st.permutations(range(3)))
def test_order_of_classes_does_not_matter_without_ties(rows, order):
    sums = algorithm_1(rows, 0.3, 0.8)
    if any(x == y for x, y in itertools.combinations(sums.values(), 2)):
        return
    mixed = [
        Probabilities(classes=tuple(row.classes[i] for i in order), values=tuple(row.values[i] for i in order))
        for row in rows
    ]
    plain = vote(filled(*rows), threshold=0.3, decay=0.8, current=None)
    assert vote(filled(*mixed), threshold=0.3, decay=0.8, current=None) == plain


LIGHT, HEAVY = Workload("regime:light-waiting"), Workload("regime:heavy-computing")


def taken(ticks, method=Method.TIME_WEIGHTED, *, open_world=True):
    """The vote after ticks of (fits a class?, regime), one a second; the first None: a tick that is not judged."""
    rule, state = Voting(method=method, open_world=open_world), FilterState()
    for second, (fits, regime) in enumerate(ticks):
        judged = None if fits is None else Judgement(probabilities=distribution(0.8, 0.1, 0.1), score=0.5, known=fits)
        state = take(state, rule, second * S, judged, current=None, regime=regime)
    return state.vote


@pytest.mark.parametrize("method", list(Method))
def test_what_fits_no_class_has_a_regime(method):
    found = taken([(False, HEAVY)] * 6, method)
    assert (found.workload, found.unknown, found.regime) == (None, True, HEAVY)
    assert taken([(True, HEAVY)] * 6, method).regime is None
    assert taken([(False, HEAVY)] * 6, method, open_world=False).regime is None
    assert taken([(False, None)] * 6, method).regime is None


def test_regimes_are_voted_on_by_the_same_weights():
    assert taken([(False, LIGHT)] * 4 + [(False, HEAVY)] * 2).regime == LIGHT  # 1.89 against 1.8
    assert taken([(False, LIGHT)] * 3 + [(False, HEAVY)] * 3).regime == HEAVY
    assert taken([(False, LIGHT)] * 5 + [(False, HEAVY)]).regime == LIGHT
    assert taken([(False, LIGHT)] * 30 + [(False, HEAVY)] * 6).regime == HEAVY


def test_only_ticks_that_fit_no_class_vote_for_a_regime():
    found = taken([(True, LIGHT)] * 2 + [(False, HEAVY)] * 4)
    assert (found.unknown, found.regime) == (True, HEAVY)
    assert taken([(None, LIGHT)] * 3 + [(False, HEAVY)] + [(None, LIGHT)]).regime == HEAVY


def test_a_regime_is_forgotten_with_the_window():
    assert taken([(False, LIGHT)] * 6 + [(True, HEAVY)] * 8 + [(False, HEAVY)] * 6).regime == HEAVY
    back = taken([(False, LIGHT)] * 6 + [(True, HEAVY)] * 8)
    assert (back.workload, back.regime) == (A, None)


@pytest.mark.parametrize(("current", "wins"), [(LIGHT, LIGHT), (HEAVY, HEAVY), (None, HEAVY)])
def test_of_alike_regimes_the_current_one_stays_else_the_newest_wins(current, wins):
    window = filled(distribution(0.0, 0.0, 1.0), distribution(0.0, 0.0, 1.0))
    assert regime_vote(window, ((0, LIGHT), (S, HEAVY)), decay=1.0, current=current) == wins
    assert regime_vote(window, (), decay=1.0, current=current) is None
