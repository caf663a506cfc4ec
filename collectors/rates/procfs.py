# SPDX-License-Identifier: GPL-2.0-only
"""Rates of what /proc counts that are more than one counter's growth: shares, means, changes of levels."""

from operator import sub

from asa.core.sample import (
    CpuCounters,
    CpuTicks,
    DiskCounters,
    MemoryState,
    NetworkCounters,
    PressureCounters,
)
from collectors.metrics.procfs import SECTOR_BYTES
from collectors.rates.arithmetic import Fields, growth, rate, ratio, share, total

HOT_SHARE = 0.9
"""A core is a hot spot above this share of busy time (paper, Table 1, gives no figure; scx_loader uses 90 % too)."""

AT_WORK = ("cpu_user_share", "cpu_nice_share", "cpu_system_share", "cpu_irq_share", "cpu_softirq_share")
"""Fields whose sum is the part of all cores' time in which they worked for us."""

_PRESSURE_SKEW = 1.5  # totals are read some time after the clock; beyond this a share is no skew but wrong


# place in CpuCounters.softirqs -> field; HI and IRQ_POLL hardly ever happen on a laptop
SOFTIRQS = (
    (1, "softirq_timer_per_s"),
    (2, "softirq_net_tx_per_s"),
    (3, "softirq_net_rx_per_s"),
    (4, "softirq_block_per_s"),
    (6, "softirq_tasklet_per_s"),
    (7, "softirq_sched_per_s"),
    (8, "softirq_hrtimer_per_s"),
    (9, "softirq_rcu_per_s"),
)
TIMES = (
    "cpu_user_share",
    "cpu_nice_share",
    "cpu_system_share",
    "cpu_idle_share",
    "cpu_iowait_share",
    "cpu_irq_share",
    "cpu_softirq_share",
    "cpu_steal_share",
)


def softirqs(fields: Fields, old: CpuCounters, new: CpuCounters, elapsed_s: float) -> None:
    """Soft interrupts by kind."""
    kinds = min(len(old.softirqs), len(new.softirqs))
    for place, name in SOFTIRQS:
        if place < kinds:
            grown = new.softirqs[place] - old.softirqs[place]
            fields[name] = grown / elapsed_s if grown >= 0 else None


