# SPDX-License-Identifier: GPL-2.0-only
"""`asa setup` takes the steps that findings name: their order, rights, failures, and what is left to a person."""

import json
import os

import pytest

from asa import doctor
from asa.cli.main import main
from asa.verdict import Finding, Level


def lacking(subject, *command, level=Level.WARNING, **more):
    return Finding(subject=subject, level=level, text=f"{subject} lacks", command=command, **more)


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Findings by turns; the last ones stay."""
    turns, looks = [], []

    def examine(_places):
        looks.append(turns[min(len(looks), len(turns) - 1)])
        return looks[-1]

    monkeypatch.setattr(doctor, "examine", examine)
    return lambda *several: turns.extend(several)


def setup(*words):
    with pytest.raises(SystemExit) as end:
        main(["setup", *words])
    return end.value.code


def told(capfd, *words):
    code = setup("--json", *words)
    found = json.loads(capfd.readouterr().out)
    return code, [(one["command"], one["outcome"]) for one in found["steps"]], found["verdict"]


def test_each_step_is_taken_once_and_what_follows_from_it_too(machine, capfd, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    stays = lacking("stubborn", "true")
    after = lacking("start", "touch", str(second))
    machine([lacking("installation", "touch", str(first)), stays], [stays, after], [stays])
    code, steps, verdict = told(capfd)
    assert steps == [(f"touch {first}", "done"), ("true", "done"), (f"touch {second}", "done")]
    assert (code, verdict) == (0, "works")
    assert first.exists()
    assert second.exists()


@pytest.mark.parametrize("command", [("false",), ("/no/such/program",)])
def test_a_step_that_fails_ends_it(machine, capfd, tmp_path, command):
    machine([lacking("schedulers", *command), lacking("start", "touch", str(tmp_path / "later"))])
    code, steps, _ = told(capfd)
    assert (code, steps) == (1, [(" ".join(command), "failed")])
    assert not (tmp_path / "later").exists()


def test_what_takes_root_is_left_to_root(machine, capfd, tmp_path, monkeypatch):
    path = tmp_path / "of-root"
    found = [lacking("schedulers", "sudo", "touch", str(path), level=Level.MISSING, needed=True)]
    machine(found)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, steps, verdict = told(capfd)
    assert (code, steps, verdict) == (1, [(f"sudo touch {path}", "left to `sudo asa setup`")], "observes")
    assert not path.exists()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert told(capfd)[1] == [(f"sudo touch {path}", "done")]
    assert path.exists()


def test_a_dry_run_changes_nothing_and_words_are_for_people(machine, capfd, tmp_path):
    path = tmp_path / "made"
    machine([lacking("installation", "touch", str(path))])
    assert told(capfd, "--dry-run") == (0, [(f"touch {path}", "to do")], "works")
    assert not path.exists()
    assert setup() == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == f"done: touch {path} (installation lacks)"
    assert lines[-1].startswith("ASA works here")


def test_nothing_to_do_is_said(machine, capfd):
    machine([Finding(subject="root", level=Level.OK, text="running as root")])
    assert setup() == 0
    assert capfd.readouterr().out.splitlines()[0] == "nothing is left for `asa setup` to do"


def test_what_is_left_to_a_person_is_said(machine, capfd):
    machine([lacking("kernel", level=Level.MISSING, needed=True, remedy="boot another kernel")])
    assert setup() == 1
    shown = capfd.readouterr().out.splitlines()
    assert shown == [
        "nothing is left for `asa setup` to do",
        "ASA only observes here, because kernel lacks.",
        "  -> boot another kernel",
    ]


def test_asa_itself_runs_by_the_same_program(machine, capfd):
    machine([lacking("x", "asa", "--version")])
    assert setup("--json") == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out)["steps"][0]["outcome"] == "done"
    assert shown.err.startswith("asa ")
