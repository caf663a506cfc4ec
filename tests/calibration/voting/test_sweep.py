# SPDX-License-Identifier: GPL-2.0-only
"""The sweep: what it chooses, that it never chooses on what it reports, and its picture."""

import pytest

from asa.config import Voting
from asa.core.errors import AsaError, ModelError
from asa.decide.voting import DECAY
from calibration.voting import sweep as voting_sweep
from calibration.voting.filters import Method, make
from calibration.voting.page import rows
from calibration.voting.score import Score, judge
from calibration.voting.streams import deal, simulate
from calibration.voting.sweep import Chosen, Point, choose, clearly_better, curve, settings, shipped_parameters, sweep


def score(median_s=2.0, error_pct=1.0, lost_pct=5.0, p95_s=4.0):
    return Score(
        changes=10,
        missed=0,
        ticks=100,
        median_s=median_s,
        p95_s=p95_s,
        first_median_s=median_s,
        sign_median_s=median_s,
        error_pct=error_pct,
        wrong_pct=lost_pct,
        lost_pct=lost_pct,
        flaps_per_min=0.0,
    )


def point(method=Method.NONE, **figures):
    return Point(method=method, parameters={}, score=score(**figures))


@pytest.fixture(scope="module")
def found():
    streams = [simulate("abcdefgh", seed=seed, seconds=(25, 30, 20), wrong=0.1, sticky=0.3) for seed in range(6)]
    return streams, sweep(*deal(streams), methods=(Method.NONE, Method.SMOOTHING, Method.TIME_WEIGHTED))


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ({"lost_pct": 4.0}, {"lost_pct": 5.0}),
        ({"lost_pct": 5.0}, {"lost_pct": 4.0, "error_pct": 3.5}),  # the goals come first
        ({"lost_pct": 5.0}, {"lost_pct": 4.0, "median_s": 4.0}),
        ({"median_s": 5.0}, {"median_s": 5.0, "error_pct": 9.0, "lost_pct": 1.0}),
        ({"p95_s": 3.0}, {"p95_s": 4.0}),
        ({}, {"median_s": None}),
    ],
)
def test_the_rule(better, worse):
    one, other = point(**better), point(**worse)
    assert choose([one, other]) is one
    assert choose([other, one]) is one


def chosen(error_pct, between):
    return Chosen(point=point(), reported=score(error_pct=error_pct), tick_us=1.0, against_paper_pct=between)


@pytest.mark.parametrize(
    ("error_pct", "between", "expected"),
    [
        (1.0, (-2.0, -3.0, -1.0), True),
        (1.0, (-2.0, -5.0, 0.5), False),  # may be chance
        (9.0, (-2.0, -3.0, -1.0), False),  # faster, and more often wrong than is allowed
        (1.0, None, False),
    ],
)
def test_the_papers_stays_unless_another_is_clearly_better(error_pct, between, expected):
    methods = {Method.TIME_WEIGHTED: chosen(2.0, None), Method.MARKOV: chosen(error_pct, between)}
    assert clearly_better(methods, Method.MARKOV) is expected


def test_every_setting_makes_a_filter():
    for method in Method:
        assert len({repr(make(method, **values)) for values in settings(method)}) == len(list(settings(method))) >= 1


def test_filters_help_on_errors_that_pass(found):
    _, result = found
    at_best = {method: one.reported for method, one in result.chosen.items()}
    assert at_best[Method.TIME_WEIGHTED].error_pct < at_best[Method.NONE].error_pct
    assert at_best[Method.NONE].median_s < at_best[Method.TIME_WEIGHTED].median_s
    assert (result.validation, result.reported, result.reported_changes) == (3, 3, 6)
    assert all(one.tick_us > 0.0 for one in result.chosen.values())


def test_what_is_reported_is_of_the_other_sessions(found):
    streams, result = found
    validation, others = deal(streams)
    best = result.chosen[Method.SMOOTHING]
    assert best.reported == judge(best.point.make(), others)
    assert best.point.score == judge(best.point.make(), validation)


def test_what_is_shipped_is_judged_beside_them(found):
    streams, result = found
    _, others = deal(streams)
    default, shipped = Voting(), result.shipped
    assert shipped.point.method == default.method
    assert shipped.point.parameters == {
        "window_s": default.window_s,
        "threshold": default.threshold,
        "decay": DECAY,
    }
    assert shipped.reported == judge(shipped.point.make(), others)
    assert [row[0] for row in rows(result)] == [*result.chosen, "as shipped"]


def test_the_defaults_are_a_setting_that_was_tried():
    assert shipped_parameters() in list(settings(Method.TIME_WEIGHTED))


def test_a_session_on_both_sides_is_refused(found):
    streams, _ = found
    with pytest.raises(ModelError, match="the sessions of '0' are on both sides"):
        sweep(streams[:3], [streams[0]])


def test_sessions_without_a_change_are_refused(found):
    streams, _ = found
    with pytest.raises(ModelError, match="no change of the workload in them; record sequences"):
        sweep(streams[:2], [simulate("ab", seed=99, seconds=(30,))])


def test_the_curve_is_of_one_setting_over_all_windows(found):
    _, result = found
    points = curve(result)
    assert [one.parameters["window_s"] for one in points] == list(voting_sweep.GRID[Method.TIME_WEIGHTED]["window_s"])
    assert result.chosen[Method.TIME_WEIGHTED].point in points


def test_the_picture_is_the_same_of_the_same_figures(found, tmp_path):
    pytest.importorskip("matplotlib")
    from calibration.voting.plot import draw

    _, result = found
    draw(tmp_path / "a.svg", result)
    draw(tmp_path / "b.svg", result)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "<svg" in text
    with pytest.raises(AsaError, match="cannot be drawn"):
        draw(tmp_path / "none" / "a.svg", result)
