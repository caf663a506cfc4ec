# SPDX-License-Identifier: GPL-2.0-only
"""The benchmark's runner under real schedulers: each trial runs under the one that was ordered, and tells when not."""

import os
import signal
import sys
import threading
from dataclasses import replace

import pytest
from agents import OWNER, attached, clean_machine, eventually, scheduler_processes
from toys import toys

from asa import paths
from asa.act.forcing import Forcing
from scenarios.application import Tier
from scenarios.catalogue import find
from scenarios.runner import Stage, play_all
from scenarios.runner_plan import Asked, Outcome, make

# a toy that says under which scheduler it started
DRIVER = """
from pathlib import Path
from scenarios.driving import Driver
driver = Driver.begin()
ops = Path("/sys/kernel/sched_ext/root/ops")
driver.ready({"ops": ops.read_text().strip() if ops.exists() else ""})
while driver.pause(0.1):
    for metric, value in driver.parameters["values"].items():
        driver.measured(metric, value)
"""


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


@pytest.fixture
def stage(tmp_path):
    telling = {
        name: replace(toy, command=lambda _place, _parameters: (sys.executable, "-c", DRIVER))
        for name, toy in toys().items()
    }
    with Forcing(paths.default(), owners=[OWNER]) as forcing:
        yield Stage(
            applications=telling,
            tier=Tier.LAB,
            cache=tmp_path,
            scratch=tmp_path / "scratch",
            forcing=forcing,
            seconds=2.0,
            warm_up_s=0.5,
        )


def trials(words, schedulers):
    scenarios = find(words)
    asked = Asked(
        tier=Tier.LAB,
        scenarios=tuple(one.label for one in scenarios),
        schedulers=schedulers,
        repeats=1,
        seed=1,
        seconds=2.0,
        warm_up_s=0.5,
        cpus=2,
    )
    return make(asked, scenarios, "run").trials


def test_each_trial_runs_under_the_scheduler_that_was_ordered(stage):
    found = []
    play_all(trials("web+archive", ("eevdf", "scx_simple")), stage, found.append)
    assert [(result.outcome, result.reason) for result in found] == [(Outcome.DONE, "")] * 4
    for result in found:
        ops = {one["ops"] for one in result.versions.values()}
        assert ops == {"simple" if result.trial.scheduler == "scx_simple" else ""}
        names = [name for name in (result.trial.interactive, result.trial.background) if name]
        metrics = {(name, metric) for name in names for metric in stage.applications[name].metrics}
        assert {(one.application, one.metric) for one in result.series if one.values} == metrics
        assert result.scheduler_version
    assert {result.trial.scheduler for result in found} == {"eevdf", "scx_simple"}
    assert attached() == ""


def test_a_scheduler_that_dies_fails_its_trial_and_no_other(stage):
    wanted = [trial for trial in trials("office+video", ("scx_simple", "eevdf")) if trial.label == "office+video"]
    wanted.sort(key=lambda trial: trial.scheduler, reverse=True)
    found = []

    def kill():
        assert eventually(lambda: attached() == "simple")
        for pid in scheduler_processes():
            os.kill(pid, signal.SIGKILL)

    beside = threading.Thread(target=kill)
    beside.start()
    play_all(wanted[:1], replace(stage, seconds=20.0), found.append)
    beside.join()
    play_all(wanted[1:], stage, found.append)
    died, other = found
    assert (died.trial.scheduler, died.outcome, died.failure) == ("scx_simple", Outcome.FAILED, "scheduler")
    assert "signal 9" in died.reason
    assert (other.trial.scheduler, other.outcome) == ("eevdf", Outcome.DONE)
