# SPDX-License-Identifier: GPL-2.0-only
"""Real schedulers on a real kernel: switching, and what the kernel runs after something was killed.

Runs as root inside the lab. The agent is the one a user starts; its table wants the same scheduler for every class, so
that no workload is needed.
"""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from agents import (
    LIMIT_S,
    SYS,
    agent,
    attached,
    clean_machine,
    event_of,
    eventually,
    portfolio_of_host,
    scheduler_processes,
    seen,
    start_by_hand,
    status,
)

from asa import paths
from asa.act.kernel import sched_ext_state
from asa.act.plain import PlainSwitcher
from asa.act.undo import UndoJournal, start_ticks
from asa.clock import SystemClock
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome

ROTA = ["scx_simple", "scx_flash", "scx_bpfland", "scx_rusty", "scx_p2dq"]


@pytest.fixture
def portfolio():
    return portfolio_of_host()


@pytest.fixture(autouse=True)
def before_and_after():
    with clean_machine():
        yield


def test_switching_between_real_schedulers(portfolio, tmp_path):
    undo = UndoJournal(tmp_path / "undo.json")
    switcher = PlainSwitcher(
        portfolio=portfolio,
        undo=undo,
        clock=SystemClock(),
        limits=SwitchSettings(attach_limit_s=LIMIT_S),
        sys=SYS,
        logs=tmp_path,
    )
    before = EEVDF
    for name in [SchedulerName(name) for name in ROTA]:
        sequence = sched_ext_state(SYS).enable_seq
        switcher.begin(name)
        event = event_of(switcher)
        assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, before, name), event.detail
        state = sched_ext_state(SYS)
        assert state.state == "enabled"
        assert re.match(rf"{name.removeprefix('scx_')}(_|$)", state.ops)
        assert state.enable_seq == sequence + 1
        assert [one.scheduler for one in undo.leftover()] == [name]
        before = name
    os.kill(undo.leftover()[0].pid, signal.SIGKILL)
    event = event_of(switcher)
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, before)
    assert "signal 9" in event.detail
    assert attached() == ""
    switcher.begin(EEVDF)
    assert event_of(switcher).outcome is SwitchOutcome.CONFIRMED


def test_a_mode_is_passed_on(portfolio, tmp_path):
    name = next(name for name in portfolio.policies if name.bare == "scx_bpfland")
    switcher = PlainSwitcher(
        portfolio=portfolio,
        undo=UndoJournal(tmp_path / "undo.json"),
        clock=SystemClock(),
        limits=SwitchSettings(attach_limit_s=LIMIT_S),
        sys=SYS,
        logs=tmp_path,
    )
    switcher.begin(name)
    event = event_of(switcher)
    assert event.outcome is SwitchOutcome.CONFIRMED, event.detail
    words = Path(f"/proc/{scheduler_processes()[0]}/cmdline").read_bytes().decode().split("\0")[1:-1]
    assert tuple(words) == portfolio.arguments(name)
    switcher.rest()


def test_the_agent_survives_its_scheduler_and_ends_cleanly(tmp_path):
    with agent(tmp_path, "scx_simple", "scx_flash") as running:
        assert eventually(lambda: attached() == "simple"), running.said()
        os.kill(scheduler_processes()[0], signal.SIGKILL)
        assert eventually(lambda: attached().startswith("flash")), running.said()
        said = "scx_simple: was ended by signal 9"
        assert eventually(lambda: said in running.said())
        now = seen(set_aside=["scx_simple"], scheduler="scx_flash")
        assert now["pid"] == running.process.pid
        told = status()
        assert told["running"]
        assert told["sched_ext"]["ops"].startswith("flash")
        assert running.end() == 0
    assert attached() == ""
    assert not status()["running"]


def test_an_agent_killed_leaves_nothing_behind(tmp_path):
    with agent(tmp_path, "scx_simple") as running:
        assert eventually(lambda: attached() == "simple"), running.said()
        (scheduler,) = scheduler_processes()
        running.process.kill()
        running.process.wait(LIMIT_S)
        assert eventually(lambda: attached() == "")
        assert eventually(lambda: start_ticks(scheduler) is None)
    with agent(tmp_path, "scx_flash") as running:  # the next one finds a clean machine and works
        assert eventually(lambda: attached().startswith("flash")), running.said()
        assert running.end() == 0


def test_what_a_killed_agent_could_not_stop_is_stopped_by_the_next(tmp_path):
    orphan = start_by_hand("scx_simple")
    assert eventually(lambda: attached() == "simple")
    UndoJournal(paths.default().run / "undo.json").note("scx_simple", orphan.pid)
    with agent(tmp_path, "eevdf") as running:
        assert orphan.wait(LIMIT_S) == 0
        assert eventually(lambda: "an earlier agent had left scx_simple" in running.said())


def test_ctrl_c_while_a_scheduler_loads(tmp_path):
    with agent(tmp_path, "scx_rusty") as running:
        assert eventually(scheduler_processes), running.said()
        assert attached() == ""  # still loading
        assert running.end() == 0
    assert attached() == ""


def test_a_strangers_scheduler_is_left_alone(tmp_path):
    stranger = start_by_hand("scx_simple")
    assert eventually(lambda: attached() == "simple")
    with agent(tmp_path, "scx_flash") as running:
        assert eventually(lambda: "attached by somebody else" in running.said()), running.said()
        seen(mode="hold")
        assert running.end() == 0
    assert attached() == "simple"
    stranger.send_signal(signal.SIGINT)
    assert stranger.wait(LIMIT_S) == 0


def test_a_broken_binary_is_named_and_the_next_serves(tmp_path, monkeypatch):
    # a cache whose scx_simple is not the recorded file, and whose scx_rusty ends at once
    cache = tmp_path / "cache"
    real = paths.default().schedulers
    (cache / "asa/scx").mkdir(parents=True)
    records = json.loads((real / "installed.json").read_text())
    fake = cache / "asa/scx/fake"
    fake.write_text("#!/bin/sh\necho 'Error: I never work' >&2\nexit 7\n")
    fake.chmod(0o755)
    records["schedulers"]["scx_simple"]["path"] = str(fake)
    records["schedulers"]["scx_rusty"]["path"] = str(fake)
    digest = subprocess.run(["sha256sum", str(fake)], capture_output=True, text=True, check=True).stdout.split()[0]
    records["schedulers"]["scx_rusty"]["sha256"] = digest
    (cache / "asa/scx/installed.json").write_text(json.dumps(records))
    (cache / "asa/scx/installed.json").chmod(0o644)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with agent(tmp_path, "scx_simple", "scx_rusty", "scx_flash") as running:
        assert eventually(lambda: attached().startswith("flash")), running.said()
        said = running.said()
        assert "is not the recorded file" in said
        assert "scx_rusty: ended by itself with code 7; it said: 'Error: I never work'" in said
        assert running.end() == 0
