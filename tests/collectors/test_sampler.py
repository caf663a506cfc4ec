# SPDX-License-Identifier: GPL-2.0-only
"""The sampler: what is missing is said once, what fails is tried again, what is slow is spared, and no tick raises."""

import dataclasses
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import proc_tree
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.config import CollectSettings, Ebpf
from asa.core.errors import SourceError
from asa.core.ports import Clock, Sampler
from asa.core.sample import ProcessState, RawSample
from collectors.sampler import BUDGET_NS, COLLECTORS, HostSampler, SystemClock, standard

MS = 1_000_000
PLAIN = CollectSettings(ebpf=Ebpf.OFF, desktop=False, gpu=False, groups=False, processes=False, timer=False)


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.now_ns = 5_000_000_000
        self.suspend_ns = 77

    def monotonic_ns(self):
        return self.now_ns

    def wall_ns(self):
        return self.now_ns + 10**18

    def suspended_ns(self):
        return self.suspend_ns


class Script:
    """A source that takes as long as it is told, and fails when it is told."""

    def __init__(self, clock, name="gpu"):
        self.name = name
        self.lacking = {}
        self.clock = clock
        self.takes_ms = 0.0
        self.fails = ""
        self.reads = 0

    def open(self):
        pass

    def read(self):
        self.reads += 1
        self.clock.now_ns += int(self.takes_ms * MS)
        if self.fails:
            raise SourceError(source=self.name, reason=self.fails)
        return {"process": ProcessState(processes=self.reads, threads=1, runnable_threads=1)}

    def close(self):
        pass


class Bench:
    """A sampler over one scripted source."""

    def __init__(self, waits=""):
        self.clock = Hand()
        self.source = Script(self.clock)
        if waits:
            self.source.lacking, self.source.fails = {self.source.name: waits}, waits
        self.sampler = HostSampler([self.source], self.clock)
        self.sampler.open()

    def ticks(self, count, takes_ms=None):
        """Whether each of so many ticks has the source's field."""
        if takes_ms is not None:
            self.source.takes_ms = takes_ms
        return [self.sampler.sample().process is not None for _ in range(count)]


def drawn(seen):
    return "".join("x" if read else "." for read in seen)


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def over(tree, clock=None):
    return HostSampler(standard(tree.proc, tree.sys, PLAIN), clock or Hand())


def opened(tree):
    sampler = over(tree)
    sampler.open()
    return sampler


def test_everything_of_the_laptop(laptop):
    proc_tree.attach(laptop, state="enabled", ops="simple", enable_seq=3)
    sampler = opened(laptop)
    sample = sampler.sample()
    assert (sampler.missing, sampler.failing) == ({}, {})
    assert (sample.monotonic_ns, sample.wall_ns, sample.suspended_ns) == (5_000_000_000, 10**18 + 5_000_000_000, 77)
    optional = {"probes", "process_bursts", "desktop", "gpu", "groups", "timer", "busiest"}  # PLAIN asks not for them
    for field in dataclasses.fields(RawSample):
        assert (getattr(sample, field.name) is None) is (field.name in optional), field.name
    assert set(sampler.cost_us) == {kind.name for kind in COLLECTORS}
    sampler.close()


def test_an_empty_tree_gives_reasons_and_empty_samples(tmp_path):
    sampler = opened(proc_tree.Tree(tmp_path, tmp_path))
    assert set(sampler.missing) == {kind.name for kind in COLLECTORS}
    assert "CONFIG_SCHED_CLASS_EXT" in sampler.missing["sched_ext"]
    assert "no such file" in sampler.missing["cpu"]
    assert sampler.sample() == RawSample(monotonic_ns=5_000_000_000, wall_ns=10**18 + 5_000_000_000, suspended_ns=77)
    sampler.close()


def test_roots_that_are_not_there(tmp_path):
    sampler = opened(proc_tree.Tree(tmp_path / "a", tmp_path / "b"))
    assert len(sampler.missing) == len(COLLECTORS)


