# SPDX-License-Identifier: GPL-2.0-only
"""`asa run`, `status` and `doctor` as a user starts them on this host, with good and bad input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import LIMIT_S

from asa import paths
from asa.act.portfolio import Portfolio
from asa.config import PolicySettings, Voting
from asa.core.decision import Permit
from asa.decide import table
from asa.journal import Journal
from asa.pipeline import Setup, State, step
from models.runtime import Ensemble

HAS_SCHED_EXT = Path("/sys/kernel/sched_ext").exists()


def asa(*words, env=None, limit_s=60):
    command = [sys.executable, "-m", "asa.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s, env=env)


def rules_of_this_host():
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    return Setup(
        classifier=Ensemble.load(paths.base_model()),
        table=table.for_this_machine(portfolio.modes()),
        voting=Voting(),
        policy=PolicySettings(),
        name_of_ops=portfolio.name_of_ops,
        permit=Permit(switch=False),
    )


@pytest.fixture
def env(tmp_path):
    """A user's environment of its own; root's run folder stays /run/asa."""
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}


def test_observing_this_host(env, tmp_path):
    journal = tmp_path / "j.sqlite"
    words = ("run", "--observe", "--for", "3.5", "--json", "--journal", str(journal))
    done = asa(*words, env=env)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert any("observing only: by --observe" in line.get("say", "") for line in lines)
    decisions = [line["decision"] for line in lines if "decision" in line]
    assert 3 <= len(decisions) <= 5  # a busy machine may skip one
    assert decisions[0]["reason"] == "no-rates"
    assert abs(sum(decisions[-1]["probabilities"]["values"]) - 1.0) < 1e-5
    assert all(decision["switch_to"] is None for decision in decisions)
    with Journal.open(journal) as book:
        (session,) = book.sessions()
        made = list(book.decisions(session.number))
        samples = list(book.samples(session.number))
    assert len(samples) == len(made) == len(decisions)
    state, again = State(), []
    for sample in samples:  # what it decided live, decided again from its journal
        state = step(rules_of_this_host(), state, sample)
        again.append(state.decision)
    assert again == made


@pytest.mark.skipif(HAS_SCHED_EXT, reason="this kernel has sched_ext; tests/guest covers switching")
def test_without_sched_ext_it_says_so_once_and_observes(env):
    done = asa("run", "--for", "2.5", env=env)
    assert done.returncode == 0
    lines = done.stdout.replace(env["XDG_RUNTIME_DIR"], "").splitlines()  # which has this test's name in it
    said = [line for line in lines if "sched_ext" in line]
    assert len(said) == 1
    assert "observing only: this kernel has no sched_ext" in said[0]


def test_probes_that_are_off_are_neither_opened_nor_missed(env):
    done = asa("run", "--observe", "--ebpf", "off", "--for", "1.5", "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stdout.splitlines() if "without ebpf" in line]


@pytest.mark.parametrize("command", [("run",), ("lab", "record", "--label", "idle")])
def test_an_unknown_way_for_the_probes_is_refused(env, command):
    done = asa(*command, "--ebpf", "maybe", env=env)
    assert done.returncode == 2
    assert "'maybe' is not one of auto, core, bcc, off" in done.stderr


def test_status_tells_of_the_agent_and_of_none(env):
    process = subprocess.Popen(
        [sys.executable, "-m", "asa.cli", "run", "--observe", "--json"], stdout=subprocess.PIPE, env=env
    )
    assert process.stdout is not None
    while b'"decision"' not in process.stdout.readline():
        pass
    seen = asa("status", "--json", env=env)
    assert seen.returncode == 0
    body = json.loads(seen.stdout)
    assert body["running"]
    assert body["agent"]["pid"] == process.pid
    assert body["agent"]["mode"] == "observing"
    assert body["agent"]["cost_us"].keys() >= {"cpu", "memory", "network"}
    assert all(0 < cost_us < 1e6 for cost_us in body["agent"]["cost_us"].values())
    assert body["agent"]["slow_sources"] == {}
    assert set(body["agent"]["hint"]) == {"because", "interactive", "background", "weight"}
    assert 0 <= body["agent"]["worst_late_ms"] < 60_000
    shown = asa("status", env=env).stdout
    assert "agent      observing" in shown
    assert "timing     the latest tick began" in shown
    assert "another agent is running" in asa("run", "--observe", env=env).stderr
    process.send_signal(signal.SIGTERM)
    assert process.wait(LIMIT_S) == 0
    gone = asa("status", "--json", env=env)
    assert gone.returncode == 3
    assert not json.loads(gone.stdout)["running"]


COMPILING = """
import signal, sys
from pathlib import Path
from asa import assembly
from asa.cli.main import main

