# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab surface` on a bowl whose bottom is known, beside the study's own table."""

import argparse
import json

import pytest

from asa.cli.lab import surface as command
from calibration.tuning import simulated


def answered(words, capsys):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    given = parser.parse_args(["surface", *words])
    assert given.run(given) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def _bowl(monkeypatch):
    monkeypatch.setattr(
        simulated, "costs", lambda: lambda points: [sum((x - 0.3) ** 2 * 1e4 for x in point) for point in points]
    )


def test_fourteen_searches_choose_within_the_ranges(capsys):
    told = json.loads(answered(["--json"], capsys))
    assert len(told["runs"]) == 14
    still = [one for one in told["runs"] if one["swarm"] == 0.0]
    assert {one["iterations"] for one in still} == {1}  # nothing pulls, so nobody moves
    best = min(told["runs"], key=lambda one: one["makespan_us"])
    assert best["swarm"] > 0.0
    assert best["makespan_us"] < min(one["makespan_us"] for one in still)
    inertia, own, pull = told["chosen"]
    assert 0.0 <= inertia <= 0.9
    assert 0.0 <= own <= 4.0
    assert 0.0 < pull <= 4.0
    assert [len(runs) for runs in told["fresh"].values()] == [3, 3]


def test_the_studys_table_is_beside_it(capsys):
    said = answered([], capsys)
    assert "chosen: --coefficients " in said
    assert "+1835" in said
    rows = [line.split()[-2] for line in said.splitlines() if "0.45" in line and line.count("2.0") >= 2]
    assert rows == ["18", "16"]  # the centre was played twice
