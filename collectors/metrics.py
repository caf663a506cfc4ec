# SPDX-License-Identifier: GPL-2.0-only
"""What each field of `collectors.rates.Rates` means: unit, source, name in the paper, and a sentence. Data only."""

from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """What a metric is measured in."""

    SHARE = "share"  # 0..1
    PER_S = "1/s"
    COUNT = "count"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    MS = "ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """What one field of Rates means. `paper` is its name in Table 1 of the ASA paper, "" when it is not there."""

    field: str
    unit: Unit
    source: str  # file below the root of /proc
    paper: str
    sentence: str


_TABLE: tuple[tuple[str, tuple[tuple[str, Unit, str, str], ...]], ...] = (
    (
        "stat",
        (
            ("cpu_user_share", Unit.SHARE, "User Mode Utilization", "CPU time in user mode; guests' time is in it."),
            ("cpu_nice_share", Unit.SHARE, "Nice Utilization", "CPU time in user mode at low priority."),
            ("cpu_system_share", Unit.SHARE, "System Mode Utilization", "CPU time in the kernel."),
            ("cpu_idle_share", Unit.SHARE, "Idle Utilization", "CPU time with nothing to do."),
            ("cpu_iowait_share", Unit.SHARE, "I/O Wait Utilization", "Idle CPU time while a task waited for a disk."),
            ("cpu_irq_share", Unit.SHARE, "Hardware Interrupt Utilization", "CPU time in interrupt handlers."),
            ("cpu_softirq_share", Unit.SHARE, "Software Interrupt Utilization", "CPU time in software interrupts."),
            ("cpu_steal_share", Unit.SHARE, "Steal Utilization", "CPU time that a hypervisor gave to others."),
            ("hot_core_share", Unit.SHARE, "Hot-Spot Core Ratio", "Cores that were busy for over 90 % of the time."),
            ("core_busy_max", Unit.SHARE, "", "Busy time of the busiest core."),
            ("core_busy_min", Unit.SHARE, "", "Busy time of the least busy core."),
            ("core_busy_spread", Unit.SHARE, "", "Standard deviation of busy time over cores: 0 even, 0.5 at most."),
            ("context_switches_per_s", Unit.PER_S, "Context Switch Count", "Context switches on all CPUs."),
            ("forks_per_s", Unit.PER_S, "", "Processes and threads made."),
            ("interrupts_per_s", Unit.PER_S, "", "Hardware interrupts of all kinds."),
            ("softirq_timer_per_s", Unit.PER_S, "", "Software interrupts: timers."),
            ("softirq_net_tx_per_s", Unit.PER_S, "Network Interrupt Count", "Software interrupts: packets sent."),
            ("softirq_net_rx_per_s", Unit.PER_S, "Network Interrupt Count", "Software interrupts: packets received."),
            ("softirq_block_per_s", Unit.PER_S, "", "Software interrupts: disk requests completed."),
            ("softirq_tasklet_per_s", Unit.PER_S, "", "Software interrupts: tasklets of drivers."),
            ("softirq_sched_per_s", Unit.PER_S, "", "Software interrupts: load balancing."),
            ("softirq_hrtimer_per_s", Unit.PER_S, "", "Software interrupts: high-resolution timers."),
            ("softirq_rcu_per_s", Unit.PER_S, "", "Software interrupts: RCU callbacks."),
            ("run_queue_length", Unit.COUNT, "Run Queue Length", "Tasks that run or could run, the reader among them."),
            ("blocked_tasks", Unit.COUNT, "", "Tasks that wait for a disk."),
        ),
    ),
    (
        "loadavg",
        (
            ("processes", Unit.COUNT, "Process Count", "Processes, by the link count of /proc."),
            ("threads", Unit.COUNT, "", "Threads of all processes, the kernel's too."),
            ("runnable_threads", Unit.COUNT, "", "Threads that run or could run, the reader among them."),
        ),
    ),
    (
        "meminfo",
        (
            ("memory_total_bytes", Unit.BYTES, "Total Memory", "Memory the kernel manages."),
            ("memory_free_bytes", Unit.BYTES, "Free Memory", "Memory without any use."),
            ("memory_available_bytes", Unit.BYTES, "", "Memory that new programs could have without swapping."),
            ("memory_buffers_bytes", Unit.BYTES, "Buffers", "Cache of raw block devices."),
            ("memory_cached_bytes", Unit.BYTES, "Cached Memory", "Cache of files, with tmpfs and shared memory."),
            ("memory_dirty_bytes", Unit.BYTES, "", "Cache that has still to be written to disk."),
            ("memory_available_share", Unit.SHARE, "", "Available part of all memory."),
            ("memory_cached_share", Unit.SHARE, "", "Part of all memory that caches files."),
            ("swap_total_bytes", Unit.BYTES, "Total Swap", "Swap space."),
            ("swap_free_bytes", Unit.BYTES, "Available Swap", "Swap space without any use."),
            ("swap_used_share", Unit.SHARE, "", "Used part of the swap space; None without swap."),
        ),
    ),
    (
        "vmstat",
        (
            ("page_faults_per_s", Unit.PER_S, "", "Page faults, minor and major."),
            ("major_page_faults_per_s", Unit.PER_S, "", "Page faults that had to read a disk."),
            ("paged_in_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes read from block devices."),
            ("paged_out_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes written to block devices."),
        ),
    ),
    (
        "diskstats",
        (
            ("disk_reads_per_s", Unit.PER_S, "Read Operation Count", "Reads completed, on all physical disks."),
            ("disk_writes_per_s", Unit.PER_S, "Write Operation Count", "Writes completed, on all physical disks."),
            ("disk_read_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes read from physical disks."),
            ("disk_write_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes written to physical disks."),
            ("disk_read_latency_ms", Unit.MS, "Read Latency", "Mean time of a read; None without one."),
            ("disk_write_latency_ms", Unit.MS, "Write Latency", "Mean time of a write; None without one."),
            ("disk_io_size_bytes", Unit.BYTES, "Average I/O Size", "Mean size of reads and writes; None without any."),
            ("disk_queue_length", Unit.COUNT, "Disk I/O Queue Length", "Mean number of requests under way."),
            ("disk_busy_share", Unit.SHARE, "", "Time with a request under way, added up over disks, 1.0 at most."),
        ),
    ),
    (
        "net/dev",
        (
            ("network_received_bytes_per_s", Unit.BYTES_PER_S, "Data Received", "Bytes on all interfaces, lo too."),
            ("network_received_packets_per_s", Unit.PER_S, "Packet Count", "Packets on all interfaces, lo too."),
            ("network_sent_bytes_per_s", Unit.BYTES_PER_S, "Data Sent", "Bytes on all interfaces, lo too."),
            ("network_sent_packets_per_s", Unit.PER_S, "Packet Count", "Packets on all interfaces, lo too."),
        ),
    ),
    (
        "net/snmp",
        (
            ("tcp_in_segments_per_s", Unit.PER_S, "", "TCP segments received, over IPv4 and IPv6."),
            ("tcp_out_segments_per_s", Unit.PER_S, "", "TCP segments sent, those sent again among them."),
            ("tcp_retransmit_share", Unit.SHARE, "Packet Retransmission Rate", "Part of TCP segments sent again."),
            ("tcp_share", Unit.SHARE, "TCP/UDP Ratio", "TCP segments among them and UDP datagrams (IPv4), both ways."),
            (
                "connections_opened_per_s",
                Unit.PER_S,
                "New Connection Count",
                "TCP connections opened here or accepted.",
            ),
            ("connections_reset_per_s", Unit.PER_S, "Reset Connection Count", "TCP connections reset or refused."),
            ("connections_established", Unit.COUNT, "Total Connection Count", "TCP: ESTABLISHED or CLOSE_WAIT."),
        ),
    ),
    (
        "net/sockstat",
        (
            ("connections_time_wait", Unit.COUNT, "", "TCP connections closed here lately: TIME_WAIT."),
            ("connections_orphaned", Unit.COUNT, "", "TCP connections that no process holds any more."),
            ("connections_other", Unit.COUNT, "", "TCP sockets opening or closing."),
            ("udp_sockets", Unit.COUNT, "", "UDP sockets in use, IPv4 and IPv6."),
        ),
    ),
    ("net/tcp", (("connections_listening", Unit.COUNT, "", "TCP sockets that wait for connections."),)),
    (
        "pressure/cpu",
        (("pressure_cpu_some_share", Unit.SHARE, "", "Time in which some task waited for a CPU."),),
    ),
    (
        "pressure/io",
        (
            ("pressure_io_some_share", Unit.SHARE, "", "Time in which some task waited for I/O."),
            ("pressure_io_full_share", Unit.SHARE, "", "Time in which no task ran as all waited for I/O."),
        ),
    ),
    (
        "pressure/memory",
        (
            ("pressure_memory_some_share", Unit.SHARE, "", "Time in which some task waited for memory."),
            ("pressure_memory_full_share", Unit.SHARE, "", "Time in which no task ran as all waited for memory."),
        ),
    ),
    (
        "pressure/irq",
        (("pressure_irq_full_share", Unit.SHARE, "", "Time in which interrupts kept tasks from running."),),
    ),
)

METRICS: tuple[Metric, ...] = tuple(
    Metric(field=field, unit=unit, source=source, paper=paper, sentence=sentence)
    for source, rows in _TABLE
    for field, unit, paper, sentence in rows
)
"""Every field of Rates, by source."""
