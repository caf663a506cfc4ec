# SPDX-License-Identifier: GPL-2.0-only
"""Metrics that the eBPF programs count; which program fills which counter is told by `collectors.ebpf.layout`.

Data only. While switches are very many, the programs time some of them only, and count each for as many.
"""

from collectors.metrics.kinds import Backend, Group, Row, Unit

_QUEUED = "wakeup_latency_hist requeue_latency_hist"
_WAKEUP = "Thread Wakeup Latency"
_SWITCH = "Context Switch Latency"
_HANDLING = "Network Interrupt Handling Latency"

_SCHEDULING = (
    Row("switches_per_s", Unit.PER_S, "Context Switch Count", "Context switches on all CPUs.", "switches"),
    Row(
        "involuntary_switch_share",
        Unit.SHARE,
        "",
        "Context switches that took the CPU from a task that could go on, of all.",
        "switches involuntary_switches",
    ),
    Row("wakeups_per_s", Unit.PER_S, "", "Tasks woken.", "wakeups"),
    Row("migrations_per_s", Unit.PER_S, "Task Migration Count", "Tasks moved to another CPU.", "migrations"),
    Row(
        "run_queue_length_mean",
        Unit.COUNT,
        "Run Queue Length",
        "Tasks that run or could run on a CPU when it switches, the mean.",
        "switches run_queue_length_sum",
    ),
    Row(
        "wakeup_latency_mean_us",
        Unit.US,
        _WAKEUP,
        "From woken to on the CPU, the mean.",
        "wakeup_latency_ns wakeup_latency_hist",
    ),
    Row("wakeup_latency_p50_us", Unit.US, _WAKEUP, "From woken to on the CPU, the median.", "wakeup_latency_hist"),
    Row("wakeup_latency_p95_us", Unit.US, _WAKEUP, "From woken to on the CPU, 95 % stay below.", "wakeup_latency_hist"),
    Row("wakeup_latency_p99_us", Unit.US, _WAKEUP, "From woken to on the CPU, 99 % stay below.", "wakeup_latency_hist"),
    Row(
        "requeue_latency_mean_us",
        Unit.US,
        _SWITCH,
        "From taken off the CPU while able to run to on a CPU again, the mean.",
        "requeue_latency_ns requeue_latency_hist",
    ),
    Row(
        "run_queue_latency_mean_us",
        Unit.US,
        _SWITCH,
        "Able to run (woken or not) to on a CPU, the mean.",
        f"wakeup_latency_ns requeue_latency_ns {_QUEUED}",
    ),
    Row("run_queue_latency_p50_us", Unit.US, _SWITCH, "Able to run to on a CPU, the median.", _QUEUED),
    Row("run_queue_latency_p95_us", Unit.US, _SWITCH, "Able to run to on a CPU, 95 % stay below.", _QUEUED),
    Row("run_queue_latency_p99_us", Unit.US, _SWITCH, "Able to run to on a CPU, 99 % stay below.", _QUEUED),
    Row("task_forks_per_s", Unit.PER_S, "", "Processes and threads made.", "forks"),
    Row("execs_per_s", Unit.PER_S, "", "Programs started.", "execs"),
    Row("exits_per_s", Unit.PER_S, "", "Processes and threads that ended.", "exits"),
)

