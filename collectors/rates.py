# SPDX-License-Identifier: GPL-2.0-only
"""Rates out of two raw samples: a pure function, shared by the live agent, the journal's replay and training.

It reads nothing and keeps nothing. Whatever cannot be known is None: a source that is missing in one of the samples, a
counter that went back (a reboot, a 32-bit wrap, a disk or an interface that left), a share of nothing.
"""

from dataclasses import dataclass

from asa.core.sample import CpuTicks, DiskCounters, MemoryState, NetworkCounters, PressureCounters, RawSample

LONGEST_GAP_S = 10.0
"""Two samples further apart give no rates: the machine was suspended, or the agent was stopped."""

HOT_SHARE = 0.9
"""A core is a hot spot above this share of busy time (paper, Table 1, gives no figure; scx_loader uses 90 % too)."""

_SECTOR_BYTES = 512
_PRESSURE_SKEW = 1.5  # totals are read some time after the clock; beyond this a share is no skew but wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """One tick as rates and levels: finite, never negative, or None. `collectors.metrics` explains each field."""

    cpu_user_share: float | None = None
    cpu_nice_share: float | None = None
    cpu_system_share: float | None = None
    cpu_idle_share: float | None = None
    cpu_iowait_share: float | None = None
    cpu_irq_share: float | None = None
    cpu_softirq_share: float | None = None
    cpu_steal_share: float | None = None
    hot_core_share: float | None = None
    core_busy_max: float | None = None
    core_busy_min: float | None = None
    core_busy_spread: float | None = None
    context_switches_per_s: float | None = None
    forks_per_s: float | None = None
    interrupts_per_s: float | None = None
    softirq_timer_per_s: float | None = None
    softirq_net_tx_per_s: float | None = None
    softirq_net_rx_per_s: float | None = None
    softirq_block_per_s: float | None = None
    softirq_tasklet_per_s: float | None = None
    softirq_sched_per_s: float | None = None
    softirq_hrtimer_per_s: float | None = None
    softirq_rcu_per_s: float | None = None
    run_queue_length: float | None = None
    blocked_tasks: float | None = None
    processes: float | None = None
    threads: float | None = None
    runnable_threads: float | None = None
    memory_total_bytes: float | None = None
    memory_free_bytes: float | None = None
    memory_available_bytes: float | None = None
    memory_buffers_bytes: float | None = None
    memory_cached_bytes: float | None = None
    memory_dirty_bytes: float | None = None
    memory_available_share: float | None = None
    memory_cached_share: float | None = None
    swap_total_bytes: float | None = None
    swap_free_bytes: float | None = None
    swap_used_share: float | None = None
    page_faults_per_s: float | None = None
    major_page_faults_per_s: float | None = None
    paged_in_bytes_per_s: float | None = None
    paged_out_bytes_per_s: float | None = None
    disk_reads_per_s: float | None = None
    disk_writes_per_s: float | None = None
    disk_read_bytes_per_s: float | None = None
    disk_write_bytes_per_s: float | None = None
    disk_read_latency_ms: float | None = None
    disk_write_latency_ms: float | None = None
    disk_io_size_bytes: float | None = None
    disk_queue_length: float | None = None
    disk_busy_share: float | None = None
    network_received_bytes_per_s: float | None = None
    network_received_packets_per_s: float | None = None
    network_sent_bytes_per_s: float | None = None
    network_sent_packets_per_s: float | None = None
    tcp_in_segments_per_s: float | None = None
    tcp_out_segments_per_s: float | None = None
    tcp_retransmit_share: float | None = None
    tcp_share: float | None = None
    connections_opened_per_s: float | None = None
    connections_reset_per_s: float | None = None
    connections_established: float | None = None
    connections_time_wait: float | None = None
    connections_orphaned: float | None = None
    connections_listening: float | None = None
    connections_other: float | None = None
    udp_sockets: float | None = None
    pressure_cpu_some_share: float | None = None
    pressure_io_some_share: float | None = None
    pressure_io_full_share: float | None = None
    pressure_memory_some_share: float | None = None
    pressure_memory_full_share: float | None = None
    pressure_irq_full_share: float | None = None


_Fields = dict[str, float | None]


