# SPDX-License-Identifier: GPL-2.0-only
"""What was read in one tick: raw kernel counters, before any arithmetic.

A field is `None` when this host does not offer it. Counters only grow (until a reboot or a wrap); states are levels
at the moment of reading. Rates come from two samples, in `collectors.rates`. Samples are journalled as they are, so
that every later derivation can be computed again.
"""

from dataclasses import dataclass

# user, nice, system, idle, iowait, irq, softirq, steal in USER_HZ ticks: proc_stat(5), columns 1 to 8 of a cpu line.
CpuTicks = tuple[int, int, int, int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuCounters:
    """/proc/stat: time by mode, and events since boot."""

    total: CpuTicks
    cores: tuple[tuple[int, CpuTicks], ...]  # (cpu number, ticks), the online ones only
    interrupts: int
    context_switches: int
    forks: int
    softirqs: tuple[int, ...]  # HI TIMER NET_TX NET_RX BLOCK IRQ_POLL TASKLET SCHED HRTIMER RCU (kernel/softirq.c)
    runnable: int  # procs_running, a level
    blocked: int  # procs_blocked, a level


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """How many there are now: proc_loadavg(5) for threads, /proc's own link count or listing for processes."""

    processes: int | None
    threads: int
    runnable_threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """/proc/meminfo, levels in bytes."""

    total_bytes: int
    free_bytes: int
    available_bytes: int | None
    buffers_bytes: int
    cached_bytes: int
    swap_total_bytes: int
    swap_free_bytes: int
    dirty_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagingCounters:
    """/proc/vmstat: events since boot."""

    faults: int
    major_faults: int
    paged_in_kib: int
    paged_out_kib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskCounters:
    """/proc/diskstats, summed over whole physical devices (no partitions, loop, ram, zram, dm or md)."""

    reads: int
    read_sectors: int  # of 512 bytes, whatever the device's own sector is
    read_ms: int
    writes: int
    write_sectors: int
    write_ms: int
    in_flight: int  # a level
    busy_ms: int
    weighted_ms: int  # its growth per millisecond is the mean queue length


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCounters:
    """/proc/net/dev (all interfaces, loopback too) and /proc/net/snmp."""

    received_bytes: int
    received_packets: int
    sent_bytes: int
    sent_packets: int
    tcp_in_segments: int | None
    tcp_out_segments: int | None
    tcp_retransmitted_segments: int | None
    tcp_active_opens: int | None
    tcp_passive_opens: int | None
    tcp_resets: int | None  # EstabResets + AttemptFails
    udp_in_datagrams: int | None
    udp_out_datagrams: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionState:
    """How many TCP connections are in each state now; UDP sockets in use. Levels."""

    established: int | None  # /proc/net/snmp CurrEstab
    time_wait: int | None  # /proc/net/sockstat
    orphaned: int | None
    listening: int | None  # counted from /proc/net/tcp and tcp6 while the tables are small, else None
    other: int | None
    udp_sockets: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureCounters:
    """/proc/pressure/*: stalled time since boot in microseconds (Documentation/accounting/psi.rst)."""

    cpu_some_us: int | None
    io_some_us: int | None
    io_full_us: int | None
    memory_some_us: int | None
    memory_full_us: int | None
    irq_full_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedExtState:
    """/sys/kernel/sched_ext: who decides now (kernel/sched/ext.c)."""

    state: str  # disabled, enabling, enabled, disabling
    ops: str  # name of the attached scheduler, "" when none is
    enable_seq: int  # grows by one with each scheduler that was enabled since boot


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSample:
    """One tick of one machine. `monotonic_ns` is CLOCK_MONOTONIC at the start of reading, `wall_ns` CLOCK_REALTIME."""

    monotonic_ns: int
    wall_ns: int
    cpu: CpuCounters | None = None
    process: ProcessState | None = None
    memory: MemoryState | None = None
    paging: PagingCounters | None = None
    disk: DiskCounters | None = None
    network: NetworkCounters | None = None
    connections: ConnectionState | None = None
    pressure: PressureCounters | None = None
    sched_ext: SchedExtState | None = None