def test_optional_files_are_named(vm):
    sampler = opened(vm)
    assert set(sampler.missing) == {"pressure/irq", "sched_ext", "power"}


def test_a_failing_source_is_none_once_and_comes_back(laptop):
    sampler = opened(laptop)
    good = sampler.sample()
    text = (laptop.proc / "meminfo").read_bytes()
    laptop.write("meminfo", text[:100])
    bad = sampler.sample()
    assert bad == dataclasses.replace(good, memory=None)
    assert "cut short" in sampler.failing["memory"]
    laptop.write("meminfo", text)
    assert sampler.sample() == good
    assert sampler.failing == {}


def test_descriptors_are_given_back(laptop):
    before = descriptors()
    sampler = opened(laptop)
    assert descriptors() > before
    sampler.close()
    sampler.close()
    assert descriptors() == before
    assert sampler.sample().cpu is None


def test_descriptors_of_a_source_that_does_not_open_are_given_back(laptop):
    for name in ("stat", "loadavg", "net/snmp", "net/sockstat", "pressure/io"):
        laptop.write(name, b"garbled\n")
    before = descriptors()
    sampler = opened(laptop)
    assert {"cpu", "process", "network", "pressure"} <= set(sampler.missing)
    sampler.close()
    assert descriptors() == before


def test_ticks_open_nothing(laptop):
    sampler = opened(laptop)
    sampler.sample()
    before = descriptors()
    for _ in range(200):
        sampler.sample()
    assert descriptors() == before
    sampler.close()


def test_a_failure_is_told_once_and_so_is_its_end():
    bench = Bench()
    bench.ticks(3)
    bench.source.fails = "no answer"
    bench.ticks(5)
    bench.source.fails = "something else"
    bench.ticks(5)
    assert bench.sampler.news() == ["going on without gpu: no answer"]
    assert bench.sampler.failing == {"gpu": "something else"}  # what is the matter now
    bench.source.fails = ""
    bench.ticks(9)
    assert (bench.sampler.news(), bench.sampler.failing) == ([], {})
    bench.ticks(1)
    assert bench.sampler.news() == ["gpu can be read now"]
    bench.ticks(100)
    assert bench.sampler.news() == []
    bench.source.fails = "no answer"
    bench.ticks(1)
    assert bench.sampler.news() == ["going on without gpu: no answer"]


def test_a_source_that_waits_from_the_start_is_told_when_it_comes():
    bench = Bench(waits="nobody has logged in")
    bench.ticks(5)
    assert bench.sampler.missing == {"gpu": "nobody has logged in"}
    assert bench.sampler.news() == []  # who shows `missing` at the start has told it
    bench.source.lacking, bench.source.fails = {}, ""
    bench.ticks(10)
    assert bench.sampler.missing == {}
    assert bench.sampler.news() == ["gpu can be read now"]


def test_a_source_that_comes_and_goes_does_not_fill_the_log():
    bench = Bench()
    for _ in range(50):
        bench.source.fails = "no answer" if not bench.source.fails else ""
        bench.ticks(1)
    assert bench.sampler.news() == ["going on without gpu: no answer"]


def test_a_slow_source_is_read_in_pairs_and_says_so_once():
    bench = Bench()
    bench.ticks(10, takes_ms=1)
    assert all(bench.ticks(4, takes_ms=12))
    bench.ticks(20)
    assert bench.sampler.news() == ["gpu takes 12 ms a read: read in 2 of 8 ticks"]
    assert bench.sampler.slow == {"gpu": "takes 12 ms a read: read in 2 of 8 ticks"}
    seen = bench.ticks(64)
    assert sum(seen) == 16
    assert "xx......xx......xx" in drawn(seen)
    assert bench.sampler.news() == []


