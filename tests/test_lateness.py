# SPDX-License-Identifier: GPL-2.0-only
"""Ticks that come late: told once, with what kept the agent, and once when it is over."""

import os
import time

import pytest

from asa.act.priority import goes_first
from asa.lateness import LateTicks

S = 1_000_000_000


class Bench:
    """An agent of one tick a second, kept from its CPU, stopped or slow as told."""

    def __init__(self, *, first=True, told=True):
        self.now_ns = 100 * S
        self.waited_ns = 7 * S if told else None
        self.late = LateTicks(1.0, lambda: self.waited_ns, lambda: "ebpf", lambda: first)

    def tick(self, *, waits_s=0.0, stopped_s=0.0, takes_s=0.001, waits_inside_s=0.0):
        self.now_ns += int((1.0 + waits_s + stopped_s) * S)
        if self.waited_ns is not None:
            self.waited_ns += int((waits_s + waits_inside_s) * S)
        start_ns = self.now_ns
        end_ns = start_ns + int((takes_s + waits_inside_s) * S)
        self.now_ns += max(0, end_ns - start_ns - S)
        return self.late.tick(start_ns, end_ns)

    def ticks(self, count, **how):
        return [said for _ in range(count) if (said := self.tick(**how))]


def test_a_real_time_load_is_told_once_and_so_is_its_end():
    bench = Bench()
    assert bench.ticks(10) == []
    (said,) = bench.ticks(50, waits_s=1.75)
    assert said.startswith("ticks come late, this one by 1.8 s: real-time tasks of others keep it from the CPU")
    assert bench.ticks(59) == []
    assert bench.ticks(20) == ["ticks come in time again"]
    assert bench.ticks(500) == []
    assert len(bench.ticks(3, waits_s=1.0)) == 1


@pytest.mark.parametrize(
    ("bench", "how", "words"),
    [
        (Bench(first=False), {"waits_s": 1.0}, "other tasks keep it from the CPU; `sudo asa run`"),
        (Bench(), {"stopped_s": 1.0}, "the agent was stopped, or the whole (virtual) machine was"),
        (Bench(), {"takes_s": 2.0}, "its own ticks take 2.0 s, most of it ebpf"),
        (Bench(), {"waits_inside_s": 2.0}, "real-time tasks of others keep it from the CPU"),
        (Bench(told=False), {"stopped_s": 1.0}, "the kernel does not tell"),
    ],
)
def test_the_likely_cause(bench, how, words):
    bench.ticks(5)
    (said,) = bench.ticks(10, **how)
    assert words in said


def test_two_late_ticks_are_nothing_and_one_very_late_is():
    bench = Bench()
    assert bench.ticks(2, waits_s=0.6) == []
    assert bench.ticks(100) == []
    assert bench.ticks(1, waits_s=0.6) == []
    (said,) = bench.ticks(1, waits_s=5)
    assert "by 5.0 s" in said


def test_a_busy_machines_milliseconds_are_not_late():
    assert Bench().ticks(1000, waits_s=0.1) == []


def test_this_process_goes_not_first():
    assert goes_first() is (os.sched_getscheduler(0) not in (os.SCHED_OTHER, os.SCHED_BATCH))
    assert time.monotonic_ns() > 0