def derive(previous: RawSample, current: RawSample) -> Rates | None:
    """Rates between two samples of one machine.

    None when time stood still or went back (another boot) and when the gap is longer than LONGEST_GAP_S.
    """
    elapsed_s = (current.monotonic_ns - previous.monotonic_ns) / 1e9
    if not 0.0 < elapsed_s <= LONGEST_GAP_S:
        return None
    fields: _Fields = {}
    if current.cpu is not None and previous.cpu is not None:
        fields |= _cpu_times(previous.cpu.total, current.cpu.total)
        fields |= _cores(dict(previous.cpu.cores), dict(current.cpu.cores))
    fields |= _scheduling(previous, current, elapsed_s)
    if current.memory is not None:
        fields |= _memory(current.memory)
    if current.paging is not None and previous.paging is not None:
        old, new = previous.paging, current.paging
        fields["page_faults_per_s"] = _rate(old.faults, new.faults, elapsed_s)
        fields["major_page_faults_per_s"] = _rate(old.major_faults, new.major_faults, elapsed_s)
        fields["paged_in_bytes_per_s"] = _rate(old.paged_in_kib, new.paged_in_kib, elapsed_s, 1024)
        fields["paged_out_bytes_per_s"] = _rate(old.paged_out_kib, new.paged_out_kib, elapsed_s, 1024)
    if current.disk is not None and previous.disk is not None:
        fields |= _disk(previous.disk, current.disk, elapsed_s)
    if current.network is not None and previous.network is not None:
        fields |= _network(previous.network, current.network, elapsed_s)
    if current.connections is not None:
        state = current.connections
        fields["connections_established"] = _level(state.established)
        fields["connections_time_wait"] = _level(state.time_wait)
        fields["connections_orphaned"] = _level(state.orphaned)
        fields["connections_listening"] = _level(state.listening)
        fields["connections_other"] = _level(state.other)
        fields["udp_sockets"] = _level(state.udp_sockets)
    if current.pressure is not None and previous.pressure is not None:
        fields |= _pressure(previous.pressure, current.pressure, elapsed_s)
    return Rates(**fields)


def _level(value: int | None) -> float | None:
    return None if value is None else float(value)


def _growth(old: int | None, new: int | None) -> int | None:
    return None if old is None or new is None or new < old else new - old


def _rate(old: int | None, new: int | None, elapsed_s: float, factor: int = 1) -> float | None:
    growth = _growth(old, new)
    return None if growth is None else growth * factor / elapsed_s


def _sum(*growths: int | None) -> int | None:
    known = [growth for growth in growths if growth is not None]
    return sum(known) if len(known) == len(growths) else None