@pytest.mark.parametrize(("takes_ms", "period"), [(6, 4), (11, 8), (25, 16), (60, 32), (100, 64), (5000, 64)])
def test_the_slower_the_rarer(takes_ms, period):
    bench = Bench()
    bench.ticks(200, takes_ms=takes_ms)
    assert bench.sampler.slow["gpu"].endswith(f"read in 2 of {period} ticks")
    assert sum(bench.ticks(10 * period)) == 20


def test_a_source_that_is_quick_again_is_read_every_tick_again():
    bench = Bench()
    bench.ticks(100, takes_ms=12)
    bench.sampler.news()
    bench.ticks(8 * 10, takes_ms=4)  # better, but not well below the budget
    assert sum(bench.ticks(16)) == 4
    bench.ticks(8 * 4, takes_ms=1)
    assert all(bench.ticks(20))
    assert bench.sampler.slow == {}
    assert bench.sampler.news() == ["gpu is read every tick again"]


def test_two_interrupted_reads_do_not_make_a_source_slow():
    bench = Bench()
    for _ in range(50):
        assert all(bench.ticks(3, takes_ms=1))
        assert all(bench.ticks(2, takes_ms=80))
    assert bench.sampler.news() == []


def test_a_slow_failure_is_spared_too():
    bench = Bench()
    bench.source.fails = "no answer within 20 ms"
    bench.ticks(20, takes_ms=20)
    reads = bench.source.reads
    bench.ticks(80)
    assert bench.source.reads - reads == 20
    assert "gpu" in bench.sampler.slow
    assert "gpu" in bench.sampler.failing


@given(st.lists(st.sampled_from([0.1, 1, 4, 6, 12, 200]), min_size=1, max_size=300))
def test_whatever_it_takes_it_is_asked_again_and_recovers(costs):
    bench = Bench()
    seen = drawn(bench.ticks(1, takes_ms=cost)[0] for cost in costs)
    assert "." * 63 not in seen
    assert ".x." not in seen  # a lone read gives no rate
    assert all(bench.ticks(700, takes_ms=0.1)[-64:])


@pytest.mark.parametrize("name", ["sched_ext", "cpu"])
def test_what_no_decision_can_do_without_is_read_in_each_tick(name):
    clock = Hand()
    needed = Script(clock, name)
    needed.takes_ms = 50
    sampler = HostSampler([needed], clock)
    sampler.open()
    for _ in range(40):
        sampler.sample()
    assert (needed.reads, sampler.slow) == (40, {})


def test_only_the_slow_source_is_spared():
    clock = Hand()
    slow, quick = Script(clock, "slow"), Script(clock, "quick")
    slow.takes_ms, quick.takes_ms = 50, 1
    sampler = HostSampler([slow, quick], clock)
    sampler.open()
    for _ in range(200):
        sampler.sample()
    assert quick.reads == 200
    assert slow.reads < 40
    assert sampler.cost_us == {"slow": 50_000.0, "quick": 1000.0}


def test_a_source_with_several_ways_names_the_one_in_use():
    clock = Hand()
    plain, backed = Script(clock, "plain"), Script(clock, "ebpf")
    backed.backend = "core"
    sampler = HostSampler([plain, backed], clock)
    assert sampler.backends == {}
    sampler.open()
    assert sampler.backends == {"ebpf": "core"}


@pytest.mark.parametrize(("slowest_ms", "spared"), [(30, False), (200, True)])
def test_where_the_machine_is_slow_no_source_is(slowest_ms, spared):
    clock = Hand()
    sources = [Script(clock, f"s{number}") for number in range(8)]
    for source in sources:
        source.takes_ms = 8  # above the budget, all of them
    sources[3].takes_ms = slowest_ms
    sampler = HostSampler(sources, clock)
    sampler.open()
    for _ in range(100):
        sampler.sample()
    assert set(sampler.slow) == ({"s3"} if spared else set())
    assert (sources[3].reads < 100) is spared
    assert sources[0].reads == 100


