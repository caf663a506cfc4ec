# SPDX-License-Identifier: GPL-2.0-only
"""From samples to a scenario's score: by hand, what must hold for all figures, and what was not measured."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.scoring.fusion import (
    Measured,
    alike,
    application_score,
    measured,
    metric_score,
    scenario_score,
)
from calibration.scoring.table import APPLICATIONS, LEAST_MEASURED
from scenarios.application import Role
from scenarios.metric import Direction, ScoreError

NOISE = 1e-9
ALL = [metric for application in APPLICATIONS.values() for metric in application.metrics]
METRICS = st.sampled_from(ALL)
WITH_SPREAD = st.sampled_from([metric for metric in ALL if metric.spread is not None])
AMOUNT = st.floats(min_value=1e-6, max_value=1e9)
NAMES = st.sampled_from(list(APPLICATIONS))
SHARE = st.floats(0.01, 20.0)  # around theta, in the sweet spot and beyond


def row(application, name):
    return next(metric for metric in APPLICATIONS[application].metrics if metric.name == name)


def figures(application, share=1.0, sigma=None):
    """Each metric at `share` of its theta, towards the worse where that is above 1; times reach it at 1 / share."""
    found = {}
    for metric in APPLICATIONS[application].metrics:
        value = metric.theta * share if metric.curve is Direction.SMALLER else metric.theta / share
        if metric.relative and metric.direction is Direction.SMALLER:
            value = 1.0 / value
        found[metric.name] = Measured(value=value, sigma=sigma, alone=1.0)
    return found


def test_a_metric_by_hand():
    got = metric_score(row("game", "frame_ms"), Measured(value=50.0, sigma=5.0))
    assert got.value == pytest.approx(0.1)
    assert got.stability == pytest.approx(0.5)
    assert got.score == pytest.approx(0.1**0.6 * 0.5**0.4)
    assert got.weight == 0.4


def test_a_share_of_what_it_does_alone():
    speed, time = row("archive", "compress_mb_per_s"), row("kernel", "total_s")
    assert metric_score(speed, Measured(value=4.0, alone=8.0)).value == pytest.approx(0.5)
    assert metric_score(time, Measured(value=80.0, alone=40.0)).value == pytest.approx(0.5)
    assert metric_score(time, Measured(value=50.0, alone=40.0)).value == pytest.approx(0.9)
    tokens = row("llm", "tokens_per_s")
    assert metric_score(tokens, Measured(value=100.0, sigma=60.0, alone=200.0)).stability == pytest.approx(0.5)


def test_steadily_unusable_does_not_beat_usable_with_hiccups():
    frame = row("game", "frame_ms")
    stills = metric_score(frame, Measured(value=1000.0, sigma=0.0))
    hiccups = metric_score(frame, Measured(value=30.0, sigma=12.0))
    assert stills.stability == 1.0
    assert stills.score < 0.01
    assert hiccups.score > 0.3


def test_a_scenario_by_hand():
    game = application_score("game", figures("game"))
    kernel = application_score("kernel", figures("kernel"))
    assert game.score == pytest.approx(0.5)
    assert kernel.score == pytest.approx(0.5)
    better = application_score("kernel", figures("kernel", share=0.5 / 0.8))
    assert better.score == pytest.approx(0.9)
    assert scenario_score(game, better).score == pytest.approx(0.7 * 0.5 + 0.3 * 0.9)


def test_an_application_weighs_its_metrics():
    kinds = {
        "underruns_per_min": Measured(value=1.0),  # 0.9
        "block_pct": Measured(value=100.0),  # 0.1
    }
    got = application_score("audio", kinds)
    assert got.score == pytest.approx(0.6 * 0.9 + 0.4 * 0.1)
    assert got.measured_share == 1.0
    assert got.missing == ()


def test_what_was_not_measured_leaves_its_weight_to_the_rest():
    part = application_score("audio", {"underruns_per_min": Measured(value=1.0), "block_pct": None})
    assert part.score == pytest.approx(0.9)
    assert part.measured_share == pytest.approx(0.6)
    assert part.missing == ("block_pct",)
    assert part == application_score("audio", {"underruns_per_min": Measured(value=1.0)})


def test_too_little_measured_is_no_score():
    little = application_score("audio", {"block_pct": Measured(value=50.0)})
    assert little.score is None
    assert little.measured_share == pytest.approx(0.4)
    assert little.measured_share < LEAST_MEASURED
    assert [one.name for one in little.metrics] == ["block_pct"]  # still told
    assert application_score("kernel", {"total_s": Measured(value=1.0, alone=1.0)}).score is not None  # half is enough
    nothing = application_score("web", {})
    assert nothing.score is None
    assert nothing.measured_share == 0.0
    whole = application_score("kernel", figures("kernel"))
    assert scenario_score(little, whole).score is None
    assert scenario_score(application_score("web", figures("web")), application_score("disk", {})).score is None


def test_samples_become_a_figure():
    click, fps = row("web", "click_ms"), row("game", "fps")
    got = measured(click, [float(number) for number in range(100, 0, -1)])
    assert got.value == 95.0
    assert got.sigma == pytest.approx(28.866, abs=1e-3)
    assert measured(row("audio", "block_pct"), [1.0] * 98 + [70.0, 80.0]).value == 70.0
    assert measured(fps, [50.0, 70.0]) == Measured(value=60.0, sigma=10.0)
    assert measured(fps, [50.0]) == Measured(value=50.0, sigma=None)
    assert measured(row("kernel", "total_s"), [20], alone=10.0) == Measured(value=20.0, alone=10.0)
    assert measured(fps, []) is None
    assert measured(fps, [1e308, 1e308]) == Measured(value=1e308, sigma=0.0)  # their sum is beyond a float


def test_runs_are_compared_by_what_all_have():
    one = {"click_ms": Measured(value=1.0, sigma=1.0), "sort_ms": Measured(value=2.0), "input_ms": None}
    two = {"click_ms": Measured(value=3.0), "sort_ms": None, "input_ms": Measured(value=4.0)}
    assert alike([one, two]) == [{"click_ms": Measured(value=1.0)}, {"click_ms": Measured(value=3.0)}]
    three = {"click_ms": Measured(value=5.0, sigma=2.0)}
    assert alike([one, three]) == [{"click_ms": one["click_ms"]}, three]
    assert alike([]) == []


def test_a_run_that_lost_its_worst_metric_does_not_win_among_its_like():
    good = figures("web")
    lost = figures("web", share=1.3) | {"scroll_frame_ms": None}
    bad = good | {"scroll_frame_ms": Measured(value=500.0)}
    by_itself = [application_score("web", run).score for run in (bad, figures("web") | {"scroll_frame_ms": None})]
    assert by_itself[0] < by_itself[1]
    fair = [application_score("web", run).score for run in alike([bad, lost])]
    assert fair[0] > fair[1]


@given(name=NAMES, shares=st.tuples(SHARE, SHARE), sigma=st.one_of(st.none(), st.floats(0.0, 1e6)))
def test_better_figures_never_score_less(name, shares, sigma):
    better, worse = (application_score(name, figures(name, share=share, sigma=sigma)).score for share in sorted(shares))
    assert 0.0 <= worse <= better + NOISE
    assert better <= 1.0 + NOISE


@given(metric=WITH_SPREAD, value=AMOUNT, spreads=st.tuples(st.floats(0.0, 1e9), st.floats(0.0, 1e9)))
def test_more_variance_never_scores_more(metric, value, spreads):
    calm, wild = (metric_score(metric, Measured(value=value, sigma=one, alone=1.0)).score for one in sorted(spreads))
    assert wild <= calm + NOISE


@given(metric=WITH_SPREAD, value=AMOUNT, sigma=st.floats(0.0, 1e9))
def test_a_metric_lies_between_its_two_scores(metric, value, sigma):
    got = metric_score(metric, Measured(value=value, sigma=sigma, alone=1.0))
    assert min(got.value, got.stability) - NOISE <= got.score <= max(got.value, got.stability) + NOISE


@given(name=NAMES, data=st.data())
def test_an_application_lies_between_its_metrics(name, data):
    found = {}
    for metric in APPLICATIONS[name].metrics:
        found[metric.name] = data.draw(st.one_of(st.none(), st.builds(Measured, value=AMOUNT, alone=AMOUNT)))
    got = application_score(name, found)
    scores = [one.score for one in got.metrics]
    assert got.score is None or min(scores) - NOISE <= got.score <= max(scores) + NOISE


@given(shares=st.tuples(SHARE, SHARE))
def test_a_scenario_lies_between_its_two(shares):
    interactive = application_score("office", figures("office", share=shares[0]))
    background = application_score("disk", figures("disk", share=shares[1]))
    both = sorted((interactive.score, background.score))
    assert both[0] - NOISE <= scenario_score(interactive, background).score <= both[1] + NOISE


@given(metric=METRICS, samples=st.lists(st.floats(0.0, 1e300), min_size=1, max_size=50))
def test_a_figure_lies_within_its_samples(metric, samples):
    got = measured(metric, samples)
    assert min(samples) <= got.value <= max(samples)
    assert (got.sigma is None) is (len(samples) == 1)
    assert got.sigma is None or math.isfinite(got.sigma)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -1.0])
def test_what_is_no_amount_is_refused(number):
    click, speed = row("web", "click_ms"), row("archive", "extract_mb_per_s")
    with pytest.raises(ScoreError, match=r"^click_ms: .* cannot be scored"):
        metric_score(click, Measured(value=number))
    with pytest.raises(ScoreError, match=r"^click_ms.sigma: "):
        metric_score(click, Measured(value=1.0, sigma=number))
    with pytest.raises(ScoreError, match=r"^click_ms: "):
        measured(click, [1.0, number])
    with pytest.raises(ScoreError, match=r"^extract_mb_per_s.alone: "):
        metric_score(speed, Measured(value=1.0, alone=number))


@pytest.mark.parametrize("alone", [None, 0.0])
def test_a_share_needs_what_it_is_of(alone):
    with pytest.raises(ScoreError, match=r"^extract_mb_per_s.alone: .* what the load reaches alone"):
        metric_score(row("archive", "extract_mb_per_s"), Measured(value=1.0, alone=alone))


def test_shares_beyond_a_float_are_refused():
    with pytest.raises(ScoreError, match=r"^total_s: 0.0 "):
        metric_score(row("kernel", "total_s"), Measured(value=0.0, alone=1.0))
    with pytest.raises(ScoreError, match=r"^total_s: inf "):
        metric_score(row("kernel", "total_s"), Measured(value=1e-300, alone=1e300))
    with pytest.raises(ScoreError, match=r"^tokens_per_s: inf "):
        metric_score(row("llm", "tokens_per_s"), Measured(value=1e300, alone=1e-300))
    with pytest.raises(ScoreError, match=r"^tokens_per_s.sigma: inf "):
        metric_score(row("llm", "tokens_per_s"), Measured(value=0.0, sigma=1e300, alone=1e-300))


def test_names_that_the_table_has_not():
    with pytest.raises(ScoreError, match=r"^application: 'webb' .* allowed: web, game, "):
        application_score("webb", {})
    with pytest.raises(ScoreError, match=r"^web.clik_ms: "):
        application_score("web", figures("web") | {"clik_ms": Measured(value=1.0)})


def test_a_scenario_is_one_of_each():
    web, disk = (application_score(name, figures(name)) for name in ("web", "disk"))
    with pytest.raises(ScoreError, match=r"^interactive application: 'disk' .* allowed: web, game, audio, office$"):
        scenario_score(disk, disk)
    with pytest.raises(ScoreError, match=r"^background application: 'web' "):
        scenario_score(web, web)
    assert APPLICATIONS["web"].role is Role.INTERACTIVE
