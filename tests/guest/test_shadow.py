# SPDX-License-Identifier: GPL-2.0-only
"""The shadow mode with real schedulers on a real kernel: each loads and is verified, none is ever attached.

Runs as root inside the lab. The agent is the one a user starts; its table names one scheduler for every class, and is
another one after each SIGHUP.
"""

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from agents import Copy, asa
from waiting import until

from asa import paths
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.core.decision import SchedulerName
from models.runtime import Ensemble
from scenarios import planted

SYS = Path("/sys")
ROTA = ["scx_simple", "scx_flash", "scx_rusty"]  # others come up in test_switching and test_helper_box
LIMIT_S = 120.0  # emulated, on a shared host
OWNER = paths.default().cache.stat().st_uid  # who ran the tests on the host built the schedulers


class Shadow:
    """`asa run --shadow` as a user starts it, with the journal where it is by default."""

    def __init__(self, folder, scheduler):
        self.folder = folder
        self.env = {"XDG_STATE_HOME": str(folder / "state")}
        self.write_table(scheduler)
        settings = {
            "table": str(folder / "table.yaml"),
            "voting": {"threshold": 0.01, "open_world": False},
            "policy": {"cooldown_s": 0, "dwell_s": 0},
            "switch": {"attach_limit_s": LIMIT_S, "trusted_owners": [OWNER]},
        }
        (folder / "asa.yaml").write_text(json.dumps(settings))
        self.output = folder / "agent.out"
        words = ["run", "--shadow", "--json", "--ebpf", "off", "--config", str(folder / "asa.yaml")]
        with self.output.open("wb") as output:
            self.process = Copy(words, output, output, self.env)

    def write_table(self, scheduler):
        planted.write(
            self.folder / "table.yaml", {key: [scheduler] for key in Ensemble.load(paths.base_model()).classes}
        )

    def want(self, scheduler):
        self.write_table(scheduler)
        self.process.send_signal(signal.SIGHUP)

    def said(self):
        return self.output.read_text()

    def until_said(self, words):
        until(lambda: words in self.said() or self.process.poll() is not None, self.said, LIMIT_S)
        assert words in self.said(), self.said()

    def end(self):
        told = self.said().count('"decision"')  # what has happened is written down with the next tick
        until(lambda: self.said().count('"decision"') >= told + 2, self.said, LIMIT_S)
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(LIMIT_S) == 0, self.said()

    def report(self):
        done = asa("lab", "shadow", "report", "--json", env=self.env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def start(tmp_path):
    running = []

    def start(scheduler):
        running.append(Shadow(tmp_path, scheduler))
        return running[-1]

    yield start
    for shadow in running:
        if shadow.process.poll() is None:
            shadow.process.kill()
            shadow.process.wait(LIMIT_S)


@pytest.fixture
def stranger():
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers, owners=[OWNER])
    opened, count = portfolio.open(SchedulerName("scx_simple")), sched_ext_state(SYS).enable_seq
    process = subprocess.Popen(opened.argv, executable=f"/proc/self/fd/{opened.fd}", pass_fds=(opened.fd,))
    try:
        until(lambda: in_force() == ("enabled", "simple"), "a stranger's scheduler attached", LIMIT_S)
        until(lambda: sched_ext_state(SYS).enable_seq > count, "the kernel counted it", LIMIT_S)  # a moment later
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT_S)


def in_force():
    state = sched_ext_state(SYS)
    return state.state, state.ops


def settings_of_cpus():
    return {path: path.read_text() for path in SYS.glob("devices/system/cpu/cpu*/power/pm_qos_resume_latency_us")}


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


def test_a_rota_beside_a_strangers_scheduler(start, stranger):
    before, settings = sched_ext_state(SYS), settings_of_cpus()
    assert settings
    shadow = start(ROTA[0])
    for name in ROTA:
        if name != ROTA[0]:
            shadow.want(name)
        shadow.until_said(f"{name} loaded and verified in")
        assert sched_ext_state(SYS) == before  # the enable count stands still: nothing was attached in between
    shadow.want("eevdf")
    shadow.until_said("eevdf chosen (shadow)")
    assert "on hold" not in shadow.said()
    shadow.end()
    assert sched_ext_state(SYS) == before
    assert stranger.poll() is None
    assert scheduler_processes() == [stranger.pid]
    assert settings_of_cpus() == settings
    found = shadow.report()
    by_name = {costs["scheduler"]: costs for costs in found["schedulers"]}
    assert set(by_name) == {*ROTA, "eevdf"}
    for name in ROTA:
        costs = by_name[name]
        assert (costs["chosen"], costs["loaded"], costs["failures"]) == (1, 1, {}), costs
        assert 0.0 < costs["cpu_ms"]["max"] < 1.2 * costs["wall_ms"]["max"] * (os.cpu_count() or 1)
        assert costs["memory_mb"] > 1.0
    assert by_name["scx_rusty"]["system_ms"]["max"] > 0.0  # verification
    assert (by_name["eevdf"]["chosen"], by_name["eevdf"]["loaded"]) == (1, 0)
    agent = found["agent"]
    assert agent["ticks"] > len(ROTA)
    assert agent["inference_us"]["p50"] > 0.0
    assert agent["loads_cpu_pct"] > 0.0
    assert agent["resident_mb"] > 10.0
    print(json.dumps(found))  # figures of a real run, for who asks pytest for them (-rP)


def test_one_that_does_not_load_is_told_with_its_words_and_tried_again_later(start, tmp_path, monkeypatch):
    # a cache whose scx_rusty ends at once
    real = paths.default().schedulers
    (tmp_path / "cache/asa/scx").mkdir(parents=True)
    records = json.loads((real / "installed.json").read_text())
    fake = tmp_path / "cache/asa/scx/fake"
    fake.write_text("#!/bin/sh\necho 'Error: I never work' >&2\nexit 7\n")
    fake.chmod(0o755)
    records["schedulers"]["scx_rusty"] |= {
        "path": str(fake),
        "sha256": hashlib.sha256(fake.read_bytes()).hexdigest(),
    }
    (tmp_path / "cache/asa/scx/installed.json").write_text(json.dumps(records))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = sched_ext_state(SYS)
    shadow = start("scx_rusty")
    shadow.until_said("I never work")
    shadow.want("scx_simple")
    shadow.until_said("scx_simple loaded and verified in")
    shadow.end()
    assert sched_ext_state(SYS) == before
    by_name = {costs["scheduler"]: costs for costs in shadow.report()["schedulers"]}
    rusty = by_name["scx_rusty"]
    assert (rusty["chosen"], rusty["loaded"], rusty["wall_ms"]) == (1, 0, None)
    ((words, count),) = rusty["failures"].items()
    assert "ended by itself with code 7; it said: 'Error: I never work'" in words
    assert count == 1
    assert by_name["scx_simple"]["loaded"] == 1


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_an_agent_that_ends_while_one_loads_leaves_nothing(start, sign):
    before, settings = sched_ext_state(SYS), settings_of_cpus()
    shadow = start("scx_flash")
    until(scheduler_processes, shadow.said, LIMIT_S)
    shadow.process.send_signal(sign)
    shadow.process.wait(LIMIT_S)
    until(lambda: not scheduler_processes(), "the one that was loading ended", LIMIT_S)
    assert sched_ext_state(SYS) == before
    if sign == signal.SIGKILL:
        again = start("eevdf")  # the next one puts back what this one could not
        again.until_said("shadow mode: what is chosen loads")
        again.end()
    assert settings_of_cpus() == settings
