# SPDX-License-Identifier: GPL-2.0-only
"""Runs tests/guest inside the lab, on a kernel with sched_ext; `lab_jobs` plays them, `beside` says when.

A run of this file alone plays those of its cases that were asked for, as many at a time as there is room for.
"""

import json
import os
import subprocess
import sys
import threading

import beside
import lab_jobs
import pytest

from scenarios.lab.emulator import Clock

NAMES = beside.FILES
REPORT = (
    '<testsuites><testsuite><testcase file="a.py" name="good" time="2"/><testcase file="a.py" name="bad[1]" time="3">'
    '<failure/></testcase><testcase file="b.py" name="left_out"><skipped message="needs a cat"/></testcase>'
    '<testcase file="c.py" name="good" time="1"/></testsuite></testsuites>'
)
HOOKS = """
import sys
from pathlib import Path
sys.path[:0] = PATHS
import beside, lab_jobs
HERE = Path(__file__).parent
beside.FILES, beside.ELSEWHERE, lab_jobs.ROOT = (), (("test_c.py",),), HERE
beside.PROGRAM = f'''import sys
from pathlib import Path
sys.path[:0] = {PATHS!r}
import lab_jobs
lab_jobs.ROOT, lab_jobs.Stage.prepare = Path({str(HERE)!r}), lambda stage: None
lab_jobs.main(sys.argv[1])
'''
from beside import played_beside, pytest_collection_modifyitems, pytest_runtest_call
"""
TREE = {
    "conftest.py": HOOKS,
    "pytest.ini": "[pytest]\ntestpaths = .\nmarkers =\n    vm: boots\n    alone: alone\n    one_cpu: one\n",
    "test_a.py": """
import beside, pytest
def told(request):
    return beside.PLAYER in request.config.stash and request.config.stash[beside.PLAYER]._told
@pytest.mark.vm
@pytest.mark.parametrize("wrong", [False, True])
def test_boots(wrong):
    assert not wrong
def test_ordinary(request):
    assert told(request) == {"begin", "whole"}
""",
    "test_b.py": """
import pytest
from test_a import told
@pytest.mark.alone
def test_alone(request):
    assert told(request) == set()
@pytest.mark.one_cpu
def test_one_cpu(request):
    assert told(request) == {"begin"}
""",
    "test_c.py": """
import beside, pytest
def test_elsewhere(request):
    assert beside.PLAYER not in request.config.stash
def test_skipped():
    pytest.skip("needs a cat")
""",
}


@pytest.fixture(scope="module")
def player(request, pytestconfig, tmp_path_factory):
    if beside.PLAYER in pytestconfig.stash:
        yield pytestconfig.stash[beside.PLAYER]
        return
    cases = [item for item in request.session.items if getattr(item, "originalname", "") == "test_guest_suite"]
    asked = [item.callspec.params["name"] for item in cases]
    with beside.Player(pytestconfig, tmp_path_factory.mktemp("guests"), lab_jobs.guests(asked)) as player:
        yield player


@pytest.mark.vm
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_guest_suite(player, name, request):
    request.node.played_s = beside.judge(player, f"tests/guest/{name}")


def test_a_report_tells_what_did_not_pass(tmp_path):
    report = tmp_path / "junit.xml"
    report.write_text(REPORT)
    found = lab_jobs.judged(report, ["a.py", "b.py::left_out", "c.py", "d.py", "c.py::missing"])
    assert {one: (outcome.bad, outcome.seconds) for one, outcome in found.items()} == {
        "a.py": (["a.py::bad[1]"], 5.0),
        "b.py::left_out": (["b.py::left_out"], 0.0),
        "c.py": ([], 1.0),
        "d.py": (["d.py"], 0.0),
        "c.py::missing": (["c.py::missing"], 0.0),
    }
    assert lab_jobs.judged(tmp_path / "none.xml", ["a.py"])["a.py"].bad == ["a.py"]
    here = lab_jobs.judged(report, ["a.py", "b.py::left_out"], skips=True)
    assert (here["a.py"].bad, here["a.py"].skipped) == (["a.py::bad[1]"], "")
    assert (here["b.py::left_out"].bad, here["b.py::left_out"].skipped) == ([], "needs a cat")


