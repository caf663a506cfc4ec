# SPDX-License-Identifier: GPL-2.0-only
"""A run of the fleet: shared out as tasks, kept as they come, gone on with after a kill; nothing lost or repeated."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import fleet_toys
import msgspec
import pyarrow.parquet as pq
import pytest
from waiting import until

from asa import paths, wire
from asa.core.errors import AsaError
from calibration.controllers import agent as controllers_agent
from calibration.fleet import task as fleet_task
from calibration.fleet.figures import read as fleet_figures_read
from calibration.fleet.run import Fleet, Request, run
from calibration.fleet.task import Played
from calibration.hosts import Where
from calibration.scenarios import tables as bench_tables
from calibration.stages import adapted
from scenarios import catalogue
from scenarios.lab.machines import find
from scenarios.runner_folder import Folder
from scenarios.runner_plan import Outcome, Series

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.setenv(fleet_toys.LOG, str(tmp_path / "log"))
    return tmp_path / "log"


def request_of(**fields):
    given = {
        "machines": find("vm120,vm125"),
        "scenarios": catalogue.find("S1,S2"),
        "columns": ("eevdf", "scx_simple", "agent"),
        "repeats": 2,
        "seed": 1,
        "seconds": 1.0,
        "warm_up_s": 0.0,
    }
    return Request(**given | fields)


def played(out, request, jobs=1, play=fleet_toys.play):
    heard = []
    with Fleet(out, request) as fleet:
        try:
            run(fleet, Where(jobs=jobs), heard.append, play)
        finally:
            counts = fleet.finish()
    return heard, counts


def test_a_task_is_a_scenario_of_a_repeat_on_a_machine_with_all_its_columns(tmp_path, log):
    request = request_of()
    with Fleet(tmp_path / "out", request, "asa lab fleet run") as fleet:
        tasks = fleet.tasks()
    assert len(tasks) == 2 * 2 * (2 + 1)  # machines, repeats; pairs, and game, archive, blender alone together
    assert [task.trials[0].repeat for task in tasks] == [1] * 6 + [2] * 6
    assert [task.machine.name for task in tasks] == ["vm120", "vm125"] * 6  # wherever it ends, alike on both
    for first in (tasks[0], tasks[1], tasks[6], tasks[7]):  # what others are compared with
        assert not any("+" in trial.label for trial in first.trials)
    for task in tasks:
        pair = "+" in task.trials[0].label
        assert len({(trial.repeat, trial.label) for trial in task.trials}) == (1 if pair else 3)
        assert {trial.scheduler for trial in task.trials} == (set(request.columns) if pair else {"eevdf"})
        assert task.given.among == ("eevdf", "scx_simple")
    facts = json.loads((tmp_path / "out/vm125/machine.json").read_text())
    assert (facts["name"], facts["cpus"], facts["prototype"], facts["command"]) == (
        "vm125",
        2,
        True,
        "asa lab fleet run",
    )


@pytest.mark.parametrize("jobs", [1, 3])
def test_everything_is_kept(tmp_path, log, jobs):
    out = tmp_path / "out"
    heard, counts = played(out, request_of(), jobs)
    assert len(heard) == len({one.task for one in heard}) == 12
    assert [(one.machine, one.planned, one.done, one.left) for one in counts] == [
        ("vm120", 18, 18, 0),
        ("vm125", 18, 18, 0),
    ]
    rows = pq.read_table(out / "vm120/trials.parquet").to_pylist()
    assert {row["cpus"] for row in rows} == {4}
    assert len(rows) == 18
    again, _ = played(out, request_of(), jobs)
    assert again == []


def test_more_repeats_are_added_and_by_a_refused_call_none(tmp_path, log):
    out = tmp_path / "out"
    played(out, request_of(repeats=1))
    plans = {path: path.read_bytes() for path in out.glob("*/plan.json")}
    with pytest.raises(AsaError, match="holds a run of settings"):
        Fleet(out, request_of(settings={"interval_s": 2.0}))
    assert {path: path.read_bytes() for path in out.glob("*/plan.json")} == plans
    with Fleet(out, request_of(), "with more") as fleet:
        assert {trial.repeat for task in fleet.tasks() for trial in task.trials} == {2}
        run(fleet, Where(), lambda _: None, fleet_toys.play)
        assert {(one.planned, one.done) for one in fleet.finish()} == {(18, 18)}
    assert {row["repeat"] for row in pq.read_table(out / "vm125/trials.parquet").to_pylist()} == {1, 2}
    assert json.loads((out / "vm125/machine.json").read_text())["command"] == "with more"


def test_more_columns_and_scenarios_are_added(tmp_path, log):
    out, wider = tmp_path / "out", ("eevdf", "scx_simple", "agent", "loader-auto")
    played(out, request_of())
    heard, counts = played(out, request_of(columns=wider))
    assert {result.trial.scheduler for one in heard for result in one.results} == {"loader-auto"}
    assert [(one.planned, one.done) for one in counts] == [(22, 22), (22, 22)]
    known = {path.name for path in out.glob("vm120/trials/*.json")}
    heard, counts = played(out, request_of(columns=wider, scenarios=catalogue.find("S1,S2,P2")))
    assert known.isdisjoint(f"{result.trial.id}.json" for one in heard for result in one.results)
    assert {result.trial.label for one in heard for result in one.results if result.trial.then} == {
        "game+blender~office+archive"
    }
    assert all(one.done == one.planned for one in counts)
    assert played(out, request_of(columns=wider, scenarios=catalogue.find("S1,S2,P2")))[0] == []


def test_an_agent_is_added_to_a_run_without_one(tmp_path, log):
    out, plain = tmp_path / "out", ("eevdf", "scx_simple")
    played(out, request_of(columns=plain))
    before = json.loads((out / "vm120/machine.json").read_text())
    assert before["settings"] == {}
    with Fleet(out, request_of(columns=(*plain, "agent"))) as fleet:
        assert json.loads((out / "vm120/machine.json").read_text()) == before  # nothing of it was played yet
        assert {trial.scheduler for task in fleet.tasks() for trial in task.trials} == {"agent"}
        run(fleet, Where(), lambda _: None, fleet_toys.play)
    facts = json.loads((out / "vm120/machine.json").read_text())
    assert facts["settings"] == controllers_agent.DEFAULTS
    assert facts["shipped_tables"] is not None
    with pytest.raises(AsaError, match="holds a run of settings"):
        Fleet(out, request_of(columns=(*plain, "agent"), settings={"interval_s": 2.0}))


def test_failed_trials_alone_are_played_again(tmp_path, log):
    def failing(task):
        results = tuple(
            fleet_toys.result(trial, Outcome.FAILED if trial.scheduler == "agent" else Outcome.DONE)
            for trial in task.trials
        )
        return Played(task=task.name, machine=task.machine.name, host="here", results=results)

    out = tmp_path / "out"
    _, counts = played(out, request_of(), play=failing)
    assert [(one.done, one.failed) for one in counts] == [(14, 4), (14, 4)]
    heard, counts = played(out, request_of())
    assert {result.trial.scheduler for one in heard for result in one.results} == {"agent"}
    assert [(one.done, one.failed) for one in counts] == [(18, 0), (18, 0)]
    found = fleet_figures_read.read(out)
    assert [one.again for one in found] == [(4, 4), (4, 4)]  # which the page says
    assert sum(pq.read_table(out / "vm120/trials.parquet")["attempts"].to_pylist()) == 18 + 4


def test_on_this_host_each_trial_is_kept_when_it_is_done(tmp_path, log, monkeypatch):
    """A kill in the middle of a task of nine columns would cost eight that are played."""

    def killed(task, *, keep):
        for trial in task.trials[:2]:
            keep(fleet_toys.result(trial))
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet_task, "play", killed)
    with pytest.raises(KeyboardInterrupt):
        played(tmp_path / "out", request_of(), play=None)
    kept = [result for folder in (tmp_path / "out").iterdir() for result in (folder / "trials").iterdir()]
    assert len(kept) == 2
    assert [one.name for one in (tmp_path / "out").glob("*/machine.json")] != []
    heard, counts = played(tmp_path / "out", request_of())
    again = {(one.machine, result.trial.id) for one in heard for result in one.results}
    assert again.isdisjoint((path.parts[-3], path.stem) for path in kept)
    assert [(one.done, one.left) for one in counts] == [(18, 0), (18, 0)]


def test_a_disk_that_is_full_ends_the_run(tmp_path, log, monkeypatch):
    begun = []

    def one(task, *, keep):
        begun.append(task.name)
        try:
            keep(fleet_toys.result(task.trials[0]))
        except AsaError as error:
            return Played(task=task.name, machine=task.machine.name, host="here", results=(), trouble=str(error))

    def full(*_):
        raise AsaError("out: cannot be written: No space left on device")

    monkeypatch.setattr(fleet_task, "play", one)
    with Fleet(tmp_path / "out", request_of()) as fleet:
        monkeypatch.setattr(Folder, "keep", full)
        with pytest.raises(AsaError, match="No space left"):
            run(fleet, Where(jobs=1), lambda _: None)
    assert len(begun) <= 2  # and the one that has begun meanwhile


def test_a_thread_that_plays_on_keeps_nothing_in_a_folder_that_another_run_may_have(tmp_path, log):
    with Fleet(tmp_path / "out", request_of()) as fleet:
        (task, *_) = fleet.tasks()
    with pytest.raises(AsaError, match="the run has ended"):
        fleet.keep(task.machine.name, [fleet_toys.result(task.trials[0])])
    assert list((tmp_path / "out").glob("*/trials/*.json")) == []


def test_phases_are_trials_of_the_tables(tmp_path, log):
    def phased(task):
        def result(trial):
            series = [
                Series(application=name, metric="key_ms", at_s=[0.1], values=[1.0], phase=number)
                for number, names in enumerate(trial.phases, 1)
                for name in names
            ]
            told = {"held_s": {"eevdf": 1.0}, "then": {"held_s": {"scx_simple": 1.0}}}
            fields = {"series": series, "then_window_s": 2.0, "parameters": {"controller": told}}
            return msgspec.structs.replace(fleet_toys.result(trial), **fields)

        results = tuple(map(result, task.trials))
        return Played(task=task.name, machine=task.machine.name, host="here", results=results)

    out = tmp_path / "out"
    played(out, request_of(scenarios=catalogue.find("P2"), machines=find("vm120"), repeats=1), play=phased)
    rows = {row["trial"]: row for row in pq.read_table(out / "vm120/trials.parquet").to_pylist()}
    then = rows["001-game+blender~office+archive-agent.2"]
    assert (then["scenario"], then["label"], then["window_s"]) == ("P2/2", "office+archive", 2.0)
    assert json.loads(then["parameters"])["controller"] == {"held_s": {"scx_simple": 1.0}}
    found = {one.trial: one for one in bench_tables.read(out / "vm120")}
    assert set(found[then["trial"]].samples) == {"office", "archive"}
    with Fleet(out, request_of(scenarios=catalogue.find("P2"), machines=find("vm120"), repeats=1)) as fleet:
        assert fleet.tasks() == []


def test_a_folder_of_another_run_is_refused(tmp_path, log):
    out, table = tmp_path / "out", tmp_path / "table.yaml"
    table.write_text("version: 2\n")
    tables = {"vm120": table, "vm125": table}
    with Fleet(out, request_of(tables=tables)) as fleet:
        assert {task.table for task in fleet.tasks()} == {b"version: 2\n"}
        with pytest.raises(AsaError, match="another run works there"):
            Fleet(out, request_of(tables=tables))
    with pytest.raises(AsaError, match=r"machine.json: holds a run of table '"):
        Fleet(out, request_of())
    with pytest.raises(AsaError, match=r"machine.json: holds a run of settings \{'guard'"):
        Fleet(out, request_of(tables=tables, settings={"interval_s": 2.0}))
    with pytest.raises(AsaError, match="holds another plan of repeats 2"):
        Fleet(out, request_of(tables=tables, repeats=1))
    with pytest.raises(AsaError, match="it is to be given to the agent on vm120"):
        Fleet(tmp_path / "other", request_of(tables={"vm120": tmp_path / "none"}))
    facts = out / "vm120/machine.json"
    added = json.loads(facts.read_text()) | {"adapt_minutes": 12.0}
    facts.write_text(json.dumps(added))
    Fleet(out, request_of(tables=tables), "another way to say it").__exit__()
    assert json.loads(facts.read_text()) == added


def test_tables_without_the_results_that_they_are_of_are_not_replaced(tmp_path, log):
    out, request = tmp_path / "out", request_of(scenarios=catalogue.find("S1,P2"), repeats=1)
    played(out, request)
    folder = out / "vm125"
    kept = {path: path.read_bytes() for path in folder.glob("*.parquet")}
    assert played(out, request)[0] == []
    next((folder / "trials").iterdir()).unlink()
    with pytest.raises(AsaError, match=r"vm125/trials.parquet: has \d trials whose own results are not beside it"):
        played(out, request)
    shutil.rmtree(folder / "trials")  # as a clone has it
    with pytest.raises(AsaError, match=r"vm125/trials.parquet: has \d\d trials .*; name another folder by --out"):
        played(out, request)
    assert not (folder / "trials").exists()
    assert {path: path.read_bytes() for path in kept} == kept
    (folder / "trials.parquet").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(AsaError, match=r"vm125/trials.parquet: is no table of a run: "):
        played(out, request)


def test_another_shipped_table_or_model_is_another_run(tmp_path, log, monkeypatch):
    out, model, tables = tmp_path / "out", tmp_path / "base.npz", tmp_path / "tables"
    model.write_bytes(b"one")
    tables.mkdir()
    (tables / "default.yaml").write_text("version: 2\n")
    monkeypatch.setattr(paths, "base_model", lambda: model)
    monkeypatch.setattr(paths, "mapping_tables", lambda: tables)
    of_none = request_of(columns=("eevdf", "random"))
    Fleet(out, request_of()).__exit__()
    Fleet(tmp_path / "without", of_none).__exit__()
    given = request_of(machines=find("vm120"), models={"vm120": tmp_path / "given.npz"})
    (tmp_path / "given.npz").write_bytes(b"two")
    Fleet(tmp_path / "given", given).__exit__()
    model.write_bytes(b"trained anew")
    Fleet(tmp_path / "given", given).__exit__()
    with pytest.raises(AsaError, match=r"machine.json: holds a run of shipped_model '"):
        Fleet(out, request_of())
    model.write_bytes(b"one")
    (tables / "vm120.yaml").write_text("version: 2\n")
    with pytest.raises(AsaError, match=r"machine.json: holds a run of shipped_tables '"):
        Fleet(out, request_of())
    Fleet(tmp_path / "without", of_none).__exit__()  # nothing there is of the agent


def test_the_minutes_of_adapting_come_with_the_table_that_they_are_of(tmp_path, log):
    out, table = tmp_path / "out", tmp_path / "vm125.yaml"
    table.write_text("version: 2\n")
    request, facts = request_of(tables={"vm120": table, "vm125": table}), out / "vm125/machine.json"
    Fleet(out, request).__exit__()
    begun = json.loads(facts.read_text())
    assert "adapt_minutes" not in begun
    adapted.write(table, 21.5)
    Fleet(out, request).__exit__()
    assert json.loads(facts.read_text()) == begun | {"adapt_minutes": 21.5}
    assert wire.from_json(facts.read_bytes(), fleet_figures_read.Facts).adapt_minutes == 21.5
    table.write_text("version: 2 # another\n")
    Fleet(tmp_path / "other", request).__exit__()
    assert "adapt_minutes" not in json.loads((tmp_path / "other/vm125/machine.json").read_text())


def test_hosts_that_cannot_play_end_the_run(tmp_path, log):
    def nobody(task):
        return Played(task=task.name, machine=task.machine.name, host="far", results=(), trouble="no QEMU")

    with pytest.raises(AsaError, match="3 tasks in a row could not be played: far: no QEMU"):
        played(tmp_path / "out", request_of(), play=nobody)


def test_an_interrupt_begins_no_other_task(tmp_path, log):
    """It may come while a result is kept; joblib's threads must not go on then while the tables are written."""
    before, go_on, begun = set(threading.enumerate()), threading.Event(), []

    def one(task):
        begun.append(task.name)
        if len(begun) > 1:
            go_on.wait()
        return fleet_toys.play(task)

    def interrupted(_):
        raise KeyboardInterrupt

    with Fleet(tmp_path / "out", request_of(repeats=4)) as fleet, pytest.raises(KeyboardInterrupt):
        run(fleet, Where(jobs=2), interrupted, one)
    go_on.set()
    until(lambda: set(threading.enumerate()) <= before, "all threads have ended")
    assert len(begun) <= 1 + 2


SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
import test_run as tests
tests.fleet_task.play = tests.fleet_toys.keeping
tests.played(Path(sys.argv[1]), tests.request_of(repeats=4), jobs=2, play=None)
"""


@pytest.mark.parametrize("with_what", [signal.SIGKILL, signal.SIGINT])
def test_a_kill_costs_the_tasks_under_way(tmp_path, log, with_what):
    out = tmp_path / "out"
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/calibration/fleet")]
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(out), *paths],
        env=os.environ | {fleet_toys.HELD: "5"},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(lambda: len(fleet_toys.said(log, "held")) == 2, "two tasks are under way")
    process.send_signal(with_what)
    assert process.wait(60.0) != 0
    kept = {path: path.read_bytes() for path in out.glob("*/trials/*.json")}
    assert len(kept) >= 5
    under_way = {tuple(words[1:]) for words in fleet_toys.said(log, "held")}
    heard, counts = played(out, request_of(repeats=4))
    assert [(one.done, one.left) for one in counts] == [(36, 0), (36, 0)]
    assert {path: path.read_bytes() for path in kept} == kept
    again = {(one.machine, result.trial.id) for one in heard for result in one.results}
    assert again.isdisjoint((path.parts[-3], path.stem) for path in kept)
    begun = Counter(tuple(words[1:]) for words in fleet_toys.said(log, "begin"))
    assert len(begun) == 24
    assert {name for name, count in begun.items() if count > 1} == under_way
