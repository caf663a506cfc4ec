# SPDX-License-Identifier: GPL-2.0-only
"""Plays what takes long, several at a time: test files of tests/guest, and cases of this host, most boot guests.

`main(FOLDER)` plays the jobs of FOLDER/jobs.json and writes FOLDER/outcomes.json. Its standard input tells it "begin",
when it may, but not on the last CPU, "whole", when there too, and "rest", when all other tests are done: then what
failed is played again.
At the end of that input it ends, and all that it started. It is a process of its own, and nobody's child: there are
tests that count the children of pytest, and end those that they do not know.

Emulated, files of BY_THE_PARALLEL_CLOCK are played under that: while the host does not run the guest, its time stands
still, so that limits and waits in tests do not depend on what else the host does. The others have the host's time.

What fails is played again, alone in a fresh guest, twice at most: by the host's time an emulated guest stands still for
seconds now and then when the host is busy, and what such a pause broke passes then. What fails three times has failed.
Cases of this host have one more try. `kept_runs` keeps what needed it.
"""

import compileall
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from asa import paths
from asa.core.errors import LabError
from scenarios import catalogue
from scenarios.application import Tier
from scenarios.lab import guest
from scenarios.lab.box import installed as box_asa
from scenarios.lab.emulator import Clock
from scenarios.session import place_for