def _ratio(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _share(part: int | None, whole: int | None) -> float | None:
    # more than the whole is no share: the two do not belong to the same moment
    return None if part is None or not whole or part > whole else part / whole


def _ticks(old: CpuTicks, new: CpuTicks) -> list[int | None]:
    return [_growth(before, now) for before, now in zip(old, new, strict=True)]


def _cpu_times(old: CpuTicks, new: CpuTicks) -> _Fields:
    # proc_stat(5): idle and iowait may go back by a tick. The mode is then unknown, and the rest shares what did pass.
    ticks = _ticks(old, new)
    total = sum(growth or 0 for growth in ticks)
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    return {f"cpu_{name}_share": _share(growth, total) for name, growth in zip(names, ticks, strict=True)}


def _cores(old: dict[int, CpuTicks], new: dict[int, CpuTicks]) -> _Fields:
    busy = []
    for number in old.keys() & new.keys():
        ticks = [growth or 0 for growth in _ticks(old[number], new[number])]
        total = sum(ticks)
        if total:
            busy.append(1.0 - (ticks[3] + ticks[4]) / total)
    if not busy:
        return {}
    mean = sum(busy) / len(busy)
    return {
        "hot_core_share": sum(share > HOT_SHARE for share in busy) / len(busy),
        "core_busy_max": max(busy),
        "core_busy_min": min(busy),
        "core_busy_spread": (sum((share - mean) ** 2 for share in busy) / len(busy)) ** 0.5,
    }


# place in CpuCounters.softirqs -> field; HI and IRQ_POLL hardly ever happen on a laptop
_SOFTIRQS = {
    1: "softirq_timer_per_s",
    2: "softirq_net_tx_per_s",
    3: "softirq_net_rx_per_s",
    4: "softirq_block_per_s",
    6: "softirq_tasklet_per_s",
    7: "softirq_sched_per_s",
    8: "softirq_hrtimer_per_s",
    9: "softirq_rcu_per_s",
}


def _scheduling(previous: RawSample, current: RawSample, elapsed_s: float) -> _Fields:
    fields: _Fields = {}
    if current.process is not None:
        fields["processes"] = _level(current.process.processes)
        fields["threads"] = _level(current.process.threads)
        fields["runnable_threads"] = _level(current.process.runnable_threads)
    new, old = current.cpu, previous.cpu
    if new is None:
        return fields
    fields["run_queue_length"] = _level(new.runnable)
    fields["blocked_tasks"] = _level(new.blocked)
    if old is None:
        return fields
    fields["context_switches_per_s"] = _rate(old.context_switches, new.context_switches, elapsed_s)
    fields["forks_per_s"] = _rate(old.forks, new.forks, elapsed_s)
    fields["interrupts_per_s"] = _rate(old.interrupts, new.interrupts, elapsed_s)
    for place, name in _SOFTIRQS.items():
        if place < min(len(old.softirqs), len(new.softirqs)):
            fields[name] = _rate(old.softirqs[place], new.softirqs[place], elapsed_s)
    return fields


def _memory(state: MemoryState) -> _Fields:
    swap_used = _growth(state.swap_free_bytes, state.swap_total_bytes)
    return {
        "memory_total_bytes": _level(state.total_bytes),
        "memory_free_bytes": _level(state.free_bytes),
        "memory_available_bytes": _level(state.available_bytes),
        "memory_buffers_bytes": _level(state.buffers_bytes),
        "memory_cached_bytes": _level(state.cached_bytes),
        "memory_dirty_bytes": _level(state.dirty_bytes),
        "memory_available_share": _share(state.available_bytes, state.total_bytes),
        "memory_cached_share": _share(state.cached_bytes, state.total_bytes),
        "swap_total_bytes": _level(state.swap_total_bytes),
        "swap_free_bytes": _level(state.swap_free_bytes),
        "swap_used_share": _share(swap_used, state.swap_total_bytes),
    }


def _disk(old: DiskCounters, new: DiskCounters, elapsed_s: float) -> _Fields:
    reads, writes = _growth(old.reads, new.reads), _growth(old.writes, new.writes)
    read_sectors = _growth(old.read_sectors, new.read_sectors)
    write_sectors = _growth(old.write_sectors, new.write_sectors)
    sectors, operations = _sum(read_sectors, write_sectors), _sum(reads, writes)
    busy = _rate(old.busy_ms, new.busy_ms, elapsed_s * 1e3)
    return {
        "disk_reads_per_s": _rate(old.reads, new.reads, elapsed_s),
        "disk_writes_per_s": _rate(old.writes, new.writes, elapsed_s),
        "disk_read_bytes_per_s": _rate(old.read_sectors, new.read_sectors, elapsed_s, _SECTOR_BYTES),
        "disk_write_bytes_per_s": _rate(old.write_sectors, new.write_sectors, elapsed_s, _SECTOR_BYTES),
        "disk_read_latency_ms": _ratio(_growth(old.read_ms, new.read_ms), reads),
        "disk_write_latency_ms": _ratio(_growth(old.write_ms, new.write_ms), writes),
        "disk_io_size_bytes": _ratio(None if sectors is None else sectors * _SECTOR_BYTES, operations),
        "disk_queue_length": _rate(old.weighted_ms, new.weighted_ms, elapsed_s * 1e3),
        # a sum over disks, each of which may be busy all the time: it says 1.0 from one disk's worth of work on
        "disk_busy_share": None if busy is None else min(1.0, busy),
    }


def _network(old: NetworkCounters, new: NetworkCounters, elapsed_s: float) -> _Fields:
    segments_in = _growth(old.tcp_in_segments, new.tcp_in_segments)
    segments_out = _growth(old.tcp_out_segments, new.tcp_out_segments)
    retransmitted = _growth(old.tcp_retransmitted_segments, new.tcp_retransmitted_segments)
    tcp = _sum(segments_in, segments_out)
    udp = _sum(
        _growth(old.udp_in_datagrams, new.udp_in_datagrams), _growth(old.udp_out_datagrams, new.udp_out_datagrams)
    )
    opened = _sum(
        _growth(old.tcp_active_opens, new.tcp_active_opens), _growth(old.tcp_passive_opens, new.tcp_passive_opens)
    )
    return {
        "network_received_bytes_per_s": _rate(old.received_bytes, new.received_bytes, elapsed_s),
        "network_received_packets_per_s": _rate(old.received_packets, new.received_packets, elapsed_s),
        "network_sent_bytes_per_s": _rate(old.sent_bytes, new.sent_bytes, elapsed_s),
        "network_sent_packets_per_s": _rate(old.sent_packets, new.sent_packets, elapsed_s),
        "tcp_in_segments_per_s": _rate(old.tcp_in_segments, new.tcp_in_segments, elapsed_s),
        "tcp_out_segments_per_s": _rate(old.tcp_out_segments, new.tcp_out_segments, elapsed_s),
        "tcp_retransmit_share": _share(retransmitted, segments_out),
        "tcp_share": _share(tcp, _sum(tcp, udp)),
        "connections_opened_per_s": None if opened is None else opened / elapsed_s,
        "connections_reset_per_s": _rate(old.tcp_resets, new.tcp_resets, elapsed_s),
    }


def _stalled(old_us: int | None, new_us: int | None, elapsed_s: float) -> float | None:
    share = _rate(old_us, new_us, elapsed_s * 1e6)
    return None if share is None or share > _PRESSURE_SKEW else min(1.0, share)


def _pressure(old: PressureCounters, new: PressureCounters, elapsed_s: float) -> _Fields:
    return {
        "pressure_cpu_some_share": _stalled(old.cpu_some_us, new.cpu_some_us, elapsed_s),
        "pressure_io_some_share": _stalled(old.io_some_us, new.io_some_us, elapsed_s),
        "pressure_io_full_share": _stalled(old.io_full_us, new.io_full_us, elapsed_s),
        "pressure_memory_some_share": _stalled(old.memory_some_us, new.memory_some_us, elapsed_s),
        "pressure_memory_full_share": _stalled(old.memory_full_us, new.memory_full_us, elapsed_s),
        "pressure_irq_full_share": _stalled(old.irq_full_us, new.irq_full_us, elapsed_s),
    }
