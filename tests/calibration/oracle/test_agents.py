# SPDX-License-Identifier: GPL-2.0-only
"""The agent's figures of rounds whose answers are known."""

from dataclasses import replace

import pytest
from matrix_rounds import one, rounds

from asa.core.errors import ModelError
from calibration.oracle import agents, rivals

LEADS = {
    "web+archive": {"scx_a": 20.0, "scx_b": 5.0, "scx_lavd": -20.0},
    "web+disk": {"scx_a": -10.0, "scx_b": -5.0, "scx_lavd": -20.0},
    "game+disk": {"scx_a": 10.0, "scx_b": 20.0, "scx_lavd": 0.0},
}
TOOK = {"web+archive": ("scx_a", 1.19), "web+disk": ("eevdf", 0.99), "game+disk": ("scx_a", 1.10)}


def rows(who="agent", took=TOOK):
    busy = [replace(row, own_busiest_pct=99.0) for row in rounds(LEADS, noise=0.001, itself=True)]
    return busy + [
        replace(one("vm120", label, 1, who, number, factor + number / 1e5, "agent"), held=held)
        for label, (held, factor) in took.items()
        for number in (1, 2, 3)
    ]


def value(figure, *more, known=None):
    return figure(lambda: known or rows(), *more)[0]


def test_what_it_takes_of_what_there_is_to_have():
    assert value(agents.share_of_oracle) == pytest.approx(100.0 * (17.35 - 1.0 + 9.52) / (18.18 + 18.18), abs=1.0)
    assert value(agents.over, rivals.TABLES[agents.Rule.STATIC]) == pytest.approx(25.87 / 3 - 17.2 / 3, abs=0.5)
    assert value(agents.over, rivals.LOADER_RULE) == pytest.approx(25.87 / 3 + 44.4 / 3, abs=0.5)


def test_behind_and_ahead():
    assert value(agents.not_worse) == 100.0
    assert value(agents.better) == 100.0  # both pairs in which the oracle gains much
    assert value(agents.worse) == pytest.approx(100.0 / 3)  # 0.6 points, for sure, and not by more than 2
    lost = rows(took=TOOK | {"web+disk": ("scx_a", 0.90)})
    assert value(agents.not_worse, known=lost) == pytest.approx(200.0 / 3)
    found, words = agents.worse(lambda: lost)
    assert found == pytest.approx(100.0 / 3)
    assert "web+disk on vm120" in words


def test_whom_it_held_and_what_it_costs():
    assert value(agents.among_best, 1) == pytest.approx(200.0 / 3)  # scx_b is best in game+disk
    assert value(agents.among_best, 3) == 100.0
    assert value(agents.burden) == pytest.approx(100.0 * 0.6 * (-0.01 - 0.01 + 0.0) / 3, abs=0.1)


def test_without_a_run_a_figure_says_what_to_play():
    with pytest.raises(ModelError, match="no run of a fresh installation is kept; run `make evaluate`"):
        agents.not_worse(rows, "agent:fresh")
    assert value(agents.not_worse, "agent:fresh", known=rows("agent:fresh")) == 100.0
