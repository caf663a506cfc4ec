# SPDX-License-Identifier: GPL-2.0-only
"""Turns of the scale benchmark, with a real scheduler that ends within one. Runs as root inside the lab.

That whole turns are measured is tests/calibration/test_scale_lab.py's.
"""

import os
import signal
from pathlib import Path

import pytest
from agents import clean_machine, scheduler_processes
from waiting import until

from asa import paths
from asa.act.forcing import Forcing
from asa.act.kernel import sched_ext_state
from calibration.scale import guest as scale_guest
from calibration.scale.samples import USUAL, Mode

SIMPLE = "scx_simple"
OWNER = paths.default().cache.stat().st_uid  # who ran the tests on the host built the schedulers


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


def test_a_turn_whose_scheduler_ends_counts_for_nothing_and_is_named(monkeypatch):
    killed = []

    def one_that_kills(_program, mode, _seconds):
        if mode is Mode.WAKEUP:
            killed.extend(scheduler_processes())
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            until(lambda: not scheduler_processes(), lambda: f"{scheduler_processes()} did not end")
        return {}

    monkeypatch.setattr(scale_guest, "mode_run", one_that_kills)
    places = paths.default()
    with Forcing(places, owners=[OWNER]) as forcing:
        plan = scale_guest.Plan(schedulers=[SIMPLE, "eevdf"])
        found = scale_guest.measure(forcing, Path("/proc/self/exe"), plan, None, lambda _found: None)
    assert len(killed) == 1
    assert [turn.scheduler for turn in found.turns] == ["eevdf"]
    assert set(found.turns[0].readings) == set(USUAL)
    (trouble,) = found.troubles
    assert trouble.startswith(f"round 1: {SIMPLE}: {SIMPLE}: "), trouble
    assert "was ended by signal 9" in trouble
    assert sched_ext_state(places.sys).state == "disabled"