_WAITS = (
    Row("burst_mean_us", Unit.US, "", "On the CPU without a switch, the mean.", "burst_ns burst_hist"),
    Row("burst_p50_us", Unit.US, "", "On the CPU without a switch, the median.", "burst_hist"),
    Row("burst_p95_us", Unit.US, "", "On the CPU without a switch, 95 % stay below.", "burst_hist"),
    Row("burst_to_4us_share", Unit.SHARE, "", "Turns on the CPU below 4 µs, of all.", "burst_hist"),
    Row("burst_to_16us_share", Unit.SHARE, "", "Turns on the CPU of 4 µs to 16 µs, of all.", "burst_hist"),
    Row("burst_to_65us_share", Unit.SHARE, "", "Turns on the CPU of 16 µs to 65 µs, of all.", "burst_hist"),
    Row("burst_to_262us_share", Unit.SHARE, "", "Turns on the CPU of 65 µs to 262 µs, of all.", "burst_hist"),
    Row("burst_to_1ms_share", Unit.SHARE, "", "Turns on the CPU of 262 µs to 1 ms, of all.", "burst_hist"),
    Row("burst_to_2ms_share", Unit.SHARE, "", "Turns on the CPU of 1 ms to 2 ms, of all.", "burst_hist"),
    Row("burst_to_4ms_share", Unit.SHARE, "", "Turns on the CPU of 2 ms to 4 ms, of all.", "burst_hist"),
    Row("burst_to_8ms_share", Unit.SHARE, "", "Turns on the CPU of 4 ms to 8 ms, of all.", "burst_hist"),
    Row("burst_to_34ms_share", Unit.SHARE, "", "Turns on the CPU of 8 ms to 34 ms, of all.", "burst_hist"),
    Row("burst_longer_share", Unit.SHARE, "", "Turns on the CPU of 34 ms and longer, of all.", "burst_hist"),
    Row("sleep_mean_us", Unit.US, "", "An interruptible sleep, the mean.", "sleep_ns sleep_hist"),
    Row("sleep_p50_us", Unit.US, "", "An interruptible sleep, the median.", "sleep_hist"),
    Row("sleep_p95_us", Unit.US, "", "An interruptible sleep, 95 % stay below.", "sleep_hist"),
    Row("sleep_to_65us_share", Unit.SHARE, "", "Interruptible sleeps below 65 µs, of all.", "sleep_hist"),
    Row("sleep_to_262us_share", Unit.SHARE, "", "Interruptible sleeps of 65 µs to 262 µs, of all.", "sleep_hist"),
    Row("sleep_to_1ms_share", Unit.SHARE, "", "Interruptible sleeps of 262 µs to 1 ms, of all.", "sleep_hist"),
    Row("sleep_to_4ms_share", Unit.SHARE, "", "Interruptible sleeps of 1 ms to 4 ms, of all.", "sleep_hist"),
    Row("sleep_to_8ms_share", Unit.SHARE, "", "Interruptible sleeps of 4 ms to 8 ms, of all.", "sleep_hist"),
    Row("sleep_to_17ms_share", Unit.SHARE, "", "Interruptible sleeps of 8 ms to 17 ms, of all.", "sleep_hist"),
    Row("sleep_to_34ms_share", Unit.SHARE, "", "Interruptible sleeps of 17 ms to 34 ms, of all.", "sleep_hist"),
    Row("sleep_to_134ms_share", Unit.SHARE, "", "Interruptible sleeps of 34 ms to 134 ms, of all.", "sleep_hist"),
    Row("sleep_to_1s_share", Unit.SHARE, "", "Interruptible sleeps of 134 ms to 1 s, of all.", "sleep_hist"),
    Row("sleep_longer_share", Unit.SHARE, "", "Interruptible sleeps of 1 s and longer, of all.", "sleep_hist"),
    Row("sleep_s_per_s", Unit.S_PER_S, "", "Length of all sleeps that ended.", "sleep_ns"),
    Row("blocked_per_s", Unit.PER_S, "", "Waits that nothing may interrupt (state D), as for a disk.", "blocked"),
    Row("blocked_mean_us", Unit.US, "Thread Blocked Time", "A wait in state D, the mean.", "blocked blocked_ns"),
    Row(
        "blocked_s_per_s",
        Unit.S_PER_S,
        "Thread Blocked Time",
        "Length of all waits in state D that ended.",
        "blocked_ns",
    ),
    Row(
        "futex_waits_per_s",
        Unit.PER_S,
        "Lock Contention Count",
        "Waits of threads for others of their program (futex): locks, but also condition variables and idle pools.",
        "futex_waits",
    ),
    Row(
        "futex_wait_mean_us",
        Unit.US,
        "Lock Hold Time",
        "A wait on a futex, the mean: an upper bound of waiting for locks of programs (see above).",
        "futex_waits futex_wait_ns",
    ),
    Row(
        "futex_wait_s_per_s",
        Unit.S_PER_S,
        "Lock Hold Time",
        "Length of all waits on futexes that ended: an upper bound of waiting for locks of programs.",
        "futex_wait_ns",
    ),
    Row(
        "lock_contentions_per_s",
        Unit.PER_S,
        "Lock Contention Count",
        "Tasks that had to wait for a lock of the kernel.",
        "lock_contentions",
    ),
    Row(
        "lock_failures_per_s",
        Unit.PER_S,
        "Lock Acquisition Failure Count",
        "Waits for a lock of the kernel that ended without it.",
        "lock_failures",
    ),
    Row(
        "lock_wait_mean_us",
        Unit.US,
        "Lock Hold Time",
        "For how long the holder of a lock of the kernel kept a task waiting, the mean.",
        "lock_contentions lock_wait_ns",
    ),
    Row(
        "lock_wait_s_per_s",
        Unit.S_PER_S,
        "Lock Hold Time",
        "Length of all waits for locks of the kernel that ended.",
        "lock_wait_ns",
    ),
)

