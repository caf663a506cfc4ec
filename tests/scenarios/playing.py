# SPDX-License-Identifier: GPL-2.0-only
"""Plays an application of the benchmark for a test, alone or beside CPU hogs, and checks that nothing is left behind.

What the application makes outside its scratch folder is told from what others make meanwhile by a group id of its own
(where we are root): every file and every System V object carries it.
"""

import contextlib
import ctypes
import dataclasses
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from waiting import until

from scenarios.application import ApplicationError, Tier
from scenarios.session import Session, check_installed, parameters, place_for

PR_SET_CHILD_SUBREAPER = 36
CACHE = Path.home() / ".cache/asa"
SAMPLES_LIMIT_S = 150.0
MOST_MB = 4.0  # of what a program works on where one pass is enough: `ab` asks for all of it a thousand times
SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")  # noqa: S108  # two levels of each are looked at


def play(application, *, seed, seconds, tmp_path, hogs=0, metrics=None, least=1):
    """Metric -> its values, oldest first, of one session beside so many CPU hogs.

    It lasts `seconds` from ready on, and longer until each of `metrics` (all by default) has `least` values.
    """
    with nothing_left(application) as where, _ready(application, seed, *where) as session:
        assert session.versions, "it says what it works with"
        with busy(hogs):
            return _collect(session, seconds, application.metrics if metrics is None else metrics, least)


def works(application, tmp_path, *, cpu_s=0.02, written_bytes=0):
    """Plays a program of a kind through a pass, with the lightest of some seeds and little data. What the driver
    starts, and the driver once it is ready, takes CPU time until then; in a pass they write as much as this."""
    try:
        check_installed(application)
    except ApplicationError as error:
        pytest.skip(f"{error}; `asa lab setup --bench` installs it")
    seed = _lightest(application, place_for(application, cache=CACHE, tier=Tier.REAL))
    application = dataclasses.replace(application, draw=_small(application.draw))
    with (
        nothing_left(application) as (place, folder),
        _ready(application, seed, place, folder) as session,
    ):
        assert session.versions, "it says what it works with"
        session.measurements()
        start_s = _of_driver(session.members())
        _, before_bytes = _spent(session.members())
        # of two passes from here the second one is whole
        _collect(session, 0.0, application.metrics, 2 if written_bytes else 1)
        spent_s, after_bytes = _spent(session.members())
    assert spent_s - start_s >= cpu_s
    assert after_bytes - before_bytes >= written_bytes


def _lightest(application, place):
    """Of some seeds that of the shortest pass of a light degree."""
    drawn = {seed: parameters(application, seed=seed, place=place) for seed in range(60)}
    light = [seed for seed, given in drawn.items() if given["degree"] == "light"]
    return min(light, key=lambda seed: drawn[seed].get("pass_s", 0.0))


def _small(draw):
    def drawn(rng, place):
        given = draw(rng, place)
        return {**given, "size_mb": min(given["size_mb"], MOST_MB)} if "size_mb" in given else given

    return drawn


def _spent(pids):
    """CPU seconds and bytes written of these processes, and of their children that have ended."""
    cpu_s, written_bytes = 0.0, 0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            cpu_s += _cpu_s(pid) + sum(psutil.Process(pid).cpu_times()[2:4])
            facts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            written_bytes += int(facts["wchar"])
    return cpu_s, written_bytes


def _cpu_s(pid):
    """CPU seconds of a process and of its threads that have ended, to the nanosecond: /proc counts in ticks of 10 ms,
    and a light pass may take less. The clock of another process is made as clock_getcpuclockid(3) does."""
    return time.clock_gettime(~pid << 3 | 2)


def _of_driver(pids):
    """CPU seconds of the one that we started, without its children's."""
    ours = [one for one in map(psutil.Process, pids) if one.ppid() == os.getpid()]  # orphans come to us, too
    return _cpu_s(min(ours, key=psutil.Process.create_time).pid)


def play_twice(application, *, seed, seconds, tmp_path, hogs=4, metrics=None, least=1):
    """The values of one session's `seconds` alone, and of as many beside the hogs; one start less than `play`.

    All on one CPU, so that the hogs stand out from what else the machine does, and by turns. What comes before is
    dropped: a program's first steps are its slowest.
    """
    alone = {metric: [] for metric in application.metrics}
    beside = {metric: [] for metric in application.metrics}
    with _one_cpu(), nothing_left(application) as where, _ready(application, seed, *where) as session:
        assert session.versions, "it says what it works with"
        metrics = application.metrics if metrics is None else metrics
        _collect(session, seconds / 2, metrics, 1)
        for into, count in ((alone, 0), (beside, hogs)) * 2:
            with busy(count):
                for metric, values in _collect(session, seconds / 2, metrics, least).items():
                    into[metric] += values
    return alone, beside


def suffers_from_hogs(application, *, seed, seconds, tmp_path, larger=(), least=2):
    """Fails unless each metric gets worse beside four hogs, in one of two tries. `larger`: of these more is better.

    Regression, by a fifth, is a median, a mean or a 95th percentile: which of them moves first depends on the metric.
    """
    for _attempt in range(2):
        alone, beside = play_twice(application, seed=seed, seconds=seconds, tmp_path=tmp_path, least=least)
        seen = {name: (_figures(alone[name]), _figures(beside[name])) for name in application.metrics}
        unmoved = {
            name: (calm, loaded)
            for name, (calm, loaded) in seen.items()
            if not any(b < a / 1.2 if name in larger else b > 1.2 * a for a, b in zip(calm, loaded, strict=True))
        }
        print(seen)
        if not unmoved:
            return
    raise AssertionError(f"not worse beside the hogs: {unmoved}")


