# SPDX-License-Identifier: GPL-2.0-only
"""Jobs of the laboratory: what is started, one at a time, cancelled at each stage, and ended with their server."""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp_agent import BOT, ONE, OTHER, Machine

from asa.core.errors import AsaError
from asa.mcp import asked, audit, working
from asa.mcp.tools import WORKING
from asa.mcp.working import Works
from asa.paths import Places
from calibration.composing import spec

ANSWERS = "import json, sys; print('step', file=sys.stderr); print(json.dumps({'argv': sys.argv[1:]}))"
WAITS = "import sys, time; print('guest boots', file=sys.stderr, flush=True); time.sleep(600)"
VERIFY = asked.Verify(policy=ONE, why="before a trial")


@pytest.fixture
def works(tmp_path):
    made = []

    def make(program, **places):
        machine = Machine(Places(run=tmp_path / "run", state=tmp_path / "state", **places))
        made.append(Works(machine, (sys.executable, "-c", program)))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ended(works, number, who=BOT):
    found = works.job(who, asked.Job(id=number, wait_s=60))
    assert found.stage != "running"
    works._works[number].ended.wait(60.0)
    return found


def outcomes(tmp_path):
    return [json.loads(line)["outcome"] for line in (tmp_path / "state" / audit.NAME).read_text().splitlines()]


def test_the_command_line_is_of_closed_words(works, tmp_path):
    here = works(ANSWERS)
    composed = asked.Compose(template="vtime", why=".", parameters=(asked.Parameter(name="slice-us", value=5000),))
    tuned = asked.Tune(policy=ONE, for_use="requests", method="golden", why=".", flags=("--slice-us",))
    argv = []
    for begun in (lambda: here.compose(BOT, composed), lambda: here.verify(BOT, VERIFY), lambda: here.tune(BOT, tuned)):
        found = ended(here, begun().id)
        assert found.stage == "done"
        argv.append(found.result["argv"])
    assert argv == [
        ["lab", "compose", "vtime", "--out", "made", "--param=slice-us=5000", "--json"],
        ["lab", "verify", ONE, "--json"],
        [
            *("lab", "tune", "--policy", ONE, "--class=requests", "--method", "golden", "--out", "tuned"),
            *("--machine", "vm120", "--trials", "12", "--seed", "1", "--flag=--slice-us", "--json"),
        ],
    ]
    assert outcomes(tmp_path) == [audit.BEGUN, "done"] * 3


def test_a_name_that_ends_a_line_begins_nothing(works, tmp_path):
    """A pattern's `$` lets a line feed pass: 14,000 fuzzed calls found it on a job's command line."""
    compose = next(tool for tool in WORKING if tool.name == "compose")
    ask = {"template": "vtime", "why": ".", "parameters": [{"name": "slice-us\n", "value": 1}]}
    with pytest.raises(AsaError, match="ends a line"):
        compose.answer(ask, works(ANSWERS), BOT)
    assert not (tmp_path / "state").exists()


def test_what_was_composed_here_can_be_verified(works):
    here = works("import json, sys; print(json.dumps({'object': 'made/x.bpf.o', 'argv': sys.argv[1:]}))")
    made = ended(here, here.compose(BOT, asked.Compose(template="fifo", why=".")).id)
    found = ended(here, here.verify(BOT, asked.Verify(made=made.id, why=".")).id)
    assert found.result["argv"][2].endswith(f"/jobs/{made.id}/made/x.bpf.o")
    assert found.result["argv"][3:] == ["--composed", "--json"]
    for wrong, words in (
        (asked.Verify(why="."), "give `policy`"),
        (asked.Verify(policy=ONE, made=made.id, why="."), "give `policy`"),
        (asked.Verify(made=found.id, why="."), "has composed nothing"),
        (asked.Verify(made="f" * 16, why="."), "there is no job 'ffffffffffffffff'"),
        (asked.Verify(policy="scx_absent", why="."), "an id that `policies` lists"),
    ):
        with pytest.raises(AsaError, match=words):
            here.verify(BOT, wrong)


