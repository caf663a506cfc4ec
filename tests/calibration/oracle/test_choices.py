# SPDX-License-Identifier: GPL-2.0-only
"""Gains come out as they were planted; a choice that is only lucky gains nothing; rules that know less gain less."""

import pytest
from matrix_rounds import rounds

from calibration.oracle import choices
from calibration.oracle.choices import OWN, Measure, Rule

NOTHING = {f"web+{number}": {"scx_a": 0.0, "scx_b": 0.0, "scx_c": 0.0} for number in range(40)}


def gained(rows, rule, measure=Measure.SCORE):
    by = choices.gains(rows)
    return choices.over_scenarios(choices.judged(by, choices.gains(rows, measure), rule))


def test_where_nothing_differs_hindsight_finds_a_gain_and_the_oracle_none():
    rows = rounds(NOTHING, noise=0.1)
    lucky, true = gained(rows, Rule.HINDSIGHT), gained(rows, Rule.ORACLE)
    assert lucky.low > 2.0
    assert true.low < 0.0 < true.high
    assert abs(true.value) < lucky.value / 2


def test_rules_that_know_less_take_less():
    leads = {
        "web+archive": {"scx_a": 10.0, "scx_b": {"vm120": 20.0, "vm122": -20.0}},
        "web+blender": {"scx_a": -10.0, "scx_b": {"vm120": 20.0, "vm122": -20.0}},
        "game+disk": {"scx_a": 10.0, "scx_b": -5.0},
        "audio+llm": {"scx_a": -3.0, "scx_b": -3.0},
    }
    rows = rounds(leads, machines=("vm120", "vm122"), noise=0.001)
    found = {rule: gained(rows, rule).value for rule in Rule}
    assert found[Rule.ORACLE] == pytest.approx((18.2 + 9.5 + 18.2 + 0.0 + 9.5 + 9.5) / 8, abs=0.2)
    assert found[Rule.CLASS] == pytest.approx((9.5 + 9.5 + 9.5 + 9.5) / 8, abs=0.2)  # b helps one and hurts the other
    assert found[Rule.STATIC] == pytest.approx((9.5 - 10.5 + 9.5 - 3.0) / 4, abs=0.3)
    assert found[Rule.HINDSIGHT] == pytest.approx(found[Rule.ORACLE], abs=0.2)
    assert found[Rule.ELSEWHERE] < found[Rule.CLASS]


def test_more_is_better_in_each_measure():
    rows = rounds({"office+archive": {"scx_a": 20.0}, "office+disk": {"scx_a": 20.0}}, noise=0.001)
    assert gained(rows, Rule.ORACLE, Measure.WAIT).value == pytest.approx(18.2, abs=0.3)
    assert gained(rows, Rule.ORACLE, Measure.POWER).value == pytest.approx(66.7, abs=0.1)
    assert gained(rows, Rule.ORACLE, Measure.RATE).value == 0.0


def test_the_halves_of_a_scheduler_are_seeds_where_it_has_several():
    assert choices.halves([(1, 1), (1, 2), (1, 3)]) == (frozenset({(1, 1), (1, 3)}), frozenset({(1, 2)}))
    first, second = choices.halves([(seed, number) for seed in (1, 2, 3) for number in (1, 2)])
    assert ({seed for seed, _ in first}, {seed for seed, _ in second}) == ({1, 3}, {2})


def test_a_scheduler_of_one_seed_stands_beside_others_of_two():
    rows = [
        *rounds({"web+disk": {"scx_a": 5.0}}, seeds=(1, 2), noise=0.001),
        *rounds({"web+disk": {"scx_b": 10.0}}, noise=0.001, part="others"),
    ]
    assert gained(rows, Rule.ORACLE).value == pytest.approx(9.5, abs=0.2)


def test_the_kernels_own_is_chosen_where_nobody_is_better_and_is_no_rival_of_itself():
    rows = rounds({"web+disk": {"scx_a": -5.0, OWN: 3.0}}, noise=0.001)
    found = choices.gains(rows)
    assert set(found["vm120", "web+disk"]) == {"scx_a"}
    assert gained(rows, Rule.ORACLE).value == 0.0
    name, told = choices.cell_gain(found["vm120", "web+disk"])
    assert (name, told.value, told.count) == (OWN, 0.0, 4)


def test_a_cells_gain_is_of_the_rounds_that_did_not_choose():
    name, told = choices.cell_gain(choices.gains(rounds({"web+disk": {"scx_a": 10.0}}))["vm120", "web+disk"])
    assert (name, told.count) == ("scx_a", 4)
    assert told.low < 9.5 < told.high
    assert choices.cell_gain({"scx_a": {(1, 1): 5.0}}) is None


def test_who_stands_where():
    leads = {f"web+{number}": {"scx_a": 10.0, "scx_b": -10.0, "scx_c": 0.0} for number in range(5)}
    first, *others = choices.standings(choices.gains(rounds(leads)), lambda label, _: label != "web+4")
    assert (first.scheduler, first.cells, first.best, first.judged) == ("scx_a", 5, 5, 4)
    assert (first.better, first.worse) == (4, 0)
    assert first.mean.value == pytest.approx(9.5, abs=1.0)
    worst = next(one for one in others if one.scheduler == "scx_b")
    assert (worst.best, worst.better, worst.worse) == (0, 0, 4)
    assert worst.least[1] < -9.0


def test_scenarios_in_which_nobody_can_be_better_by_three_per_cent_are_named():
    leads = {"web+a": {"scx_a": 1.0, "scx_b": -4.0}, "web+b": {"scx_a": 3.0}, "web+c": {"scx_a": 9.0}}
    found = choices.gains(rounds(leads))
    assert choices.hopeless(found, lambda _, count: count >= 4) == ["web+a"]
    assert choices.hopeless(found, lambda _, count: count >= 5) == []
    assert choices.hopeless(choices.gains(rounds(leads, count=2)), lambda *_: True) == []


def test_an_interval_needs_three_values():
    assert choices.estimate([]) is None
    assert choices.estimate([1.0, 3.0]).low is None
    assert choices.estimate([1.0, 2.0, 3.0]).words == "+2.0 (-0.5 to +4.5)"
