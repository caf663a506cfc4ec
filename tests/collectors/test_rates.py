# SPDX-License-Identifier: GPL-2.0-only
"""Rates by hand-computed examples, and what holds for any two samples."""

import dataclasses
from dataclasses import replace

import pytest

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
)
from collectors.rates import Rates, derive

OLD = RawSample(
    monotonic_ns=100_000_000_000,
    wall_ns=0,
    cpu=CpuCounters(
        total=(1000, 100, 500, 8000, 300, 10, 20, 30),
        cores=((0, (500, 50, 250, 4000, 150, 5, 10, 15)), (1, (500, 50, 250, 4000, 150, 5, 10, 15))),
        interrupts=50_000,
        context_switches=70_000,
        forks=900,
        softirqs=(1, 100, 20, 300, 40, 5, 600, 700, 80, 900),
        runnable=1,
        blocked=0,
    ),
    process=ProcessState(processes=200, threads=900, runnable_threads=1),
    memory=MemoryState(
        total_bytes=1000,
        free_bytes=100,
        available_bytes=400,
        buffers_bytes=50,
        cached_bytes=250,
        swap_total_bytes=800,
        swap_free_bytes=600,
        dirty_bytes=20,
    ),
    paging=PagingCounters(faults=1000, major_faults=10, paged_in_kib=500, paged_out_kib=600),
    disk=DiskCounters(
        reads=100,
        read_sectors=2000,
        read_ms=300,
        writes=50,
        write_sectors=4000,
        write_ms=500,
        in_flight=0,
        busy_ms=1000,
        weighted_ms=5000,
    ),
    network=NetworkCounters(
        received_bytes=10_000,
        received_packets=100,
        sent_bytes=20_000,
        sent_packets=200,
        tcp_in_segments=80,
        tcp_out_segments=160,
        tcp_retransmitted_segments=1,
        tcp_active_opens=10,
        tcp_passive_opens=5,
        tcp_resets=2,
        udp_in_datagrams=20,
        udp_out_datagrams=40,
    ),
    connections=ConnectionState(established=5, time_wait=1, orphaned=0, listening=3, other=0, udp_sockets=7),
    pressure=PressureCounters(
        cpu_some_us=1_000_000,
        io_some_us=2_000_000,
        io_full_us=3_000_000,
        memory_some_us=4_000_000,
        memory_full_us=5_000_000,
        irq_full_us=6_000_000,
    ),
)
# two seconds later: 400 ticks on two cores, core 0 at work all the time, core 1 for half of it
NEW = replace(
    OLD,
    monotonic_ns=102_000_000_000,
    cpu=CpuCounters(
        total=(1200, 120, 540, 8080, 320, 15, 40, 45),
        cores=((0, (620, 60, 290, 4000, 150, 10, 25, 30)), (1, (580, 60, 250, 4080, 170, 5, 15, 15))),
        interrupts=51_000,
        context_switches=78_000,
        forks=910,
        softirqs=(1, 300, 24, 320, 46, 5, 600, 900, 82, 1000),
        runnable=4,
        blocked=2,
    ),
    process=ProcessState(processes=210, threads=950, runnable_threads=3),
    memory=replace(OLD.memory, free_bytes=80, dirty_bytes=30),
    paging=PagingCounters(faults=5000, major_faults=14, paged_in_kib=504, paged_out_kib=700),
    disk=DiskCounters(
        reads=140,
        read_sectors=2400,
        read_ms=400,
        writes=60,
        write_sectors=4600,
        write_ms=580,
        in_flight=2,
        busy_ms=1500,
        weighted_ms=8000,
    ),
    network=NetworkCounters(
        received_bytes=12_000,
        received_packets=120,
        sent_bytes=26_000,
        sent_packets=260,
        tcp_in_segments=90,
        tcp_out_segments=210,
        tcp_retransmitted_segments=6,
        tcp_active_opens=13,
        tcp_passive_opens=6,
        tcp_resets=3,
        udp_in_datagrams=30,
        udp_out_datagrams=50,
    ),
    connections=ConnectionState(established=8, time_wait=2, orphaned=1, listening=4, other=3, udp_sockets=9),
    pressure=PressureCounters(
        cpu_some_us=2_000_000,
        io_some_us=2_200_000,
        io_full_us=3_100_000,
        memory_some_us=4_000_000,
        memory_full_us=7_040_000,
        irq_full_us=9_100_000,
    ),
)
EXPECTED = Rates(
    cpu_user_share=200 / 400,
    cpu_nice_share=20 / 400,
    cpu_system_share=40 / 400,
    cpu_idle_share=80 / 400,
    cpu_iowait_share=20 / 400,
    cpu_irq_share=5 / 400,
    cpu_softirq_share=20 / 400,
    cpu_steal_share=15 / 400,
    hot_core_share=0.5,
    core_busy_max=1.0,
    core_busy_min=95 / 195,
    core_busy_spread=(1 - 95 / 195) / 2,
    context_switches_per_s=4000,
    forks_per_s=5,
    interrupts_per_s=500,
    softirq_timer_per_s=100,
    softirq_net_tx_per_s=2,
    softirq_net_rx_per_s=10,
    softirq_block_per_s=3,
    softirq_tasklet_per_s=0,
    softirq_sched_per_s=100,
    softirq_hrtimer_per_s=1,
    softirq_rcu_per_s=50,
    run_queue_length=4,
    blocked_tasks=2,
    processes=210,
    threads=950,
    runnable_threads=3,
    memory_total_bytes=1000,
    memory_free_bytes=80,
    memory_available_bytes=400,
    memory_buffers_bytes=50,
    memory_cached_bytes=250,
    memory_dirty_bytes=30,
    memory_available_share=0.4,
    memory_cached_share=0.25,
    swap_total_bytes=800,
    swap_free_bytes=600,
    swap_used_share=0.25,
    page_faults_per_s=2000,
    major_page_faults_per_s=2,
    paged_in_bytes_per_s=2048,
    paged_out_bytes_per_s=51_200,
    disk_reads_per_s=20,
    disk_writes_per_s=5,
    disk_read_bytes_per_s=102_400,
    disk_write_bytes_per_s=153_600,
    disk_read_latency_ms=2.5,
    disk_write_latency_ms=8,
    disk_io_size_bytes=10_240,
    disk_queue_length=1.5,
    disk_busy_share=0.25,
    network_received_bytes_per_s=1000,
    network_received_packets_per_s=10,
    network_sent_bytes_per_s=3000,
    network_sent_packets_per_s=30,
    tcp_in_segments_per_s=5,
    tcp_out_segments_per_s=25,
    tcp_retransmit_share=0.1,
    tcp_share=0.75,
    connections_opened_per_s=2,
    connections_reset_per_s=0.5,
    connections_established=8,
    connections_time_wait=2,
    connections_orphaned=1,
    connections_listening=4,
    connections_other=3,
    udp_sockets=9,
    pressure_cpu_some_share=0.5,
    pressure_io_some_share=0.1,
    pressure_io_full_share=0.05,
    pressure_memory_some_share=0,
    pressure_memory_full_share=1.0,  # 2.04 s in 2 s: the totals were read a little later than the clock
    pressure_irq_full_share=None,  # 3.1 s in 2 s: no clock is that far off
)
NAMES = [field.name for field in dataclasses.fields(Rates)]


