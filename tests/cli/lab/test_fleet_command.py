# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab fleet run`: what is asked for, what is refused in one line, and what it ends with."""

import json

import fleet_toys
import pytest

from asa.cli.lab import fleet as command
from asa.cli.main import main
from calibration.fleet import run as fleet_run
from calibration.fleet.task import Played
from scenarios.lab import machines
from scenarios.runner_plan import Outcome


@pytest.fixture
def fleet(tmp_path, monkeypatch, capsys):
    """Runs the command, with toys that play; gives exit code, output, messages and the tasks."""
    monkeypatch.setenv(fleet_toys.LOG, str(tmp_path / "log"))
    monkeypatch.setattr(command, "_make_ready", lambda request, places, report: report("all is there"))
    real, tasks = fleet_run.run, []

    def run(*words, play=fleet_toys.play):
        def taking(task):
            tasks.append(task)
            return play(task)

        monkeypatch.setattr(fleet_run, "run", lambda fleet, where, heard: real(fleet, where, heard, taking))
        tasks.clear()
        with pytest.raises(SystemExit) as ended:
            main(["lab", "fleet", "run", "--out", str(tmp_path / "out"), *words])
        said = capsys.readouterr()
        return ended.value.code or 0, said.out, said.err, tasks

    return run


SMALL = ("--machine", "vm125", "--scenario", "S1", "--seconds", "1", "--warm-up", "0")


def test_a_run_from_beginning_to_end(fleet, tmp_path):
    words = (
        *SMALL,
        "--scheduler",
        "eevdf,scx_simple,controllers,agent:no-guard",
        "--repeat",
        "2",
        "--jobs",
        "2",
        "--json",
    )
    code, out, err, tasks = fleet(*words)
    assert code == 0
    assert json.loads(out) == {"machine": "vm125", "planned": 16, "done": 16, "failed": 0, "left": 0}
    assert "asa: 16 trials in 4 tasks to play, results in " in err
    assert "4/4 vm125 002 " in err
    pair = next(task for task in tasks if "+" in task.trials[0].label)
    columns = {"eevdf", "scx_simple", "agent", "loader-auto", "random", "agent:no-guard"}
    assert {trial.scheduler for trial in pair.trials} == columns
    facts = json.loads((tmp_path / "out/vm125/machine.json").read_text())
    assert facts["command"].startswith(
        f"asa lab fleet run --out {tmp_path}/out --machine vm125 --scenario S1 --scheduler ee"
    )
    code, out, err, tasks = fleet(*words)
    assert (code, tasks) == (0, [])


def test_what_failed_is_told(fleet):
    def failing(task):
        results = tuple(fleet_toys.result(trial, Outcome.FAILED) for trial in task.trials[:1])
        return Played(task=task.name, machine=task.machine.name, host="far", results=results, trouble="no QEMU")

    code, out, err, _ = fleet(*SMALL, "--scheduler", "eevdf,agent", "--repeat", "2", "--json", play=failing)
    assert code == 1
    assert "far: no QEMU" in " ".join(err.split())
    assert "3 tasks in a row could not be played" in " ".join(err.split())
    code, out, err, _ = fleet(*SMALL, "--scheduler", "eevdf,agent", "--repeat", "2", "--json")
    assert (code, json.loads(out)["done"]) == (0, 8)


def test_trials_that_fail_end_otherwise_than_what_cannot_be_played(fleet):
    def failing(task):
        results = tuple(fleet_toys.result(trial, Outcome.FAILED) for trial in task.trials)
        return Played(task=task.name, machine=task.machine.name, host="far", results=results)

    code, out, _, _ = fleet(*SMALL, "--scheduler", "eevdf", "--json", play=failing)
    assert (code, json.loads(out)["failed"]) == (4, 3)
    code, out, err, tasks = fleet(*SMALL, "--scheduler", "eevdf", "--seed", "5")
    assert (code, out, tasks) == (1, "", [])
    assert "holds another plan of seed 0" in err


def test_ctrl_c_leaves_what_was_played_in_tables(fleet, tmp_path):
    def interrupted(task):
        if (tmp_path / "out/vm125/trials").exists() and list((tmp_path / "out/vm125/trials").iterdir()):
            raise KeyboardInterrupt
        return fleet_toys.play(task)

    code, _, err, _ = fleet(*SMALL, "--scheduler", "eevdf", play=interrupted)
    assert code == 130
    assert "interrupted; the same command goes on from here" in err
    assert (tmp_path / "out/vm125/trials.parquet").exists()
    code, _, _, tasks = fleet(*SMALL, "--scheduler", "eevdf")
    assert (code, len(tasks)) == (0, 1)


def test_each_machine_with_its_own_table(fleet, tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    for one in machines.fleet()[:2]:
        (folder / f"{one.name}.yaml").write_text(one.name)
    settings = tmp_path / "asa.yaml"
    settings.write_text("voting: {window_s: 4}\n")
    words = ("--scenario", "S1", "--scheduler", "eevdf,agent", "--table", str(folder), "--settings", str(settings))
    code, _, _, tasks = fleet(*words, "--machine", "vm120,vm121")
    assert code == 0
    assert {(task.machine.name, task.table) for task in tasks} == {("vm120", b"vm120"), ("vm121", b"vm121")}
    assert tasks[0].given.settings == {"voting": {"window_s": 4}}
    code, _, err, _ = fleet(*words, "--machine", "vm122")
    assert code == 1
    assert f"{folder}/vm122.yaml: No such file or directory; it is to be given to the agent on vm122" in err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--scheduler", "agent:no-brain"),
            "asa: --scheduler: 'agent:no-brain' is not accepted; allowed: agent, agent:fresh, agent:learnt, ",
        ),
        (("--machine", "vm1"), "asa: --machine: 'vm1' is not accepted; allowed: all, prototypes"),
        (("--scenario", "S29"), "asa: --scenario: 'S29' is not accepted"),
        (("--settings", "/dev/null/x"), "asa: /dev/null/x: "),
    ],
)
def test_wrong_words(fleet, words, line):
    code, out, err, tasks = fleet(*SMALL, *words)
    assert (code, out, tasks) == (1, "", [])
    assert err.startswith(line)


def test_jobs_are_not_a_clusters(fleet, monkeypatch):
    monkeypatch.setattr(command, "need", lambda *modules, extra: None)
    code, _, err, _ = fleet(*SMALL, "--cluster", "tcp://127.0.0.1:1", "--jobs", "2")
    assert code == 1
    assert "--jobs is of guests here" in err
