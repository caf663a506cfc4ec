# SPDX-License-Identifier: GPL-2.0-only
"""Rates of eBPF counters by hand-computed examples; what goes back, is cut, or stays unknown takes only its own."""

import dataclasses
from dataclasses import replace

import pytest
from two_samples import NEW, OLD, PROBES, grown

from asa.core.sample import ProbeCounters
from collectors.ebpf.layout import LATENCY_SLOTS, LATENCY_STARTS_NS, OCTAVE_STARTS_NS
from collectors.metrics import METRICS
from collectors.rates import Rates, derive
from collectors.rates.probes import BURST_ENDS_LOG2, SLEEP_ENDS_LOG2

EXPECTED = {
    "switches_per_s": 200,
    "involuntary_switch_share": 0.25,
    "wakeups_per_s": 120,
    "migrations_per_s": 4,
    "run_queue_length_mean": 2.5,
    # slot 1 is 256 to 320 ns and holds 60 of 100, slot 3 (384 to 448 ns) the others
    "wakeup_latency_mean_us": 0.35,
    "wakeup_latency_p50_us": (256 + 64 * 50 / 60) / 1e3,
    "wakeup_latency_p95_us": (384 + 64 * 35 / 40) / 1e3,
    "wakeup_latency_p99_us": (384 + 64 * 39 / 40) / 1e3,
    "requeue_latency_mean_us": 0.8,
    # and 100 more in slot 5, 512 to 640 ns
    "run_queue_latency_mean_us": 0.575,
    "run_queue_latency_p50_us": 0.448,
    "run_queue_latency_p95_us": (512 + 128 * 90 / 100) / 1e3,
    "run_queue_latency_p99_us": (512 + 128 * 98 / 100) / 1e3,
    # octave 1 is 1,024 to 2,048 ns, octave 3 is 4,096 to 8,192 ns
    "burst_mean_us": 4,
    "burst_p50_us": (1024 + 1024 * 50 / 60) / 1e3,
    "burst_p95_us": (4096 + 4096 * 35 / 40) / 1e3,
    **dict.fromkeys((f"burst_{part}_share" for part in (*BURST_ENDS_LOG2, "longer")), 0),
    "burst_to_4us_share": 0.6,
    "burst_to_16us_share": 0.4,
    "sleep_mean_us": 1e6,
    "sleep_p50_us": 1.5 * 2**29 / 1e3,  # octave 20 begins at 2 ** 29
    "sleep_p95_us": 1.95 * 2**29 / 1e3,
    **dict.fromkeys((f"sleep_{part}_share" for part in (*SLEEP_ENDS_LOG2, "longer")), 0),
    "sleep_to_1s_share": 1,  # 2 ** 30 ns are 1.07 s
    "sleep_s_per_s": 1.5,
    "blocked_per_s": 5,
    "blocked_mean_us": 5000,
    "blocked_s_per_s": 0.025,
    "futex_waits_per_s": 2.5,
    "futex_wait_mean_us": 200,
    "futex_wait_s_per_s": 0.0005,
    "lock_contentions_per_s": 8,
    "lock_failures_per_s": 1,
    "lock_wait_mean_us": 2,
    "lock_wait_s_per_s": 16e-6,
    "task_forks_per_s": 3,
    "execs_per_s": 2,
    "exits_per_s": 1,
    "block_issued_per_s": 11,
    "block_completed_per_s": 10,
    "block_in_flight": 0.003,  # 20 requests took 6 ms in 2 s
    "block_latency_mean_us": 300,
    "block_latency_p50_us": 1.125 * 2**18 / 1e3,  # slot 41 is the first quarter of the octave from 2 ** 18 ns
    "block_latency_p99_us": 1.2475 * 2**18 / 1e3,
    "hardirqs_per_s": 150,
    "hardirq_mean_us": 2,
    "network_interrupts_per_s": 50,
    "network_interrupt_mean_us": 4,
    "softirqs_per_s": 50,
    "softirq_mean_us": 2,
    "softirq_net_tx_mean_us": 3,
    "softirq_net_rx_mean_us": 5,
    "tcp_opened_per_s": 4,
    "tcp_closed_per_s": 3,
    "tcp_resets_per_s": 2,
    "tcp_retransmits_per_s": 7.5,
    "tcp_resent_share": 0.05,
    "packets_sent_per_s": 100,
    "packets_received_per_s": 150,
    "tcp_packets_per_s": 150,
    "udp_packets_per_s": 50,
    "tcp_packet_share": 0.75,
    "transmit_latency_mean_us": 2,
    "receive_latency_mean_us": 5,
    "delivery_latency_mean_us": 40,
    "longest_wait_us": 500_000,  # slot 2 of the kernel's
    "longest_kernel_wait_us": 500_000,
    "longest_realtime_wait_us": 400_000,
    "longest_humble_wait_us": 9e6,
    "input_keys_per_s": 5,
    "input_motions_per_s": 25,
}
COUNTERS = [field.name for field in dataclasses.fields(ProbeCounters)]
MADE_OF = {metric.field: set(metric.inputs) for metric in METRICS if metric.part == "probes"}


