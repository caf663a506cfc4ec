# SPDX-License-Identifier: GPL-2.0-only
"""Kept runs of a fleet become figures: scores that were planted come out, and what is missing is said."""

import math
import random

import pyarrow.parquet as pq
import pytest
from fleet_runs import COLUMNS, MEANS, held, machine, planted

from calibration.controllers.columns import AGENT
from calibration.fleet.figures import pairs as by
from calibration.fleet.figures import read as fleet_figures_read
from calibration.fleet.figures import tables as fleet_figures_tables
from calibration.fleet.figures.blocks import Block, Run
from calibration.fleet.figures.goals import FleetFigure
from calibration.fleet.figures.named import controlled, figures, latencies, phases, steady
from calibration.goals import Figure
from calibration.scoring.table import APPLICATIONS

SCENARIOS = "S1,S9,S16,S22"


def by_name(folder):
    found = figures(fleet_figures_read.read(folder))
    assert [figure.name for figure in found] == list(FleetFigure)
    return {figure.name: figure for figure in found}


def block(runs, scenario="S1", label="game+archive", **more):
    """Column -> scores by repeat, None of a failed run."""
    made = {
        column: {("r", place): Run(score=score, trouble="" if score is not None else "hung") for place, score in of}
        for column, of in ((column, enumerate(scores, 1)) for column, scores in runs.items())
    }
    given = {"machine": "m", "prototype": True, "phased": False, "scenario": scenario, "label": label}
    return Block(**given | more, runs=made)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """A prototype and an unseen machine, on which the agent is always scx_lavd's equal."""
    folder = tmp_path_factory.mktemp("fleet")
    machine(folder / "p1", planted, columns=COLUMNS, scenarios=SCENARIOS, record=held)
    more = {"prototype": False, "adapt_minutes": 21.5}
    machine(folder / "u1", planted, columns=COLUMNS, scenarios=SCENARIOS, record=held, **more)
    return folder


def test_planted_scores_come_out(fleet):
    found = fleet_figures_read.read(fleet)
    assert [(one.facts.name, one.trials, one.planned, one.failed, one.seeds) for one in found] == [
        ("p1", one_trials := 4 * 7 * 3 + 3 * 6, one_trials, 0, (4,)),
        ("u1", one_trials, one_trials, 0, (4,)),
    ]
    for one in steady(found):
        if AGENT not in one.runs:
            continue
        for column, mean in MEANS.items():
            scores = [one.score(column, repeat) for repeat in one.repeats]
            assert scores == pytest.approx([mean - 0.01, mean, mean + 0.01], abs=1e-9), (one.scenario, column)


def test_figures_of_a_fleet_whose_truth_is_known(fleet):
    found = by_name(fleet)
    value = {name: figure.value for name, figure in found.items()}
    assert value[FleetFigure.NOT_WORSE] == value[FleetFigure.WIN] == 100.0
    assert value[FleetFigure.LOSS] == 0.0
    assert value[FleetFigure.IMPROVEMENT] == pytest.approx(20.0)
    assert value[FleetFigure.GEOMETRIC] == pytest.approx(
        100.0 * (0.59 * 0.6 * 0.61 / (0.49 * 0.5 * 0.51)) ** (1 / 3) - 100.0
    )
    assert value[FleetFigure.POINTS] == pytest.approx(10.0)
    assert value[FleetFigure.CHOICE] == pytest.approx(20.0)  # it held scx_lavd, whose equal it is
    assert value[FleetFigure.BURDEN] == pytest.approx(0.0, abs=1e-9)
    assert value[FleetFigure.BETTER] == 100.0  # equal differences: the floor of the deviation makes them sure
    assert value[FleetFigure.WORSE] == 0.0
    assert value[FleetFigure.TOP1] == value[FleetFigure.TOP3] == value[FleetFigure.SCORE1] == 100.0
    assert value[FleetFigure.REGRET] == pytest.approx(0.0, abs=1e-9)
    assert value[FleetFigure.BEST_STATIC] == pytest.approx(0.0, abs=1e-9)
    assert found[FleetFigure.BEST_STATIC].detail.startswith("scx_lavd, 8 blocks")
    assert value[FleetFigure.LOADER_RULE] == pytest.approx(100.0 * (0.6 / 0.55 - 1.0))
    assert by_name(fleet)[FleetFigure.LOADER_RULE].detail.endswith("loader-auto held eevdf for 75 % of the time")
    assert value[FleetFigure.RANDOM_ROUTER] == pytest.approx(100.0 * (0.6 / ((0.5 + 0.6 + 0.45 + 0.4) / 4.0) - 1.0))
    assert value[FleetFigure.UNSEEN] == pytest.approx(0.0, abs=1e-9)
    assert value[FleetFigure.ADAPT] == 21.5
    assert value[FleetFigure.CPU] == 0.5
    assert found[FleetFigure.IMPROVEMENT].ok
    assert not found[FleetFigure.BEST_STATIC].ok  # equal is not ahead
    assert found[FleetFigure.WIN].ok is None


