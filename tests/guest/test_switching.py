# SPDX-License-Identifier: GPL-2.0-only
"""Real schedulers on a real kernel: switching, and what the kernel runs after something was killed.

Runs as root inside the lab. The agent is the one a user starts; its table wants the same scheduler for every class, so
that no workload is needed.
"""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from asa import paths
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.switcher import PlainSwitcher
from asa.act.undo import UndoJournal, start_ticks
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome
from collectors.sampler import SystemClock
from models.runtime import NumpyEnsemble

SYS = Path("/sys")
ROTA = ["scx_simple", "scx_flash", "scx_bpfland", "scx_rusty", "scx_p2dq"]
LIMIT_S = 90.0  # emulated, on a shared host


OWNER = paths.default().cache.stat().st_uid  # who ran the tests on the host built the schedulers


@pytest.fixture
def portfolio():
    return Portfolio.load(paths.manifest(), paths.default().schedulers, owners=[OWNER])


@pytest.fixture(autouse=True)
def before_and_after():
    assert sched_ext_state(SYS).state == "disabled"
    yield
    assert eventually(lambda: sched_ext_state(SYS).state == "disabled"), sched_ext_state(SYS)
    assert not scheduler_processes()


def eventually(what, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if what():
            return True
        select.select([], [], [], 0.05)
    return False


def scheduler_processes():
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(b"scx_"):
            found.append(int(folder.name))
    return found


def attached():
    """ops of what is attached, "" for the kernel's own scheduler."""
    state = sched_ext_state(SYS)
    return state.ops if state.state == "enabled" else ""


def event_of(switcher):
    box = []
    assert eventually(lambda: (event := switcher.poll()) and not box.append(event)), "no event"
    return box[0]


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
        assert undo.leftover().scheduler == name
        before = name
    os.kill(undo.leftover().pid, signal.SIGKILL)
    event = event_of(switcher)
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, before)
    assert "signal 9" in event.detail
    assert attached() == ""
    switcher.begin(EEVDF)
    assert event_of(switcher).outcome is SwitchOutcome.CONFIRMED


def test_a_mode_is_passed_on(portfolio, tmp_path):
    name = SchedulerName("scx_bpfland")
    mode = next(mode for mode in portfolio.entry(name).modes if mode != "default")
    switcher = PlainSwitcher(
        portfolio=portfolio,
        undo=UndoJournal(tmp_path / "undo.json"),
        clock=SystemClock(),
        limits=SwitchSettings(attach_limit_s=LIMIT_S),
        sys=SYS,
        logs=tmp_path,
    )
    switcher.begin(SchedulerName(f"{name}:{mode}"))
    event = event_of(switcher)
    assert event.outcome is SwitchOutcome.CONFIRMED, event.detail
    words = Path(f"/proc/{scheduler_processes()[0]}/cmdline").read_bytes().decode().split("\0")[1:-1]
    assert tuple(words) == portfolio.entry(name).modes[mode]
    switcher.rest()


class AgentProcess:
    """`asa run` as a user starts it, with every class served by `ranking`."""

    def __init__(self, folder, ranking):
        classes = NumpyEnsemble.load(paths.base_model()).classes
        table = {
            "version": 1,
            "machine": {"name": "test"},
            "provenance": "test",
            "classes": {name: [{"scheduler": one, "why": "test"} for one in ranking] for name in classes},
        }
        (folder / "table.yaml").write_text(json.dumps(table))  # JSON is YAML
        settings = {
            "table": str(folder / "table.yaml"),
            "voting": {"threshold": 0.01},
            "policy": {"cooldown_s": 0, "dwell_s": 0},
            "switch": {"attach_limit_s": LIMIT_S, "trusted_owners": [OWNER]},
        }
        self.config = folder / "asa.yaml"
        self.config.write_text(json.dumps(settings))
        words = [sys.executable, "-m", "asa.cli", "run", "--json", "--config", str(self.config)]
        self.output = folder / "agent.out"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def said(self):
        return self.output.read_text()

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(LIMIT_S)


@contextmanager
def agent(folder, *ranking):
    running = AgentProcess(folder, ranking)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end()


def status():
    done = subprocess.run([sys.executable, "-m", "asa.cli", "status", "--json"], capture_output=True, check=False)
    return json.loads(done.stdout)


def test_the_agent_survives_its_scheduler_and_ends_cleanly(tmp_path):
    with agent(tmp_path, "scx_simple", "scx_flash") as running:
        assert eventually(lambda: attached() == "simple"), running.said()
        os.kill(scheduler_processes()[0], signal.SIGKILL)
        assert eventually(lambda: attached().startswith("flash")), running.said()
        said = "scx_simple: was ended by signal 9"
        assert eventually(lambda: said in running.said())
        seen = status()
        assert seen["running"]
        assert seen["agent"]["set_aside"] == ["scx_simple"]
        assert eventually(lambda: (status()["agent"] or {}).get("scheduler") == "scx_flash")
        assert seen["sched_ext"]["ops"].startswith("flash")
        assert running.end() == 0
    assert attached() == ""
    assert not status()["running"]


def test_one_that_the_kernel_evicts_is_set_aside(tmp_path):
    with agent(tmp_path, "scx_flash", "scx_simple") as running:
        assert eventually(lambda: "-> scx_flash in" in running.said()), running.said()  # the agent knows it runs
        Path("/proc/sysrq-trigger").write_text("S")  # Documentation/admin-guide/sysrq.rst: back to the fair scheduler
        assert eventually(lambda: attached() == "simple"), running.said()
        assert eventually(lambda: (status()["agent"] or {}).get("set_aside") == ["scx_flash"])
        assert running.said().count("-> scx_flash in") == 1
        assert running.end() == 0


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


def test_what_a_killed_agent_could_not_stop_is_stopped_by_the_next(tmp_path, portfolio):
    opened = portfolio.open(SchedulerName("scx_simple"))
    orphan = subprocess.Popen(opened.argv, executable=f"/proc/self/fd/{opened.fd}", pass_fds=(opened.fd,))
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


def test_a_strangers_scheduler_is_left_alone(tmp_path, portfolio):
    opened = portfolio.open(SchedulerName("scx_simple"))
    stranger = subprocess.Popen(opened.argv, executable=f"/proc/self/fd/{opened.fd}", pass_fds=(opened.fd,))
    assert eventually(lambda: attached() == "simple")
    with agent(tmp_path, "scx_flash") as running:
        assert eventually(lambda: "attached by somebody else" in running.said()), running.said()
        assert eventually(lambda: (status()["agent"] or {}).get("mode") == "hold")
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
