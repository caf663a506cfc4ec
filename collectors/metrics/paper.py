# SPDX-License-Identifier: GPL-2.0-only
"""Table 1 of the ASA paper ("the System State Metrics that ASA monitors"), one name a metric. Data only.

Xinbo Wang et al., "Mixture-of-Schedulers: An Adaptive Scheduling Agent as a Learned Router for Expert Policies". The
paper joins names by strokes ("User / System Mode Utilization"); tests/collectors/table1.yaml has its own words, and a
test holds that none of them is lost here.
"""

TABLE_1: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "CPU",
        (
            "User Mode Utilization",
            "System Mode Utilization",
            "Nice Utilization",
            "Idle Utilization",
            "I/O Wait Utilization",
            "Hardware Interrupt Utilization",
            "Software Interrupt Utilization",
            "Steal Utilization",
            "Hot-Spot Core Ratio",
        ),
    ),
    ("Memory", ("Total Memory", "Free Memory", "Cached Memory", "Total Swap", "Available Swap", "Buffers")),
    (
        "Disk",
        (
            "Disk I/O Queue Length",
            "Read Operation Count",
            "Write Operation Count",
            "Read Latency",
            "Write Latency",
            "Average I/O Size",
        ),
    ),
    (
        "Process",
        (
            "Process Count",
            "GPU-Using Process Count",
            "GPU-Using Process CPU Utilization",
            "Window-Focused Process CPU Utilization",
            "Window-Focused Process Memory Utilization",
            "Input Event",
        ),
    ),
    (
        "Scheduling",
        (
            "Task Migration Count",
            "Lock Contention Count",
            "Lock Acquisition Failure Count",
            "Lock Hold Time",
            "Thread Blocked Time",
            "Thread Wakeup Latency",
            "Context Switch Latency",
            "Context Switch Count",
            "Run Queue Length",
        ),
    ),
    (
        "Network",
        (
            "Total Connection Count",
            "New Connection Count",
            "Closed Connection Count",
            "Reset Connection Count",
            "Data Sent",
            "Data Received",
            "Packet Count",
            "Packet Retransmission Rate",
            "TCP/UDP Ratio",
            "Network Interrupt Count",
            "Network Interrupt Handling Latency",
            "Data Transmit Latency",
            "Data Receive Latency",
            "Kernel-Userspace Latency",
        ),
    ),
)
"""Categories and their metrics, in the paper's order."""
