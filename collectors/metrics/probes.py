# SPDX-License-Identifier: GPL-2.0-only
"""Metrics that the eBPF programs count; which program fills which counter is told by `collectors.ebpf.layout`.

Declarations only. While switches are very many, the programs time some of them only, and count each for as many.
"""

from dataclasses import dataclass

from collectors.metrics.kinds import Origin, Unit, counter

_PROBES = Origin("probes", "")


@dataclass(frozen=True, kw_only=True)
class ProbeRates:
    """What the eBPF programs tell."""

    switches_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Context switches on all CPUs.", paper="Context Switch Count", of=counter("switches")
    )
    involuntary_switch_share: float | None = _PROBES.metric(
        Unit.SHARE,
        "Context switches that took the CPU from a task that could go on, of all.",
        inputs="switches involuntary_switches",
    )
    wakeups_per_s: float | None = _PROBES.metric(Unit.PER_S, "Tasks woken.", of=counter("wakeups"))
    migrations_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Tasks moved to another CPU.", paper="Task Migration Count", of=counter("migrations")
    )
    run_queue_length_mean: float | None = _PROBES.metric(
        Unit.COUNT,
        "Tasks that run or could run on a CPU when it switches, the mean.",
        paper="Run Queue Length",
        inputs="switches run_queue_length_sum",
    )
    wakeup_latency_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "From woken to on the CPU, the mean.",
        paper="Thread Wakeup Latency",
        inputs="wakeup_latency_ns wakeup_latency_hist",
    )
    wakeup_latency_p50_us: float | None = _PROBES.metric(
        Unit.US, "From woken to on the CPU, the median.", paper="Thread Wakeup Latency", inputs="wakeup_latency_hist"
    )
    wakeup_latency_p95_us: float | None = _PROBES.metric(
        Unit.US,
        "From woken to on the CPU, 95 % stay below.",
        paper="Thread Wakeup Latency",
        inputs="wakeup_latency_hist",
    )
    wakeup_latency_p99_us: float | None = _PROBES.metric(
        Unit.US,
        "From woken to on the CPU, 99 % stay below.",
        paper="Thread Wakeup Latency",
        inputs="wakeup_latency_hist",
    )
    requeue_latency_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "From taken off the CPU while able to run to on a CPU again, the mean.",
        paper="Context Switch Latency",
        inputs="requeue_latency_ns requeue_latency_hist",
    )
    run_queue_latency_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "Able to run (woken or not) to on a CPU, the mean.",
        paper="Context Switch Latency",
        inputs="wakeup_latency_ns requeue_latency_ns wakeup_latency_hist requeue_latency_hist",
    )
    run_queue_latency_p50_us: float | None = _PROBES.metric(
        Unit.US,
        "Able to run to on a CPU, the median.",
        paper="Context Switch Latency",
        inputs="wakeup_latency_hist requeue_latency_hist",
    )
    run_queue_latency_p95_us: float | None = _PROBES.metric(
        Unit.US,
        "Able to run to on a CPU, 95 % stay below.",
        paper="Context Switch Latency",
        inputs="wakeup_latency_hist requeue_latency_hist",
    )
    run_queue_latency_p99_us: float | None = _PROBES.metric(
        Unit.US,
        "Able to run to on a CPU, 99 % stay below.",
        paper="Context Switch Latency",
        inputs="wakeup_latency_hist requeue_latency_hist",
    )
    longest_wait_us: float | None = _PROBES.metric(
        Unit.US,
        "The longest that a task waited for a CPU, or waits still, which nobody told to wait; 0: below 125 ms.",
        inputs="long_waits waiting_ns scanned_ns",
    )
    longest_kernel_wait_us: float | None = _PROBES.metric(
        Unit.US, "Of the kernel's threads the longest.", inputs="long_waits waiting_ns scanned_ns"
    )
    longest_realtime_wait_us: float | None = _PROBES.metric(
        Unit.US, "Of real-time threads the longest.", inputs="long_waits waiting_ns scanned_ns"
    )
    longest_humble_wait_us: float | None = _PROBES.metric(
        Unit.US,
        "Of those that were told to wait: SCHED_IDLE, nice, groups with a limit or a low weight.",
        inputs="long_waits waiting_ns scanned_ns",
    )
    task_forks_per_s: float | None = _PROBES.metric(Unit.PER_S, "Processes and threads made.", of=counter("forks"))
    execs_per_s: float | None = _PROBES.metric(Unit.PER_S, "Programs started.", of=counter("execs"))
    exits_per_s: float | None = _PROBES.metric(Unit.PER_S, "Processes and threads that ended.", of=counter("exits"))
    burst_mean_us: float | None = _PROBES.metric(
        Unit.US, "On the CPU without a switch, the mean.", inputs="burst_ns burst_hist"
    )
    burst_p50_us: float | None = _PROBES.metric(
        Unit.US, "On the CPU without a switch, the median.", inputs="burst_hist"
    )
    burst_p95_us: float | None = _PROBES.metric(
        Unit.US, "On the CPU without a switch, 95 % stay below.", inputs="burst_hist"
    )
    burst_to_4us_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU below 4 µs, of all.", inputs="burst_hist"
    )
    burst_to_16us_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 4 µs to 16 µs, of all.", inputs="burst_hist"
    )
    burst_to_65us_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 16 µs to 65 µs, of all.", inputs="burst_hist"
    )
    burst_to_262us_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 65 µs to 262 µs, of all.", inputs="burst_hist"
    )
    burst_to_1ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 262 µs to 1 ms, of all.", inputs="burst_hist"
    )
    burst_to_2ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 1 ms to 2 ms, of all.", inputs="burst_hist"
    )
    burst_to_4ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 2 ms to 4 ms, of all.", inputs="burst_hist"
    )
    burst_to_8ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 4 ms to 8 ms, of all.", inputs="burst_hist"
    )
    burst_to_34ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 8 ms to 34 ms, of all.", inputs="burst_hist"
    )
    burst_longer_share: float | None = _PROBES.metric(
        Unit.SHARE, "Turns on the CPU of 34 ms and longer, of all.", inputs="burst_hist"
    )
    sleep_mean_us: float | None = _PROBES.metric(
        Unit.US, "An interruptible sleep, the mean.", inputs="sleep_ns sleep_hist"
    )
    sleep_p50_us: float | None = _PROBES.metric(Unit.US, "An interruptible sleep, the median.", inputs="sleep_hist")
    sleep_p95_us: float | None = _PROBES.metric(
        Unit.US, "An interruptible sleep, 95 % stay below.", inputs="sleep_hist"
    )
    sleep_to_65us_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps below 65 µs, of all.", inputs="sleep_hist"
    )
    sleep_to_262us_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 65 µs to 262 µs, of all.", inputs="sleep_hist"
    )
    sleep_to_1ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 262 µs to 1 ms, of all.", inputs="sleep_hist"
    )
    sleep_to_4ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 1 ms to 4 ms, of all.", inputs="sleep_hist"
    )
    sleep_to_8ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 4 ms to 8 ms, of all.", inputs="sleep_hist"
    )
    sleep_to_17ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 8 ms to 17 ms, of all.", inputs="sleep_hist"
    )
    sleep_to_34ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 17 ms to 34 ms, of all.", inputs="sleep_hist"
    )
    sleep_to_134ms_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 34 ms to 134 ms, of all.", inputs="sleep_hist"
    )
    sleep_to_1s_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 134 ms to 1 s, of all.", inputs="sleep_hist"
    )
    sleep_longer_share: float | None = _PROBES.metric(
        Unit.SHARE, "Interruptible sleeps of 1 s and longer, of all.", inputs="sleep_hist"
    )
    sleep_s_per_s: float | None = _PROBES.metric(
        Unit.S_PER_S, "Length of all sleeps that ended.", of=counter("sleep_ns", per=1e9)
    )
    blocked_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Waits that nothing may interrupt (state D), as for a disk.", of=counter("blocked")
    )
    blocked_mean_us: float | None = _PROBES.metric(
        Unit.US, "A wait in state D, the mean.", paper="Thread Blocked Time", inputs="blocked blocked_ns"
    )
    blocked_s_per_s: float | None = _PROBES.metric(
        Unit.S_PER_S,
        "Length of all waits in state D that ended.",
        paper="Thread Blocked Time",
        of=counter("blocked_ns", per=1e9),
    )
    futex_waits_per_s: float | None = _PROBES.metric(
        Unit.PER_S,
        "Waits of threads for others of their program (futex): locks, but also condition variables and idle pools.",
        paper="Lock Contention Count",
        of=counter("futex_waits"),
    )
    futex_wait_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "A wait on a futex, the mean: an upper bound of waiting for locks of programs (see above).",
        paper="Lock Hold Time",
        inputs="futex_waits futex_wait_ns",
    )
    futex_wait_s_per_s: float | None = _PROBES.metric(
        Unit.S_PER_S,
        "Length of all waits on futexes that ended: an upper bound of waiting for locks of programs.",
        paper="Lock Hold Time",
        of=counter("futex_wait_ns", per=1e9),
    )
    lock_contentions_per_s: float | None = _PROBES.metric(
        Unit.PER_S,
        "Tasks that had to wait for a lock of the kernel.",
        paper="Lock Contention Count",
        of=counter("lock_contentions"),
    )
    lock_failures_per_s: float | None = _PROBES.metric(
        Unit.PER_S,
        "Waits for a lock of the kernel that ended without it.",
        paper="Lock Acquisition Failure Count",
        of=counter("lock_failures"),
    )
    lock_wait_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "For how long the holder of a lock of the kernel kept a task waiting, the mean.",
        paper="Lock Hold Time",
        inputs="lock_contentions lock_wait_ns",
    )
    lock_wait_s_per_s: float | None = _PROBES.metric(
        Unit.S_PER_S,
        "Length of all waits for locks of the kernel that ended.",
        paper="Lock Hold Time",
        of=counter("lock_wait_ns", per=1e9),
    )
    block_issued_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Requests given to block devices.", of=counter("block_issued")
    )
    block_completed_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Requests that block devices completed.", of=counter("block_completed")
    )
    block_in_flight: float | None = _PROBES.metric(
        Unit.COUNT,
        "Mean number of requests under way, by the time that the completed ones took.",
        paper="Disk I/O Queue Length",
        inputs="block_latency_ns",
    )
    block_latency_mean_us: float | None = _PROBES.metric(
        Unit.US, "From request made to completed, the mean.", inputs="block_latency_ns block_latency_hist"
    )
    block_latency_p50_us: float | None = _PROBES.metric(
        Unit.US, "From request made to completed, the median.", inputs="block_latency_hist"
    )
    block_latency_p99_us: float | None = _PROBES.metric(
        Unit.US, "From request made to completed, 99 % stay below.", inputs="block_latency_hist"
    )
    hardirqs_per_s: float | None = _PROBES.metric(Unit.PER_S, "Interrupts of devices.", of=counter("interrupts"))
    hardirq_mean_us: float | None = _PROBES.metric(
        Unit.US, "In one handler, the mean.", inputs="interrupts interrupt_ns"
    )
    network_interrupts_per_s: float | None = _PROBES.metric(
        Unit.PER_S,
        "Interrupts of network devices; one on USB has none of its own.",
        paper="Network Interrupt Count",
        of=counter("network_interrupts"),
    )
    network_interrupt_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "In one handler of a network device, the mean.",
        paper="Network Interrupt Handling Latency",
        inputs="network_interrupts network_interrupt_ns",
    )
    softirqs_per_s: float | None = _PROBES.metric(Unit.PER_S, "Software interrupts of all kinds.", inputs="softirqs")
    softirq_mean_us: float | None = _PROBES.metric(
        Unit.US, "In one software interrupt, the mean.", inputs="softirqs softirq_ns"
    )
    softirq_net_tx_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "In a software interrupt that sends, the mean.",
        paper="Network Interrupt Handling Latency",
        inputs="softirqs softirq_ns",
    )
    softirq_net_rx_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "In a software interrupt that receives, the mean.",
        paper="Network Interrupt Handling Latency",
        inputs="softirqs softirq_ns",
    )
    input_keys_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Keys and buttons pressed.", paper="Input Event", of=counter("input_keys")
    )
    input_motions_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Events of pointers, wheels and pads.", paper="Input Event", of=counter("input_motions")
    )
    tcp_opened_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "TCP connections made.", paper="New Connection Count", of=counter("connections_opened")
    )
    tcp_closed_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "TCP connections ended.", paper="Closed Connection Count", of=counter("connections_closed")
    )
    tcp_resets_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "TCP resets, both ways.", paper="Reset Connection Count", of=counter("connections_reset")
    )
    tcp_retransmits_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "TCP packets sent again.", of=counter("retransmits")
    )
    tcp_resent_share: float | None = _PROBES.metric(
        Unit.SHARE,
        "TCP packets sent again, of those both ways.",
        paper="Packet Retransmission Rate",
        inputs="retransmits tcp_packets",
    )
    packets_sent_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Packets given to a device.", paper="Packet Count", of=counter("packets_sent")
    )
    packets_received_per_s: float | None = _PROBES.metric(
        Unit.PER_S, "Packets that a driver gave up.", paper="Packet Count", of=counter("packets_received")
    )
    tcp_packets_per_s: float | None = _PROBES.metric(Unit.PER_S, "TCP packets, both ways.", of=counter("tcp_packets"))
    udp_packets_per_s: float | None = _PROBES.metric(Unit.PER_S, "UDP packets, both ways.", of=counter("udp_packets"))
    tcp_packet_share: float | None = _PROBES.metric(
        Unit.SHARE, "TCP among TCP and UDP packets, both ways.", paper="TCP/UDP Ratio", inputs="tcp_packets udp_packets"
    )
    transmit_latency_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "A packet from queued on its device to given to the driver, the mean.",
        paper="Data Transmit Latency",
        inputs="transmits_measured transmit_latency_ns",
    )
    receive_latency_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "A packet from the driver to its copy in the reader, the mean.",
        paper="Data Receive Latency",
        inputs="receives_measured receive_latency_ns",
    )
    delivery_latency_mean_us: float | None = _PROBES.metric(
        Unit.US,
        "From data ready on a socket to its reader going on, the mean.",
        paper="Kernel-Userspace Latency",
        inputs="deliveries_measured delivery_latency_ns",
    )