def test_a_regret_and_a_worse_choice_come_out(tmp_path):
    """It chooses scx_bpfland in one of four scenarios and is as good as what it chose."""

    def truth(label, column, repeat):
        if column == "agent":
            column = "scx_bpfland" if label == "web+blender" else "scx_lavd"
        return MEANS[column]

    def record(label, column, repeat):
        name = "scx_bpfland" if label == "web+blender" else "scx_lavd"
        return {"held_s": {name: 20.0}, "classes": {"web+video": 15, label: 5}} if column == "agent" else None

    machine(tmp_path / "p1", truth, columns=COLUMNS, scenarios=SCENARIOS, record=record)
    found = by_name(tmp_path)
    assert found[FleetFigure.TOP1].value == 75.0
    assert found[FleetFigure.CHOICE].value == pytest.approx(100.0 * ((3 * 0.6 + 0.45) / 4 / 0.5 - 1.0))
    assert found[FleetFigure.TOP3].value == 100.0
    assert found[FleetFigure.REGRET].value == pytest.approx(100.0 * 0.15 / 2.4)
    assert found[FleetFigure.FORESIGHT].value == pytest.approx(100.0 * 0.15 / 2.4)
    assert found[FleetFigure.NOT_WORSE].value == 75.0
    assert found[FleetFigure.NOT_WORSE].detail == "9 of 12 runs; with no margin at all 75.0 %"
    assert found[FleetFigure.WORSE].value == 25.0
    assert found[FleetFigure.BEST_STATIC].value < 0.0
    [lost] = fleet_figures_tables.losses(steady(fleet_figures_read.read(tmp_path)))
    assert (lost.block.scenario, lost.best[0], lost.chosen) == ("S16", "scx_lavd", "scx_bpfland")
    assert lost.why == "scx_bpfland alone is behind the best by 0.150; recognised as web+video (75 % of the ticks)"


def test_what_the_best_scheduler_is_does_not_come_from_the_run_itself():
    """Two schedulers that are each far ahead once: in hindsight the best one is, from the other repeat never."""
    one = block({"a": (0.9, 0.1, 0.5), "b": (0.1, 0.9, 0.4), "agent": (0.5, 0.5, 0.5)})
    chosen = [by.foresight(one, repeat) for repeat in one.repeats]
    assert chosen == [0.1, 0.1, 0.5]  # b by the others, a by the others, and both equal: the first by name
    assert [by.hindsight(one, repeat) for repeat in one.repeats] == [0.9, 0.1, 0.5]
    single = block({"a": (0.9,), "agent": (0.5,)})
    assert by.foresight(single, ("r", 1)) is None
    assert by.hindsight(single, ("r", 1)) == 0.9


