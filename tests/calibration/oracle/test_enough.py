# SPDX-License-Identifier: GPL-2.0-only
"""EEVDF against itself says how many rounds tell 3 %; a figure of fewer is unknown, and says so."""

import math
from dataclasses import replace

import pytest
from matrix_rounds import OWN_SCORE, one, rounds

from asa.core.errors import ModelError
from calibration.oracle import agents, gains, mapping
from calibration.oracle.enough import enough, rounds_of
from calibration.switchback.figures import change_pct, repeats_for

LEADS = {"web+disk": {"scx_a": 10.0}, "web+llm": {"scx_a": -5.0}}


def itself(label, factors, machine="vm120"):
    return [one(machine, label, 1, "eevdf", number, factor) for number, factor in enumerate(factors, 1)]


def test_a_scenario_needs_what_its_scatter_over_all_machines_asks_for():
    quiet, loud = (1.001, 0.999, 1.001), (1.1, 0.9, 1.1)
    rows = [*itself("web+disk", quiet), *itself("web+llm", loud), *itself("web+llm", loud, "vm122")]
    needed = enough(rows)
    changes = [change_pct(OWN_SCORE, OWN_SCORE * factor) for factor in (*quiet, *loud, *loud)]
    assert needed.scatter_pct == pytest.approx(math.sqrt(sum(one * one for one in changes) / 9))
    assert needed.whole == repeats_for(needed.scatter_pct) > 3
    assert needed.of("web+disk") == 3
    assert needed.of("web+llm") > needed.whole
    assert needed.of("game+disk") == needed.whole  # never beside itself
    assert (needed.cell("web+disk", 3), needed.cell("web+disk", 2)) == (True, False)
    assert not needed.cell("web+llm", needed.of("web+llm") - 1)


def test_two_rounds_of_the_kernels_own_tell_nothing_and_so_nothing_is_judged():
    rows = [*rounds(LEADS), *itself("web+disk", (1.0, 1.0))]
    needed = enough(rows)
    assert (needed.whole, needed.scatter_pct) == (None, None)
    assert not needed.cell("web+disk", 1000)
    with pytest.raises(ModelError, match="play `eevdf` among the schedulers"):
        gains.oracle_gain(lambda: rows)
    assert mapping.table("vm120", mapping.leads(rows)["vm120"], rows, "c") is None


def test_a_figure_of_too_few_rounds_is_unknown_and_names_both_numbers():
    loud = [*rounds(LEADS), *itself("web+disk", (1.1, 0.9, 1.1))]
    agent = [*loud, *(replace(row, scheduler="agent", held="scx_a") for row in rounds({"web+disk": {"scx_a": 1.0}}))]
    needed = enough(loud).whole
    for figure, rows, count in (
        (gains.oracle_gain, loud, 8),
        (gains.over_best_static, loud, 8),
        (gains.table_share, loud, 8),
        (gains.energy, loud, 8),
        (agents.not_worse, agent, 4),
        (agents.share_of_oracle, agent, 4),
        (agents.burden, agent, 4),
    ):
        with pytest.raises(ModelError, match=f"{count} rounds are kept, and a difference of 3 % needs {needed}: "):
            figure(lambda rows=rows: rows)
    for figure in (agents.worse, agents.better):
        with pytest.raises(ModelError):
            figure(lambda: agent)
    many = rounds(LEADS, count=needed)
    assert rounds_of(many) == 2 * needed
    assert gains.oracle_gain(lambda: [*many, *itself("web+disk", (1.1, 0.9, 1.1))])[0] > 0.0


def test_who_is_best_is_not_asked_where_chance_says_it():
    rows = [*rounds(LEADS), *itself("web+disk", (1.001, 0.999, 1.001)), *itself("web+llm", (1.1, 0.9, 1.1))]
    for label in LEADS:
        made = rounds({label: {"agent": 0.0}}, part="agent")
        rows += [replace(row, held="scx_a") for row in made]
    value, words = agents.among_best(lambda: rows, 1)
    assert (value, words) == (100.0, "4 of 4 rounds; 8 were played")
