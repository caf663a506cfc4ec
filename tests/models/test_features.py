# SPDX-License-Identifier: GPL-2.0-only
"""Values of a tick are finite or unknown, the same on slower and on larger machines, and do not know the machine."""

import dataclasses
import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.rates import Rates
from models import features
from models.features import Source, table, tick
from models.features.table import FOLLOWED, VALUES

FIELDS = [field.name for field in dataclasses.fields(Rates)]
PLACES = {value.name: place for place, value in enumerate(VALUES)}
SHARES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def values(rates: Rates, cpus: int = 4) -> np.ndarray:
    return tick.values(rates, cpus)


def value(rates: Rates, name: str, cpus: int = 4) -> float:
    return float(values(rates, cpus)[PLACES[name]])


def frame(rates: Rates, cpus: int = 4):
    return features.frame(features.push(features.Window(), 1, rates, cpus))


def full(**changes: float | None) -> Rates:
    """Every field known; a machine half at work."""
    fields: dict[str, float | None] = dict.fromkeys(FIELDS, 3.0)
    times = (0.3, 0.0, 0.15, 0.45, 0.05, 0.02, 0.03, 0.0)
    fields |= {f"cpu_{name}_share": share for name, share in zip(SHARES, times, strict=True)}
    return Rates(**(fields | changes))


# one event in ten seconds is the least that is not nothing
RATE = st.none() | st.just(0.0) | st.floats(0.1, 1e15)


@given(numbers=st.lists(RATE, min_size=len(FIELDS), max_size=len(FIELDS)), cpus=st.integers(1, 1024))
def test_any_rates_give_finite_numbers_or_unknown(numbers, cpus):
    seen = frame(Rates(**dict(zip(FIELDS, numbers, strict=True))), cpus)
    assert seen.schema == features.SCHEMA
    assert len(seen.values) == len(features.NAMES)
    assert not np.isinf(seen.values.astype(np.float32)).any()


def test_a_quotient_out_of_all_bounds_stays_finite():
    assert math.isfinite(np.float32(value(full(forks_per_s=1e300, cpu_user_share=1e-300), "forks_a_busy_core")))


def test_nothing_known_is_nothing_known():
    assert np.isnan(frame(Rates()).values).all()


def test_everything_known_is_everything_known():
    assert not np.isnan(frame(full()).values).any()


@pytest.mark.parametrize(
    "name",
    [
        *(
            name
            for name in FIELDS
            if name.startswith(("memory_", "swap_", "threads")) and not name.endswith("_bytes_per_s")
        ),
        *("connections_established", "connections_time_wait", "connections_listening", "udp_sockets"),
        *("disk_read_latency_ms", "disk_write_latency_ms", "block_latency_p50_us", "block_latency_p99_us"),
        *("processes", "cpu_steal_share", "gpu_memory_bytes", "focus_memory_share", "focus_cpu_cores"),
        *("sched_ext_attached", "sched_ext_enables_per_s"),
    ],
)
def test_what_tells_the_machine_or_our_own_doing_is_not_in_it(name: str):
    assert np.array_equal(frame(full(**{name: 0.5})).values, frame(full()).values, equal_nan=True)


def test_how_nice_a_program_was_started_is_not_in_it():
    assert values(full(cpu_user_share=0.1, cpu_nice_share=0.2)) == pytest.approx(values(full()))


def test_twice_the_machine_with_twice_the_work_looks_the_same():
    doubled = dict.fromkeys((name for name in FIELDS if name.endswith("_per_s") and name not in MACHINES), 6.0)
    larger = full(**doubled, run_queue_length=5.0, blocked_tasks=6.0)  # the reader runs once
    assert values(larger, 8) == pytest.approx(values(full()))


MACHINES = {"input_events_per_s"}  # a person types as fast on any machine


