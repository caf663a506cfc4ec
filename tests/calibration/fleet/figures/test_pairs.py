# SPDX-License-Identifier: GPL-2.0-only
"""Figures where something is missing: a mean that is nothing, a side without a score, a choice without a rank."""

import math
from pathlib import Path

import pytest

from calibration.fleet.figures import pairs as by
from calibration.fleet.figures import sums
from calibration.fleet.figures import tables as fleet_figures_tables
from calibration.fleet.figures.blocks import Block, Controlled, Facts, PlayedMachine, Run
from calibration.fleet.figures.goals import FleetFigure
from calibration.fleet.figures.named import figures
from scenarios.conditions import Conditions

OF = by.of_column("eevdf")


def block(**runs):
    """Column -> scores by repeat."""
    made = {
        column: {("r", place): Run(score=score) for place, score in enumerate(scores, 1)}
        for column, scores in runs.items()
    }
    return Block(machine="m", prototype=True, scenario="S1", label="game+archive", phased=False, runs=made)


def test_a_mean_of_nothing_has_no_figure_in_a_hundred():
    none, some = block(eevdf=(0.0, 0.0), agent=(0.5, 0.6)), block(eevdf=(0.5, 0.5), agent=(0.5, 0.6))
    alone = by.pairs([none], "agent", OF)
    assert sums.gain(alone) is None
    assert sums.regret(alone) is None
    assert sums.gap(alone, alone) is None
    assert sums.geometric(alone).value == pytest.approx(100.0 * ((10.0 * 12.0) ** 0.5 - 1.0))
    both = sums.gain(by.pairs([none, some], "agent", OF))
    assert both.value == pytest.approx(120.0)
    assert (both.low, both.high) == (None, None)  # of two there is no interval
    [line] = fleet_figures_tables.lines([("x", alone)])
    assert line.gain is None


def named(one):
    """All figures of a machine that has this block alone."""
    unknown = ("planned", "began_ns")
    empty = {"lengths_s": {}} | dict.fromkeys(("commands", "seeds", "tiers", "kernels", "versions", "programs"), ())
    empty |= dict.fromkeys(("failed", "disturbed", "took_s"), 0)
    machine = PlayedMachine(
        facts=Facts(name="m", cpus=4, prototype=True),
        folders=(Path("m"),),
        blocks=(one,),
        trials=9,
        **dict.fromkeys(unknown),
        again=(0, 0),
        under=Conditions(),
        **empty,
    )
    return {figure.name: figure for figure in figures([machine])}


def drawing(**watts):
    runs = {
        column: {("r", place): Run(score=0.5, watts=one) for place, one in enumerate(values, 1)}
        for column, values in watts.items()
    }
    return Block(machine="m", prototype=True, scenario="S1", label="game+archive", phased=False, runs=runs)


def test_what_is_drawn_is_compared_in_repeats_that_both_know():
    blocks = [drawing(eevdf=(10.0, 20.0), agent=(12.0, None)), drawing(eevdf=(30.0,), agent=(30.0,), random=(None,))]
    eevdf, agent = fleet_figures_tables.draws(blocks)
    assert (agent.column, agent.blocks, agent.watts, agent.eevdf) == ("agent", 2, 21.0, 20.0)
    assert agent.more_pct == pytest.approx(5.0)
    assert (eevdf.column, eevdf.more_pct) == ("eevdf", 0.0)
    assert fleet_figures_tables.draws([block(eevdf=(0.5,), agent=(0.5,))]) == []


def test_runs_beside_which_there_is_nothing_are_told():
    """The second lost nothing, since EEVDF has no score; the third is lost; of the fourth nobody has one."""
    one = block(eevdf=(0.5, None, 0.5, None), agent=(0.6, 0.6, None, None))
    [found] = by.pairs([one], "agent", OF)
    assert (found.ours, found.lost) == ((0.6,), 1)
    assert by.unmatched([one], "agent", OF) == 2
    figure = named(one)[FleetFigure.NOT_WORSE]
    assert figure.value == 50.0
    assert figure.detail.startswith("1 of 2 runs; with no margin at all 50.0 %; 1 failed, which is behind")
    for name in (FleetFigure.NOT_WORSE, FleetFigure.WIN, FleetFigure.LOSS):
        assert named(one)[name].detail.endswith("; 2 beside which eevdf has no score are left out")
    assert "left out" not in named(block(eevdf=(0.5,), agent=(0.6,)))[FleetFigure.NOT_WORSE].detail


def test_nobody_is_ranked_by_an_easy_repeat():
    """In the repeat in which both have a score they are nearly equal; the other was hard for all that played it."""
    one = block(eevdf=(0.95, 0.60), scx_a=(0.955, None), agent=(0.95, 0.60))
    assert by.ranking(one) == [("scx_a", 0.955), ("eevdf", 0.95)]
    assert by.shared(one, one.repeats) == [("r", 1)]
    assert fleet_figures_tables.losses([one]) == []
    apart = block(eevdf=(0.9, None), scx_a=(None, 0.5), agent=(0.9, 0.5))  # nothing is shared: each by what it has
    assert by.ranking(apart) == [("eevdf", 0.9), ("scx_a", 0.5)]


def test_a_column_that_lacks_a_repeat_says_in_how_many_runs_it_was_beside_the_agent():
    one = block(eevdf=(0.5, 0.7), agent=(0.6, 0.8), **{"loader-auto": (0.5, None)})
    assert named(one)[FleetFigure.LOADER_RULE].detail == "1 blocks, 1 of the agent's 2 runs"
    assert named(one)[FleetFigure.BEST_STATIC].detail == "eevdf, 1 blocks"


def test_a_choice_that_is_not_ranked_is_not_among_the_best():
    scored = block(eevdf=(0.5,) * 4, scx_a=(0.6,) * 4, agent=(0.6,) * 4)
    held = ("scx_a", "scx_strange", "eevdf", None)
    runs = {
        repeat: Run(score=run.score, controlled=(Controlled(held_s={} if name is None else {name: 9.0}),))
        for (repeat, run), name in zip(scored.runs["agent"].items(), held, strict=True)
    }
    one = Block(
        machine="m", prototype=True, scenario="S1", label="x", phased=False, runs={**scored.runs, "agent": runs}
    )
    assert by.chosen_ranks([one], "agent") == ([1, math.inf, 2], 1)
    found = named(one)
    assert found[FleetFigure.TOP1].value == pytest.approx(100 / 3)
    assert (found[FleetFigure.TOP3].value, found[FleetFigure.TOP3].reason) == (
        None,
        "of 2 schedulers each is one of the best 3",
    )
    assert found[FleetFigure.TOP1].detail == (
        "1 of 3 runs, among 2 schedulers (a die: 50 %); 1 held one that is not ranked there, which is a miss; "
        "1 whose scheduler is not known are left out"
    )