def times(fields: Fields, old: CpuCounters, new: CpuCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """Where the time went, on the machine and by core; unknown where a core came or went."""
    before, now = dict(old.cores), dict(new.cores)
    if before.keys() == now.keys():  # else the totals lost or gained what a core had idled
        _times(fields, old.total, new.total)
        _cores(fields, before, now)


def _times(fields: Fields, old: CpuTicks, new: CpuTicks) -> None:
    # proc_stat(5): idle and iowait may go back by a tick. The mode is then unknown, and the rest shares what did pass.
    ticks = list(map(sub, new, old))
    passed = sum(grown for grown in ticks if grown > 0)
    if passed:
        for name, grown in zip(TIMES, ticks, strict=True):
            if grown >= 0:
                fields[name] = grown / passed


def _cores(fields: Fields, old: dict[int, CpuTicks], new: dict[int, CpuTicks]) -> None:
    busy = []
    for number, now in new.items():
        ticks = list(map(sub, now, old[number]))
        if min(ticks) < 0:  # as in `_times`: the rest shares what did pass
            ticks = [max(0, grown) for grown in ticks]
        passed = sum(ticks)
        if passed:
            busy.append(1.0 - (ticks[3] + ticks[4]) / passed)
    if not busy:
        return
    mean = sum(busy) / len(busy)
    fields["hot_core_share"] = sum(part > HOT_SHARE for part in busy) / len(busy)
    fields["core_busy_max"] = max(busy)
    fields["core_busy_min"] = min(busy)
    fields["core_busy_spread"] = (sum((part - mean) ** 2 for part in busy) / len(busy)) ** 0.5


def memory_levels(fields: Fields, state: MemoryState) -> None:
    """Shares of all memory."""
    swap_used = growth(state.swap_free_bytes, state.swap_total_bytes)
    fields["memory_available_share"] = share(state.available_bytes, state.total_bytes)
    fields["memory_cached_share"] = share(state.cached_bytes, state.total_bytes)
    fields["swap_used_share"] = share(swap_used, state.swap_total_bytes)


MOVED = (
    ("memory_available_grown_bytes_per_s", "memory_available_shrunk_bytes_per_s"),
    ("memory_cached_grown_bytes_per_s", "memory_cached_shrunk_bytes_per_s"),
    ("memory_dirty_grown_bytes_per_s", "memory_dirty_shrunk_bytes_per_s"),
)


def memory(fields: Fields, old: MemoryState, new: MemoryState, elapsed_s: float) -> None:
    """How fast parts of the memory grow and shrink; one of the two is 0."""
    levels = (
        (old.available_bytes, new.available_bytes),
        (old.cached_bytes, new.cached_bytes),
        (old.dirty_bytes, new.dirty_bytes),
    )
    for (grown, shrunk), (before, now) in zip(MOVED, levels, strict=True):
        if before is not None and now is not None:
            by = (now - before) / elapsed_s
            fields[grown] = max(by, 0.0)
            fields[shrunk] = max(-by, 0.0)


def disk(fields: Fields, old: DiskCounters, new: DiskCounters, elapsed_s: float) -> None:
    """What of all physical disks is more than one counter's growth a second, but for their latencies."""
    reads, writes = growth(old.reads, new.reads), growth(old.writes, new.writes)
    read_sectors = growth(old.read_sectors, new.read_sectors)
    write_sectors = growth(old.write_sectors, new.write_sectors)
    sectors, operations = total(read_sectors, write_sectors), total(reads, writes)
    busy = rate(old.busy_ms, new.busy_ms, elapsed_s * 1e3)
    fields["disk_io_size_bytes"] = ratio(None if sectors is None else sectors * SECTOR_BYTES, operations)
    # a sum over disks, each of which may be busy all the time: it says 1.0 from one disk's worth of work on
    fields["disk_busy_share"] = None if busy is None else min(1.0, busy)


def disk_latencies(fields: Fields, old: DiskCounters, new: DiskCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How long a read and a write take."""
    fields["disk_read_latency_ms"] = ratio(growth(old.read_ms, new.read_ms), growth(old.reads, new.reads))
    fields["disk_write_latency_ms"] = ratio(growth(old.write_ms, new.write_ms), growth(old.writes, new.writes))


def network(fields: Fields, old: NetworkCounters, new: NetworkCounters, elapsed_s: float) -> None:
    """TCP and UDP beside each other, and new connections."""
    segments_in = growth(old.tcp_in_segments, new.tcp_in_segments)
    segments_out = growth(old.tcp_out_segments, new.tcp_out_segments)
    tcp = total(segments_in, segments_out)
    udp = total(
        growth(old.udp_in_datagrams, new.udp_in_datagrams), growth(old.udp_out_datagrams, new.udp_out_datagrams)
    )
    opened = total(
        growth(old.tcp_active_opens, new.tcp_active_opens), growth(old.tcp_passive_opens, new.tcp_passive_opens)
    )
    fields["tcp_share"] = share(tcp, total(tcp, udp))
    fields["connections_opened_per_s"] = None if opened is None else opened / elapsed_s


def retransmitted(fields: Fields, old: NetworkCounters, new: NetworkCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """Which part of what TCP sent was sent again."""
    again = growth(old.tcp_retransmitted_segments, new.tcp_retransmitted_segments)
    out = growth(old.tcp_out_segments, new.tcp_out_segments)  # OutSegs counts what is new
    fields["tcp_retransmit_share"] = share(again, total(out, again))


def _stalled(old_us: int | None, new_us: int | None, elapsed_s: float) -> float | None:
    if old_us is None or new_us is None or new_us < old_us:
        return None
    part = (new_us - old_us) / (elapsed_s * 1e6)
    return None if part > _PRESSURE_SKEW else min(1.0, part)


def pressure(fields: Fields, old: PressureCounters, new: PressureCounters, elapsed_s: float) -> None:
    """Parts of the time in which tasks were stalled."""
    fields["pressure_cpu_some_share"] = _stalled(old.cpu_some_us, new.cpu_some_us, elapsed_s)
    fields["pressure_io_some_share"] = _stalled(old.io_some_us, new.io_some_us, elapsed_s)
    fields["pressure_io_full_share"] = _stalled(old.io_full_us, new.io_full_us, elapsed_s)
    fields["pressure_memory_some_share"] = _stalled(old.memory_some_us, new.memory_some_us, elapsed_s)
    fields["pressure_memory_full_share"] = _stalled(old.memory_full_us, new.memory_full_us, elapsed_s)
    fields["pressure_irq_full_share"] = _stalled(old.irq_full_us, new.irq_full_us, elapsed_s)