def test_ratios_do_not_see_a_slower_machine():
    slower = full(**{name: 0.3 for name in FIELDS if name.endswith("_per_s")})
    for name in PLACES:
        if name.endswith(("_a_switch", "_part", "_reach")) or name in {"faults_a_fork", "packet_kib"}:
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
    probed = full(wakeups_per_s=600.0, switches_per_s=1200.0, burst_p50_us=99.0, involuntary_switch_share=0.25)
    assert value(probed, "wakeups_a_switch") == pytest.approx(math.log1p(500.0))
    assert value(probed, "burst_p50") == pytest.approx(math.log1p(99.0))
    assert value(probed, "involuntary_share") == 0.25


def test_time_by_length_adds_up_and_counts_the_long_ones_for_more():
    none = dict.fromkeys((name for name in FIELDS if name.startswith("burst_") and name.endswith("_share")), 0.0)
    rates = full(**(none | {"burst_to_1ms_share": 0.9, "burst_to_8ms_share": 0.1}))
    short, long = value(rates, "burst_time_to_1ms"), value(rates, "burst_time_to_8ms")
    assert short + long == pytest.approx(1.0)
    # the middles of 2 ** 18 to 2 ** 20 ns and of 2 ** 22 to 2 ** 23 ns
    assert long / short == pytest.approx(0.1 * 2**22.5 / (0.9 * 2**19))
    assert value(rates, "burst_to_1ms") == 0.9


def test_one_unknown_source_leaves_the_others():
    without = full(pressure_cpu_some_share=None, disk_reads_per_s=None)
    assert math.isnan(value(without, "cpu_pressure"))
    assert math.isnan(value(without, "disk_operations_a_core"))
    assert value(without, "switches_a_core") == value(full(), "switches_a_core")


def test_an_idle_machine_does_not_divide_by_nothing():
    idle = full(cpu_user_share=0.0, cpu_system_share=0.0, cpu_irq_share=0.0, cpu_softirq_share=0.0, forks_per_s=0.0)
    assert value(idle, "user_of_busy") == 0.0
    assert value(idle, "faults_a_fork") == 0.0
    assert value(idle, "switches_a_busy_core") == pytest.approx(math.log1p(300.0))  # a hundredth of a core at least


def test_names_are_unique_and_explained():
    assert len(set(features.NAMES)) == len(features.NAMES)
    assert all(column.sentence for column in features.TABLE)
    assert set(FOLLOWED) <= set(PLACES)


def test_those_through_log1p_stand_at_the_end():
    assert [one.log for one in VALUES] == sorted(one.log for one in VALUES)


_OWN = {
    Source.PSI: lambda name: name.startswith("pressure_"),
    Source.PROBES: lambda name: (
        FIELDS.index("switches_per_s") <= FIELDS.index(name) < FIELDS.index("focus_cpu_cores")
        or name.startswith("turns_")
    ),
    Source.PROCESSES: lambda name: name.startswith(("process_", "processes_")),
    Source.DESKTOP: lambda name: FIELDS.index("focus_cpu_cores") <= FIELDS.index(name) < FIELDS.index("gpu_processes"),
}


@pytest.mark.parametrize("source", _OWN)
def test_without_a_source_just_its_columns_are_unknown(source: Source):
    lost = {name: None for name in FIELDS if _OWN[source](name)}
    unknown = np.isnan(frame(full(**lost)).values).tolist()
    assert unknown == features.columns({source}).tolist()
    assert any(unknown)


def test_columns_that_may_tell_the_machine_are_marked():
    marked = features.columns(suspect=True)
    assert {"wakeup_p99", "groups_busy", "timer_late"} <= set(np.array(features.NAMES)[marked])
    assert not features.columns().any()
    assert features.columns({Source.PSI}, suspect=True).sum() == marked.sum() + features.columns({Source.PSI}).sum()


def test_sources_that_a_user_may_lack_have_columns():
    assert set(features.SOURCES) == {"ebpf", "gnome", "psi", "processes"}
    assert all(features.columns(sources).any() for sources in features.SOURCES.values())
    assert set(chain(*features.SOURCES.values())) <= {column.source for column in features.TABLE}
    assert {column.source for column in features.TABLE} == set(table.Source)
