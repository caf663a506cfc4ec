# SPDX-License-Identifier: GPL-2.0-only
"""Which process keeps the CPU the longest, which the shortest, and what is not known of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from two_samples import MIB, NEW, OLD, process
from two_samples import bursts as of

from collectors.rates import Rates, derive
from collectors.rates.bursts import turned
from collectors.rates.extremes import extremes
from collectors.rates.processes import Use

MS = 1_000_000
OURS = {name for name in Rates.__dataclass_fields__ if name.startswith(("turns_longest", "turns_shortest"))}


def use(pid, ticks, system=0, faults=0, threads=1, resident=MIB):
    return Use(ticks, system, faults, process(pid, 5, 0, 0, 0, 0, threads, resident))


def told(*some, uses=(), elapsed_s=1.0, cores=2):
    fields = {}
    extremes(fields, turned(of(), of(*some)), list(uses), elapsed_s, cores)
    return fields


def test_a_render_beside_a_player():
    render, player = use(1, 90, system=9, faults=450, threads=8, resident=300 * MIB), use(2, 10, threads=3)
    found = told((1, 900 * MS, 90, 81), (2, 100 * MS, 400, 4), uses=(render, player))
    assert found == {
        "turns_longest_mean_us": 10_000.0,
        "turns_longest_involuntary_share": 0.9,
        "turns_longest_cpu_share": 0.45,
        "turns_longest_threads": 8.0,
        "turns_longest_resident_bytes": 300.0 * MIB,
        "turns_longest_system_share": 0.1,
        "turns_longest_faults_per_cpu_s": 500.0,
        "turns_shortest_mean_us": 250.0,
        "turns_shortest_involuntary_share": 0.01,
        "turns_shortest_cpu_share": 0.05,
        "turns_shortest_threads": 3.0,
        "turns_shortest_resident_bytes": float(MIB),
        "turns_shortest_system_share": 0.0,
        "turns_shortest_faults_per_cpu_s": 0.0,
    }


def test_they_keep_their_places_whoever_uses_more():
    one, other = told((1, 900 * MS, 90, 0), (2, 100 * MS, 400, 0)), told((1, 100 * MS, 10, 0), (2, 900 * MS, 3600, 0))
    for name in ("turns_longest_mean_us", "turns_shortest_mean_us"):
        assert one[name] == other[name]


def test_one_process_alone_is_both():
    found = told((1, 900 * MS, 90, 0))
    assert found["turns_longest_cpu_share"] == found["turns_shortest_cpu_share"] == 0.45


def test_who_uses_less_than_a_twentieth_of_a_core_does_not_count():
    assert told((1, 99 * MS, 10, 0), elapsed_s=2.0) == {}
    assert told((1, 99 * MS, 10, 0), (2, 100 * MS, 50, 0), elapsed_s=2.0)["turns_longest_mean_us"] == 2_000.0


def test_a_turn_under_way_counts_by_the_ticks():
    found = told((1, 10 * MS, 1, 1), uses=(use(1, 60),))
    assert found["turns_longest_cpu_share"] == pytest.approx(0.3)
    assert found["turns_longest_mean_us"] == 10_000.0


def test_what_proc_does_not_tell_is_unknown():
    found = told((1, 900 * MS, 90, 0), uses=(use(2, 10),))
    assert "turns_longest_threads" not in found
    assert found["turns_longest_cpu_share"] == 0.45


def test_they_are_part_of_the_rates():
    assert len(OURS) == 14
    rates = derive(OLD, NEW)
    assert rates.turns_longest_mean_us == 80_000.0
    assert rates.turns_shortest_mean_us == 2_000.0  # the one of 20 us used 3 % of a core
    assert (rates.turns_longest_threads, rates.turns_shortest_threads) == (1, 8)
    assert rates.turns_longest_system_share == 0.2
    rates = derive(replace(OLD, busiest=None), NEW)
    assert rates.turns_longest_mean_us == 80_000.0
    assert rates.turns_longest_threads is None


COUNTERS = st.lists(st.tuples(*[st.integers(1, 2**64 - 1)] * 4), max_size=5, unique_by=lambda one: one[0])


@given(counters=COUNTERS, elapsed_s=st.floats(0.01, 10), cores=st.integers(0, 64), ticks=st.integers(1, 2**40))
def test_any_counters_give_shares_that_are_shares(counters, elapsed_s, cores, ticks):
    uses = [use(one[0], ticks, system=ticks // 2) for one in counters]
    found = told(*counters, uses=uses, elapsed_s=elapsed_s, cores=cores)
    assert set(found) <= OURS
    shares = [value for name, value in found.items() if name.endswith("_share") and value is not None]
    assert all(0.0 <= value <= 1.0 for value in shares)
