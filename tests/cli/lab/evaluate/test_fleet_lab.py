# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation from nothing, as small as it gets: a guest plays one scenario under two schedulers and the agent."""

import json
import subprocess
import sys

import pytest

from calibration.fleet.figures.goals import FleetFigure
from scenarios import planted
from scenarios.lab import machines


def asa(*words):
    command = [sys.executable, "-m", "asa.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.vm
@pytest.mark.slow
def test_a_fleet_is_played_and_becomes_the_page(tmp_path):
    fleet, page = tmp_path / "fleet", tmp_path / "evaluation.md"
    # as calibration writes one: of the classes that it has played alone
    planted.write(tmp_path / "table.yaml", {"web+archive": ["scx_simple"]}, machines.load("vm125").facts)
    words = ("--machine", "vm125", "--scenario", "web+archive", "--scheduler", "eevdf,scx_simple,agent")
    times = ("--seconds", "3", "--warm-up", "3", "--table", tmp_path / "table.yaml")
    asa("lab", "fleet", "run", "--out", fleet, *words, *times)
    out = asa("lab", "evaluate", "fleet", fleet, "--page", page, "--json")
    found = {line["name"]: line for line in map(json.loads, out.splitlines())}
    assert list(found) == list(FleetFigure)
    assert found["not_worse_pct"]["value"] in (0.0, 100.0)  # one run
    assert -100.0 < found["mean_improvement_pct"]["value"] < 1000.0
    assert found["regret_pct"]["value"] > -100.0
    assert found["regret_foresight_pct"]["value"] is None  # of one repeat
    assert found["agent_cpu_pct"]["value"] > 0.0
    text = page.read_text()
    assert "| vm125 | prototype | 2 | 2 fast | 2048 | 5 of 5 | 0 | 0 |" in text
    assert "(evaluation/summary.svg)" in text
    assert (tmp_path / "evaluation/summary.svg").stat().st_size > 1000
