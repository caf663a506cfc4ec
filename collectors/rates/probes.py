# SPDX-License-Identifier: GPL-2.0-only
"""Rates of what the eBPF programs count.

A mean divides what a histogram's sum grew by through what its slots grew by: both hold the same events, also while the
programs time one in N of them, which then counts for N. Time a second is added up where a wait ends, so that one long
sleep shows at once and as a whole.
"""

from itertools import accumulate
from operator import add

from asa.core.sample import ProbeCounters
from collectors.ebpf.layout import (
    LATENCY_STARTS_NS,
    LONG_WAIT_SLOTS,
    LONG_WAIT_STARTS_NS,
    OCTAVE_STARTS_NS,
    WAITERS,
)
from collectors.rates.arithmetic import Fields, growth, ratio, share, total
from collectors.rates.histogram import bins, grown, mean_us, names, running, shares, spread

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
_WAKEUP, _RUN_QUEUE = names("wakeup_latency", 50, 95, 99), names("run_queue_latency", 50, 95, 99)
_BURST, _SLEEP, _BLOCK = names("burst", 50, 95), names("sleep", 50, 95), names("block_latency", 50, 99)


def scheduling(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How tasks wait for a CPU, and leave it."""
    switches = growth(old.switches, new.switches)
    fields["involuntary_switch_share"] = share(growth(old.involuntary_switches, new.involuntary_switches), switches)
    fields["run_queue_length_mean"] = ratio(growth(old.run_queue_length_sum, new.run_queue_length_sum), switches)
    woken_ns = growth(old.wakeup_latency_ns, new.wakeup_latency_ns)
    requeued_ns = growth(old.requeue_latency_ns, new.requeue_latency_ns)
    woken = grown(old.wakeup_latency_hist, new.wakeup_latency_hist)
    requeued = grown(old.requeue_latency_hist, new.requeue_latency_hist)
    if woken is not None:
        spread(fields, _WAKEUP, woken_ns, list(accumulate(woken)), LATENCY_STARTS_NS)
    if requeued is not None and len(requeued) <= len(LATENCY_STARTS_NS):
        fields["requeue_latency_mean_us"] = mean_us(requeued_ns, sum(requeued))
    if woken is not None and requeued is not None:
        queued = list(accumulate(map(add, woken, requeued)))
        spread(fields, _RUN_QUEUE, total(woken_ns, requeued_ns), queued, LATENCY_STARTS_NS)


_LONGEST = {
    "ordinary": "longest_wait_us",
    "kernel": "longest_kernel_wait_us",
    "realtime": "longest_realtime_wait_us",
    "humble": "longest_humble_wait_us",
}


def longest_waits(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How long who waited for a CPU at the most: a wait that ended, by its slot's beginning, or one that goes on.

    The kernel's threads are among those who were not told to wait.
    """
    ended, waiting = grown(old.long_waits, new.long_waits), new.waiting_ns
    if ended is None or waiting is None or old.waiting_ns is None or old.scanned_ns is None or new.scanned_ns is None:
        return
    if len(ended) != len(WAITERS) * LONG_WAIT_SLOTS or len(waiting) != len(WAITERS) or new.scanned_ns < old.scanned_ns:
        return
    longest_ns = {}
    for number, who in enumerate(WAITERS):
        slots = ended[number * LONG_WAIT_SLOTS : (number + 1) * LONG_WAIT_SLOTS]
        known = [start for start, count in zip(LONG_WAIT_STARTS_NS, slots, strict=True) if count]
        if new.scanned_ns > old.scanned_ns:  # else nobody looked since
            known.append(waiting[number])
        longest_ns[who] = max(known, default=0)
    longest_ns["ordinary"] = max(longest_ns["ordinary"], longest_ns["kernel"])
    for who, name in _LONGEST.items():
        fields[name] = longest_ns[who] / 1e3


def bursts(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How long turns on the CPU are."""
    below = running(old.burst_hist, new.burst_hist)
    spread(fields, _BURST, growth(old.burst_ns, new.burst_ns), below, OCTAVE_STARTS_NS)
    shares(fields, _BURST_BINS, below)


def sleeps(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How long sleeps are."""
    below = running(old.sleep_hist, new.sleep_hist)
    spread(fields, _SLEEP, growth(old.sleep_ns, new.sleep_ns), below, OCTAVE_STARTS_NS)
    shares(fields, _SLEEP_BINS, below)


def waits(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How long waits for devices, futexes and locks of the kernel are."""
    blocked, futex_waits = growth(old.blocked, new.blocked), growth(old.futex_waits, new.futex_waits)
    contentions = growth(old.lock_contentions, new.lock_contentions)
    fields["blocked_mean_us"] = mean_us(growth(old.blocked_ns, new.blocked_ns), blocked)
    fields["futex_wait_mean_us"] = mean_us(growth(old.futex_wait_ns, new.futex_wait_ns), futex_waits)
    fields["lock_wait_mean_us"] = mean_us(growth(old.lock_wait_ns, new.lock_wait_ns), contentions)


def interrupts(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How long hardware interrupts take."""
    every = growth(old.interrupts, new.interrupts)
    fields["hardirq_mean_us"] = mean_us(growth(old.interrupt_ns, new.interrupt_ns), every)
    network = growth(old.network_interrupts, new.network_interrupts)
    network_ns = growth(old.network_interrupt_ns, new.network_interrupt_ns)
    fields["network_interrupt_mean_us"] = mean_us(network_ns, network)


def softirqs(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:
    """How many soft interrupts there are, and how long they take."""
    kinds, times_ns = grown(old.softirqs, new.softirqs), grown(old.softirq_ns, new.softirq_ns)
    if kinds is None:
        return
    every = sum(kinds)
    fields["softirqs_per_s"] = every / elapsed_s
    if times_ns is not None:
        fields["softirq_mean_us"] = mean_us(sum(times_ns), every)
        if len(kinds) == len(times_ns) > _NET_RX:
            fields["softirq_net_tx_mean_us"] = mean_us(times_ns[_NET_TX], kinds[_NET_TX])
            fields["softirq_net_rx_mean_us"] = mean_us(times_ns[_NET_RX], kinds[_NET_RX])


def devices(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:
    """How long requests of block devices take, and how many are under way."""
    latency_ns = growth(old.block_latency_ns, new.block_latency_ns)
    if latency_ns is not None:
        # Little's law. Issued less completed would be off for ever by what was under way when the programs were loaded
        fields["block_in_flight"] = latency_ns / (elapsed_s * 1e9)
    spread(fields, _BLOCK, latency_ns, running(old.block_latency_hist, new.block_latency_hist), LATENCY_STARTS_NS)


def protocols(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """TCP's packets beside UDP's."""
    tcp, udp = growth(old.tcp_packets, new.tcp_packets), growth(old.udp_packets, new.udp_packets)
    fields["tcp_packet_share"] = share(tcp, total(tcp, udp))


def packets(fields: Fields, old: ProbeCounters, new: ProbeCounters, elapsed_s: float) -> None:  # noqa: ARG001
    """How long packets are on their way, and how many had to go again."""
    tcp = growth(old.tcp_packets, new.tcp_packets)
    fields["tcp_resent_share"] = share(growth(old.retransmits, new.retransmits), tcp)
    transmits = growth(old.transmits_measured, new.transmits_measured)
    fields["transmit_latency_mean_us"] = mean_us(growth(old.transmit_latency_ns, new.transmit_latency_ns), transmits)
    receives = growth(old.receives_measured, new.receives_measured)
    fields["receive_latency_mean_us"] = mean_us(growth(old.receive_latency_ns, new.receive_latency_ns), receives)
    deliveries = growth(old.deliveries_measured, new.deliveries_measured)
    fields["delivery_latency_mean_us"] = mean_us(growth(old.delivery_latency_ns, new.delivery_latency_ns), deliveries)
