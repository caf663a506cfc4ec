# SPDX-License-Identifier: GPL-2.0-only
"""CPU clock, memory and run times of a process, seen from outside; windows of looks; agents that cannot be measured."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asa import paths, status
from asa.core.errors import AsaError
from asa.core.sample import CpuCounters
from asa.status import Status, StatusFile
from calibration.overhead import agent as overhead_agent
from calibration.overhead.agent import Agent, Look, Memory, Window, cpu_clock, memory, programs_ns

PROC = Path("/proc")
MB = 1_000_000


def counters(*, busy=0, idle=0, steal=0, switches=0):
    ticks = (busy, 0, 0, idle, 0, 0, 0, steal)
    return CpuCounters(
        total=ticks,
        cores=((0, ticks),),
        interrupts=0,
        context_switches=switches,
        forks=0,
        softirqs=(0,) * 10,
        runnable=1,
        blocked=0,
    )


def look(second, *, cpu_ns=0, mb=40.0, ticks=0, overruns=0, host=None, load=0.1):
    return Look(
        monotonic_ns=int(second * 1e9),
        cpu_ns=cpu_ns,
        memory=Memory(resident_bytes=int(mb * MB), swapped_bytes=0),
        ticks=ticks,
        overruns=overruns,
        host=host or counters(),
        load_1min=load,
    )


def test_a_window_is_the_growth_between_its_ends():
    hertz = os.sysconf("SC_CLK_TCK")
    window = Window(
        looks=(
            look(10, cpu_ns=70 * MB, mb=40, ticks=5, overruns=1, host=counters(busy=100, switches=1_000), load=0.4),
            look(15, cpu_ns=80 * MB, mb=44, ticks=10, overruns=1, load=0.2),
            look(
                20,
                cpu_ns=120 * MB,
                mb=42,
                ticks=14,
                overruns=2,
                host=counters(busy=100 + hertz, idle=900, steal=hertz // 2, switches=4_000),
                load=0.3,
            ),
        )
    )
    assert window.seconds == 10.0
    assert window.cpu_pct == pytest.approx(0.5)  # 50 ms in 10 s
    assert window.resident_mb == 44.0
    assert (window.ticks, window.overruns) == (9, 1)
    assert window.switches_per_s == 300.0
    assert window.others_pct == pytest.approx(9.5)  # one second of ten, less the agent's own
    assert window.steal_pct == pytest.approx(5.0)
    assert window.load_1min == (0.2, 0.4)


def test_the_cpu_clock_is_that_of_the_whole_process():
    code = "import threading\ndef spin():\n while True: pass\nthreading.Thread(target=spin).start()\nspin()"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            clock = cpu_clock(process.pid)
            fields = "utime", "stime"
            deadline = time.monotonic() + 30.0
            while time.clock_gettime_ns(clock) < 500 * MB and time.monotonic() < deadline:
                time.sleep(0.02)
            spent_ns = time.clock_gettime_ns(clock)
            words = (PROC / str(process.pid) / "stat").read_text().rpartition(")")[2].split()
            later_ns = time.clock_gettime_ns(clock)
        finally:
            process.kill()
    assert spent_ns >= 500 * MB
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    seen_ns = sum(int(words[11 + number]) for number in range(len(fields))) * tick_ns  # proc_pid_stat(5), 14 and 15
    assert spent_ns - 2 * tick_ns <= seen_ns <= later_ns + 2 * tick_ns


def test_resident_memory_grows_with_what_is_touched():
    before = memory(os.getpid(), PROC).resident_bytes
    block = bytearray(b"x" * (64 << 20))
    after = memory(os.getpid(), PROC).resident_bytes
    assert 60 * MB < after - before < 150 * MB  # the literal and its copy may both be there
    page_bytes = os.sysconf("SC_PAGESIZE")
    statm = int(Path("/proc/self/statm").read_text().split()[1]) * page_bytes
    assert after == pytest.approx(statm, rel=0.05)
    assert len(block) == 64 << 20


def test_what_was_swapped_out_is_counted_beside(tmp_path):
    folder = tmp_path / "77"
    folder.mkdir()
    # As show_smaps_rollup of fs/proc/task_mmu.c writes it
    text = (
        "564af79eb000-7ffd6b3fc000 ---p 00000000 00:00 0    [rollup]\nRss:    1748 kB\nSwap:   12 kB\nSwapPss:  9 kB\n"
    )
    (folder / "smaps_rollup").write_text(text)
    assert memory(77, tmp_path) == Memory(resident_bytes=1748 * 1024, swapped_bytes=12 * 1024)
    (folder / "smaps_rollup").write_text(text.replace("Swap:", "Was:"))
    with pytest.raises(AsaError, match="no line 'Swap:'"):
        memory(77, tmp_path)


def test_a_process_that_is_gone(tmp_path):
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(AsaError, match="smaps_rollup"):
        memory(process.pid, PROC)
    with pytest.raises(AsaError, match="has no CPU clock"):
        cpu_clock(process.pid)


def test_programs_are_counted_once_however_many_descriptors_hold_them(tmp_path):
    folder = tmp_path / "77/fdinfo"
    folder.mkdir(parents=True)
    # As bpf_prog_show_fdinfo writes it, and what other descriptors have
    text = "pos:\t0\nflags:\t02000002\nprog_type:\t26\nprog_id:\t{}\nrun_time_ns:\t{}\nrun_cnt:\t{}\n"
    (folder / "0").write_text("pos:\t0\nflags:\t0100002\nmnt_id:\t25\n")
    (folder / "5").write_text(text.format(31, 1_000, 4))
    (folder / "6").write_text(text.format(32, 500, 1))
    (folder / "7").write_text(text.format(31, 1_000, 4))
    (folder / "8").write_text("pos:\t0\nlink_type:\traw_tracepoint\nlink_id:\t3\nprog_id:\t33\n")
    assert programs_ns(77, tmp_path) == (1_500, 5)
    (folder / "5").unlink()
    (folder / "6").unlink()
    (folder / "7").unlink()
    assert programs_ns(77, tmp_path) is None


def published(**changes):
    values = {
        "pid": os.getpid(),
        "asa_version": "0",
        "started_ns": 1,
        "updated_ns": 2,
        "mode": "observing",
        "mode_reason": "",
        "workload": None,
        "confidence": 0.0,
        "probabilities": {},
        "wanted": None,
        "scheduler": None,
        "scheduler_since_ns": 0,
        "reason": "",
        "sentence": "",
        "switches": 0,
        "failures": 0,
        "set_aside": [],
        "last_event": "",
        "table": "",
        "model": "",
        "interval_s": 1.0,
        "ticks": 7,
        "overruns": 0,
        "worst_late_ms": 0.0,
        "backends": {"ebpf": "core"},
        "missing_sources": {},
        "slow_sources": {},
        "cost_us": {"cpu": 30.0, "ebpf": 20.0},
    }
    return Status(**{**values, **changes})


def test_no_second_agent_is_measured(tmp_path):
    places = paths.Places(run=tmp_path)
    file = StatusFile(tmp_path)
    try:
        file.write(published())
        said = f"an agent runs already, pid {os.getpid()}"
        with pytest.raises(AsaError, match=said), overhead_agent.started(places):
            pass
    finally:
        file.close()


def test_an_agent_that_ended_is_reported_with_its_last_words(tmp_path):
    output = tmp_path / "output"
    output.write_text("first\nasa: no room\n")
    places = paths.Places(run=tmp_path)
    with subprocess.Popen(["sleep", "60"]) as process:
        agent = Agent(process, output, places)
        assert agent.status() is None
        process.kill()
    for ask in (agent.status, agent.settle, agent.look):
        with pytest.raises(AsaError, match="asa run --observe --json: ended with code -9: 'asa: no room'"):
            ask()


def test_another_agents_status_is_not_taken_for_ours(tmp_path):
    file = StatusFile(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            agent = Agent(process, tmp_path / "output", paths.Places(run=tmp_path))
            file.write(published())
            assert status.read(tmp_path) is not None
            assert agent.status() is None
            file.write(published(pid=process.pid))
            seen = agent.look()
        finally:
            process.kill()
            file.close()
    assert seen.ticks == 7
    assert seen.memory.resident_bytes > 100_000
    assert seen.host.context_switches > 0


_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "sum(range(10_000_000)); input()"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.readline()
child.communicate(b"\\n")
print("ended", flush=True)
sys.stdin.readline()
"""


def test_what_it_keeps_beside_itself_counts_and_stays_counted_when_it_ends(tmp_path):
    file = StatusFile(tmp_path)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", _PARENT], text=True, bufsize=1, **pipes) as process:
        try:
            agent = Agent(process, tmp_path / "output", paths.Places(run=tmp_path))
            file.write(published(pid=process.pid))
            child = int(process.stdout.readline())
            clock, deadline = cpu_clock(child), time.monotonic() + 20.0
            while time.clock_gettime_ns(clock) < 20 * MB and time.monotonic() < deadline:
                time.sleep(0.01)
            alone_ns = time.clock_gettime_ns(cpu_clock(process.pid))
            seen = agent.look()
            process.stdin.write("\n")
            assert process.stdout.readline() == "ended\n"
            later = agent.look()
        finally:
            process.kill()
            file.close()
    assert seen.cpu_ns >= alone_ns + 20 * MB
    assert seen.kept_bytes > 1_000_000
    assert later.cpu_ns >= seen.cpu_ns
    assert later.kept_bytes == 0
