# SPDX-License-Identifier: GPL-2.0-only
"""`asa resume` with an agent that stands in for the real one."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from standin import asa as run_asa
from standin import host_in

from asa import paths

HELD = {
    "mode": "hold",
    "mode_reason": "somebody else's scheduler is attached",
    "scheduler": "eevdf",
    "wanted": "scx_flash",
    "set_aside": ["scx_p2dq:performance", "scx_rusty"],
}


@pytest.fixture
def host(tmp_path, monkeypatch):
    yield from host_in(tmp_path, monkeypatch)


def asa(capsys, *words):
    return run_asa(capsys, "resume", *words)


def test_the_hold_ends_and_all_may_be_tried_again(host, capsys):
    host.agent(**HELD)
    code, said, _ = asa(capsys)
    assert code == 0
    assert said.splitlines() == [
        "the hold is over; switching",
        "may be tried again: scx_p2dq:performance, scx_rusty",
        "eevdf in force; wanted scx_flash",
    ]


@pytest.mark.parametrize("name", ["scx_p2dq", "scx_p2dq:performance"])
def test_one_of_them(host, capsys, name):
    host.agent(**HELD | {"mode": "switching", "mode_reason": ""})
    code, said, _ = asa(capsys, name)
    assert code == 0
    assert said.splitlines() == [
        "there was no hold; switching",
        "may be tried again: scx_p2dq:performance",
        "set aside: scx_rusty",
        "eevdf in force; wanted scx_flash",
    ]


def test_one_that_was_not_set_aside(host, capsys):
    host.agent(**HELD)
    code, said, _ = asa(capsys, "scx_flash")
    assert code == 0
    assert "scx_flash was not set aside" in said


def test_for_programs(host, capsys):
    host.agent(**HELD)
    code, said, _ = asa(capsys, "--json")
    body = json.loads(said)
    assert code == 0
    assert body["resumed"]
    assert body["agent"]["mode"] == "switching"
    assert body["agent"]["set_aside"] == []


def test_a_hold_that_stays_is_said(host, capsys, monkeypatch):
    monkeypatch.setattr("asa.requests._LIMIT_S", 0.3)
    host.agent("keeps", **HELD | {"set_aside": []})
    code, said, _ = asa(capsys)
    assert code == 1
    assert "still on hold: somebody else's scheduler is attached" in said


def test_without_an_agent(host, capsys, monkeypatch):
    none = paths.default()
    monkeypatch.setattr(paths, "Places", lambda **given: none)
    code, said, error = asa(capsys)
    assert (code, said) == (1, "")
    assert error == "asa: no agent is running; `asa run` starts one\n"


@pytest.mark.parametrize(
    ("name", "words"),
    [("scx_nonsense", "is no scheduler that asa knows"), ("scx_flash:nonsense", "scx_flash has the modes default")],
)
def test_an_unknown_scheduler(host, capsys, name, words):
    host.agent(**HELD)
    code, _, error = asa(capsys, name)
    assert code == 1
    assert repr(name) in error
    assert words in error
    assert error.count("\n") == 1


def test_an_agent_of_another_version_is_not_ended(host, capsys):
    agent = host.agent("old", **HELD)
    code, _, error = asa(capsys)
    assert code == 1
    assert f"the agent (pid {agent.pid}) takes no requests" in error
    assert agent.poll() is None


@pytest.mark.parametrize("how", ["deaf", "silent"])
def test_an_agent_that_does_not_answer(host, capsys, monkeypatch, how):
    monkeypatch.setattr("asa.requests._LIMIT_S", 0.3)
    agent = host.agent(how, **HELD)
    code, _, error = asa(capsys)
    assert code == 1
    assert f"the agent (pid {agent.pid}) has not answered within" in error


def test_an_agent_that_ends_meanwhile(host, capsys):
    host.agent("dies", **HELD)
    code, _, error = asa(capsys)
    assert code == 1
    assert error == "asa: the agent has just ended\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; run the tests as root")
def test_another_users_agent(host, capsys):
    with tempfile.TemporaryDirectory() as folder:  # the others below pytest's are closed to other users
        Path(folder).chmod(0o755)
        host.folder = Path(folder) / "run"
        agent = host.agent(**HELD)
        script = f"""
import os, pathlib
from asa import paths
from asa.cli.main import main
os.setgroups([]), os.setgid(65534), os.setuid(65534)
paths.default = lambda: paths.Places(run=pathlib.Path({str(host.folder)!r}))
main(["resume"])
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
        assert done.stderr == f"asa: {host.folder}: only root may ask this agent: run it with sudo\n"
        assert done.returncode == 1
        assert agent.poll() is None
        host.end()  # it writes its status there each moment
