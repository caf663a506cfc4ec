# SPDX-License-Identifier: GPL-2.0-only
"""Figures where a mean is nothing: there is no ratio to it, and no line of JSON that says so."""

import pytest

from calibration import fleet_figures_pairs as by
from calibration import fleet_figures_tables
from calibration.fleet_figures_read import Block, Run

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
    assert by.gain(alone) is None
    assert by.regret(alone) is None
    assert by.gap(alone, alone) is None
    assert by.geometric(alone).value == pytest.approx(1000.0)
    both = by.gain(by.pairs([none, some], "agent", OF))
    assert both.value == pytest.approx(120.0)
    assert (both.low, both.high) == (None, None)  # a draw of the first block alone has none
    [line] = fleet_figures_tables.lines([("x", alone)])
    assert line.gain is None
