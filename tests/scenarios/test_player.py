# SPDX-License-Identifier: GPL-2.0-only
"""The player on real programs: they come up, do what they are for, and leave nothing behind."""

import contextlib
import ctypes
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from asa.clock import SystemClock
from asa.core.decision import Workload
from scenarios import crew, workloads
from scenarios.player import Moment, Phase, Player, PlayerError, Stage, find_stage, play_script
from scenarios.workloads import WORKLOADS, Entry, Program, Variant

PR_SET_CHILD_SUBREAPER = 36
LIMIT_S = 30.0


def eventually(what):
    """Ask until the answer is true, or fail after LIMIT_S."""
    deadline = time.monotonic() + LIMIT_S
    while not (answer := what()):
        assert time.monotonic() < deadline, "did not come true in time"
        threading.Event().wait(0.02)
    return answer


@pytest.fixture
def stage():
    # below the cache, not in tmp_path, which may be a tmpfs: fio needs a device
    folder = Path.home() / ".cache/asa/test-scratch"
    yield Stage(lab=False, cpus=len(os.sched_getaffinity(0)), folder=folder, device=None)
    left = list(folder.iterdir()) if folder.exists() else []
    shutil.rmtree(folder, ignore_errors=True)
    assert left == [], "the scratch folder is removed by stop"


@pytest.fixture
def no_orphans():
    """Every process that loses its parent becomes our child: an independent way to see what was left behind."""
    me = psutil.Process()
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    before = set(me.children(recursive=True))
    yield
    after = []
    for child in set(me.children(recursive=True)) - before:
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, 0)
            else:
                after.append(child.cmdline())
                child.kill()
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert after == []


def shell(monkeypatch, *scripts):
    """Make `test` a workload of shell scripts."""

    def make(_rng, _setting):
        return tuple(Program(package="dash", argv=("sh", "-c", script)) for script in scripts)

    entry = Entry(
        label=Workload("test"), sentence="test", packages=("dash",), variants=(Variant(name="sh", make=make),)
    )
    monkeypatch.setattr(workloads, "WORKLOADS", (entry,))


# the figure of each workload that must move; of the player's own processes wherever that is possible


def _cpu_s(playing):
    return sum(_each(playing, lambda p: sum(p.cpu_times()[:2])))


def _switches(playing):
    return sum(_each(playing, lambda p: _status_sum(p.pid, "voluntary_ctxt_switches")))


def _disk_bytes(playing):
    return sum(_each(playing, lambda p: p.io_counters().read_bytes + p.io_counters().write_bytes))


def _loopback_bytes(_playing):
    return psutil.net_io_counters(pernic=True)["lo"].bytes_recv


def _forks(_playing):
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("processes"))
    return int(line.split()[1])


def _each(playing, figure):
    values = []
    for pid in playing.members():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError, ProcessLookupError):
            values.append(figure(psutil.Process(pid)))
    return values


def _status_sum(pid, field):
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for line in status.read_text().splitlines():
                name, _, value = line.partition(":")
                total += int(value) if name == field else 0
    return total


FIGURES = {
    "idle": [],
    "cpu": [(_cpu_s, 0.5)],
    "disk": [(_disk_bytes, 4e6)],
    "wakeup": [(_switches, 3_000)],
    "network": [(_loopback_bytes, 20e6)],
    "spawn": [(_forks, 300)],
    "frames": [(_switches, 60), (_cpu_s, 0.2)],
    "cpu+disk": [(_cpu_s, 0.5), (_disk_bytes, 4e6)],
}


