# SPDX-License-Identifier: GPL-2.0-only
"""What the focused application uses: real process trees, and trees of cgroup v2 and /proc made of file text."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from private_bus import until

from asa.core.errors import SourceError
from collectors import focus
from collectors.focus import FocusTracker, application_group, fields_of

PROC, SYS = Path("/proc"), Path("/sys")
APP = "user.slice/user-1000.slice/user@1000.service/app.slice"
# A shell with a job that has a job; the shell's first line says that all run. Each burns CPU when its file is there.
FAMILY = """
import os, subprocess, sys, time
depth, folder = int(sys.argv[1]), sys.argv[2]
ballast = bytearray(20_000_000)
child = subprocess.Popen([sys.executable, sys.argv[0], str(depth - 1), folder]) if depth else None
open(f"{folder}/up{depth}", "w").write(str(os.getpid()))
while not os.path.exists(f"{folder}/end{depth}"):
    end = time.monotonic() + 0.02
    while os.path.exists(f"{folder}/burn{depth}") and time.monotonic() < end:
        pass
    time.sleep(0.02)
"""


class Family:
    """Three generations of processes below `root`."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "family.py").write_text(FAMILY)
        command = [sys.executable, str(folder / "family.py"), "2", str(folder)]
        self.process = subprocess.Popen(command, start_new_session=True)
        until(lambda: all(self.pid(depth) for depth in range(3)), "three generations")

    def pid(self, depth):
        try:
            return int((self.folder / f"up{depth}").read_text() or 0)
        except FileNotFoundError:
            return 0

    def order(self, what, depth):
        (self.folder / f"{what}{depth}").touch()

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def family(tmp_path):
    family = Family(tmp_path)
    yield family
    family.end()


@pytest.fixture
def tracker(tmp_path):
    tracker = FocusTracker(PROC, tmp_path)  # no cgroup v2 there: the tree is what is counted
    yield tracker
    tracker.close()


def test_a_process_with_its_descendants(family, tracker):
    root = family.process.pid
    seen = until(lambda: (now := tracker.read(root)) and now.processes == 3 and now, "all three")
    assert seen.group.startswith(f"pid:{root}@")
    tree = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    assert seen.memory_bytes == pytest.approx(sum(process.memory_info().rss for process in tree), rel=0.05)
    family.order("burn", 0)  # the grandchild alone
    used = psutil.Process(family.pid(0)).cpu_times
    until(lambda: used().user > 0.5, "half a second of CPU time", 60.0)
    grown_ns = tracker.read(root).cpu_ns - seen.cpu_ns
    assert grown_ns >= 400_000_000
    whole_ns = sum(sum(process.cpu_times()[:2]) for process in tree) * 1e9
    assert tracker.read(root).cpu_ns == pytest.approx(whole_ns, rel=0.1)


def test_a_descendant_that_ends(family, tracker):
    root = family.process.pid
    before = until(lambda: (now := tracker.read(root)) and now.processes == 3 and now, "all three")
    family.order("end", 0)
    until(lambda: psutil.Process(family.pid(0)).status() == psutil.STATUS_ZOMBIE, "the grandchild has ended")
    assert tracker.read(root).memory_bytes <= before.memory_bytes - 20_000_000  # nobody has reaped it: it still counts
    os.kill(family.pid(1), signal.SIGKILL)
    until(lambda: tracker.read(root).processes == 2, "init reaps the one, nobody the other")


def test_an_orphan_stays_with_the_application(family, tracker):
    root, middle, orphan = family.process.pid, family.pid(1), family.pid(0)
    until(lambda: (now := tracker.read(root)) and now.processes == 3, "all three")
    os.kill(middle, signal.SIGKILL)
    until(lambda: psutil.Process(orphan).ppid() != middle, "it is adopted")
    for _ in range(10):
        assert tracker.read(root).memory_bytes >= psutil.Process(orphan).memory_info().rss


def test_a_process_that_is_not_there_and_one_that_ends(family, tracker):
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert tracker.read(gone.pid) is None
    root = family.process.pid
    until(lambda: tracker.read(root), "the family")
    family.end()
    assert tracker.read(root) is None
    before = descriptors()
    for _ in range(20):
        assert tracker.read(root) is None
    assert descriptors() == before