def test_a_single_repeat_has_no_test_and_no_oracle_from_others(tmp_path):
    machine(tmp_path / "p1", planted, columns=COLUMNS, scenarios="S1,S2", repeats=1)
    found = by_name(tmp_path)
    assert found[FleetFigure.BETTER].value is None
    assert found[FleetFigure.BETTER].reason.startswith("most repeats of a block that are kept: 1; a test needs 3")
    assert found[FleetFigure.REGRET].value == pytest.approx(0.0, abs=1e-9)
    assert found[FleetFigure.FORESIGHT].value is None
    assert (
        found[FleetFigure.FORESIGHT].reason
        == "most repeats of a block that are kept: 1; it is chosen by 2 others and more"
    )
    assert found[FleetFigure.IMPROVEMENT].value == pytest.approx(100.0 * (0.59 / 0.49 - 1.0))
    assert found[FleetFigure.TOP1].value is None  # nothing says what was in force
    assert "of none of 2 runs" in found[FleetFigure.TOP1].reason
    assert found[FleetFigure.UNSEEN].reason == "no run on an unseen machine is kept"
    assert found[FleetFigure.ADAPT].reason.startswith("of none of 0 unseen machines")


def test_columns_that_were_not_played_are_named(tmp_path):
    machine(tmp_path / "p1", planted, columns=("eevdf", "scx_lavd"), scenarios="S1", repeats=2)
    found = by_name(tmp_path)
    assert all(figure.value is None for name, figure in found.items())
    assert all(figure.reason for figure in found.values())
    assert found[FleetFigure.NOT_WORSE].reason == "no run of agent is kept; play it by `asa lab fleet run --scheduler`"
    assert found[FleetFigure.LOADER_RULE].reason.startswith("no run of agent and loader-auto is kept")
    assert not found[FleetFigure.NOT_WORSE].ok
    machine(tmp_path / "p2", planted, columns=("eevdf", "agent"), scenarios="S1", repeats=2, left=("agent",))
    assert by_name(tmp_path)[FleetFigure.NOT_WORSE].value is None  # planned is not played


def test_runs_that_failed_are_losses_and_in_no_mean(tmp_path):
    def truth(label, column, repeat):
        return None if (column, repeat) in {("agent", 1), ("scx_lavd", 2)} else planted(label, column, 2)

    machine(tmp_path / "p1", truth, columns=COLUMNS, scenarios="S1,S9", record=held)
    found = by_name(tmp_path)
    assert found[FleetFigure.NOT_WORSE].value == pytest.approx(100.0 * 4 / 6)
    assert found[FleetFigure.NOT_WORSE].detail == "4 of 6 runs; with no margin at all 66.7 %; 2 failed, which is behind"
    assert found[FleetFigure.LOSS].value == pytest.approx(100.0 * 2 / 6)
    assert found[FleetFigure.SCORE3].value == pytest.approx(100.0 * 4 / 6)
    assert found[FleetFigure.IMPROVEMENT].value == pytest.approx(20.0)
    assert found[FleetFigure.TOP1].value == 100.0  # scx_lavd is ranked by the two repeats that it has
    lost = fleet_figures_tables.losses(steady(fleet_figures_read.read(tmp_path)))
    assert [(one.block.scenario, one.lost) for one in lost] == [("S1", 1), ("S9", 1)]
    assert lost[0].why.startswith("1 runs: hung: game: no frame for 10 s; scx_lavd is the best or its equal")


def test_a_scheduler_that_mostly_fails_is_not_ranked():
    one = block({"a": (0.9, None, None), "eevdf": (0.5, 0.5, 0.5), "agent": (0.5, 0.5, 0.5)})
    assert by.ranking(one) == [("eevdf", 0.5)]
    assert by.chosen_ranks([one], AGENT) == ([], 3)


