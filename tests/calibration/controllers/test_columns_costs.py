# SPDX-License-Identifier: GPL-2.0-only
"""What each tick of the agent took, from its journal to the trial's result: the paper's Table 4 is made of it."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from asa import config, yamlfile
from asa.journal import Journal
from asa.paths import Places
from calibration.controllers import agent as controllers_agent
from calibration.controllers import columns as controllers
from calibration.controllers.agent import Job, running, settings
from calibration.controllers.columns import Controllers, Given
from calibration.controllers.course import Course, told

S = 1_000_000_000

AGENT = """
import json, os, signal, sys, time
from pathlib import Path
import msgspec
from asa.core.sample import RawSample
from asa.journal import Costs, Journal, SessionHeader
from asa.status import Status, StatusFile

run = Path(sys.argv[1])
(run / "given").write_text(Path(sys.argv[3]).read_text())
ended = []
signal.signal(signal.SIGINT, lambda *_: ended.append(1))
unknown = {"float": 0.0, "int": 0, "str": "", "dict": {}, "list": []}
fields = {}
for field in msgspec.structs.fields(Status):
    if field.required:
        origin = getattr(field.type, "__origin__", field.type)
        fields[field.name] = unknown.get(getattr(origin, "__name__", ""), None)
if "--journal" in sys.argv and sys.argv[2] == "keeps":
    with Journal.open(Path(sys.argv[sys.argv.index("--journal") + 1])) as journal:
        journal.begin(SessionHeader(started_ns=1, asa_version="0", host="x", kernel="6.18", cpus=2))
        for tick, (model_us, rest_us) in enumerate(((None, 250.0), (500.0, 125.0), (250.0, 62.5)), 1):
            journal.add(RawSample(monotonic_ns=tick * 10**9, wall_ns=1), None)
            took = {"collection_us": 1.0, "action_us": 1.0, "journal_us": 1.0, "cpu_ns": 1, "resident_bytes": None}
            journal.add_costs(
                Costs(monotonic_ns=tick * 10**9, inference_us=model_us, decision_us=rest_us, **took)
            )
status = StatusFile(run)
status.write(Status(**fields | {"pid": os.getpid(), "ticks": 1, "mode": "switching"}))
print(json.dumps({"decision": {"monotonic_ns": 1, "workload": "web", "current": "eevdf"}}), flush=True)
while not ended:
    time.sleep(0.01)
status.close()
"""


@pytest.fixture
def agent(tmp_path):
    """Runs a stand-in for `asa run`, which keeps a journal or does not."""
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    places = Places(run=tmp_path / "run", sys=tmp_path / "sys")
    places.run.mkdir()

    @contextmanager
    def start(course, job, do):
        command = (sys.executable, str(script), str(places.run), do)
        with running(job, places, tmp_path / "scratch", course, command) as check:
            check()
            yield json.loads((places.run / "given").read_text())

    return start


def test_each_tick_is_read_from_the_agents_journal_and_told_by_window(agent):
    course = Course()
    with agent(course, Job(costs=True), "keeps") as given:
        assert given["journal"] == {"costs_every": 1}
    assert course.costs == [(2 * S, 0.5, 0.125), (3 * S, 0.25, 0.0625)]  # the first tick had nothing to judge by
    found = told(course, [(2 * S, 3 * S), (3 * S, 4 * S)])
    assert (found["inference_ms"], found["decision_ms"]) == ([0.5], [0.125])
    assert (found["then"]["inference_ms"], found["then"]["decision_ms"]) == ([0.25], [0.0625])
    assert "inference_ms" not in told(course, [(4 * S, 5 * S)])


@pytest.mark.parametrize(("job", "do"), [(Job(costs=True), "does not"), (Job(), "keeps")])
def test_where_no_journal_is_kept_nothing_is_known_of_its_ticks(agent, job, do):
    course = Course()
    with agent(course, job, do):
        pass
    assert course.costs == []
    assert course.held == [(1, "eevdf")]


def test_the_agent_of_a_trial_keeps_them(monkeypatch, tmp_path):
    jobs = []

    @contextmanager
    def at_work(job, places, scratch, course):
        jobs.append(job)
        yield lambda: None

    monkeypatch.setattr(controllers_agent, "running", at_work)
    with Controllers(Places(run=tmp_path), Given(), tmp_path).hold(controllers.AGENT):
        pass
    assert [job.costs for job in jobs] == [True]


def test_the_setting_is_the_agents():
    every = yamlfile.loads(json.dumps(settings(Job(costs=True))), config.Settings, "asa.yaml").journal.costs_every
    plain = yamlfile.loads(json.dumps(settings(Job())), config.Settings, "asa.yaml").journal.costs_every
    assert (every, plain) == (1, 60)


@pytest.mark.parametrize(("every", "share"), [(1, 1.0), (60, 0.0)])
def test_the_agent_keeps_the_costs_of_as_many_ticks_as_it_is_told(tmp_path, every, share):
    path, journal = tmp_path / "asa.yaml", tmp_path / "journal.sqlite"
    path.write_text(f"interval_s: 0.2\ncollect: {{ebpf: off}}\njournal: {{costs_every: {every}}}\n")
    words = ("run", "--observe", "--for", "2", "--config", str(path), "--journal", str(journal))
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "asa.cli", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with Journal.look(Path(journal)) as book:
        (session,) = book.sessions()
        ticks, costs = list(book.decisions(session.number)), list(book.costs(session.number))
    assert len(ticks) >= 2
    assert len(costs) == max(1, share * len(ticks))  # the first tick is always among them
