# SPDX-License-Identifier: GPL-2.0-only
"""The sampler over sources that do as they are told: a failure is told once, what is slow is spared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampler_bench import Bench, Hand, Script

from asa.core.errors import SourceError
from collectors.sampler import BUDGET_NS, HostSampler


def drawn(seen):
    return "".join("x" if read else "." for read in seen)


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


@pytest.mark.parametrize("name", ["sched_ext", "cpu", "ebpf"])
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


def test_a_source_that_is_dear_to_try_is_tried_seldom():
    class Dear(Script):
        tries = 0

        def open(self):
            self.tries += 1
            self.clock.now_ns += 2_000_000_000
            raise SourceError(source=self.name, reason="no compiler")

    clock = Hand()
    source = Dear(clock)
    sampler = HostSampler([source], clock)
    sampler.open()
    for _ in range(86_400):
        sampler.sample()
        clock.now_ns += 1_000_000_000
    assert 10 <= source.tries <= 1 + 86_400 / 4000
    assert sampler.news() == []
