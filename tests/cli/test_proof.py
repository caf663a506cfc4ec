# SPDX-License-Identifier: GPL-2.0-only
"""`asa proof`: what it prints of what was kept, the file for strangers, and files that are not there or not whole."""

import json
import os

import pytest
from standin import asa
from tried_here import tried

from asa import paths
from asa.core.decision import SchedulerName, Workload
from asa.decide import learning
from asa.decide.learning import LEARNING, Learning
from asa.decide.trial_budget import Account

BPFLAND = SchedulerName("scx_bpfland")
WEB = Workload("web+blender")
RECORD = {
    "path": "/x",
    "origin": "built",
    "version": "1.1.4",
    "sha256": "ab" * 32,
    "flags": None,
    "installed": "2026-11-01",
}


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A machine with one scheduler, and the shipped tables."""
    files = {
        "proc/cpuinfo": "processor : 0\nmodel name : Test CPU\n",
        "proc/sys/kernel/osrelease": "6.18.7-john",
        "sys/devices/system/cpu/online": "0-1",
        "cache/scx/installed.json": json.dumps({"schedulers": {"scx_bpfland": RECORD}}),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = paths.Places(
        run=tmp_path / "run",
        cache=tmp_path / "cache",
        state=tmp_path / "state",
        config=tmp_path / "asa.yaml",
        proc=tmp_path / "proc",
        sys=tmp_path / "sys",
    )
    monkeypatch.setattr(paths, "default", lambda: found)
    monkeypatch.setattr(paths, "installed", lambda: paths.Places(state=tmp_path / "var"))
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "h", "6.18.7-john", "v", "x86_64")))
    return found


def keep(places, *asked, **account):
    learning.save(places.state / LEARNING, Learning(asked=asked, account=Account(**account)))


def better(**changes):
    return tried(BPFLAND, use=WEB, **({"kernel": "6.18.7-john"} | changes))


def test_nothing_is_known_of_a_machine_on_which_nothing_was_tried(places, capsys):
    code, said, error = asa(capsys, "proof")
    assert (code, error) == (0, "")
    assert said.startswith(
        "not yet known: nothing was tried on this machine so far\nmachine    Test CPU, kernel 6.18.7-john;"
    )


def test_what_is_better_and_what_it_cost(places, capsys):
    version = f"{'ab' * 32} on 6.18.7-john, Test CPU"
    keep(places, better(versions=("", version)), watched_s=7200.0, tried_s=180.0, since_ns=10**18)
    code, said, _ = asa(capsys, "proof")
    lines = said.splitlines()
    assert code == 0
    assert lines[0] == "better: for 1 of 1 use another scheduler is better here"
    assert lines[2].startswith("watched    since 2001-09-")
    assert (
        lines[3] == "cost       3 min under candidates (2.5%), 14 switches for what is listed; energy is not measured"
    )
    assert lines[5].startswith("web+blender: better; scx_bpfland serves it")
    assert lines[6] == (
        "  scx_bpfland against eevdf: better, saves +20% of the wait (+10% to +30%), 9 pairs, "
        "180 s under it, 14 switches"
    )
    as_json = json.loads(asa(capsys, "proof", "--json")[1])
    assert (as_json["answer"], as_json["since_ns"]) == ("better", 10**18)
    assert as_json["uses"][0]["found"][0]["versions"] == ["ab" * 6, ""]


@pytest.mark.parametrize(
    "changes", [{"kernel": "6.17.2"}, {"versions": ("", f"{'ab' * 32} on 6.18.7-john, Other CPU")}]
)
def test_of_another_kernel_or_machine(places, capsys, changes):
    keep(places, better(**changes))
    said = asa(capsys, "proof")[1]
    assert said.startswith("not yet known: ")
    assert "does not count: found " in said


def test_the_file_for_strangers(places, capsys, tmp_path):
    mine = tried(SchedulerName("scx_johns"), use=Workload("johns thesis"), words="John's call is on")
    keep(places, better(), mine, watched_s=10.0, since_ns=10**18 + 1)
    out = tmp_path / "proof.json"
    code, said, _ = asa(capsys, "proof", "--redacted", str(out))
    assert (code, said.startswith(f"{out}: better: ")) == (0, True)
    text = out.read_text()
    assert "john" not in text.lower()
    assert str(tmp_path) not in text
    found = json.loads(text)
    assert [use["use"] for use in found["uses"]] == ["web+blender", "use 1"]
    assert (found["kernel"], found["since_ns"] % (86_400 * 10**9)) == ("6.18.7", 0)
    code, _, error = asa(capsys, "proof", "--redacted", str(out))
    assert (code, error.count("\n"), out.read_text()) == (1, 1, text)
    code, _, error = asa(capsys, "proof", "--redacted", str(tmp_path / "nowhere" / "x.json"))
    assert (code, error.count("\n")) == (1, 1)


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[]", b'{"version": 99}', b'{"version": 2, "asked": [{}]}'])
def test_damaged(places, capsys, body):
    places.state.mkdir()
    (places.state / LEARNING).write_bytes(body)
    code, said, error = asa(capsys, "proof")
    assert (code, said, error.count("\n")) == (1, "", 1)
    assert str(places.state / LEARNING) in error


def test_of_a_version_before_trials(places, capsys):
    places.state.mkdir()
    (places.state / LEARNING).write_text('{"version": 1, "stays": []}')
    assert asa(capsys, "proof")[1].startswith("not yet known: nothing was tried")


def test_a_table_of_its_own_does_not_take_away_what_was_found(places, capsys):
    keep(places, better())
    assert "scx_bpfland serves it" in asa(capsys, "proof")[1]
    (places.state / "table.yaml").write_text(
        "version: 2\nmachine: {name: here}\nprovenance: mine\nclasses: {web: [{scheduler: eevdf, why: mine}]}\n"
    )
    assert "scx_bpfland serves it" in asa(capsys, "proof")[1]
