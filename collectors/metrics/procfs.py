# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of /proc: processor time, processes, memory, paging, disks, network and pressure. Declarations only."""

from dataclasses import dataclass

from collectors.metrics.kinds import Origin, Unit, counter, state

SECTOR_BYTES = 512
"""In which the kernel counts, whatever a device's own sector is."""

_STAT = Origin("cpu", "stat")
_LOADAVG = Origin("process", "loadavg")
_MEMINFO = Origin("memory", "meminfo")
_VMSTAT = Origin("paging", "vmstat")
_DISKSTATS = Origin("disk", "diskstats")
_NET_DEV = Origin("network", "net/dev")
_NET_SNMP = Origin("network", "net/snmp")
_SOCKETS = Origin("connections", "net/snmp")
_NET_SOCKSTAT = Origin("connections", "net/sockstat")
_NET_TCP = Origin("connections", "net/tcp")
_PRESSURE_CPU = Origin("pressure", "pressure/cpu")
_PRESSURE_IO = Origin("pressure", "pressure/io")
_PRESSURE_MEMORY = Origin("pressure", "pressure/memory")
_PRESSURE_IRQ = Origin("pressure", "pressure/irq")


@dataclass(frozen=True, kw_only=True)
class ProcfsRates:
    """What /proc tells."""

    cpu_user_share: float | None = _STAT.metric(
        Unit.SHARE, "CPU time in user mode; guests' time is in it.", paper="User Mode Utilization"
    )
    cpu_nice_share: float | None = _STAT.metric(
        Unit.SHARE, "CPU time in user mode at low priority.", paper="Nice Utilization"
    )
    cpu_system_share: float | None = _STAT.metric(
        Unit.SHARE, "CPU time in the kernel.", paper="System Mode Utilization"
    )
    cpu_idle_share: float | None = _STAT.metric(Unit.SHARE, "CPU time with nothing to do.", paper="Idle Utilization")
    cpu_iowait_share: float | None = _STAT.metric(
        Unit.SHARE, "Idle CPU time while a task waited for a disk.", paper="I/O Wait Utilization"
    )
    cpu_irq_share: float | None = _STAT.metric(
        Unit.SHARE, "CPU time in interrupt handlers.", paper="Hardware Interrupt Utilization"
    )
    cpu_softirq_share: float | None = _STAT.metric(
        Unit.SHARE, "CPU time in software interrupts.", paper="Software Interrupt Utilization"
    )
    cpu_steal_share: float | None = _STAT.metric(
        Unit.SHARE, "CPU time that a hypervisor gave to others.", paper="Steal Utilization"
    )
    hot_core_share: float | None = _STAT.metric(
        Unit.SHARE, "Cores that were busy for over 90 % of the time.", paper="Hot-Spot Core Ratio"
    )
    core_busy_max: float | None = _STAT.metric(Unit.SHARE, "Busy time of the busiest core.")
    core_busy_min: float | None = _STAT.metric(Unit.SHARE, "Busy time of the least busy core.")
    core_busy_spread: float | None = _STAT.metric(
        Unit.SHARE, "Standard deviation of busy time over cores: 0 even, 0.5 at most."
    )
    context_switches_per_s: float | None = _STAT.metric(
        Unit.PER_S, "Context switches on all CPUs.", paper="Context Switch Count", of=counter("context_switches")
    )
    forks_per_s: float | None = _STAT.metric(Unit.PER_S, "Processes and threads made.", of=counter("forks"))
    interrupts_per_s: float | None = _STAT.metric(
        Unit.PER_S, "Hardware interrupts of all kinds.", of=counter("interrupts")
    )
    softirq_timer_per_s: float | None = _STAT.metric(Unit.PER_S, "Software interrupts: timers.")
    softirq_net_tx_per_s: float | None = _STAT.metric(
        Unit.PER_S, "Software interrupts: packets sent.", paper="Network Interrupt Count"
    )
    softirq_net_rx_per_s: float | None = _STAT.metric(
        Unit.PER_S, "Software interrupts: packets received.", paper="Network Interrupt Count"
    )
    softirq_block_per_s: float | None = _STAT.metric(Unit.PER_S, "Software interrupts: disk requests completed.")
    softirq_tasklet_per_s: float | None = _STAT.metric(Unit.PER_S, "Software interrupts: tasklets of drivers.")
    softirq_sched_per_s: float | None = _STAT.metric(Unit.PER_S, "Software interrupts: load balancing.")
    softirq_hrtimer_per_s: float | None = _STAT.metric(Unit.PER_S, "Software interrupts: high-resolution timers.")
    softirq_rcu_per_s: float | None = _STAT.metric(Unit.PER_S, "Software interrupts: RCU callbacks.")
    run_queue_length: float | None = _STAT.metric(
        Unit.COUNT,
        "Tasks that run or could run, the reader among them.",
        paper="Run Queue Length",
        of=state("runnable"),
    )
    blocked_tasks: float | None = _STAT.metric(Unit.COUNT, "Tasks that wait for a disk.", of=state("blocked"))
    processes: float | None = _LOADAVG.metric(
        Unit.COUNT, "Processes, by the link count of /proc.", paper="Process Count", of=state("processes")
    )
    threads: float | None = _LOADAVG.metric(
        Unit.COUNT, "Threads of all processes, the kernel's too.", of=state("threads")
    )
    runnable_threads: float | None = _LOADAVG.metric(
        Unit.COUNT, "Threads that run or could run, the reader among them.", of=state("runnable_threads")
    )
    memory_total_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Memory the kernel manages.", paper="Total Memory", of=state("total_bytes")
    )
    memory_free_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Memory without any use.", paper="Free Memory", of=state("free_bytes")
    )
    memory_available_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Memory that new programs could have without swapping.", of=state("available_bytes")
    )
    memory_buffers_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Cache of raw block devices.", paper="Buffers", of=state("buffers_bytes")
    )
    memory_cached_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Cache of files, with tmpfs and shared memory.", paper="Cached Memory", of=state("cached_bytes")
    )
    memory_dirty_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Cache that has still to be written to disk.", of=state("dirty_bytes")
    )
    memory_available_share: float | None = _MEMINFO.metric(
        Unit.SHARE, "Available part of all memory.", inputs="available_bytes"
    )
    memory_cached_share: float | None = _MEMINFO.metric(Unit.SHARE, "Part of all memory that caches files.")
    memory_available_grown_bytes_per_s: float | None = _MEMINFO.metric(
        Unit.BYTES_PER_S, "How fast memory that new programs could have grew.", inputs="available_bytes"
    )
    memory_available_shrunk_bytes_per_s: float | None = _MEMINFO.metric(
        Unit.BYTES_PER_S, "How fast memory that new programs could have shrank.", inputs="available_bytes"
    )
    memory_cached_grown_bytes_per_s: float | None = _MEMINFO.metric(
        Unit.BYTES_PER_S, "How fast the cache of files grew.", inputs="cached_bytes"
    )
    memory_cached_shrunk_bytes_per_s: float | None = _MEMINFO.metric(
        Unit.BYTES_PER_S, "How fast the cache of files shrank.", inputs="cached_bytes"
    )
    memory_dirty_grown_bytes_per_s: float | None = _MEMINFO.metric(
        Unit.BYTES_PER_S, "How fast cache that has still to be written grew.", inputs="dirty_bytes"
    )
    memory_dirty_shrunk_bytes_per_s: float | None = _MEMINFO.metric(
        Unit.BYTES_PER_S, "How fast cache that has still to be written shrank.", inputs="dirty_bytes"
    )
    swap_total_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Swap space.", paper="Total Swap", of=state("swap_total_bytes")
    )
    swap_free_bytes: float | None = _MEMINFO.metric(
        Unit.BYTES, "Swap space without any use.", paper="Available Swap", of=state("swap_free_bytes")
    )
    swap_used_share: float | None = _MEMINFO.metric(Unit.SHARE, "Used part of the swap space; None without swap.")
    page_faults_per_s: float | None = _VMSTAT.metric(Unit.PER_S, "Page faults, minor and major.", of=counter("faults"))
    major_page_faults_per_s: float | None = _VMSTAT.metric(
        Unit.PER_S, "Page faults that had to read a disk.", of=counter("major_faults")
    )
    paged_in_bytes_per_s: float | None = _VMSTAT.metric(
        Unit.BYTES_PER_S, "Bytes read from block devices.", of=counter("paged_in_kib", times=1024)
    )
    paged_out_bytes_per_s: float | None = _VMSTAT.metric(
        Unit.BYTES_PER_S, "Bytes written to block devices.", of=counter("paged_out_kib", times=1024)
    )
    disk_reads_per_s: float | None = _DISKSTATS.metric(
        Unit.PER_S, "Reads completed, on all physical disks.", paper="Read Operation Count", of=counter("reads")
    )
    disk_writes_per_s: float | None = _DISKSTATS.metric(
        Unit.PER_S, "Writes completed, on all physical disks.", paper="Write Operation Count", of=counter("writes")
    )
    disk_read_bytes_per_s: float | None = _DISKSTATS.metric(
        Unit.BYTES_PER_S, "Bytes read from physical disks.", of=counter("read_sectors", times=SECTOR_BYTES)
    )
    disk_write_bytes_per_s: float | None = _DISKSTATS.metric(
        Unit.BYTES_PER_S, "Bytes written to physical disks.", of=counter("write_sectors", times=SECTOR_BYTES)
    )
    disk_read_latency_ms: float | None = _DISKSTATS.metric(
        Unit.MS, "Mean time of a read; None without one.", paper="Read Latency"
    )
    disk_write_latency_ms: float | None = _DISKSTATS.metric(
        Unit.MS, "Mean time of a write; None without one.", paper="Write Latency"
    )
    disk_io_size_bytes: float | None = _DISKSTATS.metric(
        Unit.BYTES, "Mean size of reads and writes; None without any.", paper="Average I/O Size"
    )
    disk_queue_length: float | None = _DISKSTATS.metric(
        Unit.COUNT,
        "Mean number of requests under way.",
        paper="Disk I/O Queue Length",
        of=counter("weighted_ms", per=1e3),
    )
    disk_busy_share: float | None = _DISKSTATS.metric(
        Unit.SHARE, "Time with a request under way, added up over disks, 1.0 at most."
    )
    network_received_bytes_per_s: float | None = _NET_DEV.metric(
        Unit.BYTES_PER_S, "Bytes on hardware interfaces and lo.", paper="Data Received", of=counter("received_bytes")
    )
    network_received_packets_per_s: float | None = _NET_DEV.metric(
        Unit.PER_S, "Packets on hardware interfaces and lo.", paper="Packet Count", of=counter("received_packets")
    )
    network_sent_bytes_per_s: float | None = _NET_DEV.metric(
        Unit.BYTES_PER_S, "Bytes on hardware interfaces and lo.", paper="Data Sent", of=counter("sent_bytes")
    )
    network_sent_packets_per_s: float | None = _NET_DEV.metric(
        Unit.PER_S, "Packets on hardware interfaces and lo.", paper="Packet Count", of=counter("sent_packets")
    )
    tcp_in_segments_per_s: float | None = _NET_SNMP.metric(
        Unit.PER_S, "TCP segments received, over IPv4 and IPv6.", of=counter("tcp_in_segments")
    )
    tcp_out_segments_per_s: float | None = _NET_SNMP.metric(
        Unit.PER_S,
        "TCP segments sent for the first time (Linux does not count those sent again here).",
        of=counter("tcp_out_segments"),
    )
    tcp_retransmit_share: float | None = _NET_SNMP.metric(
        Unit.SHARE,
        "Part of all TCP segments sent that were sent again.",
        paper="Packet Retransmission Rate",
        inputs="tcp_retransmitted_segments tcp_out_segments",
    )
    tcp_share: float | None = _NET_SNMP.metric(
        Unit.SHARE,
        "TCP segments among them and UDP datagrams (IPv4), both ways.",
        paper="TCP/UDP Ratio",
        inputs="tcp_in_segments tcp_out_segments udp_in_datagrams udp_out_datagrams",
    )
    connections_opened_per_s: float | None = _NET_SNMP.metric(
        Unit.PER_S,
        "TCP connections opened here or accepted.",
        paper="New Connection Count",
        inputs="tcp_active_opens tcp_passive_opens",
    )
    connections_reset_per_s: float | None = _NET_SNMP.metric(
        Unit.PER_S, "TCP connections reset or refused.", paper="Reset Connection Count", of=counter("tcp_resets")
    )
    connections_established: float | None = _SOCKETS.metric(
        Unit.COUNT, "TCP: ESTABLISHED or CLOSE_WAIT.", paper="Total Connection Count", of=state("established")
    )
    connections_time_wait: float | None = _NET_SOCKSTAT.metric(
        Unit.COUNT, "TCP connections closed here lately: TIME_WAIT.", of=state("time_wait")
    )
    connections_orphaned: float | None = _NET_SOCKSTAT.metric(
        Unit.COUNT, "TCP connections that no process holds any more.", of=state("orphaned")
    )
    connections_other: float | None = _NET_SOCKSTAT.metric(
        Unit.COUNT, "TCP sockets opening or closing.", of=state("other")
    )
    udp_sockets: float | None = _NET_SOCKSTAT.metric(
        Unit.COUNT, "UDP sockets in use, IPv4 and IPv6.", of=state("udp_sockets")
    )
    connections_listening: float | None = _NET_TCP.metric(
        Unit.COUNT, "TCP sockets that wait for connections.", of=state("listening")
    )
    pressure_cpu_some_share: float | None = _PRESSURE_CPU.metric(
        Unit.SHARE, "Time in which some task waited for a CPU.", inputs="cpu_some_us"
    )
    pressure_io_some_share: float | None = _PRESSURE_IO.metric(
        Unit.SHARE, "Time in which some task waited for I/O.", inputs="io_some_us"
    )
    pressure_io_full_share: float | None = _PRESSURE_IO.metric(
        Unit.SHARE, "Time in which no task ran as all waited for I/O.", inputs="io_full_us"
    )
    pressure_memory_some_share: float | None = _PRESSURE_MEMORY.metric(
        Unit.SHARE, "Time in which some task waited for memory.", inputs="memory_some_us"
    )
    pressure_memory_full_share: float | None = _PRESSURE_MEMORY.metric(
        Unit.SHARE, "Time in which no task ran as all waited for memory.", inputs="memory_full_us"
    )
    pressure_irq_full_share: float | None = _PRESSURE_IRQ.metric(
        Unit.SHARE, "Time in which interrupts kept tasks from running.", inputs="irq_full_us"
    )
