# SPDX-License-Identifier: GPL-2.0-only
"""The filters on streams of known truth: bounds, what they may not depend on, replays, and each one's own rule."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa import config
from asa.config import Voting
from asa.core.decision import Judgement, Probabilities, Vote, Workload
from asa.decide import voting
from asa.decide.voting import UNKNOWN, open_world
from calibration.voting.filters import Memory, Method, make, parameters, run

A, B, C = (Workload(name) for name in "abc")
S = 1_000_000_000


def distribution(*values, classes=(A, B, C)):
    return Probabilities(classes=classes, values=values)


SURE_A, SURE_B = distribution(0.96, 0.02, 0.02), distribution(0.02, 0.96, 0.02)
DOUBT = distribution(0.4, 0.45, 0.15)
NOWHERE = open_world(distribution(0.4, 0.3, 0.3), fits=False)


def seconds(*distributions):
    return [(second * S, one) for second, one in enumerate(distributions, 1)]


@st.composite
def streams(draw):
    """Ticks one to three seconds apart, some with nothing to judge by and some that fit no class."""
    rng, ticks, now_ns = draw(st.randoms(use_true_random=False)), [], 0
    for _ in range(draw(st.integers(1, 20))):
        now_ns += rng.randint(S, 3 * S)
        parts = [rng.random() ** 3 + 0.001 for _ in range(3)]
        one = distribution(*(part / sum(parts) for part in parts))
        kind = rng.randrange(6)
        ticks.append((now_ns, None if kind == 0 else open_world(one, fits=kind > 1)))
    return ticks


every = pytest.mark.parametrize("method", Method)


def votes(rule, ticks):
    memory, standing, found = Memory(), None, []
    for now_ns, one in ticks:
        memory = rule.push(memory, now_ns, one, standing)
        standing = memory.vote.workload or standing
        found.append(memory.vote)
    return found


@every
@settings(max_examples=25, deadline=None)
@given(ticks=streams())
def test_a_vote_is_of_a_known_class_with_a_share(method, ticks):
    for vote in votes(make(method), ticks):
        assert vote.workload in {A, B, C, None}
        assert 0.0 <= vote.confidence <= 1.0


@every
@settings(max_examples=25, deadline=None)
@given(ticks=streams(), cut=st.integers(0, 19))
def test_memory_is_a_value_that_a_replay_can_start_from(method, ticks, cut):
    """The same twice, and the same when the rest is judged from a memory that was kept."""
    rule = make(method)
    assert votes(rule, ticks) == votes(rule, ticks)
    memory, standing = Memory(), None
    for place, (now_ns, one) in enumerate(ticks):
        if place == cut:
            kept = (memory, standing)
        memory = rule.push(memory, now_ns, one, standing)
        standing = memory.vote.workload or standing
    if cut < len(ticks):
        memory, standing = kept
        again = []
        for now_ns, one in ticks[cut:]:
            memory = make(method).push(memory, now_ns, one, standing)
            standing = memory.vote.workload or standing
            again.append(memory.vote)
        assert again == votes(rule, ticks)[cut:]


@every
@settings(max_examples=25, deadline=None)
@given(ticks=streams(), shift=st.integers(0, 10**15))
def test_only_differences_of_time_matter(method, ticks, shift):
    later = [(now_ns + shift, one) for now_ns, one in ticks]
    assert run(make(method), later) == run(make(method), ticks)


@every
@settings(max_examples=25, deadline=None)
@given(ticks=streams(), order=st.permutations(range(4)))
def test_the_models_order_of_classes_matters_in_ties_only(method, ticks, order):
    def mixed(one):
        if one is None:
            return None
        classes, values = (tuple(part[i] for i in order) for part in (one.classes, one.values))
        return Probabilities(classes=classes, values=values)

    plain = votes(make(method), ticks)
    moved = votes(make(method), [(now_ns, mixed(one)) for now_ns, one in ticks])
    for (_, one), first, second in zip(ticks, plain, moved, strict=True):
        if method is Method.MAJORITY and one is not None and sorted(one.values)[-1] == sorted(one.values)[-2]:
            break  # a tick that is a tie counts for one class alone
        if first.workload != second.workload:  # so close that the order of summing decides
            assert first.confidence == pytest.approx(second.confidence, abs=1e-9)
            break
        assert first.confidence == pytest.approx(second.confidence, abs=1e-6)


@every
def test_what_lasts_wins_and_what_comes_after_it_wins_in_time(method):
    stood = run(make(method), seconds(*[SURE_A] * 20, *[SURE_B] * 20))
    assert stood[8:20] == [A] * 12
    assert stood[30:] == [B] * 10
    assert stood.index(B) >= 20


@pytest.mark.parametrize("method", [method for method in Method if method is not Method.NONE])
def test_one_outlier_changes_nothing(method):
    stood = run(make(method), seconds(*[SURE_A] * 10, SURE_B, *[SURE_A] * 5))
    assert set(stood[5:]) == {A}


@every
def test_what_fits_nothing_leaves_the_standing_class(method):
    known = [open_world(SURE_A, fits=True)] * 10
    ticks = seconds(*known, *[NOWHERE] * 30)
    assert set(run(make(method), ticks)[5:]) == {A}
    late = votes(make(method), ticks)[-1]
    assert late.workload is None
    back = seconds(*known, *[NOWHERE] * 30, *[open_world(SURE_B, fits=True)] * 20)
    assert run(make(method), back)[-1] == B


@every
def test_a_stranger_from_the_start_is_nobody(method):
    assert run(make(method), seconds(*[NOWHERE] * 20)) == [None] * 20


@every
def test_another_models_classes_start_anew(method):
    other = distribution(0.01, 0.99, classes=(A, UNKNOWN))
    memory = Memory()
    for now_ns, one in seconds(*[SURE_A] * 10):
        memory = make(method).push(memory, now_ns, one, A)
    memory = make(method).push(memory, 11 * S, other, A)
    fresh = make(method).push(Memory(), 11 * S, other, A)
    assert (memory.vote, memory.values) == (fresh.vote, fresh.values)


@every
def test_a_memory_of_other_settings_is_not_gone_on_from(method):
    """The agent reads new settings while it runs: sums of one rule are no probabilities of another."""
    for before in Method:
        memory, standing = Memory(), None
        for now_ns, one in seconds(*[SURE_A] * 3, *[SURE_B] * 2):
            memory = make(before).push(memory, now_ns, one, standing)
            standing = memory.vote.workload or standing
        after = make(method).push(memory, 6 * S, SURE_B, standing)
        if before is not method and not memory.window.entries:
            assert after.vote == make(method).push(Memory(), 6 * S, SURE_B, standing).vote


def test_the_papers_voting_is_that_of_the_voting_module():
    rule = make(Method.TIME_WEIGHTED, window_s=4.0, threshold=0.2, decay=0.7)
    window, memory = voting.Window(), Memory()
    for now_ns, one in seconds(SURE_A, DOUBT, SURE_B, DOUBT, SURE_B, SURE_A):
        window = voting.push(window, now_ns, one, 4.0)
        memory = rule.push(memory, now_ns, one, A)
        assert memory.vote == voting.vote(window, threshold=0.2, decay=0.7, current=A)


def test_a_majority_counts_ticks_and_not_how_sure_they_are():
    barely = distribution(0.34, 0.33, 0.33)
    ticks = seconds(barely, barely, barely, SURE_B, SURE_B)
    assert votes(make(Method.MAJORITY), ticks)[-1] == Vote(workload=A, confidence=0.6)
    assert votes(make(Method.MEAN), ticks)[-1].workload == B


def test_a_tie_of_a_majority_goes_to_what_stands_then_to_what_was_seen_last():
    rule, memory = make(Method.MAJORITY), Memory()
    for now_ns, one in seconds(SURE_A, SURE_B):
        memory = rule.push(memory, now_ns, one, None)
    assert memory.vote.workload == B
    memory = rule.push(rule.push(Memory(), S, SURE_A, None), 2 * S, SURE_B, A)
    assert memory.vote.workload == A


def test_smoothing_goes_by_elapsed_time():
    rule = make(Method.SMOOTHING, memory_s=2.0)
    memory = rule.push(Memory(), 0, SURE_A, None)
    memory = rule.push(memory, 4 * S, SURE_B, A)
    assert memory.values[0] == pytest.approx(0.02 + 0.94 * math.exp(-2.0))


def test_a_hidden_markov_filter_is_bayes_rule():
    rule = make(Method.MARKOV, dwell_s=10.0, trust=1.0, least=1e-4, certainty=0.0)
    memory = rule.push(Memory(), 0, distribution(0.6, 0.3, 0.1), None)
    assert memory.values == pytest.approx((0.6, 0.3, 0.1))
    memory = rule.push(memory, S, distribution(0.2, 0.5, 0.3), A)
    stays = math.exp(-0.1)
    comes = (1.0 - stays) / 2
    raw = [(stays * p + comes * (1 - p)) * e for p, e in ((0.6, 0.2), (0.3, 0.5), (0.1, 0.3))]
    assert memory.values == pytest.approx([one / sum(raw) for one in raw])


def test_a_change_point_test_is_fast_when_sure_and_waits_when_not():
    rule = make(Method.CHANGE_POINT)
    sure = run(rule, seconds(*[SURE_A] * 10, *[SURE_B] * 10))
    assert sure.index(B) - 10 <= 2
    assert set(run(rule, seconds(*[SURE_A] * 10, *[DOUBT] * 100))[5:]) == {A}


def test_a_change_point_tests_confidence_falls_as_a_rival_nears():
    found = votes(make(Method.CHANGE_POINT, bound=20.0), seconds(*[SURE_A] * 12, *[SURE_B] * 4))[11:]
    shares = [vote.confidence for vote in found]
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) == 5


def test_what_a_change_point_test_gathered_is_forgotten_in_a_gap():
    rule = make(Method.CHANGE_POINT, bound=10.0)
    memory = Memory()
    for now_ns in (S, 2 * S):
        memory = rule.push(memory, now_ns, SURE_B, A)
    assert rule.push(memory, 3 * S, SURE_B, A).vote.workload == B
    assert rule.push(memory, 60 * S, SURE_B, A).vote.workload == A


@every
def test_parameters_are_named_with_their_defaults(method):
    named = parameters(method)
    assert make(method, **named) == make(method)
    with pytest.raises(TypeError):
        make(method, nonsense=1.0)


@pytest.mark.parametrize("method", config.Method)
@settings(max_examples=25, deadline=None)
@given(ticks=streams(), fit=st.lists(st.booleans(), min_size=20, max_size=20))
def test_what_the_agent_votes_is_what_the_benchmark_judges(method, ticks, fit):
    """The agent's rule, by the settings that are shipped, against the filter of this name."""
    rule, state, current, found = Voting(method=method), voting.FilterState(), None, []
    told = [(now_ns, None if one is None else distribution(*one.values[:3])) for now_ns, one in ticks]
    for (now_ns, one), fits in zip(told, fit, strict=False):
        judged = None if one is None else Judgement(probabilities=one, score=None, known=fits)
        state = voting.take(state, rule, now_ns, judged, current=current)
        current = state.vote.workload or current
        found.append(state.vote)
    seen = [
        (now_ns, None if one is None else open_world(one, fits=fits))
        for (now_ns, one), fits in zip(told, fit, strict=False)
    ]
    assert found == votes(make(Method(method)), seen)


def test_every_method_is_made():
    assert {type(make(method)).__name__ for method in Method} == {
        "Newest", "Mean", "Majority", "Smoothing", "TimeWeighted", "Markov", "ChangePoint"
    }  # fmt: skip
