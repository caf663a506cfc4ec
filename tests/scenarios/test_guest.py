# SPDX-License-Identifier: GPL-2.0-only
"""Runs tests/guest inside the lab, on a kernel with sched_ext.

One guest for each file, as many at a time as this machine has cores (an emulated guest keeps less than one busy): a
fault that takes the guest's kernel with it spoils one file. What fails is played again, alone in a fresh guest, twice
at most: an emulated guest stands still for seconds now and then when the host is busy, and what such a pause broke
passes then. What fails three times has failed.
"""

import compileall
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest

from asa import paths
from asa.core.errors import LabError
from scenarios import catalogue
from scenarios.application import Tier
from scenarios.lab import box_asa, guest
from scenarios.session import place_for

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path.name for path in (ROOT / "tests/guest").glob("test_*.py"))
LONG = ("faults", "soak", "desktop", "helper_box", "switching", "agent_faults")  # begun first: none is waited for alone
CODE = ("asa", "calibration", "collectors", "models", "scenarios", "tests")
AT_A_TIME = os.cpu_count() or 1
PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # tests/guest uses no plug-in, and emulated they take seconds to load
LIMIT_S = 1200.0
CASE_LIMIT_S = 600.0
AGAIN = 2


def play(lab, out, what, show, limit_s):
    """Play test files or cases in one guest. Gives the cases that did not pass, and the last lines."""
    lines = []
    out.mkdir()
    report = out / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--rootdir", str(ROOT)]
    command += [f"--junitxml={report}", "-o", "junit_family=xunit1", *what]

    def take(line):
        lines.append(line)
        show(f"{out.name}: {line}")

    try:
        result = guest.run(command, lab=lab, out=out, on_output=take, memory_mb=3072, limit_s=limit_s, env=PLAIN)
    except LabError as error:
        return list(what), [*lines[-40:], str(error)]
    bad = failed(report)
    if result.exit_code == 0 and not bad and passed(report):
        return [], lines
    return bad or list(what), lines[-80:]


def failed(report):
    """Node ids of the cases in a JUnit report that failed, had an error or were skipped."""
    if not report.exists():
        return []
    cases = ElementTree.parse(report).getroot().iter("testcase")  # noqa: S314  # our own pytest wrote it
    return [
        f"{case.get('file')}::{case.get('name')}"
        for case in cases
        if any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
    ]


def passed(report):
    return sum(1 for _ in ElementTree.parse(report).getroot().iter("testcase")) > 0  # noqa: S314


@pytest.fixture(scope="module")
def lab():
    cache = paths.default().cache
    ready = guest.ready(cache, print)
    for name in CODE:  # whatever PYTHONDONTWRITEBYTECODE says: each process in a guest would compile it, emulated
        compileall.compile_dir(ROOT / name, quiet=2)
    box_asa.stage(cache)  # what is installed in the boxes of tests/guest: an installation there would take minutes
    for stand_in in catalogue.applications(Tier.LAB).values():  # a guest sees the cache read-only
        stand_in.prepare(place_for(stand_in, cache=cache, tier=Tier.LAB), print)
    return ready


@pytest.fixture(scope="module")
def outcomes(lab, tmp_path_factory, pytestconfig):
    folder = tmp_path_factory.mktemp("guests")
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def show(line):
        with capture.global_and_fixture_disabled():
            print(f"  guest {line}", flush=True)

    def one(name):
        return play(lab, folder / name.removesuffix(".py"), [f"tests/guest/{name}"], show, LIMIT_S)

    order = sorted(FILES, key=lambda name: name[len("test_") : -len(".py")] not in LONG)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        first = dict(zip(order, pool.map(one, order), strict=True))
    for turn in range(AGAIN):
        for name, (bad, _) in first.items():
            if bad:
                show(f"{name}: once more, alone: {', '.join(bad)}")
                again = folder / f"{name.removesuffix('.py')}-again-{turn}"
                first[name] = play(lab, again, bad, show, LIMIT_S if len(bad) > 3 else CASE_LIMIT_S)
    return first


@pytest.mark.vm
@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_guest_suite(outcomes, name):
    bad, lines = outcomes[name]
    assert not bad, "\n".join([f"failed each time: {', '.join(bad)}", *lines])


def test_a_report_tells_what_did_not_pass(tmp_path):
    report = tmp_path / "junit.xml"
    report.write_text(
        '<testsuites><testsuite><testcase file="a.py" name="good"/><testcase file="a.py" name="bad[1]"><failure/>'
        '</testcase><testcase file="b.py" name="left_out"><skipped/></testcase></testsuite></testsuites>'
    )
    assert failed(report) == ["a.py::bad[1]", "b.py::left_out"]
    assert failed(tmp_path / "missing.xml") == []
