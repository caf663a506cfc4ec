# SPDX-License-Identifier: GPL-2.0-only
"""The sampler over trees of /proc and /sys: what is missing is said, what fails is tried again, and no tick raises; its
clock, and which sources settings choose."""

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
from sampler_bench import Hand, Script

from asa.clock import SystemClock
from asa.config import CollectSettings, Ebpf
from asa.core.ports import Clock, Sampler
from asa.core.sample import RawSample
from collectors.sampler import HostSampler, standard
from collectors.sources import SOURCES, only

PLAIN = only(())
ALWAYS = tuple(source for source in SOURCES if not source.setting)


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
    optional = {part for source in SOURCES if source.setting for part in source.parts}  # PLAIN asks not for them
    for field in dataclasses.fields(RawSample):
        assert (getattr(sample, field.name) is None) is (field.name in optional | {"advice"}), field.name
    assert set(sampler.cost_us) == {source.name for source in ALWAYS}
    sampler.close()


def test_an_empty_tree_gives_reasons_and_empty_samples(tmp_path):
    sampler = opened(proc_tree.Tree(tmp_path, tmp_path))
    assert set(sampler.missing) == {source.name for source in ALWAYS}
    assert "CONFIG_SCHED_CLASS_EXT" in sampler.missing["sched_ext"]
    assert "no such file" in sampler.missing["cpu"]
    assert sampler.sample() == RawSample(monotonic_ns=5_000_000_000, wall_ns=10**18 + 5_000_000_000, suspended_ns=77)
    sampler.close()


def test_roots_that_are_not_there(tmp_path):
    sampler = opened(proc_tree.Tree(tmp_path / "a", tmp_path / "b"))
    assert len(sampler.missing) == len(ALWAYS)


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


def test_an_absent_source_is_found_later_and_told_once(laptop):
    text = (laptop.proc / "meminfo").read_bytes()
    (laptop.proc / "meminfo").unlink()
    clock = Hand()
    sampler = over(laptop, clock)
    sampler.open()
    assert set(sampler.missing) >= {"memory"}
    laptop.write("meminfo", text)
    news, seconds = [], 0
    while sampler.sample().memory is None:
        clock.now_ns += 1_000_000_000
        seconds += 1
        assert seconds <= 600
    assert seconds >= 60
    for _ in range(30):
        sampler.sample()
        news += sampler.news()
    assert news == ["memory can be read now"]
    assert "memory" not in sampler.missing
    order = [source.name for source in ALWAYS if source.name in sampler.cost_us]
    assert list(sampler.cost_us) == order


def test_a_part_that_goes_and_comes_is_told_once_each(laptop):
    sampler = opened(laptop)
    text = (laptop.proc / "pressure/irq").read_bytes()
    for _ in range(20):
        laptop.write("pressure/irq", b"")
        sampler.sample()
        laptop.write("pressure/irq", text)
        assert sampler.sample().pressure.irq_full_us is not None
    (told,) = sampler.news()
    assert told.startswith("going on without pressure/irq: ")
    for _ in range(20):
        sampler.sample()
    assert sampler.news() == ["pressure/irq can be read now"]


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
    assert {"cpu", "process", "net/snmp", "net/sockstat", "pressure/io"} <= set(sampler.missing)
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


def test_settings_choose_the_optional_sources(tmp_path):
    def names(**settings):
        return {collector.name for collector in standard(tmp_path, tmp_path, CollectSettings(**settings))}

    always = {source.name for source in ALWAYS}
    off = {"ebpf": Ebpf.OFF, "desktop": False, "gpu": False, "groups": False, "processes": False, "timer": False}
    assert names(**off) == always
    assert names() == always | {"ebpf", "desktop", "hints", "gpu", "groups", "busiest", "programs", "realtime", "timer"}
    assert names(**{**off, "desktop": True}) == always | {"desktop", "hints"}
    for name in ("gpu", "groups", "timer"):
        assert names(**{**off, name: True}) == always | {name}
    assert names(**{**off, "processes": True}) == always | {"busiest", "programs", "realtime"}
    for way in (Ebpf.AUTO, Ebpf.CORE, Ebpf.BCC):
        assert names(**{**off, "ebpf": way}) == always | {"ebpf"}


def test_a_follower_sees_what_was_read_before_it_in_the_same_tick(laptop):
    class Follower(Script):
        def follow(self, fields):
            self.seen = dict(fields)

    clock = Hand()
    first, last = Script(clock, "first"), Script(clock, "last")
    follower = Follower(clock, "middle")
    sampler = HostSampler([first, follower, last], clock)
    sampler.open()
    for tick in (1, 2):
        sampler.sample()
        assert follower.seen["process"].processes == tick
    first.fails = "gone"
    sampler.sample()
    assert follower.seen == {}  # and nothing of the tick before
    sampler.close()


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
from asa.clock import SystemClock
from collectors.sampler import HostSampler, standard
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