class Ready:
    name = "cpu"
    lacking = {}
    def open(self):
        pass
    def read(self):
        return {}
    def close(self):
        print(f"{self.name} closed", flush=True)

class Compiling(Ready):
    name = "ebpf"
    def open(self):
        print("opening", flush=True)
        signal.pause()

assembly.standard = lambda *_: [Ready(), Compiling()]
main(["run", "--observe"])
"""


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_sources_open_cleans_up(env, sign):
    process = subprocess.Popen([sys.executable, "-c", COMPILING], stdout=subprocess.PIPE, env=env)
    assert process.stdout is not None
    assert process.stdout.readline() == b"opening\n"
    process.send_signal(sign)
    told, _ = process.communicate(timeout=LIMIT_S)
    assert told == b"ebpf closed\ncpu closed\n"
    assert process.returncode == 130


def test_doctor_names_what_is_missing(env):
    done = asa("doctor", "--json", env=env)
    told = json.loads(done.stdout)
    findings = {finding["subject"]: finding for finding in told["findings"]}
    assert done.returncode == {"works": 0, "observes": 1, "fails": 3}[told["verdict"]]
    assert findings["sched_ext"]["level"] == ("ok" if HAS_SCHED_EXT else "missing")
    if not HAS_SCHED_EXT:
        assert "CONFIG_SCHED_CLASS_EXT" in findings["sched_ext"]["remedy"]
        assert told["sentence"].startswith("ASA only observes here, because kernel ")
    assert findings["eevdf"]["level"] == "ok"
    assert findings["scx_nest"]["text"]
    assert asa("doctor", env=env).stdout.startswith(f"{told['sentence']}\n")


def test_doctor_names_a_rival(env, tmp_path):
    rival = tmp_path / "scx_loader"
    rival.write_bytes(Path("/bin/sleep").read_bytes())
    rival.chmod(0o755)
    process = subprocess.Popen([str(rival), "60"])
    try:
        end = time.monotonic() + 5  # until exec has given it its name
        while Path(f"/proc/{process.pid}/comm").read_text() != "scx_loader\n" and time.monotonic() < end:
            pass
        assert "scx_loader is running" in asa("doctor", env=env).stdout
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("voting: {window: 6}", "voting.window: 6 is not accepted; allowed: one of the keys method, open_world"),
        ("interval_s: soon", "interval_s: 'soon' is not accepted"),
        ("table: /nowhere/t.yaml", "/nowhere/t.yaml: 'No such file or directory'"),
        ("model: /nowhere/m.npz", "/nowhere/m.npz"),
        ("a: [", "valid YAML"),
    ],
)
def test_bad_settings_are_one_line(env, tmp_path, text, words):
    path = tmp_path / "asa.yaml"
    path.write_text(text)
    done = asa("run", "--observe", "--config", str(path), env=env)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_missing_settings_file_that_was_named_is_an_error(env):
    done = asa("run", "--observe", "--config", "/nowhere/asa.yaml", env=env)
    assert done.returncode == 1
    assert "/nowhere/asa.yaml" in done.stderr


def test_settings_are_read_again_and_bad_ones_refused(env, tmp_path):
    path = tmp_path / "asa.yaml"
    path.write_text("interval_s: 0.2\n")
    words = [sys.executable, "-m", "asa.cli", "run", "--observe", "--config", str(path)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    while "observing only" not in (line := process.stdout.readline()):
        assert line
    path.write_text("voting: {window_s: -1}\n")
    process.send_signal(signal.SIGHUP)
    line = process.stdout.readline()
    while "settings" not in line and line:
        line = process.stdout.readline()
    assert "voting.window_s: -1" in line
    assert "keeping the settings in force" in line
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test")
@pytest.mark.parametrize("realtime", [True, False])
def test_root_s_agent_goes_before_ordinary_tasks_unless_told_not_to(env, tmp_path, realtime):
    path = tmp_path / "asa.yaml"
    path.write_text(f"interval_s: 0.2\nrealtime: {realtime}\n")
    words = [sys.executable, "-m", "asa.cli", "run", "--observe", "--config", str(path), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        while "decision" not in (line := process.stdout.readline()):
            assert line
        policy = os.sched_getscheduler(process.pid) & ~os.SCHED_RESET_ON_FORK
        process.send_signal(signal.SIGINT)
    assert policy == (os.SCHED_RR if realtime else os.SCHED_OTHER)


HUNG_UP = """
import signal, sys
from dataclasses import replace
from pathlib import Path
from asa import assembly, paths
from asa.cli.main import main