@pytest.mark.parametrize("name", NAMES)
def test_two_seconds_by_hand(name):
    expected = getattr(EXPECTED, name)
    assert getattr(derive(OLD, NEW), name) == (None if expected is None else pytest.approx(expected, abs=1e-12))


@pytest.mark.parametrize(
    ("elapsed_ns", "known"), [(0, False), (-1, False), (1, True), (10**10, True), (10**10 + 1, False)]
)
def test_time_that_stands_goes_back_or_leaps_gives_nothing(elapsed_ns, known):
    assert (derive(OLD, replace(NEW, monotonic_ns=OLD.monotonic_ns + elapsed_ns)) is not None) == known


def back(part, **fields):
    """NEW with counters of one part below OLD's."""
    return replace(NEW, **{part: replace(getattr(NEW, part), **fields)})


@pytest.mark.parametrize(
    ("current", "unknown"),
    [
        (back("cpu", context_switches=69_999), {"context_switches_per_s"}),
        (back("cpu", interrupts=0), {"interrupts_per_s"}),
        (back("cpu", forks=0), {"forks_per_s"}),
        (back("cpu", softirqs=(1, 300, 24, 320, 46, 5, 600, 699, 82, 1000)), {"softirq_sched_per_s"}),
        (back("paging", faults=0), {"page_faults_per_s"}),
        (back("paging", major_faults=0), {"major_page_faults_per_s"}),
        (back("paging", paged_in_kib=0), {"paged_in_bytes_per_s"}),
        (back("paging", paged_out_kib=0), {"paged_out_bytes_per_s"}),
        (back("disk", reads=99), {"disk_reads_per_s", "disk_read_latency_ms", "disk_io_size_bytes"}),
        (back("disk", writes=0), {"disk_writes_per_s", "disk_write_latency_ms", "disk_io_size_bytes"}),
        (back("disk", read_sectors=0), {"disk_read_bytes_per_s", "disk_io_size_bytes"}),
        (back("disk", write_sectors=0), {"disk_write_bytes_per_s", "disk_io_size_bytes"}),
        (back("disk", read_ms=0), {"disk_read_latency_ms"}),
        (back("disk", write_ms=0), {"disk_write_latency_ms"}),
        (back("disk", busy_ms=0), {"disk_busy_share"}),
        (back("disk", weighted_ms=0), {"disk_queue_length"}),
        (back("network", received_bytes=0), {"network_received_bytes_per_s"}),
        (back("network", received_packets=0), {"network_received_packets_per_s"}),
        (back("network", sent_bytes=0), {"network_sent_bytes_per_s"}),
        (back("network", sent_packets=0), {"network_sent_packets_per_s"}),
        (back("network", tcp_in_segments=0), {"tcp_in_segments_per_s", "tcp_share"}),
        (back("network", tcp_out_segments=0), {"tcp_out_segments_per_s", "tcp_share", "tcp_retransmit_share"}),
        (back("network", tcp_retransmitted_segments=0), {"tcp_retransmit_share"}),
        (back("network", udp_in_datagrams=0), {"tcp_share"}),
        (back("network", udp_out_datagrams=0), {"tcp_share"}),
        (back("network", tcp_active_opens=0), {"connections_opened_per_s"}),
        (back("network", tcp_passive_opens=0), {"connections_opened_per_s"}),
        (back("network", tcp_resets=0), {"connections_reset_per_s"}),
        (back("pressure", cpu_some_us=0), {"pressure_cpu_some_share"}),
        (back("pressure", io_some_us=0), {"pressure_io_some_share"}),
        (back("pressure", io_full_us=0), {"pressure_io_full_share"}),
        (back("pressure", memory_some_us=0), {"pressure_memory_some_share"}),
        (back("pressure", memory_full_us=0), {"pressure_memory_full_share"}),
    ],
)
def test_a_counter_that_went_back_takes_only_its_own_rates(current, unknown):
    whole, partly = derive(OLD, NEW), derive(OLD, current)
    assert {name for name in NAMES if getattr(partly, name) != getattr(whole, name)} == unknown
    assert all(getattr(partly, name) is None for name in unknown)


