# SPDX-License-Identifier: GPL-2.0-only
"""Rates of what /proc counts by hand-computed examples, and which samples give any."""

import dataclasses
from dataclasses import replace

import pytest
from two_samples import NEW, OLD

from collectors.metrics import METRICS
from collectors.rates import Rates, derive

EXPECTED = {
    "cpu_user_share": 200 / 400,
    "cpu_nice_share": 20 / 400,
    "cpu_system_share": 40 / 400,
    "cpu_idle_share": 80 / 400,
    "cpu_iowait_share": 20 / 400,
    "cpu_irq_share": 5 / 400,
    "cpu_softirq_share": 20 / 400,
    "cpu_steal_share": 15 / 400,
    "hot_core_share": 0.5,
    "core_busy_max": 1.0,
    "core_busy_min": 95 / 195,
    "core_busy_spread": (1 - 95 / 195) / 2,
    "context_switches_per_s": 4000,
    "forks_per_s": 5,
    "interrupts_per_s": 500,
    "softirq_timer_per_s": 100,
    "softirq_net_tx_per_s": 2,
    "softirq_net_rx_per_s": 10,
    "softirq_block_per_s": 3,
    "softirq_tasklet_per_s": 0,
    "softirq_sched_per_s": 100,
    "softirq_hrtimer_per_s": 1,
    "softirq_rcu_per_s": 50,
    "run_queue_length": 4,
    "blocked_tasks": 2,
    "processes": 210,
    "threads": 950,
    "runnable_threads": 3,
    "memory_total_bytes": 1000,
    "memory_free_bytes": 80,
    "memory_available_bytes": 400,
    "memory_buffers_bytes": 50,
    "memory_cached_bytes": 250,
    "memory_dirty_bytes": 30,
    "memory_available_share": 0.4,
    "memory_cached_share": 0.25,
    "memory_available_grown_bytes_per_s": 0,
    "memory_available_shrunk_bytes_per_s": 50,
    "memory_cached_grown_bytes_per_s": 20,
    "memory_cached_shrunk_bytes_per_s": 0,
    "memory_dirty_grown_bytes_per_s": 5,
    "memory_dirty_shrunk_bytes_per_s": 0,
    "swap_total_bytes": 800,
    "swap_free_bytes": 600,
    "swap_used_share": 0.25,
    "page_faults_per_s": 2000,
    "major_page_faults_per_s": 2,
    "paged_in_bytes_per_s": 2048,
    "paged_out_bytes_per_s": 51_200,
    "disk_reads_per_s": 20,
    "disk_writes_per_s": 5,
    "disk_read_bytes_per_s": 102_400,
    "disk_write_bytes_per_s": 153_600,
    "disk_read_latency_ms": 2.5,
    "disk_write_latency_ms": 8,
    "disk_io_size_bytes": 10_240,
    "disk_queue_length": 1.5,
    "disk_busy_share": 0.25,
    "network_received_bytes_per_s": 1000,
    "network_received_packets_per_s": 10,
    "network_sent_bytes_per_s": 3000,
    "network_sent_packets_per_s": 30,
    "tcp_in_segments_per_s": 5,
    "tcp_out_segments_per_s": 25,
    "tcp_retransmit_share": 5 / 55,  # of the 50 that are new and the 5 sent again
    "tcp_share": 0.75,
    "connections_opened_per_s": 2,
    "connections_reset_per_s": 0.5,
    "connections_established": 8,
    "connections_time_wait": 2,
    "connections_orphaned": 1,
    "connections_listening": 4,
    "connections_other": 3,
    "udp_sockets": 9,
    "pressure_cpu_some_share": 0.5,
    "pressure_io_some_share": 0.1,
    "pressure_io_full_share": 0.05,
    "pressure_memory_some_share": 0,
    "pressure_memory_full_share": 1.0,  # 2.04 s in 2 s: the totals were read a little later than the clock
    "pressure_irq_full_share": 0.35,
}
NAMES = [field.name for field in dataclasses.fields(Rates)]


@pytest.mark.parametrize("name", EXPECTED)
def test_two_seconds_by_hand(name):
    assert getattr(derive(OLD, NEW), name) == pytest.approx(EXPECTED[name], abs=1e-12)


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


LEVELS = {"run_queue_length", "blocked_tasks", "focus_memory_share", "focus_processes", "focus_fullscreen"}
LEVELS |= {"desktop_overview", "input_idle_s", "gpu_processes", "gpu_memory_bytes", "sched_ext_attached"}
LEVELS |= {"realtime_threads"}
LEVELS |= {metric.field for metric in METRICS if metric.part in {"process", "memory", "connections"}}
LEVELS -= {metric.field for metric in METRICS if metric.field.endswith("_bytes_per_s")}
ALSO = {  # what needs another part besides its own: how much there is to have a share of
    "cpu": {"focus_cpu_cores", "focus_cpu_share", "gpu_process_cpu_cores", "gpu_process_cpu_share"},
    "memory": {"focus_memory_share"},
}
ALSO["cpu"] |= {metric.field for metric in METRICS if metric.part == "busiest"}
ALSO["cpu"] |= {"realtime_cpu_cores", "realtime_cpu_share"}
# what /proc tells of the processes with the longest and the shortest turns; their use is a part of all cores'
KINDS = {
    f"turns_{end}_{kind}"
    for end in ("longest", "shortest")
    for kind in ("threads", "resident_bytes", "system_share", "faults_per_cpu_s")
}
ALSO["busiest"] = KINDS
ALSO["cpu"] |= KINDS | {"turns_longest_cpu_share", "turns_shortest_cpu_share"}
REST = "process_rest_cpu_share"  # of how busy the cores were
PARTS = sorted({metric.part for metric in METRICS})


