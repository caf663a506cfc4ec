# SPDX-License-Identifier: GPL-2.0-only
"""What others take of a machine, seen by the real /proc and by made ones."""

import os
import shutil
import subprocess
import sys

import pytest

from scenarios.noise import Noise, Scan, Task, between

HOG = f"asahog{os.getpid()}"  # another run of these tests has hogs too
# scans while a hog runs, as its own child or as that of who started it: what was taken by that name
LOOK = """
import subprocess, sys, time
from scenarios import noise
name, own, given = sys.argv[1], sys.argv[2], [int(pid) for pid in sys.argv[3:]]
words = ["setpriv", "--pdeathsig", "KILL", own, "-c", "while :; do :; done"]
hog = subprocess.Popen(words) if own != "none" else None
before = noise.Scan.take(given)
end = time.monotonic() + 30
while True:
    time.sleep(0.5)
    after = noise.Scan.take(given)
    worked = sum(task.ticks for task in after.tasks.values() if task.name == name)
    if worked - sum(task.ticks for task in before.tasks.values() if task.name == name) > 5:
        break
    assert time.monotonic() < end
if hog:
    hog.kill()
    hog.wait()
print(noise._others(before, after)[name])
"""


def look(*words):
    done = subprocess.run([sys.executable, "-c", LOOK, HOG, *words], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.fixture
def shell(tmp_path):
    """A shell of another name."""
    path = tmp_path / HOG
    path.symlink_to(shutil.which("dash") or "/bin/sh")
    return str(path)


@pytest.fixture
def hog(shell):
    command = ["setpriv", "--pdeathsig", "KILL", shell, "-c", "while :; do :; done"]
    with subprocess.Popen(command) as running:
        yield running.pid
        running.kill()


def test_a_strangers_work_is_noise(hog):
    assert look("none") > 5


def test_what_was_named_is_none(hog):
    assert look("none", str(hog)) == 0


def test_our_children_are_none(shell):
    assert look(shell) == 0


def task(ticks, parent=1, name="cc1", kernel=False):
    return Task(name=name, parent=parent, ticks=ticks, kernel=kernel)


def test_ticks_are_counted_once():
    before = Scan(
        at_ns=0,
        cpus=2,
        steal_ticks=5,
        stalled_us={"cpu": 100},
        tasks={
            (1, 0): task(10, 0, "init"),
            (20, 1): task(50, 1, "make"),
            (21, 2): task(20, 20, "sh"),
            (22, 3): task(10, 21),
            (5, 0): task(7, 2, "kworker", True),
        },
        ours=frozenset(),
    )
    after = Scan(
        at_ns=10**9,
        cpus=2,
        steal_ticks=25,
        stalled_us={"cpu": 250_100, "io": 5},
        tasks={
            (1, 0): task(10, 0, "init"),
            (20, 1): task(
                50 + 30 + 4, 1, "make"
            ),  # the child and its child have ended and handed over all they ever took
            (21, 9): task(6, 20),  # its pid, used again
            (5, 0): task(90, 2, "kworker", True),
        },
        ours=frozenset(),
    )
    noise = between(before, after, 100)
    assert noise == Noise(
        steal_pct=10.0,
        others_pct=5.0,
        busiest="cc1",
        cpu_pressure_pct=25.0,
        io_pressure_pct=None,
        memory_pressure_pct=None,
    )
    assert noise.complaint() == ""
    assert noise.complaint(7.0) == "the hypervisor took 10 % of the CPUs, more than 7 %"


def test_a_kernel_without_psi_and_a_name_with_blanks(tmp_path):
    fields = "S 1 9 9 0 -1 0 0 0 0 0 3 4 5 6 20 0 1 0 77 0 0"
    (tmp_path / "stat").write_text("cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nbtime 5\n")
    for pid, name in ((9, "(a) b) c"), (10, "x")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} ({name}) {fields}\n")
    (tmp_path / "1").mkdir()
    (tmp_path / "1/stat").write_text(f"1 (init) {fields}\n")
    (tmp_path / "11").mkdir()  # it ended between list and look
    scan = Scan.take([9], tmp_path)
    assert scan.tasks[9, 77] == Task(name="(a) b) c", parent=1, ticks=18, kernel=False)
    assert set(scan.tasks) == {(1, 77), (9, 77), (10, 77)}
    assert scan.tasks[1, 77].ticks == 7, "orphans that ended are nobody's"
    assert (scan.cpus, scan.steal_ticks, dict(scan.stalled_us)) == (1, 8, {})
    assert 9 in scan.ours
    assert 10 not in scan.ours