def test_iowait_that_went_back_leaves_the_other_shares():
    # proc_stat(5) warns of it: the 380 other ticks are the whole then
    rates = derive(OLD, back("cpu", total=(1200, 120, 540, 8080, 299, 15, 40, 45)))
    assert rates.cpu_iowait_share is None
    assert rates.cpu_user_share == pytest.approx(200 / 380)
    assert rates.cpu_idle_share == pytest.approx(80 / 380)


PARTS = {
    "cpu": ("cpu_", "hot_", "core_", "context_", "forks_", "interrupts_", "softirq_", "run_queue_", "blocked_"),
    "process": ("processes", "threads", "runnable_threads"),
    "memory": ("memory_", "swap_"),
    "paging": ("page_", "major_", "paged_"),
    "disk": ("disk_",),
    "network": ("network_", "tcp_", "connections_opened_", "connections_reset_"),
    "connections": ("connections_", "udp_sockets"),
    "pressure": ("pressure_",),
}
LEVELS = {"run_queue_length", "blocked_tasks"}  # of a part that counts otherwise


@pytest.mark.parametrize("part", PARTS)
def test_a_source_missing_now_is_unknown(part):
    rates = derive(OLD, replace(NEW, **{part: None}))
    unknown = {name for name in NAMES if getattr(rates, name) is None} - {"pressure_irq_full_share"}
    assert unknown
    assert all(name.startswith(PARTS[part]) for name in unknown)


@pytest.mark.parametrize("part", PARTS)
def test_a_source_missing_before_gives_levels_only(part):
    rates = derive(replace(OLD, **{part: None}), NEW)
    unknown = {name for name in NAMES if getattr(rates, name) is None} - {"pressure_irq_full_share"}
    levels = part in {"process", "memory", "connections"}
    assert bool(unknown) != levels
    assert all(name.startswith(PARTS[part]) and name not in LEVELS for name in unknown)


def test_cores_are_paired_by_number():
    alone = derive(OLD, back("cpu", cores=(NEW.cpu.cores[1],)))
    assert (alone.core_busy_max, alone.core_busy_min) == (pytest.approx(95 / 195),) * 2
    assert (alone.hot_core_share, alone.core_busy_spread) == (0, 0)
    fresh = derive(OLD, back("cpu", cores=(*NEW.cpu.cores, (2, (9, 9, 9, 9, 9, 9, 9, 9)))))
    assert fresh.hot_core_share == 0.5
    assert derive(OLD, back("cpu", cores=((7, (9, 9, 9, 9, 9, 9, 9, 9)),))).core_busy_max is None


def test_just_at_the_threshold_a_core_is_not_hot():
    def at(idle):
        return back("cpu", cores=((0, (500 + 100 - idle, 50, 250, 4000 + idle, 150, 5, 10, 15)),))

    assert derive(OLD, at(10)).hot_core_share == 0
    assert derive(OLD, at(9)).hot_core_share == 1


def test_nothing_happened():
    rates = derive(OLD, replace(OLD, monotonic_ns=OLD.monotonic_ns + 10**9))
    for name in ("cpu_user_share", "disk_read_latency_ms", "disk_write_latency_ms", "disk_io_size_bytes"):
        assert getattr(rates, name) is None, name
    for name in ("tcp_retransmit_share", "tcp_share", "hot_core_share"):
        assert getattr(rates, name) is None, name
    for name in ("disk_reads_per_s", "disk_busy_share", "context_switches_per_s", "pressure_cpu_some_share"):
        assert getattr(rates, name) == 0, name


def test_without_swap_its_use_is_unknown():
    assert derive(OLD, back("memory", swap_total_bytes=0, swap_free_bytes=0)).swap_used_share is None


def test_two_busy_disks_say_one():
    assert derive(OLD, back("disk", busy_ms=1000 + 3900)).disk_busy_share == 1.0
