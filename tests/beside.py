# SPDX-License-Identifier: GPL-2.0-only
"""In a run of everything, what boots guests is played beside the other tests: hooks for conftest.

First come the tests that want the machine to themselves (mark `alone`), then those that want its last CPU (`one_cpu`),
then all others. Beside these two `lab_jobs` plays tests/guest, the cases with the mark `vm` and ELSEWHERE, which have
their turn here at the end, when what became of them is known. A run of some files or cases starts nothing in advance.
"""

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict

import lab_jobs
import pytest

GUESTS = "lab/test_guest.py"  # it has a case for each file of tests/guest
# Take minutes and share nothing with others: else they were waited for on one core, when no guest is played any more.
ELSEWHERE = (
    ("tests/system/",),
    ("tests/test_daemon_day.py", "tests/test_debian.py", "tests/calibration/recognition/"),
    ("tests/models/train/", "tests/calibration/fleet/"),
)
FILES = tuple(sorted(path.name for path in (lab_jobs.ROOT / "tests/guest").glob("test_*.py")))
PROGRAM = "import sys; sys.path.append('tests'); import lab_jobs; lab_jobs.main(sys.argv[1])"
END_LIMIT_S = 60.0
JOBS, PLAYER = pytest.StashKey[list](), pytest.StashKey["Player"]()
AGAIN = pytest.StashKey[list]()  # what needed a second try


class Player:
    """`lab_jobs` in a process of its own. A context manager: leaving it ends what is still played."""

    def __init__(self, config, folder, jobs):
        self._config, self._folder = config, folder
        self._outcomes, self._shown, self._told = None, 0, set()
        (folder / "jobs.json").write_text(json.dumps([asdict(job) for job in jobs]))
        self._alive, theirs = os.pipe()  # it ends with them
        command = ["setsid", "--fork", sys.executable, "-c", PROGRAM, str(folder)]
        with (folder / "log").open("wb") as log:
            self._started = subprocess.Popen(
                command, cwd=lab_jobs.ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(theirs,)
            )
        os.close(theirs)
        self._started.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(OSError):  # it has ended
            self._started.stdin.close()
        select.select([self._alive], [], [], END_LIMIT_S)
        os.close(self._alive)

    def tell(self, word):
        """Once is enough."""
        if word not in self._told:
            self._told.add(word)
            with suppress(OSError):  # it has ended; its log says why
                self._started.stdin.write(f"{word}\n".encode())
                self._started.stdin.flush()

    def outcome(self, name):
        """What became of a file of tests/guest, or of a case; waits for all of them, and shows what is said."""
        if self._outcomes is None:
            for word in ("begin", "whole", "rest"):
                self.tell(word)
            while not select.select([self._alive], [], [], 0.5)[0]:
                self._show()
            self._show()
            result = self._folder / "outcomes.json"
            self._outcomes = json.loads(result.read_text()) if result.exists() else {}
        if name in self._outcomes:
            return lab_jobs.Outcome(**self._outcomes[name])
        lines = (self._folder / "log").read_text(errors="replace").splitlines()
        return lab_jobs.Outcome(bad=[name], lines=lines[-40:], seconds=0.0)

    def again(self):
        """What needed a second try, by node id; None where not everything was played."""
        if self._outcomes is None:
            return None
        return sorted({name for one in self._outcomes.values() for name in one["again"]})

    def _show(self):
        with (self._folder / "log").open("rb") as log:
            log.seek(self._shown)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._shown += len(whole)
        if whole:
            with self._config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
                print(whole.decode(errors="replace"), end="", flush=True)


class Elsewhere(pytest.Item):
    """The place of a case that `lab_jobs` plays."""

    @classmethod
    def of(cls, item):
        made = cls.from_parent(item.parent, name=item.name)
        made.place = item.reportinfo()
        made.own_markers.extend(item.own_markers)
        made.keywords.update({mark.name: mark for mark in item.own_markers})
        return made

    def reportinfo(self):
        return self.place

    def runtest(self):
        self.played_s = judge(self.config.stash[PLAYER], self.nodeid)

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if excinfo.errisinstance(AssertionError) else super().repr_failure(excinfo, style)


def judge(player, name):
    """How many seconds it took. Raises AssertionError when it did not pass, and pytest's own when it was skipped."""
    outcome = player.outcome(name)
    assert not outcome.bad, "\n".join([f"failed each time: {', '.join(outcome.bad)}", *outcome.lines])
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    return outcome.seconds


def is_whole(config):
    """Whether everything is asked for, and is to be run."""
    option = config.option
    if config.args_source is config.ArgsSource.ARGS:
        return False
    some = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "collectonly", "setuponly", "setupplan")
    return not any(getattr(option, name, None) for name in some)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    if is_whole(config):
        items[:], config.stash[JOBS] = arranged(items)


def arranged(items):
    """In which order they have their turn, and what is played beside them."""
    alone, one_cpu, others, elsewhere, guests = [], [], [], [], []
    for item in items:
        if item.nodeid.partition("::")[0].endswith(GUESTS) and item.get_closest_marker("vm"):
            guests.append(item)
        elif item.get_closest_marker("alone"):
            alone.append(item)
        elif item.get_closest_marker("one_cpu"):
            one_cpu.append(item)
        elif item.get_closest_marker("vm") or any(item.nodeid.startswith(group) for group in ELSEWHERE):
            elsewhere.append(item)
        else:
            others.append(item)
    jobs = lab_jobs.in_order(
        [*lab_jobs.guests(FILES), *lab_jobs.of_this_host([item.nodeid for item in elsewhere], ELSEWHERE)]
    )
    elsewhere = [Elsewhere.of(item) for item in elsewhere]
    for item in (*elsewhere, *guests):
        item.add_marker(pytest.mark.flaky(reruns=0))  # `lab_jobs` played it again
    return [*alone, *one_cpu, *others, *elsewhere, *guests], jobs


@pytest.fixture(scope="session", autouse=True)
def played_beside(pytestconfig, tmp_path_factory):
    """Nothing is played before it is told to: see pytest_runtest_call."""
    if JOBS not in pytestconfig.stash:
        yield
        return
    with Player(pytestconfig, tmp_path_factory.mktemp("guests"), pytestconfig.stash[JOBS]) as player:
        pytestconfig.stash[PLAYER] = player
        yield
        pytestconfig.stash[AGAIN] = player.again()


def pytest_runtest_call(item):
    player = item.config.stash.get(PLAYER, None)
    if player is not None and not item.get_closest_marker("alone"):
        player.tell("begin")
        if not item.get_closest_marker("one_cpu"):
            player.tell("whole")