scratch, when, *words = sys.argv[1:]
settings = Path(scratch, "asa.yaml")
places = replace(paths.default(), run=Path(scratch, "run"))

def first():  # before this no settings, no sources, not a word
    if when == "first":
        paths.default = lambda: places
        signal.raise_signal(signal.SIGHUP)
    return places

def sources(*_):  # the settings have been read, and are others by now
    if when == "opening":
        settings.write_text("voting: {window_s: -1}")
        signal.raise_signal(signal.SIGHUP)
    return standard(*_)

standard, assembly.standard, paths.default = assembly.standard, sources, first
main([*words, "--observe", "--config", str(settings), "--for", "0.5"])
"""
NO_BUS = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}


@pytest.mark.parametrize("words", [("run", "--ebpf", "off"), ("daemon", "--no-journal")])
@pytest.mark.parametrize(
    ("when", "said"),
    [("first", "settings read again"), ("opening", "voting.window_s: -1 is not accepted"), ("never", None)],
)
def test_settings_are_read_again_when_told_to_before_the_loop_began(env, tmp_path, words, when, said):
    (tmp_path / "asa.yaml").write_text("interval_s: 0.2\n")
    command = [sys.executable, "-c", HUNG_UP, str(tmp_path), when, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env={**env, **NO_BUS})
    assert done.returncode == 0, done.stderr
    heard = [line for line in done.stdout.splitlines() if "settings read again" in line or "settings in force" in line]
    assert [said in line for line in heard] == ([True] if said else [])


def test_a_damaged_journal_of_its_own_keeps_the_daemon_from_nothing(env, tmp_path):
    kept = tmp_path / "asa" / "daemon.sqlite"
    kept.parent.mkdir()
    kept.write_text("no journal " * 100)
    done = asa("daemon", "--for", "0.5", "--journal", str(kept), env={**env, **NO_BUS})
    assert done.returncode == 1
    assert "move it away to start anew" in done.stderr
    done = asa("daemon", "--for", "0.5", env={**env, **NO_BUS})
    assert done.returncode == 0, done.stderr
    assert f"moved to {kept.with_suffix('.damaged')}, starting anew" in done.stdout
    with Journal.look(kept) as book:
        (session,) = book.sessions()
        assert book.ticks(session.number) >= 1
    listed = asa("journal", "list", "--json", env=env)  # of what the agent writes, without a name
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["journal"] == str(kept)


@pytest.mark.parametrize("errors", [subprocess.PIPE, subprocess.STDOUT])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_daemon_goes_on_without_a_reader(env, tmp_path, form, errors):
    (tmp_path / "asa.yaml").write_text("interval_s: 0.2\n")
    words = ("daemon", "--observe", "--for", "2", "--config", str(tmp_path / "asa.yaml"), *form)
    command = [sys.executable, "-m", "asa.cli", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**env, **NO_BUS})
    assert process.stdout is not None
    process.stdout.close()
    if process.stderr is not None:
        said = process.stderr.read().splitlines()
        assert said == ["asa: standard output cannot be written: Broken pipe; going on without it"]
    assert process.wait(30) == 0
    with Journal.look(tmp_path / "asa" / "daemon.sqlite") as book:
        assert book.ticks(1) >= 5
