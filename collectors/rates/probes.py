# SPDX-License-Identifier: GPL-2.0-only
"""Rates of what the eBPF programs count.

A mean divides what a histogram's sum grew by through what its slots grew by: both hold the same events, also while the
programs time one in N of them, which then counts for N. Time a second is added up where a wait ends, so that one long
sleep shows at once and as a whole.
"""

from operator import add

from asa.core.sample import ProbeCounters
from collectors.ebpf.layout import LATENCY_STARTS_NS, OCTAVE_STARTS_NS
from collectors.rates.arithmetic import Fields, growth, ratio, share, total
from collectors.rates.histogram import bins, grown, mean_us, shares, spread

_NET_TX, _NET_RX = 2, 3  # places in ProbeCounters.softirqs

BURST_ENDS_LOG2 = {
    "to_4us": 12,
    "to_16us": 14,
    "to_65us": 16,
    "to_262us": 18,
    "to_1ms": 20,
    "to_2ms": 21,
    "to_4ms": 22,
    "to_8ms": 23,
    "to_34ms": 25,
}
"""Bins of bursts and the log2 of the ns at which each ends; finest around a time slice (0.7 to 20 ms)."""

SLEEP_ENDS_LOG2 = {
    "to_65us": 16,
    "to_262us": 18,
    "to_1ms": 20,
    "to_4ms": 22,
    "to_8ms": 23,
    "to_17ms": 24,
    "to_34ms": 25,
    "to_134ms": 27,
    "to_1s": 30,
}
"""Bins of sleeps, likewise; finest around a frame (16.7 ms at 60 Hz)."""

_BURST_BINS, _SLEEP_BINS = bins("burst", BURST_ENDS_LOG2), bins("sleep", SLEEP_ENDS_LOG2)


def probes(old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> Fields:
    """What of ProbeCounters is more than one counter's growth a second."""
    return {
        **_scheduling(old, new),
        **_waits(old, new),
        **_interrupts(old, new, elapsed_s),
        **_devices(old, new, elapsed_s),
        **_network(old, new),
    }


def _scheduling(old: ProbeCounters, new: ProbeCounters) -> Fields:
    switches = growth(old.switches, new.switches)
    woken = grown(old.wakeup_latency_hist, new.wakeup_latency_hist)
    requeued = grown(old.requeue_latency_hist, new.requeue_latency_hist)
    woken_ns = growth(old.wakeup_latency_ns, new.wakeup_latency_ns)
    requeued_ns = growth(old.requeue_latency_ns, new.requeue_latency_ns)
    queued = None if woken is None or requeued is None else list(map(add, woken, requeued))
    queued_ns = total(woken_ns, requeued_ns)
    return {
        "involuntary_switch_share": share(growth(old.involuntary_switches, new.involuntary_switches), switches),
        "run_queue_length_mean": ratio(growth(old.run_queue_length_sum, new.run_queue_length_sum), switches),
        **spread("wakeup_latency", woken_ns, woken, LATENCY_STARTS_NS, (50, 95, 99)),
        **spread("requeue_latency", requeued_ns, requeued, LATENCY_STARTS_NS, ()),
        **spread("run_queue_latency", queued_ns, queued, LATENCY_STARTS_NS, (50, 95, 99)),
    }


def _waits(old: ProbeCounters, new: ProbeCounters) -> Fields:
    bursts = grown(old.burst_hist, new.burst_hist)
    sleeps = grown(old.sleep_hist, new.sleep_hist)
    sleep_ns = growth(old.sleep_ns, new.sleep_ns)
    blocked = growth(old.blocked, new.blocked)
    futex_waits = growth(old.futex_waits, new.futex_waits)
    contentions = growth(old.lock_contentions, new.lock_contentions)
    return {
        **spread("burst", growth(old.burst_ns, new.burst_ns), bursts, OCTAVE_STARTS_NS, (50, 95)),
        **shares(bursts, _BURST_BINS),
        **spread("sleep", sleep_ns, sleeps, OCTAVE_STARTS_NS, (50, 95)),
        **shares(sleeps, _SLEEP_BINS),
        "blocked_mean_us": mean_us(growth(old.blocked_ns, new.blocked_ns), blocked),
        "futex_wait_mean_us": mean_us(growth(old.futex_wait_ns, new.futex_wait_ns), futex_waits),
        "lock_wait_mean_us": mean_us(growth(old.lock_wait_ns, new.lock_wait_ns), contentions),
    }


def _interrupts(old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> Fields:
    interrupts = growth(old.interrupts, new.interrupts)
    network_interrupts = growth(old.network_interrupts, new.network_interrupts)
    network_ns = growth(old.network_interrupt_ns, new.network_interrupt_ns)
    kinds = grown(old.softirqs, new.softirqs)
    times_ns = grown(old.softirq_ns, new.softirq_ns)
    softirqs = None if kinds is None else sum(kinds)
    fields: Fields = {
        "hardirq_mean_us": mean_us(growth(old.interrupt_ns, new.interrupt_ns), interrupts),
        "network_interrupt_mean_us": mean_us(network_ns, network_interrupts),
        "softirqs_per_s": None if softirqs is None else softirqs / elapsed_s,
        "softirq_mean_us": mean_us(None if times_ns is None else sum(times_ns), softirqs),
    }
    if kinds is not None and times_ns is not None and len(kinds) == len(times_ns) > _NET_RX:
        fields["softirq_net_tx_mean_us"] = mean_us(times_ns[_NET_TX], kinds[_NET_TX])
        fields["softirq_net_rx_mean_us"] = mean_us(times_ns[_NET_RX], kinds[_NET_RX])
    return fields


def _devices(old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> Fields:
    latency_ns = growth(old.block_latency_ns, new.block_latency_ns)
    slots = grown(old.block_latency_hist, new.block_latency_hist)
    return {
        # Little's law. Issued less completed would be off for ever by what was under way when the programs were loaded
        "block_in_flight": None if latency_ns is None else latency_ns / (elapsed_s * 1e9),
        **spread("block_latency", latency_ns, slots, LATENCY_STARTS_NS, (50, 99)),
    }


def _network(old: ProbeCounters, new: ProbeCounters) -> Fields:
    tcp, udp = growth(old.tcp_packets, new.tcp_packets), growth(old.udp_packets, new.udp_packets)
    transmits = growth(old.transmits_measured, new.transmits_measured)
    receives = growth(old.receives_measured, new.receives_measured)
    deliveries = growth(old.deliveries_measured, new.deliveries_measured)
    return {
        "tcp_resent_share": share(growth(old.retransmits, new.retransmits), tcp),
        "tcp_packet_share": share(tcp, total(tcp, udp)),
        "transmit_latency_mean_us": mean_us(growth(old.transmit_latency_ns, new.transmit_latency_ns), transmits),
        "receive_latency_mean_us": mean_us(growth(old.receive_latency_ns, new.receive_latency_ns), receives),
        "delivery_latency_mean_us": mean_us(growth(old.delivery_latency_ns, new.delivery_latency_ns), deliveries),
    }