_DEVICES = (
    Row("block_issued_per_s", Unit.PER_S, "", "Requests given to block devices.", "block_issued"),
    Row("block_completed_per_s", Unit.PER_S, "", "Requests that block devices completed.", "block_completed"),
    Row(
        "block_in_flight",
        Unit.COUNT,
        "Disk I/O Queue Length",
        "Mean number of requests under way, by the time that the completed ones took.",
        "block_latency_ns",
    ),
    Row(
        "block_latency_mean_us",
        Unit.US,
        "",
        "From request made to completed, the mean.",
        "block_latency_ns block_latency_hist",
    ),
    Row("block_latency_p50_us", Unit.US, "", "From request made to completed, the median.", "block_latency_hist"),
    Row("block_latency_p99_us", Unit.US, "", "From request made to completed, 99 % stay below.", "block_latency_hist"),
    Row("hardirqs_per_s", Unit.PER_S, "", "Interrupts of devices.", "interrupts"),
    Row("hardirq_mean_us", Unit.US, "", "In one handler, the mean.", "interrupts interrupt_ns"),
    Row(
        "network_interrupts_per_s",
        Unit.PER_S,
        "Network Interrupt Count",
        "Interrupts of network devices; one on USB has none of its own.",
        "network_interrupts",
    ),
    Row(
        "network_interrupt_mean_us",
        Unit.US,
        _HANDLING,
        "In one handler of a network device, the mean.",
        "network_interrupts network_interrupt_ns",
    ),
    Row("softirqs_per_s", Unit.PER_S, "", "Software interrupts of all kinds.", "softirqs"),
    Row("softirq_mean_us", Unit.US, "", "In one software interrupt, the mean.", "softirqs softirq_ns"),
    Row(
        "softirq_net_tx_mean_us",
        Unit.US,
        _HANDLING,
        "In a software interrupt that sends, the mean.",
        "softirqs softirq_ns",
    ),
    Row(
        "softirq_net_rx_mean_us",
        Unit.US,
        _HANDLING,
        "In a software interrupt that receives, the mean.",
        "softirqs softirq_ns",
    ),
    Row("input_keys_per_s", Unit.PER_S, "Input Event", "Keys and buttons pressed.", "input_keys"),
    Row("input_motions_per_s", Unit.PER_S, "Input Event", "Events of pointers, wheels and pads.", "input_motions"),
)

_NETWORK = (
    Row("tcp_opened_per_s", Unit.PER_S, "New Connection Count", "TCP connections made.", "connections_opened"),
    Row("tcp_closed_per_s", Unit.PER_S, "Closed Connection Count", "TCP connections ended.", "connections_closed"),
    Row("tcp_resets_per_s", Unit.PER_S, "Reset Connection Count", "TCP resets, both ways.", "connections_reset"),
    Row("tcp_retransmits_per_s", Unit.PER_S, "", "TCP packets sent again.", "retransmits"),
    Row(
        "tcp_resent_share",
        Unit.SHARE,
        "Packet Retransmission Rate",
        "TCP packets sent again, of those both ways.",
        "retransmits tcp_packets",
    ),
    Row("packets_sent_per_s", Unit.PER_S, "Packet Count", "Packets given to a device.", "packets_sent"),
    Row("packets_received_per_s", Unit.PER_S, "Packet Count", "Packets that a driver gave up.", "packets_received"),
    Row("tcp_packets_per_s", Unit.PER_S, "", "TCP packets, both ways.", "tcp_packets"),
    Row("udp_packets_per_s", Unit.PER_S, "", "UDP packets, both ways.", "udp_packets"),
    Row(
        "tcp_packet_share",
        Unit.SHARE,
        "TCP/UDP Ratio",
        "TCP among TCP and UDP packets, both ways.",
        "tcp_packets udp_packets",
    ),
    Row(
        "transmit_latency_mean_us",
        Unit.US,
        "Data Transmit Latency",
        "A packet from queued on its device to given to the driver, the mean.",
        "transmits_measured transmit_latency_ns",
    ),
    Row(
        "receive_latency_mean_us",
        Unit.US,
        "Data Receive Latency",
        "A packet from the driver to its copy in the reader, the mean.",
        "receives_measured receive_latency_ns",
    ),
    Row(
        "delivery_latency_mean_us",
        Unit.US,
        "Kernel-Userspace Latency",
        "From data ready on a socket to its reader going on, the mean.",
        "deliveries_measured delivery_latency_ns",
    ),
)

GROUPS: tuple[Group, ...] = (Group(Backend.EBPF, "probes", "", _SCHEDULING + _WAITS + _DEVICES + _NETWORK),)
"""All of them; their source is the programs that fill their inputs."""
