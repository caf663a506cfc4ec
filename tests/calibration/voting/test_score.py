# SPDX-License-Identifier: GPL-2.0-only
"""Delay and error rate of streams whose figures were counted by hand; streams made of marks and of predictions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.decision import Probabilities, Workload
from asa.core.errors import ModelError
from asa.core.mark import Mark, Phase
from calibration.voting import score as voting_score
from calibration.voting import streams as voting_streams
from calibration.voting.filters import Method, make
from calibration.voting.score import difference_pct, judge, tally
from calibration.voting.streams import Span, Stream, deal, held_out, simulate, spans, splice

A, B, C = (Workload(name) for name in "abc")
S = 1_000_000_000
NONE = make(Method.NONE)


def tick(name):
    if name == "-":
        return None
    return Probabilities(classes=(A, B, C), values=tuple(1.0 if one == name else 0.0 for one in "abc"))


def stream(text, *parts, name="one", starting_s=0):
    """`text`: what each second's tick says; `parts`: a class and the second after which its ticks begin."""
    ends = [*(first for _, first in parts[1:]), len(text)]
    made = [
        Span(
            workload=Workload(workload),
            changes_ns=first * S + 1,
            start_ns=(first + (starting_s if first else 0)) * S + 1,
            end_ns=end * S + 1,
        )
        for (workload, first), end in zip(parts, ends, strict=True)
    ]
    ticks = tuple((second * S, tick(letter)) for second, letter in enumerate(text, 1))
    return Stream(name=name, group=name, ticks=ticks, spans=tuple(made))


def test_delay_is_until_the_right_class_stands_for_good():
    """Right for two ticks, then a wrong one: the first answer did not hold."""
    found = tally(NONE, stream("aaaaa" + "aabbabbbbb", ("a", 0), ("b", 5)))
    assert found.delays_s == [pytest.approx(6.0)]
    assert found.firsts_s == [pytest.approx(3.0)]
    assert (found.missed, found.ticks, found.wrong, found.flaps) == (0, 15, 3, 1)


def test_errors_are_what_comes_later_than_allowed():
    found = tally(NONE, stream("aaaaaaaaa" + "aabbbbbbcb", ("a", 0), ("b", 9)), allowed_s=2.0)
    assert (found.late_ticks, found.late_wrong) == (7 + 8, 1)
    score = voting_score.score([found])
    assert score.error_pct == pytest.approx(100 / 15)
    assert score.wrong_pct == pytest.approx(100 * 3 / 19)
    assert score.lost_pct == pytest.approx(100 * (3 + 1) / 19)
    assert score.flaps_per_min == pytest.approx(60 / 19)


def test_what_is_never_answered_counts_with_the_whole_span():
    found = tally(NONE, stream("aaaaaaaaaaaaaaa", ("a", 0), ("b", 5)))
    assert (found.delays_s, found.missed) == ([pytest.approx(10.0)], 1)


def test_an_answer_in_the_last_seconds_counts():
    assert tally(NONE, stream("aaaaaaaab", ("a", 0), ("b", 5))).missed == 0


def test_what_is_recognised_while_it_comes_up_has_no_delay():
    """Ticks 6 to 9 are of a scenario that is starting: nobody judges them."""
    starting = ("a", 0), ("b", 5)
    found = tally(NONE, stream("aaaaa" + "abbb" + "bbbb", *starting, starting_s=4))
    assert (found.delays_s, found.signs_s) == ([0.0], [pytest.approx(2.0)])
    assert (found.ticks, found.wrong) == (5 + 4, 0)
    lapsed = tally(NONE, stream("aaaaa" + "bbbb" + "abbbbb", *starting, starting_s=4))
    assert lapsed.delays_s == [pytest.approx(2.0)]


def test_an_unknown_tick_keeps_the_standing_class():
    assert tally(NONE, stream("aaa--aa--a", ("a", 0))).wrong == 0


def test_classes_that_one_scheduler_serves_are_one():
    found = judge(NONE, [stream("aaaaabbbbbccccc", ("a", 0), ("b", 5), ("c", 10))], key=lambda name: name > "b")
    assert (found.changes, found.wrong_pct) == (1, 0.0)


def test_the_same_again_is_no_change():
    assert tally(NONE, stream("aaaaaaaaaa", ("a", 0), ("a", 5))).delays_s == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(list(Method)), st.floats(0.0, 0.4))
def test_figures_have_bounds_and_repeat(seed, method, wrong):
    one = simulate("abcde", seed=seed, seconds=(8, 12, 10), wrong=wrong)
    score = judge(make(method), [one])
    assert score == judge(make(method), [simulate("abcde", seed=seed, seconds=(8, 12, 10), wrong=wrong)])
    assert score.changes == 2
    assert 0 <= score.missed <= 2
    assert 0.0 <= score.error_pct <= 100.0
    assert 0.0 <= score.wrong_pct <= score.lost_pct <= 200.0
    assert 0.0 <= score.first_median_s <= score.median_s <= score.p95_s + 1e-9 <= 12.1
    assert score.ticks == 30


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(list(Method)), st.integers(0, 10**15))
def test_only_differences_of_time_matter(seed, method, shift):
    one = simulate("abcd", seed=seed, seconds=(8, 12), wrong=0.2)
    later = replace(
        one,
        ticks=tuple((now_ns + shift, seen) for now_ns, seen in one.ticks),
        spans=tuple(
            replace(
                span,
                changes_ns=span.changes_ns + shift,
                start_ns=span.start_ns + shift,
                end_ns=span.end_ns + shift,
            )
            for span in one.spans
        ),
    )
    assert judge(make(method), [later]) == judge(make(method), [one])


