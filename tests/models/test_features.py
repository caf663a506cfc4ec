# SPDX-License-Identifier: GPL-2.0-only
"""Features are finite or unknown, the same on slower and on larger machines, and do not know the machine."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.rates import Rates
from models import features

FIELDS = [field.name for field in dataclasses.fields(Rates)]
SHARES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def value(rates: Rates, name: str, cpus: int = 4) -> float | None:
    return features.frame(rates, cpus).values[features.NAMES.index(name)]


def full(**changes: float | None) -> Rates:
    """Every field known; a machine half at work."""
    fields: dict[str, float | None] = dict.fromkeys(FIELDS, 3.0)
    times = (0.3, 0.0, 0.15, 0.45, 0.05, 0.02, 0.03, 0.0)
    fields |= {f"cpu_{name}_share": share for name, share in zip(SHARES, times, strict=True)}
    return Rates(**(fields | changes))


# one event in ten seconds is the least that is not nothing
RATE = st.none() | st.just(0.0) | st.floats(0.1, 1e15)


@given(numbers=st.lists(RATE, min_size=len(FIELDS), max_size=len(FIELDS)), cpus=st.integers(1, 1024))
def test_any_rates_give_finite_numbers_or_none(numbers, cpus):
    frame = features.frame(Rates(**dict(zip(FIELDS, numbers, strict=True))), cpus)
    assert frame.schema == features.SCHEMA
    assert len(frame.values) == len(features.NAMES)
    assert all(number is None or math.isfinite(number) for number in frame.values)


def test_nothing_known_is_nothing_known():
    assert set(features.frame(Rates(), 4).values) == {None}


def test_everything_known_is_everything_known():
    assert None not in features.frame(full(), 4).values


@pytest.mark.parametrize(
    "name", [name for name in FIELDS if name.startswith(("memory_", "swap_", "connections_", "threads", "processes"))]
)
def test_levels_that_tell_the_machine_are_not_in_it(name: str):
    assert features.frame(full(**{name: 1e9}), 4) == features.frame(full(), 4)


def test_disk_latency_and_stolen_time_are_not_in_it():
    changed = full(disk_read_latency_ms=50.0, disk_write_latency_ms=9.0, cpu_steal_share=0.5)
    assert features.frame(changed, 4) == features.frame(full(), 4)


def test_twice_the_machine_with_twice_the_work_looks_the_same():
    doubled = [n for n in FIELDS if n.endswith("_per_s")]
    larger = full(**dict.fromkeys(doubled, 6.0), run_queue_length=5.0, blocked_tasks=6.0)  # the reader runs once
    one, two = features.frame(full(), 4).values, features.frame(larger, 8).values
    assert two == pytest.approx(one)


def test_ratios_do_not_see_a_slower_machine():
    slower = full(**{name: 0.3 for name in FIELDS if name.endswith("_per_s")})
    for name in features.NAMES:
        if name.endswith("_a_switch") or name in {"faults_a_fork", "packet_kib"}:
            assert value(slower, name) == pytest.approx(value(full(), name)), name
    assert value(slower, "switches_a_core") != pytest.approx(value(full(), "switches_a_core"))


def test_arithmetic_of_each_kind():
    rates = full(context_switches_per_s=4000.0, forks_per_s=8.0, page_faults_per_s=1600.0, run_queue_length=9.0)
    assert value(rates, "user_share") == pytest.approx(0.3)
    assert value(rates, "busy_share") == pytest.approx(0.5)
    assert value(rates, "user_of_busy") == pytest.approx(0.6)
    assert value(rates, "switches_a_core") == pytest.approx(math.log1p(1000.0))
    assert value(rates, "switches_a_busy_core") == pytest.approx(math.log1p(2000.0))  # 2 of 4 cores at work
    assert value(rates, "forks_a_switch") == pytest.approx(math.log1p(2.0))  # 2 in a thousand
    assert value(rates, "faults_a_fork") == pytest.approx(math.log1p(200.0))
    assert value(rates, "waiting_a_core") == pytest.approx(math.log1p(2.0))


def test_one_unknown_source_leaves_the_others():
    without = full(pressure_cpu_some_share=None, disk_reads_per_s=None)
    assert value(without, "cpu_pressure") is None
    assert value(without, "disk_operations_a_core") is None
    assert value(without, "switches_a_core") == value(full(), "switches_a_core")


def test_an_idle_machine_does_not_divide_by_nothing():
    idle = full(cpu_user_share=0.0, cpu_system_share=0.0, cpu_irq_share=0.0, cpu_softirq_share=0.0, forks_per_s=0.0)
    assert value(idle, "user_of_busy") == 0.0
    assert value(idle, "faults_a_fork") == 0.0
    assert value(idle, "switches_a_busy_core") == pytest.approx(math.log1p(300.0))  # a hundredth of a core at least


def test_names_are_unique_and_explained():
    assert len(set(features.NAMES)) == len(features.NAMES)
    assert all(feature.sentence for feature in features.TABLE)