def test_every_file_is_played_in_one_guest():
    played = [name for job in lab_jobs.guests(NAMES) for name in job.what]
    assert sorted(played) == [f"tests/guest/{name}" for name in NAMES]
    assert {f"test_{name}.py" for group in lab_jobs.TOGETHER for name in group} <= set(NAMES)
    (alone,) = lab_jobs.guests(["test_new.py"])
    assert (alone.name, alone.what) == ("test_new", ("tests/guest/test_new.py",))
    assert lab_jobs.in_order([*lab_jobs.guests(NAMES), alone])[0] == alone


def test_cases_of_this_host_are_played_by_group_or_by_file():
    cases = ["tests/b/c/test_x.py::test_y[a::b]", "tests/test_v.py::test_w", "tests/b/test_z.py::test_y"]
    jobs = lab_jobs.of_this_host(cases, [("tests/q/", "tests/b/")])
    assert [(job.name, job.what) for job in jobs] == [("q", (cases[0], cases[2])), ("test_v", (cases[1],))]
    assert all((lab_jobs.ROOT / file).exists() for group in beside.ELSEWHERE for file in group)


def test_where_tests_wait_an_emulated_guest_does_not_depend_on_the_hosts_load():
    waits = ("tests/guest/test_watch.py", "tests/guest/test_undo.py::test_x[a::b]")
    assert lab_jobs.clock(waits, kvm=False) is Clock.PARALLEL
    assert lab_jobs.clock(waits, kvm=True) is Clock.WALL
    assert lab_jobs.clock((*waits, "tests/guest/test_desktop.py"), kvm=False) is Clock.WALL
    assert {f"test_{name}.py" for name in lab_jobs.BY_THE_PARALLEL_CLOCK} <= set(NAMES)
    for group in lab_jobs.TOGETHER:  # a guest has one clock
        assert len({name in lab_jobs.BY_THE_PARALLEL_CLOCK for name in group}) == 1


def test_the_document_names_those_with_the_parallel_clock():
    (row,) = (
        line for line in (lab_jobs.ROOT / "docs/lab.md").read_text().splitlines() if line.startswith("| in guests: `")
    )
    assert set(row.split("|")[1].strip().removeprefix("in guests: ").split(", ")) == {
        f"`{name}`" for name in lab_jobs.BY_THE_PARALLEL_CLOCK
    }


def test_the_last_cpu_is_left_to_others_until_all_may_be_used():
    whole, cpus = threading.Event(), os.sched_getaffinity(0)
    with lab_jobs.fewer_cpus(whole) as all_cpus, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        assert os.sched_getaffinity(child.pid) == (cpus - {max(cpus)} or cpus)
        all_cpus()
        assert os.sched_getaffinity(child.pid) == os.sched_getaffinity(0) == cpus
    whole.set()
    with lab_jobs.fewer_cpus(whole):
        assert os.sched_getaffinity(0) == cpus


def run(folder, *words):
    paths = [str(lab_jobs.ROOT / "tests"), str(lab_jobs.ROOT)]
    for name, text in TREE.items():
        (folder / name).write_text(f"PATHS = {paths!r}\n{text}" if name == "conftest.py" else text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *words]
    env = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(
        [*command, f"--basetemp={folder / 'tmp'}"], cwd=folder, capture_output=True, text=True, check=False, env=env
    ).stdout


def test_in_a_run_of_everything_what_boots_is_played_beside_the_others(tmp_path):
    printed = run(tmp_path)
    assert "1 failed, 5 passed, 1 skipped" in printed, printed
    names = ("test_alone", "test_one_cpu", "test_ordinary", "test_boots[False]", "test_elsewhere")
    order = [printed.index(f"::{name} ") for name in names]
    assert order == sorted(order)
    assert "guest test_a.py::test_boots[True]: once more, alone" in printed
    assert "failed each time: test_a.py::test_boots[True]" in printed
    outcomes = json.loads((tmp_path / "tmp/guests0/outcomes.json").read_text())
    boots, elsewhere = ["test_boots[False]", "test_boots[True]"], ["test_elsewhere", "test_skipped"]
    assert sorted(outcomes) == [
        *(f"test_a.py::{name}" for name in boots),
        *(f"test_c.py::{name}" for name in elsewhere),
    ]


def test_in_a_run_of_some_cases_they_are_played_in_their_turn(tmp_path):
    printed = run(tmp_path, "test_a.py::test_boots")
    assert "1 passed" in printed, printed
    assert "once more" not in printed
    assert not (tmp_path / "tmp/guests0").exists()
