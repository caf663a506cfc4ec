# SPDX-License-Identifier: GPL-2.0-only
"""Which fields of Rates are derived: all of them, or those that somebody will look at.

The agent judges a second by what its model asks for; what only people and exports read, it need not compute.
"""

import dataclasses
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any, NamedTuple

from asa.core.sample import RawSample
from collectors.metrics import METRICS
from collectors.rates import desktop, felt, probes, procfs, timer
from collectors.rates.arithmetic import Fields
from collectors.rates.declared import tables
from collectors.rates.fields import Rates


class Step(NamedTuple):
    """What may be left out: which part of both samples it reads, how, and all that it gives."""

    part: Callable[[RawSample], Any]
    run: Callable[[Fields, Any, Any, float], None]
    gives: frozenset[str]


def computed(*beginnings: str) -> frozenset[str]:
    """Fields whose names begin so and that a function computes."""
    return frozenset(metric.field for metric in METRICS if metric.of is None and metric.field.startswith(beginnings))


def _step(part: str, run: Callable[[Fields, Any, Any, float], None], *beginnings: str) -> Step:
    return Step(attrgetter(part), run, computed(*beginnings))


STEPS = (
    _step("cpu", procfs.softirqs, *(name for _, name in procfs.SOFTIRQS)),
    _step("cpu", procfs.times, *procfs.TIMES, "hot_core_share", "core_busy_"),
    _step("memory", procfs.memory, *(name for pair in procfs.MOVED for name in pair)),
    _step("disk", procfs.disk, "disk_io_size_bytes", "disk_busy_share"),
    _step("disk", procfs.disk_latencies, "disk_read_latency_ms", "disk_write_latency_ms"),
    _step("network", procfs.network, "tcp_share", "connections_opened_per_s"),
    _step("network", procfs.retransmitted, "tcp_retransmit_share"),
    _step("pressure", procfs.pressure, "pressure_"),
    _step("probes", probes.scheduling, "involuntary_", "run_queue_", "wakeup_latency_", "requeue_latency_"),
    _step("probes", probes.longest_waits, "longest_"),
    _step("probes", probes.bursts, "burst_"),
    _step("probes", probes.sleeps, "sleep_"),
    _step("probes", probes.waits, "blocked_mean_us", "futex_wait_mean_us", "lock_wait_mean_us"),
    _step("probes", probes.interrupts, "hardirq_mean_us", "network_interrupt_mean_us"),
    _step("probes", probes.softirqs, "softirqs_per_s", "softirq_mean_us", "softirq_net_tx_mean", "softirq_net_rx_mean"),
    _step("probes", probes.devices, "block_in_flight", "block_latency_"),
    _step("probes", probes.protocols, "tcp_packet_share"),
    _step("probes", probes.packets, "tcp_resent_share", "transmit_", "receive_", "delivery_"),
    _step("felt", felt.screens, "frame_interval_", "frames_missed_"),
    _step("felt", felt.inputs, "input_to_flip_"),
    _step("groups", desktop.groups, "group"),
    _step("timer", timer.timer, "timer_late_"),
)
_TURNS = computed("turns_")
_PROCESSES = computed("process_", "processes_busy", "processes_hot")


class Plan:
    """The fields that are derived. Others are unknown, or come along with these."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        self.processes = not _PROCESSES.isdisjoint(names)
        self.turns = not _TURNS.isdisjoint(names)
        needed = self.names.union(procfs.AT_WORK) if self.processes else self.names
        self.declared = tables(self.names)
        self.steps = tuple(step for step in STEPS if not step.gives.isdisjoint(needed))


EVERYTHING = Plan([field.name for field in dataclasses.fields(Rates)])
"""All fields."""
