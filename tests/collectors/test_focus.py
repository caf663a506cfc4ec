# SPDX-License-Identifier: GPL-2.0-only
"""What the focused application uses: real process trees, and trees of cgroup v2 and /proc made of file text."""

import collections
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from asa.core.errors import SourceError
from asa.core.sample import FocusCounters
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
    ticks = 11 + 12 + 14 + 300 + 3 * (9 + 9)  # nines: children that were waited for
    assert (seen.group, seen.processes) == ("pid:11@5011", 3)
    assert seen.cpu_ns == ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    stat(proc, 15, 14, "0 7")
    for _ in range(5):
        seen = tracker.read(11)
    assert (seen.processes, seen.cpu_ns) == (4, (ticks + 7 + 18) * 1_000_000_000 // os.sysconf("SC_CLK_TCK"))
    tracker.close()


JOBS = """
import os, subprocess, sys, time
code = "import time\\nwhile time.process_time() < 0.3: pass"
input()
for _ in range(8):
    subprocess.run([sys.executable, "-S", "-c", code])
print(sum(os.times()[:4]), flush=True)
input()
"""


def test_short_jobs_count_once_whether_or_not_they_were_seen(tracker):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", JOBS], **pipes) as root:
        try:
            begin = until(lambda: tracker.read(root.pid), "the shell")
            root.stdin.write("\n")
            root.stdin.flush()
            seen, most, whole_s = 1, begin.cpu_ns, None
            os.set_blocking(root.stdout.fileno(), False)
            while whole_s is None:  # as fast as it goes: jobs are met in all states
                now = tracker.read(root.pid)
                seen, most = max(seen, now.processes), max(most, now.cpu_ns)
                line = os.read(root.stdout.fileno(), 100) if readable(root.stdout) else b""
                whole_s = float(line) if line else None
            assert seen > 1  # some were members when they ended
            assert whole_s > 8 * 0.3 - 8 / os.sysconf("SC_CLK_TCK")  # a job's last tick may not count
            until(lambda: tracker.read(root.pid).processes == 1, "all have ended")
            end = tracker.read(root.pid)
            assert end.cpu_ns == pytest.approx(whole_s * 1e9, rel=0.05)
            assert most <= end.cpu_ns  # at no moment was one in two sums
        finally:
            root.kill()


def readable(pipe):
    return bool(select.select([pipe], [], [], 0.01)[0])


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


def test_cost_of_a_tree_of_sixty_processes(tmp_path, monkeypatch):
    proc = tmp_path / "proc"
    for pid in range(1, 61):
        stat(proc, pid, 0 if pid == 1 else 1, "1 1")
    tracker = FocusTracker(proc, tmp_path)
    assert tracker.read(1).processes == 60
    calls = collections.Counter()
    for name in ("open", "pread", "listdir", "stat", "scandir"):
        monkeypatch.setattr(os, name, counted(calls, name, getattr(os, name)))
    for _ in range(40):
        assert tracker.read(1).processes == 60
    monkeypatch.undo()
    tracker.close()
    assert calls == {"pread": 40 * 60, "listdir": 10}  # one a process and tick; all of /proc in each fourth


def counted(calls, name, function):
    def call(*arguments, **options):
        calls[name] += 1
        return function(*arguments, **options)

    return call


@pytest.mark.parametrize("name", [b"app-\xff.scope", "app-ü.scope".encode(), b"app-\xed\xa0\x80.scope"])
def test_a_group_of_any_name_fits_the_journal(tmp_path, name):
    proc, root = tmp_path / "proc", tmp_path / "sys/fs/cgroup"
    stat(proc, 50, 1, "1 1")
    (proc / "50/cgroup").write_bytes(b"0::/" + APP.encode() + b"/" + name + b"\n")
    group(root, f"{APP}/{os.fsdecode(name)}", 5, 1, [50])
    (root / "cgroup.controllers").touch()
    tracker = FocusTracker(proc, tmp_path / "sys")
    seen = tracker.read(50)
    tracker.close()
    assert seen.group == f"{APP}/{name.decode(errors='replace')}"  # the raw name opened its files
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(seen), type=FocusCounters) == seen


def test_a_hierarchy_that_cannot_be_looked_at_is_none(tmp_path):
    stat(tmp_path / "proc", 50, 1, "1 1")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").symlink_to("a" * 300)  # ENAMETOOLONG
    tracker = FocusTracker(tmp_path / "proc", tmp_path / "sys")
    assert tracker.read(50).group == "pid:50@5050"
    tracker.close()
