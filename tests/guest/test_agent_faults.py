# SPDX-License-Identifier: GPL-2.0-only
"""Faults under the whole agent: what it does about them, and that `asa status` tells the truth.

Runs as root inside the lab.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import standins
from agents import (
    LIMIT_S,
    SYS,
    agent,
    asa,
    attached,
    clean_machine,
    eventually,
    other_portfolio,
    pid_of,
    scheduler_processes,
    seen,
    start_by_hand,
    status,
)

from asa import paths
from asa.act.kernel import sched_ext_state
from asa.act.undo import UndoJournal
from asa.status import read as read_status
from models.runtime import Ensemble

# A task for sched_ext alone, that sleeps and wakes.
VICTIM = "import os, time\nos.sched_setscheduler(0, 7, os.sched_param(0))\nwhile True: time.sleep(0.01)"


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


def test_one_that_stalls_is_set_aside_and_the_next_serves(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(other_portfolio(tmp_path, scx_simple=standins.loses(tmp_path))))
    with agent(tmp_path, "scx_simple", "scx_flash") as running:
        running.until_said("eevdf -> scx_simple in")
        victim = subprocess.Popen([sys.executable, "-c", VICTIM])
        try:
            running.until_said("-> scx_flash in")
        finally:
            victim.kill()
            victim.wait(LIMIT_S)
        now = seen(scheduler="scx_flash", set_aside=["scx_simple"])
        lost = next(one for one in now["lately"] if one["outcome"] == "lost")
        assert lost["new"] == "scx_simple"
        assert "failed to run for" in lost["ended"]
        assert "stall" in running.said()
        assert attached().startswith("flash")
        assert running.end() == 0


def test_sysrq_puts_it_on_hold_until_told_to_resume(tmp_path):
    with agent(tmp_path, "scx_simple", "scx_flash") as running:
        running.until_said("eevdf -> scx_simple in")
        Path("/proc/sysrq-trigger").write_text("S")  # Documentation/admin-guide/sysrq.rst: back to the fair scheduler
        now = seen(mode="hold")
        assert now["mode_reason"] == "scx_simple was taken out by SysRq-S"
        assert (now["scheduler"], now["set_aside"]) == ("eevdf", [])
        ticks = now["ticks"]
        assert eventually(lambda: read_status(paths.default().run).ticks >= ticks + 2)
        assert attached() == ""
        assert "SysRq-S" in asa("status").stdout
        resumed = asa("resume")
        assert (resumed.returncode, resumed.stderr) == (0, "")
        assert "the hold is over" in resumed.stdout
        seen(mode="switching", scheduler="scx_simple", switches=2)  # it is attached before the switch is confirmed
        assert attached() == "simple"
        assert running.end() == 0


def test_a_stranger_on_eevdf_puts_it_on_hold(tmp_path):
    with agent(tmp_path, "eevdf") as running:
        assert seen(scheduler="eevdf", mode="switching")["standbys"] == []
        stranger = start_by_hand("scx_simple")
        now = seen(mode="hold")
        assert now["mode_reason"] == "scx_simple was attached by somebody else"
        assert status()["sched_ext"]["ops"] == "simple"
        assert asa("resume").returncode == 1  # not while it is there
        assert attached() == "simple"
        stranger.send_signal(signal.SIGINT)
        assert stranger.wait(LIMIT_S) == 0
        assert seen(mode="switching")["scheduler"] == "eevdf"
        assert running.end() == 0


def served_by_two():
    classes = Ensemble.load(paths.base_model()).classes
    return {name: [("scx_flash", "scx_simple")[number % 2]] for number, name in enumerate(classes)}


def test_a_standby_that_dies_is_replaced_and_all_end_with_the_agent(tmp_path):
    patient = {"cooldown_s": 0, "dwell_s": 86_400}  # never switches
    with agent(tmp_path, served=served_by_two(), policy=patient) as running:

        def ready():
            now = read_status(paths.default().run)
            found = () if now is None else now.standbys
            return sorted(one.scheduler for one in found if one.ready) == ["scx_flash", "scx_simple"]

        assert eventually(ready), running.said()
        assert all(one["memory_bytes"] > 1e6 for one in seen(scheduler="eevdf")["standbys"])
        before = pid_of("scx_simple")
        os.kill(before, signal.SIGKILL)
        assert eventually(lambda: len(scheduler_processes()) == 2 and pid_of("scx_simple") != before), running.said()
        assert eventually(ready), running.said()
        now = seen(scheduler="eevdf", failures=0)
        assert (now["set_aside"], now["lately"], attached()) == ([], [], "")
        running.process.kill()
        running.process.wait(LIMIT_S)
        assert eventually(lambda: not scheduler_processes(), 20.0), scheduler_processes()
        assert attached() == ""
    assert not status()["running"]
    assert UndoJournal(paths.default().run / "undo.json").recover(LIMIT_S) is None


def test_the_plain_way(tmp_path):
    with agent(tmp_path, "scx_simple", "scx_flash", switch={"gate": "off"}) as running:
        running.until_said("eevdf -> scx_simple in")
        now = seen(scheduler="scx_simple")
        assert (now["way"], now["way_reason"]) == ("plain", "the setting switch.gate is off")
        sequence = sched_ext_state(SYS).enable_seq
        os.kill(pid_of("scx_simple"), signal.SIGKILL)
        running.until_said("-> scx_flash in")
        now = seen(scheduler="scx_flash", set_aside=["scx_simple"])
        assert sched_ext_state(SYS).enable_seq == sequence + 1, running.said()
        assert {one["way"] for one in now["lately"] if one["outcome"] == "confirmed"} == {"plain"}
        assert running.end() == 0