@contextlib.contextmanager
def _one_cpu():
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cpus)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cpus)


def _figures(values):
    ordered = sorted(values)
    return statistics.median(ordered), statistics.fmean(ordered), ordered[int(0.95 * len(ordered))]


@contextlib.contextmanager
def busy(count):
    """So many endless loops; each leads a session, which is an autogroup: so it weighs as much as a program."""
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for hog in running:
            hog.kill()
        for hog in running:
            hog.wait()


@contextlib.contextmanager
def nothing_left(application):
    """Yields where to play, and a folder for it; at the end no process, file, named network namespace and System V
    object may be left. The folder has a short name, because the sockets of many programs allow no other."""
    place = place_for(application, cache=CACHE, tier=Tier.REAL)
    application.prepare(place, print)
    before = _namespaces(), _files(), system_v()
    folder = Path(tempfile.mkdtemp(prefix="asa-", dir="/tmp"))
    try:
        with _in_group(), no_orphans():
            yield place, folder
        assert list(folder.iterdir()) == [], "the scratch folder is removed"
    finally:
        shutil.rmtree(folder)
    assert _files() - before[1] == set(), "files left behind"
    assert system_v() - before[2] == set(), "System V objects left behind"
    until(lambda: _namespaces() <= before[0], lambda: f"gone: {_namespaces() - before[0]}")


@contextlib.contextmanager
def _ready(application, seed, place, folder):
    with Session.start(application, seed=seed, place=place, folder=folder) as session:
        session.await_ready()
        yield session


def _collect(session, seconds, metrics, least):
    session.measurements()
    values = {metric: [] for metric in session.application.metrics}
    begin_ns = time.monotonic_ns()

    def enough():
        session.check()
        for one in session.measurements():
            if one.at_ns >= begin_ns:  # else it was measured before, and is only told now
                values[one.metric].append(one.value)
        return time.monotonic_ns() - begin_ns >= seconds * 1e9 and all(
            len(values[metric]) >= least for metric in metrics
        )

    until(enough, lambda: f"{least} of each: { {name: len(of) for name, of in values.items()} }", SAMPLES_LIMIT_S)
    return values


def group():
    """A group id that nobody else has; our own when we may not change it."""
    return 2_000_000 + os.getpid() if os.geteuid() == 0 else os.getegid()


@contextlib.contextmanager
def _in_group():
    """For us and all that we start."""
    mine = os.getresgid()
    if os.geteuid() == 0:
        os.setresgid(*[group()] * 3)  # all three: a program whose ids differ ignores TMPDIR
    try:
        yield
    finally:
        os.setresgid(*mine)


@contextlib.contextmanager
def no_orphans():
    """Every process that loses its parent becomes our child: a way to see it that the crew does not know."""
    me, libc = psutil.Process(), ctypes.CDLL(None)
    before = set(me.children(recursive=True))
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    left = []
    try:
        yield
    finally:
        for child in set(me.children(recursive=True)) - before:
            with contextlib.suppress(psutil.NoSuchProcess, OSError):  # it has ended, and somebody waited for it
                if child.status() == psutil.STATUS_ZOMBIE or _is_killed(child.pid):
                    os.waitpid(child.pid, 0)
                else:
                    left.append(child.cmdline())
                    child.send_signal(signal.SIGKILL)
                    os.waitpid(child.pid, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert left == [], "processes left behind"


def _is_killed(pid):
    """Whether SIGKILL waits for it, or it has let go of its memory: on a busy machine both take a while."""
    facts = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    waiting = int(facts["SigPnd"], 16) | int(facts["ShdPnd"], 16)
    return bool(waiting >> (signal.SIGKILL - 1) & 1) or "VmSize" not in facts


def _files():
    found = set()
    for top in SHARED_FOLDERS:
        for path in (*Path(top).glob("*"), *Path(top).glob("*/*")):
            with contextlib.suppress(OSError):  # gone meanwhile, or not ours to look into
                if path.lstat().st_gid == group():
                    found.add(str(path))
    return found


def system_v():
    """What there is of our group, as `shm 17`."""
    found = set()
    for kind in ("shm", "sem", "msg"):
        names, *rows = (line.split() for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines())
        found |= {f"{kind} {row[1]}" for row in rows if int(row[names.index("cgid")]) == group()}
    return found


def _namespaces():
    """The named network namespaces; whose they are cannot be seen."""
    folder = Path("/run/netns")
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@contextlib.contextmanager
def typed_into(desk, folder):
    """A text editor in front, after hands typed into it and saved; inside, it still runs."""
    said = folder / "said.txt"
    said.touch()
    env = {"PATH": "/usr/bin", "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), "GSETTINGS_BACKEND": "memory"}
    env |= {**desk.environment, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    with subprocess.Popen(("mousepad", "--disable-server", str(said)), env=env) as editor:
        try:
            assert desk.focus(60)
            desk.click(0.5, 0.5)
            desk.type("Two words\n(here)")
            desk.scroll(-2)
            desk.key("ctrl+s")
            until(lambda: "Two words\n(here)" in said.read_text(), "the text is saved")
            assert "said.txt" in desk.title()
            yield
        finally:
            editor.kill()