def unknown(rates):
    return {name for name in NAMES if getattr(rates, name) is None}


@pytest.mark.parametrize("part", PARTS)
def test_a_source_missing_now_is_unknown(part):
    own = {metric.field for metric in METRICS if metric.part == part}
    assert unknown(derive(OLD, replace(NEW, **{part: None}))) == own | ALSO.get(part, set())


@pytest.mark.parametrize("part", PARTS)
def test_a_source_missing_before_gives_levels_only(part):
    own = {metric.field for metric in METRICS if metric.part == part}
    also = {"cpu": {REST}, "busiest": KINDS}.get(part, set())
    assert unknown(derive(replace(OLD, **{part: None}), NEW)) == own - LEVELS | also


def test_a_core_that_came_or_went_hides_how_busy_they_were():
    busy = {name for name in NAMES if name.startswith(("cpu_", "core_busy_", "hot_core_"))}
    for cores in (NEW.cpu.cores[1:], (*NEW.cpu.cores, (2, (9, 9, 9, 9, 9, 9, 9, 9))), ((7, (9,) * 8),), ()):
        found = unknown(derive(OLD, back("cpu", cores=cores)))
        assert found - ALSO["cpu"] == busy
        assert found & ALSO["cpu"] == (set() if cores else ALSO["cpu"]) | {REST}
    another = back("cpu", cores=tuple(reversed(NEW.cpu.cores)))
    assert derive(OLD, another).core_busy_min == pytest.approx(95 / 195)  # they are paired by number, not by place


@pytest.mark.parametrize(
    ("old_ns", "new_ns", "known"),
    [
        (10**9, 15 * 10**8, True),
        (10**9, 15 * 10**8 + 1, False),  # suspended for over half a second
        (10**9, 10**9 - 100_000, True),  # two clocks are not read at once
        (10**10, 0, False),  # another boot
        (None, 10**12, True),
        (10**12, None, True),
    ],
)
def test_a_suspend_gives_nothing(old_ns, new_ns, known):
    rates = derive(replace(OLD, suspended_ns=old_ns), replace(NEW, suspended_ns=new_ns))
    assert (rates is not None) == known


def test_just_at_the_threshold_a_core_is_not_hot():
    def at(idle):
        return back("cpu", cores=((0, (500 + 100 - idle, 50, 250, 4000 + idle, 150, 5, 10, 15)),))

    one = replace(OLD, cpu=replace(OLD.cpu, cores=OLD.cpu.cores[:1]))
    assert derive(one, at(10)).hot_core_share == 0
    assert derive(one, at(9)).hot_core_share == 1


def test_nothing_happened():
    rates = derive(OLD, replace(OLD, monotonic_ns=OLD.monotonic_ns + 10**9))
    for name in ("cpu_user_share", "disk_read_latency_ms", "disk_write_latency_ms", "disk_io_size_bytes"):
        assert getattr(rates, name) is None, name
    for name in ("tcp_retransmit_share", "tcp_share", "hot_core_share"):
        assert getattr(rates, name) is None, name
    for name in ("disk_reads_per_s", "disk_busy_share", "context_switches_per_s", "pressure_cpu_some_share"):
        assert getattr(rates, name) == 0, name


def test_a_connection_that_only_sends_again_has_lost_everything():
    # OutSegs leaves out what is sent again (__tcp_transmit_skb in net/ipv4/tcp_output.c)
    stalled = back("network", tcp_out_segments=OLD.network.tcp_out_segments, tcp_retransmitted_segments=9_000)
    assert derive(OLD, stalled).tcp_retransmit_share == 1.0


def test_without_swap_its_use_is_unknown():
    assert derive(OLD, back("memory", swap_total_bytes=0, swap_free_bytes=0)).swap_used_share is None


def test_two_busy_disks_say_one():
    assert derive(OLD, back("disk", busy_ms=1000 + 3900)).disk_busy_share == 1.0


def test_pressure_of_more_than_all_the_time_is_none():
    def stalled(pressure_us):
        return derive(OLD, back("pressure", irq_full_us=6_000_000 + pressure_us)).pressure_irq_full_share

    assert stalled(3_000_000) == 1.0  # of 2 s: the totals are read a little later than the clock
    assert stalled(3_000_001) is None  # no clock is that far off


def test_a_scheduler_that_ends_leaves_none_attached():
    after = derive(OLD, back("sched_ext", state="disabled", ops=""))
    assert (after.sched_ext_attached, derive(OLD, NEW).sched_ext_attached) == (0, 1)
    assert derive(OLD, NEW).sched_ext_enables_per_s == 0.5
