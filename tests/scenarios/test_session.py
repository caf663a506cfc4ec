# SPDX-License-Identifier: GPL-2.0-only
"""A session with drivers of a few lines: whatever goes wrong has its type and words, and nothing is left behind."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import playing
import psutil
import pytest
from playing import no_orphans
from waiting import until

from scenarios import crew
from scenarios.application import Application, ApplicationError, Failure, Place, Role, Tier, either
from scenarios.session import Session, check_installed, parameters

BEGIN = "from scenarios.driving import *; import os, sys, time; d = Driver.begin(); "
READY = BEGIN + "d.ready({'python': '3'}); "
WORK = READY + "\nwhile d.pause(0.01): d.measured('a_ms', 1)"


def made(script, **other):
    values = {
        "name": "test",
        "role": Role.INTERACTIVE,
        "metrics": ("a_ms", "b_ms"),
        "packages": ("one", "two"),
        "programs": ("setpriv",),
        "draw": lambda rng, place: {"size": rng.randrange(10**9), "cpus": place.cpus},
        "command": lambda place, given: (sys.executable, "-c", script),
    }
    return Application(**(values | other))


@pytest.fixture
def start(tmp_path, monkeypatch):  # monkeypatch: undone after all have stopped
    """Starts sessions; at the end each is stopped, its folder is gone, and no process that it started is left."""
    folder, sessions = tmp_path / "scratch", []

    def start(application, seed=1):
        place = Place(cache=tmp_path / "cache", cpus=2, tier=Tier.REAL)
        sessions.append(Session.start(application, seed=seed, place=place, folder=folder))
        return sessions[-1]

    with no_orphans():
        yield start
        for session in sessions:
            session.stop()
            session.stop()
    assert not folder.exists() or list(folder.iterdir()) == []


def failure(session, limit_s=60.0):
    """What `check` raises, sooner or later."""
    deadline = time.monotonic() + limit_s
    with pytest.raises(ApplicationError) as caught:  # noqa: PT012
        while time.monotonic() < deadline:
            session.check()
            time.sleep(0.01)
    return caught.value


def drain(session, count):
    got = []

    def enough():
        session.check()
        got.extend(session.measurements())
        return len(got) >= count

    until(enough, lambda: f"{count} samples: {got}")
    return got


def test_samples_come_once_each_and_whole(start):
    script = READY + "[d.measured(m, i, i) for i in range(2000) for m in ('a_ms', 'b_ms')]\nwhile d.pause(9): pass"
    session = start(made(script))
    session.await_ready()
    assert session.versions == {"python": "3"}
    got = drain(session, 4000)
    assert [(one.at_ns, one.metric, one.value) for one in got] == [
        (i, metric, i) for i in range(2000) for metric in ("a_ms", "b_ms")
    ]
    assert session.measurements() == []


def test_a_line_is_taken_when_it_is_whole(start, tmp_path):
    line = '{"at_ns": 7, "metric": "a_ms", "value": 1.5}'
    script = READY + (
        f"os.write(1, b'''{line[:20]}'''); open('half', 'w').close()\n"
        f"while not os.path.exists('go'): time.sleep(0.01)\nos.write(1, b'''{line[20:]}\\n''')\nwhile d.pause(9): pass"
    )
    session = start(made(script))
    until(lambda: list(tmp_path.glob("scratch/*/half")), "half a line")
    assert session.measurements() == []
    session.check()
    next(iter(tmp_path.glob("scratch/*"))).joinpath("go").touch()
    assert [(one.at_ns, one.value) for one in drain(session, 1)] == [(7, 1.5)]


def test_orders_are_the_same_for_the_same_seed_and_reach_the_driver_whole(start, tmp_path):
    script = BEGIN + (
        "d.measured('a_ms', d.parameters['size'], d.cpus)\n"
        "ok = os.environ['HOME'] == os.environ['TMPDIR'] == os.getcwd() == str(d.scratch) and d.seed == 'test 5'\n"
        "d.ready({'same': str(ok)})\nwhile d.pause(9): pass"
    )
    session = start(made(script), seed=5)
    session.await_ready()
    assert session.versions == {"same": "True"}
    (order,) = drain(session, 1)
    place = Place(cache=tmp_path, cpus=2, tier=Tier.REAL)
    assert (order.value, order.at_ns) == (parameters(session.application, seed=5, place=place)["size"], 2)
    assert parameters(session.application, seed=6, place=place)["size"] != order.value


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"programs": ("no-such-program",)}, "apt-get install one two"),
        ({"programs": ("no-such-one|nor-this",)}, "no-such-one or nor-this is not installed"),
        ({"modules": ("no_such_module.part",)}, "make setup"),
    ],
)
def test_what_is_not_installed_is_named_with_its_package(start, other, words):
    with pytest.raises(ApplicationError, match=words) as caught:
        start(made(WORK, **other))
    assert caught.value.failure is Failure.MISSING


def test_a_program_may_have_another_name():
    assert [either("no-such-program|sh"), either("sh|no-such-program"), either("sh")] == ["sh"] * 3
    check_installed(made(WORK, programs=("no-such-program|sh",)))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("no-such-program",), "no-such-program"),
        ((sys.executable, "-c", BEGIN + "missing('run: apt-get install one')"), "apt-get install one"),
    ],
)
def test_what_only_the_driver_can_look_for_is_missing_too(start, command, words):
    error = failure(start(made("", command=lambda place, given: command)))
    assert (error.failure, words in error.last_words) == (Failure.MISSING, True)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (BEGIN + "fail('no display')", Failure.CRASHED, "ended with code 1; it said: 'no display'"),
        (READY + "os.abort()", Failure.CRASHED, "killed by signal 6"),
        (READY, Failure.CRASHED, "ended with code 0"),
        (READY + "print('hello', flush=True)\nwhile d.pause(9): pass", Failure.CRASHED, "printed 'hello'"),
        (READY + "print('', flush=True)\nwhile d.pause(9): pass", Failure.CRASHED, "printed ''"),
        (READY + "os.write(1, b'\\xff\\n')\nwhile d.pause(9): pass", Failure.CRASHED, "is no line of a driver"),
        (READY + "d.measured('c_ms', 1)\nwhile d.pause(9): pass", Failure.CRASHED, "'c_ms', which is none of"),
        (READY + "d.measured('a_ms', float('nan'))\nwhile d.pause(9): pass", Failure.CRASHED, "NaN"),
        (READY + "raise OSError(28, os.strerror(28))", Failure.NO_SPACE, "No space left"),
    ],
)
def test_a_driver_that_goes_wrong(start, script, kind, words):
    error = failure(start(made(script)))
    assert error.failure is kind
    assert words in str(error)
    assert str(error).startswith("test: ")


def test_good_samples_beside_rubbish_are_kept_and_it_stops(start):
    session = start(made(READY + "d.measured('a_ms', 1); print('x', flush=True); d.measured('b_ms', 2)\nd.pause(60)"))
    got = []
    until(lambda: got.extend(session.measurements()) or len(got) == 2, "both samples")
    assert failure(session).failure is Failure.CRASHED
    session.stop()


@pytest.mark.parametrize(
    ("script", "limits", "kind"),
    [
        (BEGIN + "time.sleep(60)", {"ready_limit_s": 0.5}, Failure.NOT_READY),
        (READY + "d.measured('a_ms', 1); time.sleep(60)", {"silence_limit_s": 0.5}, Failure.SILENT),
    ],
)
def test_a_driver_that_hangs(start, monkeypatch, script, limits, kind):
    monkeypatch.setattr(crew, "_TERM_LIMIT_S", 0.5)
    session = start(made(script, **limits))
    with pytest.raises(ApplicationError) as caught:  # noqa: PT012
        session.await_ready()
        raise failure(session)
    assert caught.value.failure is kind


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk; run the tests by sudo")
def test_a_disk_that_runs_full(start, tmp_path):
    disk = tmp_path / "scratch"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "asa-test", disk], check=True)
    try:
        session = start(made(READY + "\nwith open('big', 'wb', 0) as f:\n while f.write(bytes(1 << 16)): pass"))
        assert failure(session).failure is Failure.NO_SPACE
        session.stop()
        (disk / "full").write_bytes(bytes((4 << 20) - 4096))
        with pytest.raises(ApplicationError) as caught:
            raise failure(start(made(WORK)))
        assert caught.value.failure is Failure.NO_SPACE
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
        shutil.rmtree(disk)


@pytest.mark.parametrize(
    ("error", "kind"), [(OSError(28, "full"), Failure.NO_SPACE), (OSError(13, "no"), Failure.UNPREPARED)]
)
def test_what_cannot_be_prepared(start, error, kind):
    def prepare(place, report):
        raise error

    with pytest.raises(ApplicationError) as caught:
        start(made(WORK, prepare=prepare))
    assert caught.value.failure is kind


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    place = Place(cache=tmp_path, cpus=1, tier=Tier.REAL)
    with pytest.raises(ApplicationError, match="file") as caught:
        Session.start(made(WORK), seed=1, place=place, folder=tmp_path / "file" / "below")
    assert caught.value.failure is Failure.UNPREPARED


ESCAPE = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('escaped', 'w').write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""


def test_who_ignores_sigterm_and_escapes_is_ended_all_the_same(start, tmp_path, monkeypatch):
    monkeypatch.setattr(crew, "_TERM_LIMIT_S", 0.5)
    session = start(made(READY + "import signal" + ESCAPE))
    session.await_ready()
    file = until(lambda: [path for path in tmp_path.glob("scratch/*/escaped") if path.read_text()], "it escaped")[0]
    escaped = psutil.Process(int(file.read_text()))
    assert escaped.pid in session.members()
    assert os.getsid(escaped.pid) not in (os.getsid(0), session.members()[0])
    session.stop()
    assert not escaped.is_running() or escaped.status() == psutil.STATUS_ZOMBIE
    assert session.members() == []


def test_a_process_whose_name_is_not_text_is_found_too(start):
    script = READY + "open('/proc/self/comm', 'wb').write(b'\\xff)( \\xfe'); d.measured('a_ms', 1)\nd.pause(60)"
    session = start(made(script))
    drain(session, 1)
    assert len(session.members()) == 1


def test_sigterm_ends_a_pause_at_once_and_the_driver_cleans_up(start, tmp_path):
    mark = tmp_path / "cleaned"
    session = start(made(READY + f"d.pause(600); assert d.ending; open({str(mark)!r}, 'w').close()"))
    session.await_ready()
    session.stop()
    assert mark.exists()


def test_sigterm_interrupts_work_that_cannot_be_asked(start, tmp_path):
    mark = tmp_path / "cleaned"
    script = READY.replace("begin()", "begin(interrupt=True)")
    script += f"\ntry: time.sleep(600)\nfinally: open({str(mark)!r}, 'w').close()"
    session = start(made(script))
    session.await_ready()
    session.stop()
    assert mark.exists()


def test_a_driver_finds_nothing_of_the_users(start, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.setenv(name, "unix:path=/home/somebody")
    script = BEGIN + "d.ready({k: v for k, v in os.environ.items() if 'somebody' in v})\nd.pause(60)"
    session = start(made(script))
    session.await_ready()
    assert session.versions == {}
    assert Path.home() != session._scratch


def test_nothing_gets_before_the_scheduler(start):
    script = READY + (
        "\nfor number, rise in enumerate((lambda: os.nice(-1), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, "
        "os.sched_param(1)))):\n try: rise()\n except PermissionError: d.measured('b_ms', number)"
        "\n else: d.measured('a_ms', number)\nd.pause(60)"
    )
    session = start(made(script))
    assert [one.metric for one in drain(session, 2)] == ["b_ms", "b_ms"]


LEAVERS = {
    "files left behind": "open(f'/tmp/asa-test-{os.getpid()}', 'w').close()",
    "processes left behind": (
        "\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: os.execve('/bin/sleep', ['sleep', '60'], {})\n"
        " os._exit(0)\nos.wait()"
    ),
    "System V objects left behind": "subprocess.run(['ipcmk', '-M', '1'], stdout=2, check=True)",
    "is none of its metrics": "d.measured('c_ms', 1)",
    "still not: 1 of each": "\nwhile d.pause(0.05): d.measured('a_ms', 1)",
}


@pytest.mark.parametrize("words", LEAVERS)
def test_the_helper_of_all_applications_tests_sees(words, tmp_path, monkeypatch):
    monkeypatch.setattr(playing, "SAMPLES_LIMIT_S", 1.0 if "still" in words else 30.0)
    work = "\nwhile d.pause(0.05):\n for metric in ('a_ms', 'b_ms'): d.measured(metric, 1)"
    application = made(READY + "import subprocess; " + LEAVERS[words] + work)
    before = set(Path("/tmp").glob("asa-test-*"))  # noqa: S108
    try:
        with pytest.raises((AssertionError, ApplicationError), match=words):
            playing.play(application, seed=1, seconds=0.2, tmp_path=tmp_path)
    finally:
        for path in set(Path("/tmp").glob("asa-test-*")) - before:  # noqa: S108
            path.unlink()
        for left in playing.system_v():
            subprocess.run(["ipcrm", "-m", left.split()[1]], check=True)
