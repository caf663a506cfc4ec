# SPDX-License-Identifier: GPL-2.0-only
"""Which fields of Rates are derived: all of them, or those that somebody will look at.

The agent judges a second by three quarters of the fields; what only people and exports read, it need not compute.
"""

import dataclasses
from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any, NamedTuple

from asa.core.sample import RawSample
from collectors.rates import probes, procfs
from collectors.rates.arithmetic import Fields
from collectors.rates.declared import tables
from collectors.rates.fields import Rates


class Step(NamedTuple):
    """What may be left out: which part of both samples it reads, how, and all that it gives."""

    part: Callable[[RawSample], Any]
    run: Callable[[Fields, Any, Any, float], None]
    gives: frozenset[str]


def _step(part: str, run: Callable[[Fields, Any, Any, float], None], gives: str) -> Step:
    return Step(attrgetter(part), run, frozenset(gives.split()))


STEPS = (
    _step("disk", procfs.disk_latencies, "disk_read_latency_ms disk_write_latency_ms"),
    _step("network", procfs.retransmitted, "tcp_retransmit_share"),
    _step("probes", probes.interrupts, "hardirq_mean_us network_interrupt_mean_us"),
    _step("probes", probes.softirqs, "softirq_mean_us softirq_net_tx_mean_us softirq_net_rx_mean_us"),
    _step(
        "probes",
        probes.devices,
        "block_in_flight block_latency_mean_us block_latency_p50_us block_latency_p99_us",
    ),
    _step(
        "probes",
        probes.packets,
        "tcp_resent_share transmit_latency_mean_us receive_latency_mean_us delivery_latency_mean_us",
    ),
)


class Plan:
    """The fields that are derived. Others are unknown, or come along with these."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)
        self.declared = tables(names)
        self.steps = tuple(step for step in STEPS if not step.gives.isdisjoint(names))


EVERYTHING = Plan([field.name for field in dataclasses.fields(Rates)])
"""All fields."""
