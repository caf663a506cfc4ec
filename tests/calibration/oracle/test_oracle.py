# SPDX-License-Identifier: GPL-2.0-only
"""From runs to the page: rounds are what the blocks say, and both commands do what they are for."""

import argparse
import json
from pathlib import Path

import msgspec
import pytest
from matrix_rounds import rounds
from switchback_runs import run

from asa.cli.lab.bench import matrix as bench
from asa.cli.lab.evaluate import oracle as command
from asa.core.errors import AsaError, ModelError
from asa.decide import tablefile
from calibration.oracle import gains
from calibration.oracle import rounds as kept
from calibration.switchback import play, samples, tables
from scenarios import runner_folder


def test_a_round_is_a_schedulers_block_beside_the_mean_of_the_kernels_own(tmp_path):
    made = run(("eevdf", "scx_a"), rounds=3, times={"scx_a": 0.5}, noise=0.001, date="2026-11-29")
    rows = kept.of_runs([made])
    assert len(rows) == 6
    a = [one for one in rows if one.scheduler == "scx_a"]
    assert [one.round for one in a] == [1, 2, 3]
    for one in a:
        assert one.wait == pytest.approx(one.own_wait / 2.0, rel=0.01)
        assert one.rate == 2.0 * one.own_rate == 8.0
        assert one.score > one.own_score
        assert (one.power_w, one.own_power_w) == (10.0, 10.0)
        assert (one.wait_of, one.rate_of) == ("office.key_ms", "archive.compress_mb_per_s")
        assert (one.machine, one.tick_hz, one.clock, one.hybrid) == ("vm120", 1000, "parallel", False)
    assert [one.against_itself for one in rows].count(True) == 3
    kept.write(tmp_path / kept.ROUNDS, rows)
    assert kept.read(tmp_path / kept.ROUNDS) == rows
    with pytest.raises(AsaError, match="asa lab bench matrix"):
        kept.read(tmp_path / "none")


def test_a_round_without_the_kernels_own_tells_nothing_and_a_lost_scheduler_is_out():
    made = run(rounds=3)
    lost = [
        msgspec.structs.replace(one, trouble="ended")
        if (one.round, one.copy) == (1, 2) or (one.round == 2 and one.scheduler == "scx_a")
        else one
        for one in made.blocks
    ]
    rows = kept.of_runs([msgspec.structs.replace(made, blocks=tuple(lost))])
    assert {(one.round, one.scheduler) for one in rows} == {(2, "eevdf"), (3, "eevdf"), (3, "scx_a")}


@pytest.mark.parametrize(
    ("front", "back", "name"), [("office", "", "office+archive"), ("", "archive", "office+archive")]
)
def test_of_an_application_alone_there_is_what_it_has(front, back, name):
    made = run(rounds=3, times={"scx_a": 0.5}, interactive=front, background=back)
    (row, *_) = [one for one in kept.of_runs([made]) if one.scheduler == "scx_a"]
    assert row.label == name
    assert (row.wait is None, row.wait_of == "") == (not front, not front)
    assert (row.rate is None, row.rate_of == "") == (not back, not back)
    assert row.score > row.own_score


def answered(module, words, capsys):
    parser = argparse.ArgumentParser()
    module.register(parser.add_subparsers())
    given = parser.parse_args(words)
    return given.run(given), capsys.readouterr()


def test_the_page_has_the_answer_and_the_tables_are_read_back(tmp_path, capsys):
    leads = {f"web+{back}": {"scx_a": 10.0, "scx_flash": -5.0, "eevdf": 0.0} for back in ("disk", "llm", "video")}
    kept.write(tmp_path / kept.ROUNDS, rounds(leads, machines=("vm120", "vm122"), noise=0.007))
    page = tmp_path / "oracle.md"
    words = ["oracle", str(tmp_path), "--page", str(page), "--tables", str(tmp_path), "--json"]
    code, said = answered(command, words, capsys)
    assert code == 0
    lines = [json.loads(line) for line in said.out.splitlines()]
    (oracle,) = [one for one in lines if (one["rule"], one["measure"]) == ("oracle", "score")]
    assert oracle["above_eevdf"]["pct"] == pytest.approx(9.5, abs=1.0)
    text = page.read_text()
    assert "Static-Oracle's score is above EEVDF's by +9." in text
    assert "| first | all pairs on 4 CPUs, the promising schedulers | 3 | 28 |" in text
    assert "| scx_a | 6 | 6 | 6 | 6 | 0 | " in text
    assert (tmp_path / "oracle" / "cells.svg").stat().st_size > 1000
    assert len(kept.read(tmp_path / "oracle" / kept.ROUNDS)) == 72
    assert tablefile.read(tmp_path / "lab-vm122.yaml").machine.cpus == 6


def test_the_page_of_nothing_says_that_nothing_is_played(tmp_path, capsys):
    kept.write(tmp_path / kept.ROUNDS, [])
    page = tmp_path / "oracle.md"
    assert answered(command, ["oracle", str(tmp_path), "--page", str(page)], capsys)[0] == 0
    assert "| lavd | " in page.read_text()


def test_the_matrix_is_played_in_its_order_added_to_and_not_played_again(tmp_path, capsys, monkeypatch):
    played = []

    def fake(works, out, *_, at_once, hours):
        assert (at_once, hours) == (2, 0.5)
        (out / samples.FILES).mkdir(exist_ok=True)
        for work in works[:2]:
            played.append(work.id)
            made = run(("eevdf", "scx_a"), orders=work.orders, machine=work.machine.name, date="2026-11-29")
            runner_folder.write(out / samples.FILES / f"{work.id}.json", made)
        return []

    monkeypatch.setattr(play, "play_all", fake)
    words = ["matrix", "--out", str(tmp_path), "--step", "first", "--jobs", "2", "--hours", "0.5"]
    for _ in range(2):
        code, _ = answered(bench, words, capsys)
        assert code == 0
    assert len(set(played)) == len(played) == 4
    assert len(tables.read(tmp_path)) == 4
    assert {one.run for one in kept.read(tmp_path / kept.ROUNDS)} == set(played)
    code, said = answered(bench, [*words, "--plan", "--json"], capsys)
    (cost,) = [json.loads(line) for line in said.out.splitlines()]
    assert (code, cost["runs"], cost["played"]) == (0, 28, 4)
    assert Path(tmp_path / tables.RUNS).exists()


def test_who_saves_power_and_scores_much_less_is_not_counted():
    rows = rounds({"web+disk": {"scx_a": -10.0, "scx_flash": 1.0}, "web+llm": {"scx_a": -10.0}}, itself=True)
    value, told = gains.energy(lambda: rows)
    assert value == pytest.approx(66.7 / 2, abs=0.5)
    assert "not worse by 1 %" in told


def test_the_agents_figures_are_not_those_of_the_serial_clock():
    fleet = Path(gains.__file__).parents[1] / "results" / "fleet"
    with pytest.raises(ModelError, match="under the parallel clock"):
        gains.of_agent("not_worse_pct", fleet)()