def test_nothing_is_claimed_of_noise(tmp_path):
    """The agent is EEVDF with noise of its own: the intervals hold zero, and no block is significantly ahead."""
    chance = random.Random(5)  # noqa: S311

    def truth(label, column, repeat):
        return 0.5 + chance.gauss(0.0, 0.02)

    columns = ("eevdf", "eevdf", "scx_lavd", "agent")
    machine(tmp_path / "p1", truth, columns=columns, scenarios="game,office", repeats=4)
    found = by_name(tmp_path)
    assert found[FleetFigure.IMPROVEMENT].low < 0.0 < found[FleetFigure.IMPROVEMENT].high
    assert found[FleetFigure.BETTER].value == found[FleetFigure.WORSE].value == 0.0
    assert 50.0 < found[FleetFigure.NOT_WORSE].value < 95.0
    assert 50.0 < found[FleetFigure.ITSELF].value < 95.0  # as far as noise alone goes
    assert found[FleetFigure.BEST_STATIC].value < found[FleetFigure.IMPROVEMENT].value + 1e-9


def test_phases_are_one_scenario_apart_from_the_others(tmp_path):
    """The agent is the best of both in each phase, which no single scheduler is."""

    def truth(label, column, repeat):
        if "~" in label:
            both = {"eevdf": (0.5, 0.5), "scx_lavd": (0.7, 0.4), "scx_bpfland": (0.4, 0.7), "agent": (0.7, 0.7)}
            return both.get(column, (0.5, 0.5))
        return planted(label, column, 2)

    machine(tmp_path / "p1", truth, columns=COLUMNS, scenarios="S1,P1,P2", repeats=2)
    found = fleet_figures_read.read(tmp_path)
    assert {one.scenario for one in phases(found)} == {"P1", "P2"}
    assert [one.label for one in phases(found)] == ["web+kernel, audio+disk", "game+blender, office+archive"]
    assert phases(found)[0].score("scx_lavd", ("run-p1", 1)) == pytest.approx(0.55)
    value = {figure.name: figure.value for figure in figures(found)}
    assert value[FleetFigure.PHASED_EEVDF] == pytest.approx(40.0)
    assert value[FleetFigure.PHASED_ORACLE] == pytest.approx(100.0 * (0.7 / 0.55 - 1.0))
    assert value[FleetFigure.IMPROVEMENT] == pytest.approx(20.0)  # S1 alone


def test_a_phase_that_was_not_played_leaves_no_score(tmp_path):
    folder = machine(tmp_path / "p1", lambda *_: (0.5, 0.6), columns=("eevdf", "agent"), scenarios="P1", repeats=1)
    table = pq.read_table(folder / "trials.parquet")
    gone = [not (row["scenario"] == "P1/2" and row["scheduler"] == "agent") for row in table.to_pylist()]
    pq.write_table(table.filter(gone), folder / "trials.parquet")
    [one] = phases(fleet_figures_read.read(tmp_path))
    run = one.runs[AGENT]["run-p1", 1]
    assert (run.score, run.trouble) == (None, "phase 2 was not played")


def test_a_record_of_each_phase_counts_the_runs_times_once(tmp_path):
    def record(label, column, repeat):
        first = {"held_s": {"scx_lavd": 20.0}, "inference_ms": [0.1], "decision_ms": [1.0], "resident_mb": 40.0}
        return {**first, "then": {"held_s": {"eevdf": 20.0}}} if column == "agent" else None

    asked = {"columns": ("eevdf", "agent"), "scenarios": "P1", "repeats": 1, "record": record}
    machine(tmp_path / "p1", lambda *_: (0.5, 0.6), **asked)
    found = fleet_figures_read.read(tmp_path)
    kept = controlled(phases(found))
    assert [one.held_s for one in kept] == [{"scx_lavd": 20.0}, {"eevdf": 20.0}]
    assert latencies(kept) == {"inference": [0.1], "decision": [1.0], "total": [1.1]}


