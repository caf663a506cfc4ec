# SPDX-License-Identifier: GPL-2.0-only
"""What holds for the rates of any two samples, for the table that explains them, and on this host."""

import dataclasses
import math
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from asa.core.sample import (
    ConnectionState,
    CpuCounters,
    DiskCounters,
    MemoryState,
    NetworkCounters,
    PagingCounters,
    PressureCounters,
    ProcessState,
    RawSample,
    SchedExtState,
)
from collectors.metrics import METRICS, Unit
from collectors.rates import Rates, derive
from collectors.sampler import HostSampler, SystemClock

NAMES = [field.name for field in dataclasses.fields(Rates)]


def test_metrics_are_the_fields():
    assert sorted(metric.field for metric in METRICS) == sorted(NAMES)
    ends = {Unit.SHARE: "_share", Unit.PER_S: "_per_s", Unit.BYTES: "_bytes", Unit.BYTES_PER_S: "_bytes_per_s"}
    for metric in METRICS:
        assert metric.sentence.endswith("."), metric
        if not metric.field.startswith("core_busy_"):
            assert metric.field.endswith(ends.get(metric.unit, "")), metric


def test_the_papers_table_is_served():
    # Table 1, rows CPU, Memory and Disk whole; of the others what /proc has
    names = {metric.paper for metric in METRICS}
    assert names >= {
        *("User Mode Utilization", "System Mode Utilization", "Nice Utilization", "Idle Utilization"),
        *("I/O Wait Utilization", "Hardware Interrupt Utilization", "Software Interrupt Utilization"),
        *("Steal Utilization", "Hot-Spot Core Ratio"),
        *("Total Memory", "Free Memory", "Cached Memory", "Total Swap", "Available Swap", "Buffers"),
        *("Disk I/O Queue Length", "Read Operation Count", "Write Operation Count"),
        *("Read Latency", "Write Latency", "Average I/O Size"),
        *("Process Count", "Context Switch Count", "Run Queue Length"),
        *("Total Connection Count", "New Connection Count", "Reset Connection Count", "Data Sent", "Data Received"),
        *("Packet Count", "Packet Retransmission Rate", "TCP/UDP Ratio"),
    }


counter = st.integers(0, 60) | st.integers(0, (1 << 64) - 1)
ticks = st.tuples(*[counter] * 8)
maybe = st.none() | counter


def built(kind, **own):
    hints = {field.name: field.type for field in dataclasses.fields(kind)}
    return st.builds(
        kind, **{name: own.get(name, maybe if hint == int | None else counter) for name, hint in hints.items()}
    )


cores = st.dictionaries(st.integers(0, 5), ticks).map(lambda found: tuple(sorted(found.items())))
samples = st.builds(
    RawSample,
    monotonic_ns=st.integers(0, 20 * 10**9),
    wall_ns=counter,
    cpu=st.none() | built(CpuCounters, total=ticks, cores=cores, softirqs=st.lists(counter, max_size=12).map(tuple)),
    process=st.none() | built(ProcessState),
    memory=st.none() | built(MemoryState),
    paging=st.none() | built(PagingCounters),
    disk=st.none() | built(DiskCounters),
    network=st.none() | built(NetworkCounters),
    connections=st.none() | built(ConnectionState),
    pressure=st.none() | built(PressureCounters),
    sched_ext=st.none() | st.just(SchedExtState(state="disabled", ops="", enable_seq=0)),
)


@settings(max_examples=400, deadline=None)
@given(previous=samples, current=samples)
def test_any_two_samples_give_finite_rates_or_none(previous, current):
    rates = derive(previous, current)
    gap_ns = current.monotonic_ns - previous.monotonic_ns
    assert (rates is not None) == (0 < gap_ns <= 10 * 10**9)
    if rates is not None:
        for metric in METRICS:
            value = getattr(rates, metric.field)
            assert value is None or (isinstance(value, float | int) and math.isfinite(value) and value >= 0), metric
            if metric.unit is Unit.SHARE:
                assert value is None or value <= 1, metric


def every_core_moved(previous, current):
    before = dict(previous.cpu.cores)
    return all(sum(ticks) - sum(before[number]) >= 5 for number, ticks in current.cpu.cores)


def test_this_host_gives_rates(tmp_path):
    sampler = HostSampler(Path("/proc"), Path("/sys"), SystemClock())
    sampler.open()
    previous = sampler.sample()
    while not every_core_moved(previous, current := sampler.sample()):
        (tmp_path / "work").write_bytes(b"x" * 4096)  # until each core has some ticks to its account
    rates = derive(previous, current)
    sampler.close()
    assert 0.99 < sum(getattr(rates, name) or 0 for name in NAMES if name.startswith("cpu_")) < 1.01
    for name in ("core_busy_max", "context_switches_per_s", "processes", "memory_available_share", "page_faults_per_s"):
        assert getattr(rates, name) is not None, name
