# SPDX-License-Identifier: GPL-2.0-only
"""The agent has a laptop's speed in guests of the parallel clock alone; elsewhere asking for it is one clear line."""

import subprocess
import sys

import pytest

from asa import paths
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from calibration.controllers import columns, hurried
from scenarios import conditions
from scenarios.conditions import Conditions


def test_where_no_clock_gives_a_speed_it_says_so_and_does_not_run():
    with pytest.raises(AsaError, match="program a speed of its own"):
        hurried.Hurry(hurried.SPEED_PCT)
    words = [sys.executable, "-P", "-m", "asa.cli.lab.hurried", "run"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("hurried: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("clock", "hurries"), [("parallel", True), ("wall", False)])
def test_its_version_says_at_which_speed_it_was_played(monkeypatch, tmp_path, clock, hurries):
    told = conditions.told(Conditions(clock=clock, tick_hz=1000, machine="vm120"))
    monkeypatch.setenv(conditions.TOLD, told[conditions.TOLD])
    ours = columns.Controllers(paths.Places(run=tmp_path), columns.Given(), tmp_path)
    assert ("1500 %" in ours.version(SchedulerName(columns.AGENT))) is hurries
    assert "%" not in ours.version(SchedulerName(columns.INSIDE))