def test_what_the_agent_takes_is_of_scenarios_that_stay(tmp_path):
    """Where they change it is another figure, since such a run has its switch in the window."""

    def record(label, column, repeat):
        cpu = {"cpu_pct": 60.0 if "~" in label else 10.0, "inference_ms": [0.1], "decision_ms": [0.9]}
        return cpu if column == "agent" else None

    asked = {"columns": ("eevdf", "agent"), "scenarios": "S1,P1", "repeats": 1, "record": record}
    machine(tmp_path / "p1", lambda label, *_: (0.5, 0.6) if "~" in label else 0.5, **asked)
    cpu = by_name(tmp_path)[FleetFigure.CPU]
    assert (cpu.value, cpu.detail) == (10.0, "1 values; the largest 10")


def test_a_goal_is_met_for_sure_where_the_whole_interval_meets_it():
    met = {
        (ends, value): (figure.ok, figure.sure)
        for ends, value in (((1.0, 3.0), 2.0), ((-1.0, 5.0), 2.0), ((-5.0, 3.0), -1.0), ((-5.0, -1.0), -3.0))
        for figure in [Figure(name=FleetFigure.LOADER_RULE, value=value, low=ends[0], high=ends[1])]
    }
    assert list(met.values()) == [(True, True), (True, False), (False, False), (False, True)]
    assert Figure(name=FleetFigure.LOADER_RULE, value=2.0).sure is None
    assert Figure(name=FleetFigure.WIN, value=2.0, low=1.0, high=3.0).sure is None
    assert Figure(name=FleetFigure.LOADER_RULE, value=None).ok is False


def test_ablations_lines_and_margins(tmp_path):
    means = {**MEANS, "agent:no-voting": 0.55, "agent:no-guard": 0.6, "eevdf (2)": 0.49}
    columns = ("eevdf", "eevdf", "scx_lavd", "agent", "agent:no-voting", "agent:no-guard")
    machine(tmp_path / "p1", lambda _, column, __: means[column], columns=columns, scenarios=SCENARIOS)
    blocks = steady(fleet_figures_read.read(tmp_path))
    guard, voting = fleet_figures_tables.ablations(blocks)
    assert (guard.name, voting.name) == ("agent:no-guard", "agent:no-voting")
    assert voting.points.value == pytest.approx(-5.0)
    assert voting.adjusted < 0.05 < guard.adjusted
    assert [line.name for line in fleet_figures_tables.against(blocks)] == ["eevdf", "scx_lavd"]
    shares = [(margin, itself.pct) for margin, _, itself in fleet_figures_tables.margins(blocks)]
    assert shares == [(0.0, 0.0), (0.01, 100.0), (by.MARGIN, 100.0), (0.05, 100.0)]


def test_the_margin_is_small_beside_what_people_notice():
    """The reason that stands beside MARGIN: where a curve is the steepest, it is 1 to 4 % of the figure."""
    for application in APPLICATIONS.values():
        for metric in application.metrics:
            share = by.MARGIN * 4.0 / metric.k_value * metric.f / metric.theta
            assert 0.01 < share < 0.04, metric.name


def test_ranks_take_equals_as_equal():
    assert by.rank(0.5, (0.5, 0.5 + by.FLOOR / 2.0)) == 1
    assert by.rank(0.5, (0.6, 0.7)) == 3
    assert by.score_ranks([block({"a": (0.6,), "agent": (None,)})], AGENT) == [math.inf]


def test_the_goals_are_those_that_were_asked_for():
    asked = {name: (name.goal.sign, name.goal.bound) for name in FleetFigure if name.goal.bound is not None}
    assert asked == {
        "not_worse_pct": (">=", 95.0),
        "significantly_better_pct": (">=", 60.0),
        "mean_improvement_pct": (">=", 10.0),
        "top1_pct": (">=", 60.0),
        "top3_pct": (">=", 95.0),
        "regret_pct": ("<=", 2.0),
        "gain_over_best_static_pct": (">", 0.0),
        "gain_over_loader_rule_pct": (">", 0.0),
        "unseen_gap_points": ("<=", 3.0),
        "adapt_minutes": ("<=", 30.0),
        "top1_by_score_pct": (">=", 60.0),
        "top3_by_score_pct": (">=", 95.0),
    }