@pytest.mark.apps
@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "seed"),
    [pytest.param(e, s, id=f"{e.label}-{v.name}") for e in WORKLOADS for s, v in enumerate(e.variants)],
)
def test_every_variant_does_its_work_and_leaves_nothing(entry, seed, stage, no_orphans):
    with Player.start(entry.label, seed=seed, stage=stage) as playing:
        for program in playing.programs:
            assert program.argv[0] in playing.parameters
        threads = _each(playing, psutil.Process.num_threads)
        for program in playing.programs:  # up means: at work, not still in the dynamic linker
            assert any(count >= program.threads for count in threads), (program.argv, threads)
        for figure, growth in FIGURES[entry.label]:
            first = figure(playing)
            eventually(lambda figure=figure, growth=growth, first=first: figure(playing) - first > growth)
        assert playing.alive()
        assert playing.members()
        if entry.label == "idle":
            assert _cpu_s(playing) < 1.0
    assert playing.members() == []
    assert not playing.alive()


@pytest.mark.apps
def test_descendants_that_escape_are_ended_too(monkeypatch, stage, no_orphans):
    # a session and a parent of its own, as a daemon makes them; one more that hides its environment in its session
    shell(monkeypatch, "setsid sh -c 'setsid sleep 987 & exec sleep 987' & env -i sleep 987 & exec sleep 987")
    playing = Player.start("test", seed=0, stage=stage)
    eventually(lambda: len([p for p in playing.members() if psutil.Process(p).name() == "sleep"]) == 4)
    playing.stop()
    assert playing.members() == []


@pytest.mark.apps
def test_program_that_ignores_sigterm_is_killed(monkeypatch, stage, no_orphans):
    monkeypatch.setattr(crew, "_TERM_LIMIT_S", 0.3)
    shell(monkeypatch, "trap '' TERM; echo armed; while :; do sleep 0.1; done")
    with Player.start("test", seed=0, stage=stage) as playing:
        (log,) = eventually(lambda: [path for path in stage.folder.glob("*/0.log") if "armed" in path.read_text()])
        assert playing.alive()
    assert playing.members() == []
    playing.stop()  # again does no harm
    assert not log.exists()


@pytest.mark.apps
def test_program_that_fails_is_named_with_its_last_words(monkeypatch, stage, no_orphans):
    shell(monkeypatch, "exec sleep 987", "sleep 0.2; echo first; echo 'no such device' >&2; exit 3")
    with Player.start("test", seed=0, stage=stage) as playing:
        with pytest.raises(PlayerError, match="sh: ended with code 3; it said: 'first / no such device'") as caught:
            eventually(lambda: not playing.alive())
        assert caught.value.last_words == "first / no such device"


