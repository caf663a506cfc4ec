# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of runs of everything, below ~/.cache/asa/tests: how long each part took, and which tests ran twice.

Hooks for conftest; at the end they print both. In a run of everything each test may have another try: one that boots a
guest by `lab_jobs`, all others by pytest-rerunfailures, a few in a run. Guests play on the same two cores then, and
a process that gets no CPU for seconds breaks one of eight thousand. What failed at first is printed whole. One that
needed another try in two of the last three runs has a fault, and fails the run under CI=true.
"""

import json
import os
import time
from collections import Counter

import beside
import pytest

from asa import paths

PARTS = "ASA_TEST_PARTS"  # "check=41 setup=2": seconds of what `make test` did before
WARM_S = 120.0  # a set-up that takes longer had something to fetch or to build
LOOK_BACK, TOO_OFTEN = 3, 2
AGAIN, AGAIN_IN_ALL, AGAIN_AFTER_S = 1, 6, 5.0  # of tests on this host; more than six are no accident
BEGIN = pytest.StashKey[float]()


def pytest_configure(config):
    config.stash[BEGIN] = time.monotonic()
    if beside.is_whole(config):
        config.option.reruns, config.option.reruns_delay = AGAIN, AGAIN_AFTER_S
        config.option.max_suite_reruns = AGAIN_IN_ALL


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    again = played_again(session.config)
    if again is None:
        return
    runs = remember(folder() / "reruns.json", again)
    if os.environ.get("CI") == "true" and exitstatus == pytest.ExitCode.OK and too_often(runs):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    again = played_again(config)
    if again is None:
        return
    times = seconds_by_part(terminalreporter.stats, time.monotonic() - config.stash[BEGIN], os.environ.get(PARTS, ""))
    (folder() / "last.json").write_text(json.dumps(times))
    terminalreporter.section("seconds by part")
    for name, seconds in times["parts"].items():
        terminalreporter.line(f"{seconds:8.1f}  {name}")
    terminalreporter.line(f"{times['seconds']:8.1f}  all, {'warm' if times['warm'] else 'cold'}")
    terminalreporter.section("second tries")
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.line(report.longreprtext)
    often = too_often(json.loads((folder() / "reruns.json").read_text()))
    for name in again or ["none"]:
        terminalreporter.line(f"{name}{': in two of the last three runs, which fails CI' if name in often else ''}")


def played_again(config):
    """Node ids of what had a second try, in guests and here; None where not everything was played."""
    in_guests = config.stash.get(beside.AGAIN, None)
    if in_guests is None:
        return None
    here = config.pluginmanager.getplugin("terminalreporter").stats.get("rerun", [])
    return sorted({*in_guests, *(report.nodeid for report in here)})


def folder():
    """Made where it is missing."""
    path = paths.default().cache / "tests"
    path.mkdir(parents=True, exist_ok=True)
    return path


def remember(path, again):
    """The runs that are kept in the file, this one among them: lists of node ids, the newest last."""
    try:
        runs = json.loads(path.read_text())
    except (OSError, ValueError):
        runs = []
    runs = [*runs, again][-LOOK_BACK:]
    path.write_text(json.dumps(runs))
    return runs


def too_often(runs):
    """What the newest run played again, and had been played again before."""
    counts = Counter(name for run in runs[-LOOK_BACK:] for name in run)
    return [name for name in runs[-1] if counts[name] >= TOO_OFTEN]


def seconds_by_part(stats, whole_s, before):
    """`parts`: what went before, the tests by their first folder, guests for what is played beside them; `seconds`."""
    parts = {name: float(seconds) for name, _, seconds in (word.partition("=") for word in before.split())}
    ahead_s = sum(parts.values())
    tests = Counter()
    for report in (one for kind in stats.values() for one in kind if hasattr(one, "duration")):
        inner = report.nodeid.partition("::")[0].removeprefix("tests/")
        guest = "vm" in report.keywords
        part = f"tests of {inner.partition('/')[0]}" if "/" in inner else "other tests"
        tests["guests, beside the others" if guest else part] += report.duration
    parts |= {name: round(seconds, 1) for name, seconds in tests.most_common()}
    return {"seconds": round(ahead_s + whole_s, 1), "parts": parts, "warm": ahead_s < WARM_S}