def test_descriptors_and_processes_are_bounded(tmp_path):
    proc = tmp_path / "proc"
    for pid in range(1, 1001):
        stat(proc, pid, 0 if pid == 1 else 1, f"{pid} {pid}", rss=2)
    tracker = FocusTracker(proc, tmp_path)
    before = descriptors()
    assert tracker.read(1) is None  # 1000 processes are more than one tick looks at
    seen = tracker.read(1)
    assert seen.processes == focus.MOST_PROCESSES
    assert seen.memory_bytes == focus.MOST_PROCESSES * 2 * os.sysconf("SC_PAGE_SIZE")
    assert descriptors() - before == focus.MOST_PROCESSES
    tracker.read(7)  # another window: the old one's are given back
    assert tracker.read(7).processes == 1
    assert descriptors() - before == 1
    tracker.close()
    assert descriptors() == before


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def stat(proc, pid, parent, cpu, *, rss=1, name="a) b (c"):
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    middle = "1 1 0 -1 4194304 0 0 0 0"
    (folder / "stat").write_text(
        f"{pid} ({name}) S {parent} {middle} {cpu} 9 9 20 0 1 0 {5000 + pid} 123456 {rss} 0 0\n"
    )
    (folder / "cgroup").write_text("0::/init.scope\n")


def test_arithmetic_of_a_tree(tmp_path):
    proc = tmp_path / "proc"
    for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 1), (14, 12)):
        stat(proc, pid, parent, f"{pid} 100")
    tracker = FocusTracker(proc, tmp_path)
    seen = tracker.read(11)
    ticks = 11 + 12 + 14 + 300
    assert (seen.group, seen.processes) == ("pid:11@5011", 3)
    assert seen.cpu_ns == ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    stat(proc, 15, 14, "0 7")
    for _ in range(5):
        seen = tracker.read(11)
    assert (seen.processes, seen.cpu_ns) == (4, (ticks + 7) * 1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    tracker.close()


def group(root, path, usage_us, memory, processes):
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text(f"usage_usec {usage_us}\nuser_usec 1\nsystem_usec 1\n")
    if memory is not None:
        (folder / "memory.current").write_text(f"{memory}\n")
    (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in processes))


@pytest.mark.parametrize("mounted", ["fs/cgroup", "fs/cgroup/unified"])
def test_an_application_with_a_group_of_its_own(tmp_path, mounted):
    proc, root = tmp_path / "proc", tmp_path / "sys" / mounted
    stat(proc, 50, 1, "1 1")
    terminal = f"{APP}/app-org.gnome.Terminal.slice"
    (proc / "50/cgroup").write_text(f"1:name=systemd:/\n0::/{terminal}/gnome-terminal-server.service\n")
    group(root, terminal, 5_000_000, 90_000_000, [])
    group(root, f"{terminal}/gnome-terminal-server.service", 1, 1, [50])
    group(root, f"{terminal}/vte-spawn-1.scope", 1, 1, [51, 52])
    (root / "cgroup.controllers").write_text("cpu memory\n")
    tracker = FocusTracker(proc, tmp_path / "sys")
    seen = tracker.read(50)
    assert (seen.group, seen.processes) == (terminal, 3)
    assert (seen.cpu_ns, seen.memory_bytes) == (5_000_000_000, 90_000_000)
    group(root, terminal, 5_000_700, 80_000_000, [])
    assert tracker.read(50).cpu_ns == 5_000_700_000
    (root / terminal / "cpu.stat").write_text("nonsense\n")
    assert tracker.read(50) is None
    (root / terminal / "memory.current").unlink()
    assert tracker.read(50).group == "pid:50@5050"  # no memory controller: the tree tells more
    tracker.close()


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (f"0::/{APP}/app-gnome-firefox-1234.scope", f"{APP}/app-gnome-firefox-1234.scope"),
        (f"0::/{APP}/app-gnome-firefox-1234.scope/tab-1", f"{APP}/app-gnome-firefox-1234.scope"),
        (f"0::/{APP}/app-graphical.slice/app-foot-1.scope", f"{APP}/app-graphical.slice/app-foot-1.scope"),
        (f"0::/{APP}", ""),
        (f"0::/{APP}/app-graphical.slice", ""),
        (f"0::/{APP}/../../etc", ""),
        ("0::/user.slice/user-1000.slice/session-2.scope", ""),
        ("1:cpu:/app.slice/x.scope", ""),
        ("0::/", ""),
    ],
)
def test_which_group_is_the_application(tmp_path, line, path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(line + "\n")
    assert application_group(tmp_path, 7) == path


@given(st.binary(max_size=300))
def test_any_bytes_of_a_stat_file(text):
    try:
        fields = fields_of(text)
    except SourceError:
        return
    assert len(fields) > 21


def test_cost_of_a_tree_of_sixty_processes(tmp_path):
    code = "import subprocess, sys; [subprocess.Popen(['sleep', '60']) for _ in range(59)]; print(flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **pipes) as root:
        try:
            root.stdout.readline()
            tracker = FocusTracker(PROC, tmp_path)
            until(lambda: (now := tracker.read(root.pid)) and now.processes == 60, "sixty")
            costs = []
            for _ in range(40):
                start_ns = time.thread_time_ns()
                tracker.read(root.pid)
                costs.append(time.thread_time_ns() - start_ns)
            tracker.close()
            assert sorted(costs)[20] < 1_000_000
        finally:
            os.killpg(root.pid, signal.SIGKILL)
