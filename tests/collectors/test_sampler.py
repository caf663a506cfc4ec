# SPDX-License-Identifier: GPL-2.0-only
"""The sampler: what is missing is said once, what fails is tried again, and no tick ever raises."""

import dataclasses
import time
from pathlib import Path

import proc_tree

from asa.core.ports import Clock, Sampler
from asa.core.sample import RawSample
from collectors.sampler import COLLECTORS, HostSampler, SystemClock


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.now_ns = 5_000_000_000

    def monotonic_ns(self):
        return self.now_ns

    def wall_ns(self):
        return self.now_ns + 10**18


def descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def opened(tree):
    sampler = HostSampler(tree.proc, tree.sys, Hand())
    sampler.open()
    return sampler


def test_everything_of_the_laptop(laptop):
    proc_tree.attach(laptop, state="enabled", ops="simple", enable_seq=3)
    sampler = opened(laptop)
    sample = sampler.sample()
    assert (sampler.missing, sampler.failing) == ({}, {})
    assert (sample.monotonic_ns, sample.wall_ns) == (5_000_000_000, 10**18 + 5_000_000_000)
    assert all(getattr(sample, field.name) is not None for field in dataclasses.fields(RawSample))
    sampler.close()


def test_an_empty_tree_gives_reasons_and_empty_samples(tmp_path):
    sampler = HostSampler(tmp_path, tmp_path, Hand())
    sampler.open()
    assert set(sampler.missing) == {kind.name for kind in COLLECTORS}
    assert "CONFIG_SCHED_CLASS_EXT" in sampler.missing["sched_ext"]
    assert "no such file" in sampler.missing["cpu"]
    assert sampler.sample() == RawSample(monotonic_ns=5_000_000_000, wall_ns=10**18 + 5_000_000_000)
    sampler.close()


def test_roots_that_are_not_there(tmp_path):
    sampler = HostSampler(tmp_path / "a", tmp_path / "b", Hand())
    sampler.open()
    assert len(sampler.missing) == len(COLLECTORS)


def test_optional_files_are_named(vm):
    sampler = opened(vm)
    assert set(sampler.missing) == {"pressure/irq", "sched_ext"}


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


def test_the_system_clock_is_the_systems():
    clock: Clock = SystemClock()
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    monotonic_ns = clock.monotonic_ns()
    assert before <= monotonic_ns <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    before = time.clock_gettime_ns(time.CLOCK_REALTIME)
    assert abs(clock.wall_ns() - before) < 10**9


def test_it_is_a_sampler(laptop):
    sampler: Sampler = opened(laptop)
    assert isinstance(sampler.sample(), RawSample)