def test_the_budget_is_the_whole_agents():
    assert BUDGET_NS == 0.005 * 1e9  # 0.5 % of a core at one tick a second


def test_settings_choose_the_optional_sources(tmp_path):
    def names(**settings):
        return {collector.name for collector in standard(tmp_path, tmp_path, CollectSettings(**settings))}

    always = {kind.name for kind in COLLECTORS}
    off = {"ebpf": Ebpf.OFF, "desktop": False, "gpu": False, "groups": False, "processes": False, "timer": False}
    assert names(**off) == always
    assert names() == always | {"ebpf", "desktop", "gpu", "groups", "busiest", "timer"}
    for name in ("desktop", "gpu", "groups", "timer"):
        assert names(**{**off, name: True}) == always | {name}
    assert names(**{**off, "processes": True}) == always | {"busiest"}
    for way in (Ebpf.AUTO, Ebpf.CORE, Ebpf.BCC):
        assert names(**{**off, "ebpf": way}) == always | {"ebpf"}


def test_the_system_clock_is_the_systems():
    clock: Clock = SystemClock()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    monotonic_ns = clock.monotonic_ns()
    assert before <= monotonic_ns <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    before = time.clock_gettime_ns(time.CLOCK_REALTIME)
    assert abs(clock.wall_ns() - before) < 10**9


def test_time_awake_is_not_time_suspended():
    clock = SystemClock()
    before = clock.suspended_ns()
    select.select([], [], [], 0.2)  # the clock has to move on
    assert abs(clock.suspended_ns() - before) < 0.1e9


def test_time_suspended_is_what_the_boot_clock_has_more(monkeypatch):
    real = time.clock_gettime_ns

    def slept(clock):
        return real(clock) + (3_600_000_000_000 if clock == time.CLOCK_BOOTTIME else 0)

    before = SystemClock().suspended_ns()
    monkeypatch.setattr(time, "clock_gettime_ns", slept)
    assert abs(SystemClock().suspended_ns() - before - 3_600_000_000_000) < 0.1e9


def test_it_is_a_sampler(laptop):
    sampler: Sampler = opened(laptop)
    assert isinstance(sampler.sample(), RawSample)


OPENING = """
import json, sys
from pathlib import Path
from asa.config import CollectSettings
from collectors.sampler import HostSampler, SystemClock, standard
sampler = HostSampler(standard(Path("/proc"), Path(sys.argv[1]), CollectSettings()), SystemClock())
sampler.open()
print(json.dumps(sampler.missing))
sampler.close()
"""


@pytest.mark.parametrize("capabilities", ["", "+bpf,+perfmon"])
def test_a_sys_that_is_closed_to_this_user_is_no_error(tmp_path, capabilities):
    closed = tmp_path / "sys"
    (closed / "class/drm/card0").mkdir(parents=True)
    (closed / "fs/cgroup/cgroup.controllers").mkdir(parents=True)
    (closed / "kernel/btf/vmlinux").mkdir(parents=True)
    closed.chmod(0o700 if os.geteuid() == 0 else 0)
    tmp_path.chmod(0o755)
    command = [sys.executable, "-B", "-c", OPENING, str(closed)]
    if os.geteuid() == 0:
        kept = [f"--inh-caps={capabilities}", f"--ambient-caps={capabilities}"] if capabilities else []
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *kept, "--", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    finally:
        closed.chmod(0o700)
    assert done.returncode == 0, done.stderr
    missing = json.loads(done.stdout)
    assert "permission denied" in missing["gpu"]
    assert "permission denied" in missing["groups"]
    assert "ebpf" in missing


def test_told_to_end_while_opening_gives_back_what_was_begun():
    class Endless:
        name = "ebpf"
        closed = False

        def open(self):
            raise KeyboardInterrupt

        def close(self):
            self.closed = True

    source = Endless()
    with pytest.raises(KeyboardInterrupt):
        HostSampler([source], Hand()).open()
    assert source.closed
