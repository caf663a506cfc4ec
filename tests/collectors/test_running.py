# SPDX-License-Identifier: GPL-2.0-only
"""Time without a CPU: told by the kernel, else by the CPU time; and no source is slowed down for it."""

import os
import subprocess
import sys
import time

import pytest
from sampler_bench import Bench, Hand, Script

from collectors.running import Absence, RunDelay
from collectors.sampler import HostSampler

MS = 1_000_000


class Told:
    """A run delay that is set by hand."""

    def __init__(self, waited_ns):
        self.now_ns = waited_ns

    def waited_ns(self):
        return self.now_ns

    def close(self):
        pass


def test_the_kernels_own_figure(tmp_path):
    (tmp_path / "thread-self").mkdir()
    (tmp_path / "thread-self/schedstat").write_text("92107 3312796 2\n")
    delay = RunDelay(tmp_path)
    assert delay.waited_ns() == 3312796
    delay.close()
    delay.close()
    for text in ("", "92107\n", "a b c\n"):
        (tmp_path / "thread-self/schedstat").write_text(text)
        assert RunDelay(tmp_path).waited_ns() is None
    assert RunDelay(tmp_path / "none").waited_ns() is None


BUSY = "import time\nend = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


@pytest.mark.parametrize("told", [True, False])
def test_waiting_for_a_cpu_is_absence_and_working_is_not(tmp_path, told):
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(3)]
    try:
        absence = Absence(RunDelay() if told else RunDelay(tmp_path))
        absence.mark()
        begun_ns, cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        while time.monotonic_ns() - begun_ns < 500 * MS or absence is None:
            pass
        lacked_ns = time.monotonic_ns() - begun_ns - (time.thread_time_ns() - cpu_ns)
        found_ns = absence.since_ns()
    finally:
        for one in busy:
            one.kill()
            one.wait()
        os.sched_setaffinity(0, cpus)
    assert lacked_ns > 50 * MS
    assert abs(found_ns - lacked_ns) < 0.2 * lacked_ns + 10 * MS


class Starved(Script):
    """Reads in 1 ms, and is kept from the CPU for 20 ms meanwhile."""

    delay = None

    def read(self):
        self.clock.now_ns += 20 * MS
        self.delay.now_ns += 20 * MS
        return super().read()


def test_no_source_is_slow_for_time_in_which_the_agent_did_not_run():
    clock = Hand()
    source = Starved(clock, "gpu")
    source.takes_ms = 1
    source.delay = Told(0)
    sampler = HostSampler([source], clock, absence=Absence(source.delay))
    sampler.open()
    for _ in range(100):
        sampler.sample()
    assert (source.reads, sampler.slow, sampler.news()) == (100, {}, [])
    assert sampler.cost_us == {"gpu": 1000.0}
    source.takes_ms = 12
    for _ in range(100):
        sampler.sample()
    assert sampler.news() == ["gpu takes 12 ms a read: read in 2 of 8 ticks"]


def test_without_an_absence_all_that_passed_counts():
    bench = Bench()
    bench.ticks(20, takes_ms=12)
    assert "gpu" in bench.sampler.slow
