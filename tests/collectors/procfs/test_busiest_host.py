# SPDX-License-Identifier: GPL-2.0-only
"""The collector of the busiest processes on this host, against what psutil and a load's own clock tell."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from busiest_bench import PAGE

from collectors.procfs.busiest import MOST_FOLLOWED, BusiestCollector

WORK = """
import threading, time
for _ in range({waiting}): threading.Thread(target=threading.Event().wait, daemon=True).start()
def work():
    while time.process_time() < 0.4: pass
for _ in range({working}): threading.Thread(target=work).start()
held = bytearray(48 << 20)
work()
print("done", flush=True)
input()
"""


@pytest.mark.parametrize("early", [True, False], ids=["opened before", "opened after"])
@pytest.mark.parametrize("threads", [1, 30])
def test_a_child_of_ours_against_psutil(early, threads):
    collector = BusiestCollector(Path("/proc"), Path("/sys"))
    if early:
        collector.open()
    since_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    program = WORK.format(waiting=threads - 1, working=0)
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"done\n"
        if not early:
            collector.open()
        before = seen(collector, child.pid)
        theirs = psutil.Process(child.pid)
        times, resident, count = theirs.cpu_times(), theirs.memory_info().rss, theirs.num_threads()
        after = seen(collector, child.pid)
        assert before.user_ticks <= round(times.user * 100) <= after.user_ticks
        assert before.system_ticks <= round(times.system * 100) <= after.system_ticks
        assert 38 <= after.user_ticks + after.system_ticks < 200
        assert before.threads == count == threads
        assert before.resident_bytes == pytest.approx(resident, abs=4 << 20)
        assert before.resident_bytes > 48 << 20
        assert before.minor_faults > (48 << 20) // PAGE // 600  # even if all of it is huge pages
        assert since_ns // 10**7 - 1 <= before.started_ticks <= time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 10**7
        child.communicate(b"\n")
    assert child.pid not in {usage.pid for usage in collector.read()["busiest"].processes}
    collector.close()


def test_threads_that_all_work_are_one_process():
    collector = BusiestCollector(Path("/proc"), Path("/sys"))
    collector.open()
    with subprocess.Popen(
        [sys.executable, "-c", WORK.format(waiting=0, working=11)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout.readline() == b"done\n"
        before = seen(collector, child.pid)
        times = psutil.Process(child.pid).cpu_times()
        after = seen(collector, child.pid)
        assert before.user_ticks <= round(times.user * 100) <= after.user_ticks
        assert 38 <= after.user_ticks + after.system_ticks < 200  # also of threads that have ended
        child.communicate(b"\n")
    collector.close()


def seen(collector, pid):
    return next(usage for usage in collector.read()["busiest"].processes if usage.pid == pid)


def test_this_hosts_processes():
    collector = BusiestCollector(Path("/proc"), Path("/sys"))
    collector.open()
    found = collector.read()["busiest"].processes
    assert 0 < len(found) <= MOST_FOLLOWED
    assert os.getpid() not in {usage.pid for usage in found}
    parents = {usage.pid: psutil.Process(usage.pid).ppid() for usage in found if psutil.pid_exists(usage.pid)}
    if psutil.pid_exists(2) and psutil.Process(2).name() == "kthreadd":
        assert not {2} & {*parents, *parents.values()}
        assert "2" in collector._kernels
    collector.close()
