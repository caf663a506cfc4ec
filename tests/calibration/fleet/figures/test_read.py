# SPDX-License-Identifier: GPL-2.0-only
"""A fleet's folders are read: of one run and of several, and what is none is named."""

import json

import pyarrow.parquet as pq
import pytest
from fleet_runs import COLUMNS, held, machine, planted

from asa.core.errors import AsaError
from calibration.controllers.columns import AGENT
from calibration.fleet.figures import read as fleet_figures_read
from calibration.fleet.figures import windows as fleet_figures_windows


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("machine.json", "{", "machine.json: "),
        ("machine.json", '{"name": "p1", "cpus": "4", "prototype": true}', "Expected `int`, got `str`"),
        ("plan.json", "no", "plan.json: "),
        ("trials.parquet", "no", "holds no tables of a run"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, text, says):
    folder = machine(tmp_path / "p1", planted, columns=("eevdf", "agent"), scenarios="S1", repeats=1)
    (folder / name).write_text(text)
    with pytest.raises(AsaError, match=f"p1.*{says}"):
        fleet_figures_read.read(tmp_path)


def test_a_table_without_a_column_two_of_one_name_and_nothing(tmp_path):
    with pytest.raises(AsaError, match="holds no machine of a fleet"):
        fleet_figures_read.read(tmp_path)
    folder = machine(tmp_path / "p1", planted, columns=("eevdf", "agent"), scenarios="S1", repeats=1)
    (folder / "plan.json").unlink()
    assert fleet_figures_read.read(tmp_path)[0].planned is None
    table = pq.read_table(folder / "trials.parquet").drop_columns(["kernel"])
    pq.write_table(table, folder / "trials.parquet")
    with pytest.raises(AsaError, match=r"trials\.parquet: lacks kernel"):
        fleet_figures_read.read(tmp_path)
    machine(tmp_path / "p2", planted, columns=("eevdf",), scenarios="S1", repeats=1, name="p3")
    (folder / "machine.json").rename(tmp_path / "aside")
    machine(tmp_path / "p3", planted, columns=("eevdf",), scenarios="S1", repeats=1)
    with pytest.raises(AsaError, match="more than one folder is of machine 'p3'"):
        fleet_figures_read.read(tmp_path)


def test_what_is_still_being_played_is_left_out_and_told(tmp_path):
    """A run has its tables at its end: until then, and of a run that was killed, the others are judged."""
    machine(tmp_path / "1/p1", planted, columns=COLUMNS, scenarios="S1", record=held)
    begun = machine(tmp_path / "2/p1", planted, columns=COLUMNS, scenarios="S1", record=held)
    (begun / "trials.parquet").unlink()
    [found] = fleet_figures_read.read(tmp_path)
    assert found.folders == (tmp_path / "1/p1",)
    assert fleet_figures_read.unfinished(tmp_path) == [begun]
    with pytest.raises(AsaError, match="2/p1: holds no tables of a run; `asa lab fleet run` makes them at its end"):
        fleet_figures_read.read(tmp_path / "2")


def wait_longer(folder):
    plan = json.loads((folder / "plan.json").read_text())
    plan["asked"]["warm_up_s"] += 1.0
    (folder / "plan.json").write_text(json.dumps(plan))


def test_runs_of_one_machine_are_its_repeats(tmp_path):
    """One run has three repeats of a scenario, another two of it and of one more; together they are five."""
    machine(tmp_path / "1/p1", planted, columns=COLUMNS[:5], scenarios="S1", record=held, command="first")
    more = {"record": held, "name": "p1", "command": "second", "adapt_minutes": 3.0}
    other = machine(tmp_path / "2/p1-again", planted, columns=COLUMNS, scenarios="S1,S9", repeats=2, **more)
    [found] = fleet_figures_read.read(tmp_path)
    assert (found.commands, found.seeds, found.facts.adapt_minutes) == (("first", "second"), (4, 4), 3.0)
    assert found.folders == (tmp_path / "1/p1", other)
    [alone, beside] = [fleet_figures_read.read(tmp_path / name)[0] for name in "12"]
    assert (found.trials, found.planned) == (alone.trials + beside.trials, alone.planned + beside.planned)
    blocks = {block.label: block for block in found.blocks if AGENT in block.runs}
    counts = {label: {name: len(runs) for name, runs in block.runs.items()} for label, block in blocks.items()}
    assert counts["game+archive"] == dict.fromkeys(COLUMNS[:5], 5) | dict.fromkeys(COLUMNS[5:], 2)
    assert list(counts.values()).count(dict.fromkeys(COLUMNS, 2)) == 1
    facts = json.loads((other / "machine.json").read_text()) | {"cpus": 8}
    (other / "machine.json").write_text(json.dumps(facts))
    with pytest.raises(AsaError, match="are of two machines of the name 'p1', or of two agents"):
        fleet_figures_read.read(tmp_path)
    cpus = json.loads((tmp_path / "1/p1/machine.json").read_text())["cpus"]
    (other / "machine.json").write_text(json.dumps(facts | {"cpus": cpus}))
    wait_longer(other)
    with pytest.raises(AsaError, match="their trials have other windows, or other warm-ups"):
        fleet_figures_read.read(tmp_path)