@pytest.mark.apps
def test_program_that_cannot_run_fails_the_start(monkeypatch, stage, no_orphans, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/nonexistent/interpreter\n")
    broken.chmod(0o755)

    def make(_rng, _setting):
        return (Program(package="dash", argv=("sh", "-c", "exec sleep 987")), Program(package="x", argv=(str(broken),)))

    entry = Entry(label=Workload("test"), sentence="test", packages=(), variants=(Variant(name="x", make=make),))
    monkeypatch.setattr(workloads, "WORKLOADS", (entry,))
    with pytest.raises(PlayerError, match=r"broken: ended with code 127; it said: .*No such file or directory"):
        Player.start("test", seed=0, stage=stage)


@pytest.mark.apps
def test_killed_program_is_told_by_its_signal(monkeypatch, stage, no_orphans):
    shell(monkeypatch, "exec sleep 987")
    with Player.start("test", seed=0, stage=stage) as playing:
        os.kill(playing.members()[0], signal.SIGKILL)
        with pytest.raises(PlayerError, match="was killed by SIGKILL"):
            eventually(lambda: not playing.alive())


@pytest.mark.apps
def test_program_that_ended_well_is_started_again(monkeypatch, stage, no_orphans, tmp_path):
    runs = tmp_path / "runs"
    runs.touch()
    shell(monkeypatch, f"echo ran >> {runs}")
    with Player.start("test", seed=0, stage=stage) as playing:
        eventually(lambda: playing.alive() and runs.read_text().count("ran") >= 3)


@pytest.mark.apps
def test_programs_end_when_the_player_is_gone(monkeypatch, stage, no_orphans):
    shell(monkeypatch, "exec sleep 987")
    started = []
    thread = threading.Thread(target=lambda: started.append(Player.start("test", seed=0, stage=stage)))
    thread.start()
    thread.join()  # PR_SET_PDEATHSIG counts the thread: the same as when the whole process is killed
    (playing,) = started
    eventually(lambda: playing.members() == [])
    playing.stop()


def test_missing_program_names_its_package(monkeypatch, stage, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlayerError, match=r"rt-app: is not installed; run: apt-get install rt-app"):
        Player.start("frames", seed=0, stage=stage)


def test_unknown_workload_lists_the_known(stage):
    with pytest.raises(PlayerError, match=r"'games': is no workload; there are idle, cpu, disk"):
        Player.start("games", seed=0, stage=stage)


def proc(tmp_path, cmdline):
    (tmp_path / "cmdline").write_text(cmdline)
    return tmp_path


def test_stage_on_a_host(tmp_path):
    found = find_stage(cache=Path("/cache"), environment={}, proc=proc(tmp_path, "root=/dev/vda quiet\n"))
    assert (found.lab, found.device, found.folder) == (False, None, Path("/cache/scratch"))
    assert found.cpus == len(os.sched_getaffinity(0))


def test_a_disk_is_never_taken_outside_the_lab(tmp_path):
    with pytest.raises(PlayerError, match=r"ASA_LAB_DISK: names '/dev/sda', which would be overwritten"):
        find_stage(cache=Path("/c"), environment={"ASA_LAB_DISK": "/dev/sda"}, proc=proc(tmp_path, "quiet\n"))


def test_stage_in_the_lab(tmp_path):
    guest = proc(tmp_path, "virtme_hostname=virtme-ng console=ttyS0\n")
    found = find_stage(cache=Path("/c"), environment={"ASA_LAB_DISK": "/dev/vda"}, proc=guest)
    assert found.lab
    assert found.device == Path("/dev/vda")
    assert found.folder != Path("/c/scratch"), "the cache is read-only there"


def test_disk_workload_wants_a_real_device(tmp_path):
    wrong = Stage(lab=True, cpus=2, folder=tmp_path, device=Path("/dev/null"))
    with pytest.raises(PlayerError, match="'/dev/null', which is no block device"):
        Player.start("disk", seed=0, stage=wrong)
    none = Stage(lab=True, cpus=2, folder=tmp_path, device=None)
    with pytest.raises(PlayerError, match="boot the lab with a scratch disk"):
        Player.start("disk", seed=0, stage=none)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.apps
def test_script_plays_phases_in_turn(monkeypatch, stage, no_orphans):
    shell(monkeypatch, "exec sleep 987")
    events, asked = [], []

    def until(elapsed_s):
        asked.append(elapsed_s)
        return len(asked) in (3, 4)  # the first phase ends when asked for the third time, the second at once

    phases = [Phase(workload=Workload("test"), min_s=0.2), Phase(workload=Workload("test"), min_s=0.1, seed=5)]
    play_script(phases, stage=stage, until=until, on_event=events.append, clock=SystemClock(), look_s=0.02)
    assert [(e.number, e.moment) for e in events] == [
        (n, m) for n in (0, 1) for m in (Moment.STARTING, Moment.PLAYING, Moment.ENDED)
    ]
    assert [e.phase for e in events[::3]] == phases
    assert "sleep 987" in events[1].parameters
    assert [e.monotonic_ns for e in events] == sorted(e.monotonic_ns for e in events)
    assert len(asked) == 4
    assert min(asked[:3]) >= 0.2
    assert 0.1 <= asked[3] < LIMIT_S


@pytest.mark.apps
def test_script_stops_its_phase_when_the_caller_raises(monkeypatch, stage, no_orphans):
    shell(monkeypatch, "exec sleep 987")

    def until(_elapsed_s):
        raise KeyboardInterrupt

    phases = [Phase(workload=Workload("test"), min_s=0.0)]
    with pytest.raises(KeyboardInterrupt):
        play_script(phases, stage=stage, until=until, on_event=lambda _event: None, clock=SystemClock())