def test_one_job_at_a_time_and_only_its_session_sees_or_ends_it(works, tmp_path):
    here = works(WAITS)
    begun = here.verify(BOT, VERIFY)
    assert (begun.kind, begun.stage) == ("verify", "running")
    with pytest.raises(AsaError, match=f"the client 'bot' .*has a job already: verify {begun.id}; one at a time"):
        here.verify(OTHER, VERIFY)
    for ask in (asked.Job(id=begun.id), asked.Job(id=begun.id, cancel=True)):
        with pytest.raises(AsaError, match="belongs to another session"):
            here.job(OTHER, ask)
    found = here.job(BOT, asked.Job(id=begun.id, cancel=True))
    assert (found.stage, found.why, found.result) == ("cancelled", "cancelled by the client", None)
    work = here._works[begun.id]
    assert work.ended.wait(60.0)
    assert work.process is None or work.process.poll() is not None
    assert outcomes(tmp_path) == [audit.BEGUN, "cancelled: cancelled by the client"]
    again = here.job(BOT, asked.Job(id=begun.id, cancel=True))  # after its end it changes nothing
    assert again.stage == "cancelled"


def test_it_is_cancelled_while_it_works_too(works):
    here = works(WAITS)
    begun = here.tune(BOT, asked.Tune(policy=ONE, for_use="requests", method="pso", why="."))
    end_s = time.monotonic() + 60.0
    while here.job(BOT, asked.Job(id=begun.id)).why != "guest boots":
        assert time.monotonic() < end_s
        time.sleep(0.01)
    here.close()
    work = here._works[begun.id]
    assert work.ended.wait(60.0)
    assert (work.stage, work.why) == ("cancelled", "the client has gone")
    assert work.process.poll() is not None


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; print('asa: no such scenario', file=sys.stderr); sys.exit(1)", "no such scenario"),
        ("print('no json')", "it answered what is no JSON"),
        ("print('[' * 100_000)", "it answered what is no JSON"),
        ("print('1' * 300_000)", "longer than 256 KiB"),
        ("import os; os.kill(os.getpid(), 9)", "it ended with -9"),
    ],
)
def test_a_job_that_fails_says_why_in_a_line(works, program, words):
    here = works(program)
    found = ended(here, here.verify(BOT, VERIFY).id)
    assert found.stage == "failed"
    assert words in found.why


def test_a_full_disk_begins_nothing(works, tmp_path, monkeypatch):
    here = works(ANSWERS)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "touch", full)
        with pytest.raises(AsaError, match="No space left on device; nothing was begun"):
            here.verify(BOT, VERIFY)

    def no_line(path, _):
        raise AsaError(f"{path}: the disk is full; free some space")

    monkeypatch.setattr(audit, "append", no_line)
    with pytest.raises(AsaError, match="the disk is full"):
        here.verify(BOT, VERIFY)
    assert here._works == {}


def test_a_child_ends_with_who_started_it():
    """A server that is killed: its child gets SIGTERM from the kernel."""
    server = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-P', '-c', sys.argv[1]],"
        " env={**os.environ, 'ASA_SERVER': str(os.getpid())})\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    becomes = (
        "import os, sys, time\n"
        "from asa.mcp import child\n"
        "os.execv = lambda *_: (print('tied', flush=True), time.sleep(600))\n"
        "child.main()\n"
    )
    with subprocess.Popen([sys.executable, "-P", "-c", server, becomes], stdout=subprocess.PIPE) as started:
        child = int(started.stdout.readline())
        assert started.stdout.readline() == b"tied\n"
        watched = os.pidfd_open(child)
        started.kill()
        started.wait()
        assert select.select([watched], [], [], 60.0)[0]
        os.close(watched)


def test_the_templates_are_those_of_the_laboratory():
    templates = asked.Compose.__annotations__["template"].__args__
    assert sorted(templates) == sorted(spec.preset_names())
    assert working.FOLDER == "jobs"
