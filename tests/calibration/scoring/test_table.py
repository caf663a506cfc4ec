# SPDX-License-Identifier: GPL-2.0-only
"""The table of constants is whole, and the thresholds that it names are those of its sources."""

from dataclasses import replace

import pytest

from calibration.scoring.fusion import Measured, metric_score
from calibration.scoring.table import APPLICATIONS, ROLE_WEIGHT, SOURCES
from scenarios.application import Role
from scenarios.catalogue import BACKGROUND
from scenarios.metric import Direction, ScoreError, Summary

ALL = [(application, metric) for application in APPLICATIONS.values() for metric in application.metrics]
IDS = [f"{application.name}.{metric.name}" for application, metric in ALL]
UNITS = {
    "ms": "_ms",
    "s": "_s",
    "1/s": "_per_s",
    "1/min": "_per_min",
    "MB/s": "_mb_per_s",
    "Mbit/s": "_mbit_per_s",
    "%": "_pct",
    "fps": "fps",
    "iops": "_iops",
}
EACH = pytest.mark.parametrize(("application", "metric"), ALL, ids=IDS)


def row(name):
    return ALL[IDS.index(name)][1]


def value(name, x):
    return metric_score(row(name), Measured(value=x)).value


def test_four_applications_and_all_loads():
    roles = [application.role for application in APPLICATIONS.values()]
    assert roles == [Role.INTERACTIVE] * 4 + [Role.BACKGROUND] * len(BACKGROUND)
    assert sum(ROLE_WEIGHT.values()) == 1.0
    assert all(name == application.name for name, application in APPLICATIONS.items())


@pytest.mark.parametrize("application", APPLICATIONS.values(), ids=lambda one: one.name)
def test_the_weights_of_an_application_add_up(application):
    assert sum(metric.weight for metric in application.metrics) == pytest.approx(1.0)
    assert all(metric.weight > 0.0 for metric in application.metrics)
    names = [metric.name for metric in application.metrics]
    assert len(set(names)) == len(names)


@EACH
def test_each_row_has_unit_reason_and_known_sources(application, metric):
    assert metric.name.endswith(UNITS[metric.unit])
    assert len(metric.reason) > 30
    assert metric.sources
    assert set(metric.sources) <= set(SOURCES)
    assert "|" not in metric.sentence + metric.reason + metric.unit  # cells of docs/scoring.md


@EACH
def test_each_value_curve_turns_at_its_edges(application, metric):
    at = {}
    for name, x in (("good", metric.good), ("bad", metric.bad), ("middle", metric.theta)):
        figure = Measured(value=x)
        if metric.relative:
            figure = Measured(value=1 / x if metric.direction is Direction.SMALLER else x, alone=1.0)
        at[name] = metric_score(metric, figure).value
    assert at == pytest.approx({"good": 0.9, "bad": 0.1, "middle": 0.5})


@EACH
def test_each_stability_curve_halves_at_its_spread(application, metric):
    if metric.spread is None:
        assert metric.k_stability is None
        return
    figure = Measured(value=metric.theta, sigma=metric.spread, alone=1.0)
    assert metric_score(metric, figure).stability == pytest.approx(0.5)


def test_every_source_is_used():
    assert {source for _, metric in ALL for source in metric.sources} == set(SOURCES)


def test_thresholds_of_perception():
    for frame in ("web.scroll_frame_ms", "game.frame_ms"):
        assert value(frame, 1000 / 60) == pytest.approx(0.9)
        assert value(frame, 1000 / 30) == pytest.approx(0.5)
    for echo in ("web.input_ms", "office.key_ms"):
        assert value(echo, 100.0) == pytest.approx(0.5)
    assert value("web.click_ms", 200.0) > 0.89
    assert value("web.click_ms", 500.0) < 0.11
    assert value("game.mspt_ms", 1.4) > 0.99


def test_any_underrun_is_felt():
    none, one, four = (value("audio.underruns_per_min", x) for x in (0.0, 1.0, 4.0))
    assert none - one > 0.05
    assert four < 0.02
    assert row("audio.underruns_per_min").summary is Summary.MEAN


def test_what_the_paper_calls_indistinguishable_is():
    assert value("game.fps", 300.0) - value("game.fps", 200.0) < 1e-6
    assert value("game.fps", 10.0) - value("game.fps", 1.0) < 0.1
    assert value("game.fps", 60.0) - value("game.fps", 20.0) > 0.6


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"good": 500.0}, "good"),
        ({"direction": Direction.LARGER}, "good"),
        ({"stability_weight": 0.0}, "stability_weight"),
        ({"spread": None}, "stability_weight"),
        ({"stability_weight": 1.0}, "stability_weight"),
        ({"spread": -1.0}, "spread"),
        ({"relative": True, "good": 0.8, "bad": 0.2}, "spread"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused(changes, says):
    with pytest.raises(ScoreError, match=f"^click_ms.{says}: "):
        replace(row("web.click_ms"), **changes)