def test_a_perfect_model_is_one_tick_late_without_a_filter():
    score = judge(NONE, [simulate("abc", seed=1, seconds=(20, 20, 20), wrong=0.0)])
    assert (score.error_pct, score.missed) == (0.0, 0)
    assert score.p95_s == pytest.approx(1.0)


def test_difference_is_zero_to_itself_and_sure_where_it_is_large():
    streams = [simulate("abcd", seed=seed, seconds=(20, 20), wrong=0.2, sticky=0.0) for seed in range(12)]
    bare = [tally(NONE, one) for one in streams]
    steady = [tally(make(Method.MAJORITY, window_s=4.0), one) for one in streams]
    assert difference_pct(bare, bare) == (0.0, 0.0, 0.0)
    more, low, high = difference_pct(steady, bare)
    assert low <= more <= high < 0.0
    assert difference_pct(steady, bare) == (more, low, high)
    assert difference_pct(bare[:1], bare[:1]) is None


def mark(second, phase, front="", back=""):
    return Mark(monotonic_ns=second * S, phase=phase, interactive=front, background=back)


def test_spans_of_marks():
    """What comes or goes belongs to nobody; the change begins with the first sign of it."""
    marks = [
        mark(0, Phase.BEFORE),
        mark(5, Phase.STARTING, "web"),
        mark(8, Phase.RUNNING, "web"),
        mark(30, Phase.STARTING, "web", "blender"),
        mark(32, Phase.RUNNING, "web", "blender"),
        mark(60, Phase.ENDING, "web", "blender"),
        mark(61, Phase.ENDING, "", "blender"),
        mark(63, Phase.RUNNING),
        mark(90, Phase.AFTER),
    ]
    found = [(one.workload, one.changes_ns // S, one.start_ns // S, one.end_ns // S) for one in spans(marks, 95 * S)]
    assert found == [
        ("idle", 0, 0, 5),
        ("web", 5, 8, 30),
        ("web+blender", 30, 32, 60),
        ("idle", 60, 63, 95),
    ]


def test_spliced_sequences_repeat_and_never_go_on_with_the_same():
    sessions = {name: [[tick(name)] * length for length in (45, 25)] for name in (A, B, C)}
    made = splice(sessions, count=3, scenarios=4, seed=7)
    assert made == splice(sessions, count=3, scenarios=4, seed=7)
    assert made != splice(sessions, count=3, scenarios=4, seed=8)
    for one in made:
        assert len(one.spans) == 4
        assert all(first.workload != second.workload for first, second in zip(one.spans, one.spans[1:], strict=False))
        assert judge(NONE, [one]).error_pct == 0.0  # ticks and truth lie on each other
        assert all(19 <= (span.end_ns - span.start_ns) / 1e9 <= 41 for span in one.spans)
    with pytest.raises(ModelError, match="no change"):
        splice({A: sessions[A]}, count=1, scenarios=2, seed=1)


def test_held_out_predictions_are_read_by_session(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(
        path, probabilities=np.eye(2)[[0, 0, 1, 1, 1]], y=[0, 0, 1, 1, 1], session=[4, 4, 7, 7, 9], classes=["a", "b"]
    )
    found = held_out(path)
    assert {name: [len(one) for one in many] for name, many in found.items()} == {"a": [2], "b": [2, 1]}
    assert found["b"][0][0].of(B) == 1.0


def test_rest_before_and_after_a_scenario_is_not_taken_for_it(tmp_path):
    path = tmp_path / "p.npz"
    y = np.array([0] * 2 + [1] * 9 + [0] * 2 + [0] * 10)
    session = np.array([1] * 13 + [2] * 10)
    np.savez(path, probabilities=np.eye(2)[y], y=y, session=session, classes=["a", "b"])
    found = held_out(path)
    assert {name: [len(one) for one in many] for name, many in found.items()} == {"a": [10], "b": [9]}
    assert all(tick.of(name) == 1.0 for name, many in found.items() for one in many for tick in one)


@pytest.mark.parametrize("damage", ["cut", "foreign", "shape", "nan", "class"])
def test_damaged_predictions_are_refused(tmp_path, damage):
    path = tmp_path / "p.npz"
    values = np.eye(2)
    arrays = {"probabilities": values, "y": [0, 1], "session": [0, 1], "classes": ["a", "b"]}
    if damage == "foreign":
        arrays.pop("y")
    if damage == "shape":
        arrays["y"] = [0]
    if damage == "class":
        arrays["y"] = [0, 2]
    if damage == "nan":
        arrays["probabilities"] = values * np.nan
    np.savez(path, **arrays)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(ModelError, match=r"no table|do not fit"):
        held_out(path)


def test_what_played_the_same_is_dealt_together():
    many = [simulate("ab", seed=seed, seconds=(3, 3)) for seed in range(7)]
    twins = [replace(one, name=f"{one.name} on another machine") for one in many]
    one, other = deal([*many, *twins])
    assert (len(one), len(other)) == (8, 6)
    assert {stream.name for stream in (*one, *other)} == {stream.name for stream in (*many, *twins)}
    assert not {stream.group for stream in one} & {stream.group for stream in other}
    assert voting_streams.changes(many) == 7
