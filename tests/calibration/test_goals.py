# SPDX-License-Identifier: GPL-2.0-only
"""Figures are judged by their goals, and printed alike by all benchmarks."""

import json

import pytest

from asa.core.errors import AsaError
from calibration import goals
from calibration.goals import Figure, Host, Named


class Made(Named):
    FAST = "fast_ms", "ms", "how long it takes", "<=", 2.0, "a budget"
    MANY = "many", "times", "how often", ">=", 3.0
    MORE = "more_pct", "%", "what it gains", ">", 0.0
    LESS = "less_pct", "%", "how far apart", "<", 3.0
    SEEN = "seen", "", "to be looked at"


@pytest.mark.parametrize(
    ("name", "met", "missed"),
    [(Made.FAST, 2.0, 2.1), (Made.MANY, 3.0, 2.9), (Made.MORE, 0.1, 0.0), (Made.LESS, 2.9, 3.0)],
)
def test_a_goal_is_met_on_its_side_of_the_bound(name, met, missed):
    assert Figure(name=name, value=met).ok is True
    assert Figure(name=name, value=missed).ok is False
    assert Figure(name=name, value=None).ok is False


def test_what_spoils_a_value_misses_the_goal():
    assert Figure(name=Made.FAST, value=1.0, reason="the machine was busy").ok is False
    assert Figure(name=Made.FAST, value=1.0, spoiled=True).ok is False
    assert Figure(name=Made.FAST, value=1.0, error=0.4).ok is True
    assert Figure(name=Made.FAST, value=1.0, error=0.6).ok is False  # by two standard errors
    assert Figure(name=Made.SEEN, value=1.0, spoiled=True).ok is None


def test_an_interval_across_the_bound_is_not_sure():
    assert Figure(name=Made.MORE, value=2.0, low=1.0, high=3.0).sure is True
    assert Figure(name=Made.MORE, value=2.0, low=-1.0, high=3.0).sure is False
    assert Figure(name=Made.MORE, value=2.0).sure is None
    assert Figure(name=Made.SEEN, value=2.0, low=1.0, high=3.0).sure is None


def test_a_line_has_its_keys_in_one_order():
    figure = Figure(name=Made.MANY, value=3.00004, detail="three", low=2.0, high=4.0)
    assert goals.as_json(figure) == (
        '{"name": "many", "value": 3.0, "unit": "times", "goal": 3.0, "ok": true, "detail": "three"}'
    )
    every = goals.plain(figure, "low", "high", "at_least", "sign", "sure", "what", clock="wall")
    assert list(every) == [
        *("name", "value", "low", "high", "unit", "goal", "at_least", "sign", "ok", "sure", "what", "clock", "detail"),
    ]
    renamed = json.loads(goals.as_json(Figure(name=Made.SEEN, value=None, reason="not tried"), name="seen_wall"))
    assert renamed == {
        "name": "seen_wall",
        "value": None,
        "unit": "",
        "goal": None,
        "ok": None,
        "reason": "not tried",
    }


def test_cells_for_people():
    assert goals.cells(Figure(name=Made.FAST, value=1.23456)) == ("fast_ms", "1.23 ms", "<= 2 ms", "yes", "")
    both = Figure(name=Made.MANY, value=2.0, detail="two", reason="one was lost")
    assert goals.cells(both, ".1f") == ("many", "2.0 times", ">= 3 times", "no", "two; one was lost")
    assert goals.cells(Figure(name=Made.SEEN, value=None), words="why") == ("seen", "unknown", "", "", "why")
    unsure = Figure(name=Made.MORE, value=2.0, low=-1.0, high=3.0)
    assert goals.cells(unsure)[3] == "yes, not sure"


def test_markdown():
    assert list(goals.markdown(("a", "b"), [(1, "x|y"), ("two\nlines", "")])) == [
        "| a | b |",
        "|---|---|",
        "| 1 | x\\|y |",
        "| two lines |  |",
    ]
    assert list(goals.described([Made.FAST, Made.SEEN])) == [
        "- `fast_ms`: how long it takes. Goal: a budget.",
        "- `seen`: to be looked at.",
    ]
    assert goals.doubtful([]) == []
    assert goals.doubtful(["it rained"]) == ["", "**Doubtful**: it rained."]


def test_figures_are_chosen_by_name():
    assert Made.only(None) == frozenset(Made)
    assert Made.only("many, seen") == {Made.MANY, Made.SEEN}
    with pytest.raises(AsaError, match="--only: 'much' is no figure of this benchmark; the figures are fast_ms, many,"):
        Made.only("many,much")


def test_a_host_says_where_it_was_measured():
    here = Host.here("asa lab bench x")
    assert here.cpus >= 1
    assert here.command == "asa lab bench x"
    assert here.kernel