def probed(new, old=PROBES):
    return derive(replace(OLD, probes=old), replace(NEW, probes=new))


def changed(rates):
    whole = derive(OLD, NEW)
    return {name.name for name in dataclasses.fields(Rates) if getattr(rates, name.name) != getattr(whole, name.name)}


def test_every_metric_of_the_probes_has_an_example():
    assert set(EXPECTED) == set(MADE_OF)
    assert set(COUNTERS) == set().union(*MADE_OF.values())


@pytest.mark.parametrize("name", EXPECTED)
def test_two_seconds_by_hand(name):
    assert getattr(derive(OLD, NEW), name) == pytest.approx(EXPECTED[name], rel=1e-12)


@pytest.mark.parametrize("counter", COUNTERS)
def test_a_counter_that_is_unknown_takes_just_what_is_made_of_it(counter):
    own = {name for name, inputs in MADE_OF.items() if counter in inputs}
    for rates in (
        probed(replace(NEW.probes, **{counter: None})),
        probed(NEW.probes, replace(PROBES, **{counter: None})),
    ):
        assert changed(rates) == own
        assert all(getattr(rates, name) is None for name in own)


def test_who_waits_still_counts_as_who_came_to_a_cpu():
    rates = probed(replace(NEW.probes, waiting_ns=(700_000_000, 600_000_000, 0, 0)))
    assert (rates.longest_wait_us, rates.longest_kernel_wait_us) == (700_000, 600_000)
    assert (rates.longest_realtime_wait_us, rates.longest_humble_wait_us) == (0, 0)
    stale = probed(replace(NEW.probes, waiting_ns=(700_000_000, 0, 0, 0), scanned_ns=PROBES.scanned_ns))
    assert stale.longest_wait_us == 500_000  # nobody looked since: what was seen then has been told


@pytest.mark.parametrize("counter", [name for name in COUNTERS if name != "waiting_ns"])
def test_a_counter_that_went_back_takes_the_same(counter):
    value = getattr(PROBES, counter)
    back = (value[0] - 1, *getattr(NEW.probes, counter)[1:]) if isinstance(value, tuple) else value - 1
    rates = probed(replace(NEW.probes, **{counter: back}))
    own = {name for name, inputs in MADE_OF.items() if counter in inputs}
    assert changed(rates) == own
    assert all(getattr(rates, name) is None for name in own)


@pytest.mark.parametrize("counter", [name for name in COUNTERS if name.endswith("_hist")])
def test_a_histogram_of_another_length_is_of_another_layout(counter):
    longer = (*getattr(NEW.probes, counter), 0)
    rates = probed(replace(NEW.probes, **{counter: longer}))
    assert changed(rates) == changed(probed(replace(NEW.probes, **{counter: None})))


