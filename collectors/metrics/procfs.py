# SPDX-License-Identifier: GPL-2.0-only
"""Metrics that come from /proc (proc(5) and its pages by file) and from pressure stall information. Data only."""

from collectors.metrics.kinds import Backend, Group, Row, Unit


def _moves(name: str, what: str) -> tuple[Row, ...]:
    return tuple(
        Row(f"memory_{name}_{way}_bytes_per_s", Unit.BYTES_PER_S, "", f"How fast {what} {verb}.", f"{name}_bytes")
        for way, verb in (("grown", "grew"), ("shrunk", "shrank"))
    )


GROUPS: tuple[Group, ...] = (
    Group(
        Backend.PROCFS,
        "cpu",
        "stat",
        (
            Row("cpu_user_share", Unit.SHARE, "User Mode Utilization", "CPU time in user mode; guests' time is in it."),
            Row("cpu_nice_share", Unit.SHARE, "Nice Utilization", "CPU time in user mode at low priority."),
            Row("cpu_system_share", Unit.SHARE, "System Mode Utilization", "CPU time in the kernel."),
            Row("cpu_idle_share", Unit.SHARE, "Idle Utilization", "CPU time with nothing to do."),
            Row(
                "cpu_iowait_share", Unit.SHARE, "I/O Wait Utilization", "Idle CPU time while a task waited for a disk."
            ),
            Row("cpu_irq_share", Unit.SHARE, "Hardware Interrupt Utilization", "CPU time in interrupt handlers."),
            Row("cpu_softirq_share", Unit.SHARE, "Software Interrupt Utilization", "CPU time in software interrupts."),
            Row("cpu_steal_share", Unit.SHARE, "Steal Utilization", "CPU time that a hypervisor gave to others."),
            Row("hot_core_share", Unit.SHARE, "Hot-Spot Core Ratio", "Cores that were busy for over 90 % of the time."),
            Row("core_busy_max", Unit.SHARE, "", "Busy time of the busiest core."),
            Row("core_busy_min", Unit.SHARE, "", "Busy time of the least busy core."),
            Row("core_busy_spread", Unit.SHARE, "", "Standard deviation of busy time over cores: 0 even, 0.5 at most."),
            Row("context_switches_per_s", Unit.PER_S, "Context Switch Count", "Context switches on all CPUs."),
            Row("forks_per_s", Unit.PER_S, "", "Processes and threads made."),
            Row("interrupts_per_s", Unit.PER_S, "", "Hardware interrupts of all kinds."),
            Row("softirq_timer_per_s", Unit.PER_S, "", "Software interrupts: timers."),
            Row("softirq_net_tx_per_s", Unit.PER_S, "Network Interrupt Count", "Software interrupts: packets sent."),
            Row(
                "softirq_net_rx_per_s", Unit.PER_S, "Network Interrupt Count", "Software interrupts: packets received."
            ),
            Row("softirq_block_per_s", Unit.PER_S, "", "Software interrupts: disk requests completed."),
            Row("softirq_tasklet_per_s", Unit.PER_S, "", "Software interrupts: tasklets of drivers."),
            Row("softirq_sched_per_s", Unit.PER_S, "", "Software interrupts: load balancing."),
            Row("softirq_hrtimer_per_s", Unit.PER_S, "", "Software interrupts: high-resolution timers."),
            Row("softirq_rcu_per_s", Unit.PER_S, "", "Software interrupts: RCU callbacks."),
            Row(
                "run_queue_length",
                Unit.COUNT,
                "Run Queue Length",
                "Tasks that run or could run, the reader among them.",
            ),
            Row("blocked_tasks", Unit.COUNT, "", "Tasks that wait for a disk."),
        ),
    ),
    Group(
        Backend.PROCFS,
        "process",
        "loadavg",
        (
            Row("processes", Unit.COUNT, "Process Count", "Processes, by the link count of /proc.", "processes"),
            Row("threads", Unit.COUNT, "", "Threads of all processes, the kernel's too."),
            Row("runnable_threads", Unit.COUNT, "", "Threads that run or could run, the reader among them."),
        ),
    ),
    Group(
        Backend.PROCFS,
        "memory",
        "meminfo",
        (
            Row("memory_total_bytes", Unit.BYTES, "Total Memory", "Memory the kernel manages."),
            Row("memory_free_bytes", Unit.BYTES, "Free Memory", "Memory without any use."),
            Row(
                "memory_available_bytes",
                Unit.BYTES,
                "",
                "Memory that new programs could have without swapping.",
                "available_bytes",
            ),
            Row("memory_buffers_bytes", Unit.BYTES, "Buffers", "Cache of raw block devices."),
            Row("memory_cached_bytes", Unit.BYTES, "Cached Memory", "Cache of files, with tmpfs and shared memory."),
            Row("memory_dirty_bytes", Unit.BYTES, "", "Cache that has still to be written to disk.", "dirty_bytes"),
            Row("memory_available_share", Unit.SHARE, "", "Available part of all memory.", "available_bytes"),
            Row("memory_cached_share", Unit.SHARE, "", "Part of all memory that caches files."),
            *_moves("available", "memory that new programs could have"),
            *_moves("cached", "the cache of files"),
            *_moves("dirty", "cache that has still to be written"),
            Row("swap_total_bytes", Unit.BYTES, "Total Swap", "Swap space."),
            Row("swap_free_bytes", Unit.BYTES, "Available Swap", "Swap space without any use."),
            Row("swap_used_share", Unit.SHARE, "", "Used part of the swap space; None without swap."),
        ),
    ),
    Group(
        Backend.PROCFS,
        "paging",
        "vmstat",
        (
            Row("page_faults_per_s", Unit.PER_S, "", "Page faults, minor and major."),
            Row("major_page_faults_per_s", Unit.PER_S, "", "Page faults that had to read a disk."),
            Row("paged_in_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes read from block devices."),
            Row("paged_out_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes written to block devices."),
        ),
    ),
    Group(
        Backend.PROCFS,
        "disk",
        "diskstats",
        (
            Row("disk_reads_per_s", Unit.PER_S, "Read Operation Count", "Reads completed, on all physical disks."),
            Row("disk_writes_per_s", Unit.PER_S, "Write Operation Count", "Writes completed, on all physical disks."),
            Row("disk_read_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes read from physical disks."),
            Row("disk_write_bytes_per_s", Unit.BYTES_PER_S, "", "Bytes written to physical disks."),
            Row("disk_read_latency_ms", Unit.MS, "Read Latency", "Mean time of a read; None without one."),
            Row("disk_write_latency_ms", Unit.MS, "Write Latency", "Mean time of a write; None without one."),
            Row(
                "disk_io_size_bytes", Unit.BYTES, "Average I/O Size", "Mean size of reads and writes; None without any."
            ),
            Row("disk_queue_length", Unit.COUNT, "Disk I/O Queue Length", "Mean number of requests under way."),
            Row("disk_busy_share", Unit.SHARE, "", "Time with a request under way, added up over disks, 1.0 at most."),
        ),
    ),
    Group(
        Backend.PROCFS,
        "network",
        "net/dev",
        (
            Row("network_received_bytes_per_s", Unit.BYTES_PER_S, "Data Received", "Bytes on all interfaces, lo too."),
            Row("network_received_packets_per_s", Unit.PER_S, "Packet Count", "Packets on all interfaces, lo too."),
            Row("network_sent_bytes_per_s", Unit.BYTES_PER_S, "Data Sent", "Bytes on all interfaces, lo too."),
            Row("network_sent_packets_per_s", Unit.PER_S, "Packet Count", "Packets on all interfaces, lo too."),
        ),
    ),
    Group(
        Backend.PROCFS,
        "network",
        "net/snmp",
        (
            Row(
                "tcp_in_segments_per_s", Unit.PER_S, "", "TCP segments received, over IPv4 and IPv6.", "tcp_in_segments"
            ),
            Row(
                "tcp_out_segments_per_s",
                Unit.PER_S,
                "",
                "TCP segments sent for the first time (Linux does not count those sent again here).",
                "tcp_out_segments",
            ),
            Row(
                "tcp_retransmit_share",
                Unit.SHARE,
                "Packet Retransmission Rate",
                "Part of all TCP segments sent that were sent again.",
                "tcp_retransmitted_segments tcp_out_segments",
            ),
            Row(
                "tcp_share",
                Unit.SHARE,
                "TCP/UDP Ratio",
                "TCP segments among them and UDP datagrams (IPv4), both ways.",
                "tcp_in_segments tcp_out_segments udp_in_datagrams udp_out_datagrams",
            ),
            Row(
                "connections_opened_per_s",
                Unit.PER_S,
                "New Connection Count",
                "TCP connections opened here or accepted.",
                "tcp_active_opens tcp_passive_opens",
            ),
            Row(
                "connections_reset_per_s",
                Unit.PER_S,
                "Reset Connection Count",
                "TCP connections reset or refused.",
                "tcp_resets",
            ),
        ),
    ),
    Group(
        Backend.PROCFS,
        "connections",
        "net/snmp",
        (
            Row(
                "connections_established",
                Unit.COUNT,
                "Total Connection Count",
                "TCP: ESTABLISHED or CLOSE_WAIT.",
                "established",
            ),
        ),
    ),
    Group(
        Backend.PROCFS,
        "connections",
        "net/sockstat",
        (
            Row("connections_time_wait", Unit.COUNT, "", "TCP connections closed here lately: TIME_WAIT.", "time_wait"),
            Row("connections_orphaned", Unit.COUNT, "", "TCP connections that no process holds any more.", "orphaned"),
            Row("connections_other", Unit.COUNT, "", "TCP sockets opening or closing.", "other"),
            Row("udp_sockets", Unit.COUNT, "", "UDP sockets in use, IPv4 and IPv6.", "udp_sockets"),
        ),
    ),
    Group(
        Backend.PROCFS,
        "connections",
        "net/tcp",
        (Row("connections_listening", Unit.COUNT, "", "TCP sockets that wait for connections.", "listening"),),
    ),
    Group(
        Backend.PSI,
        "pressure",
        "pressure/cpu",
        (Row("pressure_cpu_some_share", Unit.SHARE, "", "Time in which some task waited for a CPU.", "cpu_some_us"),),
    ),
    Group(
        Backend.PSI,
        "pressure",
        "pressure/io",
        (
            Row("pressure_io_some_share", Unit.SHARE, "", "Time in which some task waited for I/O.", "io_some_us"),
            Row(
                "pressure_io_full_share",
                Unit.SHARE,
                "",
                "Time in which no task ran as all waited for I/O.",
                "io_full_us",
            ),
        ),
    ),
    Group(
        Backend.PSI,
        "pressure",
        "pressure/memory",
        (
            Row(
                "pressure_memory_some_share",
                Unit.SHARE,
                "",
                "Time in which some task waited for memory.",
                "memory_some_us",
            ),
            Row(
                "pressure_memory_full_share",
                Unit.SHARE,
                "",
                "Time in which no task ran as all waited for memory.",
                "memory_full_us",
            ),
        ),
    ),
    Group(
        Backend.PSI,
        "pressure",
        "pressure/irq",
        (
            Row(
                "pressure_irq_full_share",
                Unit.SHARE,
                "",
                "Time in which interrupts kept tasks from running.",
                "irq_full_us",
            ),
        ),
    ),
)
"""By file."""