ROOT = Path(__file__).resolve().parents[1]
PLAIN = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # tests/guest uses no plug-in, and emulated they take seconds to load
MEMORY_MB = 3072
LIMIT_S = 1200.0
CASE_LIMIT_S = 600.0
AGAIN, HERE_AGAIN = 2, 1
# With a thread a CPU, QEMU (7.2 and 10.0) crashes a guest now and then while sched_ext flips static branches (Oops:
# int3). There are as many guests at a time as cores here, so that one thread for each costs little.
ONE_THREAD = ("-accel", "tcg,thread=single")
NICE = 5  # a third of the weight of the tests beside it
# Files that share a guest. Each guest that is not booted saves its boot and the start of pytest, 20 s; a fault that
# takes the kernel with it spoils all files of its guest.
TOGETHER = (
    ("helper_box",),
    ("desktop",),
    ("faults",),
    ("agent_faults", "user_orders"),
    ("life", "shadow"),
    ("soak", "switching", "render_node", "columns", "standins", "scale"),
    ("undo", "watch", "loader", "bench_run", "probes", "hotplug"),
)
# What measures, or waits for the kernel or for a scheduler, and takes little more of the host's time there.
BY_THE_PARALLEL_CLOCK = frozenset(
    {"undo", "watch", "loader", "bench_run", "trials", "probes", "hotplug", "agent_faults", "user_orders"}
)
# Jobs by the first name of each, the longest first, so that no core waits for one at the end. Others come before them.
ORDER = (
    *("campaign_lab", "helper_box", "faults", "trials", "system", "desktop", "agent_faults", "daemon_day", "life"),
    *("undo", "soak", "train", "overhead_command", "fleet_lab", "guest_vm", "machines_vm", "record_lab"),
    *("guests_lab", "benchmark_lab", "run_lab"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is played by one pytest: files of tests/guest in a guest, or cases of other files on this host."""

    name: str
    what: tuple[str, ...]
    in_guest: bool


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Of one file of tests/guest, or of one case: which cases did not pass, the last lines, what ran again."""

    bad: list[str]
    lines: list[str]
    seconds: float
    skipped: str = ""  # why, of a case on this host; in a guest nothing may be skipped
    again: list[str] = field(default_factory=list)


def guests(files):
    """The jobs that play these files of tests/guest."""
    groups = [[f"test_{name}.py" for name in group if f"test_{name}.py" in files] for group in TOGETHER]
    known = {name for group in groups for name in group}
    groups = [[name] for name in files if name not in known] + [group for group in groups if group]
    return [
        Job(
            name="+".join(name.removesuffix(".py") for name in group),
            what=tuple(f"tests/guest/{name}" for name in group),
            in_guest=True,
        )
        for group in groups
    ]


def clock(what, *, kvm):
    """Of a guest that plays these files or cases."""
    names = {Path(one.partition("::")[0]).stem.removeprefix("test_") for one in what}
    return Clock.PARALLEL if names <= BY_THE_PARALLEL_CLOCK and not kvm else Clock.WALL


def of_this_host(cases, groups=()):
    """The jobs that play these cases, by their node ids: one for each group of files or folders, else for each file."""
    jobs = {}
    for case in cases:
        file = case.partition("::")[0]
        jobs.setdefault(next((group for group in groups if file.startswith(group)), (file,)), []).append(case)
    return [Job(name=Path(group[0]).stem, what=tuple(of), in_guest=False) for group, of in jobs.items()]


def in_order(jobs):
    """As they are to begin."""

    def place(job):
        name = job.name.partition("+")[0].removeprefix("test_")
        return ORDER.index(name) if name in ORDER else -1

    return sorted(jobs, key=place)


def judged(report, what, *, skips=False):
    """What became of these files or cases by a JUnit report: file or case -> Outcome, yet without lines.

    Bad is what failed, had an error or is missing; and what was skipped, unless it may be (`skips`).
    """
    cases = []
    if report.exists():
        for case in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314  # our own pytest wrote it
            skipped = case.find("skipped")
            bad = any(case.find(kind) is not None for kind in ("failure", "error")) or (
                skipped is not None and not skips
            )
            why = "" if skipped is None or bad else skipped.get("message") or "skipped"
            cases.append((f"{case.get('file')}::{case.get('name')}", bad, why, float(case.get("time", "0"))))
    found = {}
    for one in what:
        own = [case for case in cases if case[0] == one or case[0].startswith(f"{one}::")]
        bad = [name for name, failed, *_ in own if failed] if own else [one]
        why = "; ".join(why for _, _, why, _ in own if why)
        found[one] = Outcome(bad=bad, lines=[], seconds=sum(seconds for *_, seconds in own), skipped=why)
    return found


class Orders:
    """What standard input says. At its end, everything ends."""

    def __init__(self):
        self.begin, self.whole, self.rest = threading.Event(), threading.Event(), threading.Event()
        self.running = set()  # processes on this host, each with a group of its own; guests end with their thread
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        left = b""
        while data := os.read(0, 4096):
            *words, left = (left + data).split(b"\n")
            for word in words:
                {b"begin": self.begin, b"whole": self.whole, b"rest": self.rest}[word].set()
        for process in tuple(self.running):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        os._exit(1)


class Stage:
    """Where jobs are played."""

    def __init__(self, folder, orders):
        self.folder, self.orders, self.lab = folder, orders, None
        self._lock = threading.Lock()

    def show(self, line):
        with self._lock:
            print(f"  guest {line}", flush=True)

    def prepare(self):
        """What guests need of this host, and what would take them minutes to make."""
        cache = paths.default().cache
        self.lab = guest.ready(cache, self.show, measuring=True)
        compileall.compile_dir(ROOT / "tests", quiet=2)  # each process in a guest would compile it, emulated
        box_asa.stage(cache)  # what is installed in the boxes of tests/guest
        for stand_in in catalogue.applications(Tier.LAB).values():  # a guest sees the cache read-only
            stand_in.prepare(place_for(stand_in, cache=cache, tier=Tier.LAB), self.show)

    def play(self, job, limit_s=LIMIT_S):
        """File or case -> Outcome."""
        out, lines = self.folder / job.name, []
        out.mkdir()
        report = out / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--rootdir", str(ROOT)]
        command += [f"--junitxml={report}", "-o", "junit_family=xunit1", "--durations=8", "--durations-min=10"]

        def take(line):
            lines.append(line)
            self.show(f"{job.name}: {line}")

        begin_s = time.monotonic()
        try:
            play = self._in_guest if job.in_guest else self._here
            code = play(command, job.what, out, take, limit_s)
        except LabError as error:
            take(str(error))
            code, found = None, {one: Outcome(bad=[one], lines=[], seconds=0.0) for one in job.what}
        else:
            found = judged(report, job.what, skips=not job.in_guest)
        failed = code and not any(outcome.bad for outcome in found.values())
        for one, outcome in found.items():
            outcome.bad, outcome.lines = [one] if failed else outcome.bad, lines[-80:]
        self.show(f"{job.name}: took {time.monotonic() - begin_s:.0f} s")
        return found

    def _in_guest(self, command, what, out, take, limit_s):
        kvm = bool(self.lab.emulator.kvm)
        under = clock(what, kvm=kvm)
        result = guest.run(
            [*command, *what],
            lab=self.lab,
            out=out,
            on_output=take,
            memory_mb=MEMORY_MB,
            clock=under,
            env=PLAIN,
            limit_s=limit_s,
            qemu_options=ONE_THREAD if under is Clock.WALL and not kvm else (),
        )
        return result.exit_code

    def _here(self, command, what, out, take, limit_s):
        with subprocess.Popen(
            [*command, *what, f"--basetemp={out / 'tmp'}"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            self.orders.running.add(process)
            limit = threading.Timer(limit_s, os.killpg, (process.pid, signal.SIGKILL))
            limit.start()
            for line in process.stdout:
                take(line.rstrip("\n"))
            limit.cancel()
        self.orders.running.discard(process)
        return process.returncode


def room(more=0):
    """How many at a time: as there are cores (a guest keeps one busy) and so many more, as far as memory goes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    available_kb = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return max(1, min((os.cpu_count() or 1) + more, available_kb // 1024 // MEMORY_MB - 1))


def play_all(stage, jobs, all_cpus):
    """Everything once, as many at a time as there are CPUs for it, and one more once all other tests are done.

    `all_cpus` is called when the last CPU may be used, too.
    """
    queue, outcomes = deque(jobs), {}
    at_first, beside, later = room(-1), room(), room(1)

    def work():
        while True:
            try:
                job = queue.popleft()
            except IndexError:
                return
            outcomes.update(stage.play(job))

    lowered = set()
    with ThreadPoolExecutor(later) as pool:
        workers = [pool.submit(work) for _ in range(at_first)]
        while wait(workers, timeout=2.0).not_done:
            if stage.orders.whole.is_set():
                all_cpus()
                wanted = later if stage.orders.rest.is_set() else beside
                workers += [pool.submit(work) for _ in range(wanted - len(workers))]
            if not stage.orders.rest.is_set():
                lower(lowered)
    for worker in workers:
        worker.result()
    return outcomes


@contextmanager
def fewer_cpus(whole):
    """Inside, what we start has not the last CPU, where there are more and `whole` is not set.

    Yields what gives it back, to be called again and again: what is just being started may be missed at first. Later
    calls do nothing, as a test may want a CPU.
    """
    cpus = os.sched_getaffinity(0)
    fewer = cpus - {max(cpus)} if len(cpus) > 1 and not whole.is_set() else cpus
    os.sched_setaffinity(0, fewer)
    rounds = iter(range(3))

    def all_cpus():
        if fewer == cpus or next(rounds, None) is None:
            return
        os.sched_setaffinity(0, cpus)
        for pid in ours():
            for task in Path(f"/proc/{pid}/task").glob("*"):
                with suppress(OSError):  # it has ended
                    if os.sched_getaffinity(int(task.name)) == fewer:
                        os.sched_setaffinity(int(task.name), cpus)

    try:
        yield all_cpus
    finally:
        all_cpus()


def play_again(stage, outcomes, jobs):
    """What failed, one by one."""
    in_guest = {one: job.in_guest for job in jobs for one in job.what}
    for turn in range(AGAIN):
        for one, outcome in outcomes.items():
            if not outcome.bad or (not in_guest[one] and turn >= HERE_AGAIN):
                continue
            stage.show(f"{one}: once more, alone: {', '.join(outcome.bad)}")
            outcome.again += [name for name in outcome.bad if name not in outcome.again]
            name = f"{Path(one.partition('::')[0]).stem}-again-{turn}-{len(list(stage.folder.iterdir()))}"
            again = Job(name=name, what=tuple(outcome.bad), in_guest=in_guest[one])
            found = stage.play(again, LIMIT_S if one in outcome.bad or len(outcome.bad) > 3 else CASE_LIMIT_S)
            outcome.bad = [bad for part in found.values() for bad in part.bad]
            outcome.lines = [line for part in found.values() for line in part.lines][-80:]


def lower(done):
    """Give each session of ours less weight: where the kernel groups tasks by session (sched_autogroup_enabled), nice
    counts within one only, and each guest has one of its own. `done`: ids that are lowered, and are to be."""
    for pid, session in ours().items():
        if pid == session and pid not in done:
            done.add(pid)
            with suppress(OSError):  # it has ended, or this kernel has no such groups
                Path(f"/proc/{pid}/autogroup").write_text(str(NICE))


def ours():
    """Process -> session, of this one and of all below it."""
    parents, sessions = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, parent, _, session, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        parents[int(path.parent.name)], sessions[int(path.parent.name)] = int(parent), int(session)

    def below(pid):
        while pid not in (0, os.getpid()):
            pid = parents.get(pid, 0)
        return pid != 0

    return {pid: session for pid, session in sessions.items() if below(pid)}


def main(folder):
    """See above. What it says is what guests say."""
    os.nice(NICE)
    folder = Path(folder)
    jobs = [Job(**job | {"what": tuple(job["what"])}) for job in json.loads((folder / "jobs.json").read_text())]
    orders = Orders()
    stage = Stage(folder, orders)
    orders.begin.wait()
    with fewer_cpus(orders.whole) as all_cpus:
        stage.prepare()
        outcomes = play_all(stage, jobs, all_cpus)
    orders.rest.wait()
    play_again(stage, outcomes, jobs)
    part = folder / "outcomes.part"
    part.write_text(json.dumps({name: asdict(outcome) for name, outcome in outcomes.items()}))
    part.rename(folder / "outcomes.json")