def test_runs_of_two_clocks_make_no_evaluation(tmp_path):
    machine(tmp_path / "1/p1", planted, columns=COLUMNS[:2], scenarios="S1", record=held)
    machine(tmp_path / "2/p2", planted, columns=COLUMNS[:2], scenarios="S1", record=held, clock="parallel")
    with pytest.raises(AsaError, match=r"2/p2: was measured under clock parallel, .* and .*1/p1 under clock icount"):
        fleet_figures_read.read(tmp_path)


def test_runs_of_other_scenarios_may_have_other_windows(tmp_path):
    """Both play the applications alone, which nothing is compared with across runs."""
    machine(tmp_path / "1/p1", planted, columns=COLUMNS[:5], scenarios="S1", record=held)
    longer = machine(tmp_path / "2/p1", planted, columns=COLUMNS[:5], scenarios="S9", record=held)
    wait_longer(longer)
    [found] = fleet_figures_read.read(tmp_path)
    assert {block.scenario: found.lengths_s[block.scenario] for block in found.blocks if AGENT in block.runs} == {
        "S1": (20.0, 1.0),
        "S9": (20.0, 2.0),
    }
    wait_longer(machine(tmp_path / "3/p1", planted, columns=COLUMNS[:5], scenarios="S1", record=held))
    with pytest.raises(AsaError, match=r"1/p1 and .*3/p1: their trials have other windows"):
        fleet_figures_read.read(tmp_path)


def test_runs_of_one_column_have_windows_too(tmp_path):
    machine(tmp_path / "1/p1", planted, columns=("agent",), scenarios="S1", record=held)
    wait_longer(machine(tmp_path / "2/p1", planted, columns=("eevdf",), scenarios="S1", record=held))
    with pytest.raises(AsaError, match="their trials have other windows"):
        fleet_figures_read.read(tmp_path)


def test_a_record_that_is_none_is_named(tmp_path):
    strange = {"held_s": {"scx_lavd": "long"}}
    machine(tmp_path / "p1", planted, columns=("eevdf", "agent"), scenarios="S1", repeats=1, record=lambda *_: strange)
    with pytest.raises(AsaError, match=r"p1: trial 001-game\+archive-agent: no record of a controller"):
        fleet_figures_read.read(tmp_path)


def test_windows_of_the_voting(tmp_path):
    assert fleet_figures_windows.read(tmp_path) == []

    def line(window_s, decay=0.8):
        score = {"median_s": window_s / 2.0, "p95_s": window_s, "error_pct": 1.0}
        parameters = {"window_s": window_s, "threshold": 0.3, "decay": decay}
        return json.dumps({"method": "time-weighted", "parameters": parameters, "validation": score})

    other = json.dumps({"method": "none", "parameters": {}, "validation": {"median_s": None}})
    figure = json.dumps({"name": "reaction_median_s", "value": 4.0})
    lines = [line(6.0), line(4.0), line(4.0, decay=0.6), other, figure]
    (tmp_path / "voting.jsonl").write_text("\n".join(lines))
    found = [(one.window_s, one.median_s, one.shipped) for one in fleet_figures_windows.read(tmp_path)]
    assert found == [(4.0, 2.0, False), (6.0, 3.0, True)]
    (tmp_path / "voting.jsonl").write_text("no")
    with pytest.raises(AsaError, match=r"voting\.jsonl: "):
        fleet_figures_windows.read(tmp_path)
