# SPDX-License-Identifier: GPL-2.0-only
"""By which mapping tables the agent of a trial serves: the given one, the shipped ones behind it, and no other."""

import json
import sys

import pytest

from asa.core.errors import SchedulerError
from asa.paths import Places
from calibration.controllers.agent import Job, running
from calibration.controllers.course import Course

AGENT = """
import json, sys
from pathlib import Path
from asa import config, paths
from asa.act.portfolio import Portfolio
from asa.decide import table

installed, told, settings = map(Path, sys.argv[1:])
table._everybodys = lambda: installed
modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()
mapping = table.for_this_machine(modes, config.load(settings, required=True).table)
told.write_text(json.dumps({name: [entry.scheduler for entry in mapping.ranking(name)] for name in ("web", "spawn")}))
sys.exit(3)
"""


def write(path, scheduler):
    """A table as calibration writes it: it ranks none of the simple loads."""
    classes = {"web": [{"scheduler": scheduler, "why": "measured"}]}
    path.write_text(json.dumps({"version": 2, "machine": {"name": "m"}, "provenance": "x", "classes": classes}))
    return str(path)


@pytest.fixture
def rankings(tmp_path):
    """Of web and spawn, in an agent that is given a job on a host whose installed ASA has a table of its own."""
    script, told = tmp_path / "agent.py", tmp_path / "told"
    script.write_text(AGENT)
    installed = write(tmp_path / "installed.yaml", "scx_rusty")

    def of(job):
        places = Places(run=tmp_path / "run", sys=tmp_path / "sys")
        command = (sys.executable, str(script), installed, str(told))
        with (
            pytest.raises(SchedulerError, match="ended with code 3"),
            running(job, places, tmp_path / "scratch", Course(), command),
        ):
            pass
        found = json.loads(told.read_text())
        return found["web"], found["spawn"]

    return of


def test_a_given_table_has_the_shipped_ones_behind_it(rankings, tmp_path):
    web, spawn = rankings(Job(table=write(tmp_path / "given.yaml", "scx_simple")))
    assert web == ["scx_simple"]
    assert len(spawn) > 1


def test_without_one_the_shipped_ones_serve_and_not_the_hosts(rankings):
    web, spawn = rankings(Job())
    assert web != ["scx_rusty"]
    assert len(web) > 1
    assert len(spawn) > 1


def test_one_that_the_settings_name_stands_alone_unless_another_is_given(rankings, tmp_path):
    named = {"table": write(tmp_path / "named.yaml", "scx_flash")}
    assert rankings(Job(settings=named)) == (["scx_flash"], [])
    web, spawn = rankings(Job(settings=named, table=write(tmp_path / "given.yaml", "scx_simple")))
    assert web == ["scx_simple"]
    assert len(spawn) > 1


def test_one_that_is_not_there_fails_the_trial(tmp_path):
    places = Places(run=tmp_path / "run", sys=tmp_path / "sys")
    with (
        pytest.raises(SchedulerError, match=r"agent: /nowhere/t\.yaml: No such file"),
        running(Job(table="/nowhere/t.yaml"), places, tmp_path / "scratch", Course(), ("true",)),
    ):
        pass
