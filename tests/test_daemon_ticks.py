# SPDX-License-Identifier: GPL-2.0-only
"""The loop's time: when ticks begin, which of them are skipped, and who must not starve meanwhile."""

import os
import time

from daemon_bench import ONE, Bench

from asa.daemon import Agent


class Slow:
    """A clock that takes time to look at, and stands still in between."""

    def __init__(self):
        self.now_ns = 7_000_000_123

    def monotonic_ns(self):
        self.now_ns += 30_000
        return self.now_ns


def test_ticks_do_not_drift():
    bench, clock, starts = Bench("scx_one"), Slow(), []
    bench.agent.interval_s, bench.agent.clock, bench.agent.switcher = 0.001, clock, None
    sample = bench.machine.sample

    def timed():
        starts.append(clock.now_ns)
        clock.now_ns += 400_000  # what a tick takes must not move the next one
        return sample()

    bench.machine.sample = timed
    begun_ns = clock.now_ns
    bench.run(300)
    late_ns = [start - begun_ns - tick * 1_000_000 for tick, start in enumerate(starts)]
    assert all(0 <= late < 200_000 for late in late_ns)  # a few looks at the clock
    assert max(late_ns[-10:]) < max(late_ns[:10]) + 100_000  # and no later in the end than in the beginning
    assert bench.agent.counts.overruns == 0
    assert bench.agent.counts.worst_late_ms == (max(late_ns) - 30_000) / 1e6  # due from the first look on


def test_a_tick_that_overran_makes_the_next_no_later():
    bench, clock = Bench("scx_one"), Slow()
    bench.agent.interval_s, bench.agent.clock, bench.agent.switcher = 0.001, clock, None

    def sleep_long():
        clock.now_ns += 700_000_000

    bench.at[20] = sleep_long
    bench.run(60)
    assert bench.agent.counts.overruns == 1  # this tick overran; those it missed are skipped
    assert bench.agent.counts.worst_late_ms < 1.0  # and the next began at its own time


def test_a_tick_that_begins_late_is_told(monkeypatch):
    bench, clock = Bench("scx_one"), Slow()
    bench.agent.interval_s, bench.agent.clock, bench.agent.switcher = 0.001, clock, None
    wait, waits = bench.agent._wait, []

    def late_once(inbox, next_ns):
        waits.append(next_ns)
        if len(waits) == 30:
            clock.now_ns = next_ns + 5_300_000  # the machine let us sleep for longer
        return wait(inbox, next_ns)

    monkeypatch.setattr(Agent, "_wait", lambda _, *words: late_once(*words))
    bench.run(60)
    assert 5.3 <= bench.agent.counts.worst_late_ms < 5.5


def test_late_ticks_are_skipped_and_counted():
    bench = Bench("scx_one")
    bench.agent.interval_s = 0.2  # long enough that a busy machine makes no tick late by itself
    bench.at[2] = lambda: time.sleep(0.5)  # a tick that takes more than two intervals
    bench.run(5)
    assert bench.agent.counts.overruns == 1


def test_a_descriptor_that_stays_readable_starves_nobody():
    bench = Bench(ONE)
    reader, writer = os.pipe()
    os.write(writer, b"x")
    bench.machine.descriptors = lambda: (reader,)
    bench.agent.interval_s = 0.5
    polls = []
    bench.machine.poll = lambda: polls.append(1)
    began_s, cpu_s = time.monotonic(), time.thread_time()
    bench.run(3)
    os.close(reader)
    os.close(writer)
    assert len(polls) > 2000, "each is looked at"
    assert time.thread_time() - cpu_s < 0.8 * (time.monotonic() - began_s), "and then it pauses"