@pytest.mark.parametrize("counter", [name for name in COUNTERS if name.endswith("_hist")])
def test_so_are_two_that_have_more_slots_than_there_are(counter):
    old, new = ((*getattr(probes, counter), *more) for probes, more in ((PROBES, (0, 0)), (NEW.probes, (0, 10**9))))
    rates = probed(replace(NEW.probes, **{counter: new}), replace(PROBES, **{counter: old}))
    own = {name for name in EXPECTED if name.startswith(counter.removesuffix("hist")) and name.endswith("_us")}
    assert own <= changed(rates)
    assert all(getattr(rates, name) is None for name in own)


def test_nothing_happened():
    rates = probed(PROBES)
    for name in EXPECTED:
        value = getattr(rates, name)
        if name.endswith("_per_s") or name == "block_in_flight" or name.startswith("longest_"):
            assert value == 0, name
        else:
            assert value is None, name  # of nothing there is no mean, share or percentile


def test_a_histogram_whose_sum_is_unknown_has_percentiles_all_the_same():
    rates = probed(replace(NEW.probes, wakeup_latency_ns=None))
    assert rates.wakeup_latency_mean_us is None
    assert rates.wakeup_latency_p50_us == pytest.approx(EXPECTED["wakeup_latency_p50_us"])


def test_what_lies_in_the_last_slot_is_at_least_its_beginning():
    far = probed(grown(PROBES, wakeup_latency_hist={LATENCY_SLOTS - 1: 1}))
    assert far.wakeup_latency_p50_us == LATENCY_STARTS_NS[-1] / 1e3


def test_timing_one_in_four_gives_the_same_means():
    # with a weight of 4 an event that was timed stands for 4: sums and slots grow alike
    one = probed(grown(PROBES, burst_ns=8000, burst_hist={1: 4}))
    whole = probed(grown(PROBES, burst_ns=2000, burst_hist={1: 1}))
    assert one.burst_mean_us == whole.burst_mean_us == 2
    assert one.burst_p50_us == whole.burst_p50_us


@pytest.mark.parametrize("size", [0, 2, 3])
def test_kinds_of_software_interrupt_that_are_not_told(size):
    old = replace(PROBES, softirqs=(0,) * size, softirq_ns=(0,) * size)
    rates = probed(replace(PROBES, softirqs=(4,) * size, softirq_ns=(8000,) * size), old)
    assert rates.softirqs_per_s == 2 * size
    assert rates.softirq_mean_us == (2 if size else None)
    assert rates.softirq_net_rx_mean_us is None


@pytest.mark.parametrize(
    ("part", "whole", "name"),
    [
        ("involuntary_switches", "switches", "involuntary_switch_share"),
        ("retransmits", "tcp_packets", "tcp_resent_share"),
    ],
)
def test_all_of_them_is_a_share_and_more_than_all_is_none(part, whole, name):
    assert getattr(probed(grown(PROBES, **{part: 7, whole: 7})), name) == 1
    assert getattr(probed(grown(PROBES, **{part: 8, whole: 7})), name) is None


@pytest.mark.parametrize(("kind", "ends"), [("burst", BURST_ENDS_LOG2), ("sleep", SLEEP_ENDS_LOG2)])
def test_each_octave_falls_into_the_bin_that_holds_it(kind, ends):
    for slot, start_ns in enumerate(OCTAVE_STARTS_NS):
        hist = tuple(count + 3 * (place == slot) for place, count in enumerate(getattr(PROBES, f"{kind}_hist")))
        rates = probed(replace(PROBES, **{f"{kind}_hist": hist}))
        parts = {part: getattr(rates, f"{kind}_{part}_share") for part in (*ends, "longer")}
        expected = next((part for part, log2 in ends.items() if start_ns < 1 << log2), "longer")
        assert parts == {part: float(part == expected) for part in parts}, start_ns


def test_of_no_burst_there_are_no_parts():
    rates = probed(PROBES)
    assert rates.burst_to_4us_share is rates.burst_longer_share is None
