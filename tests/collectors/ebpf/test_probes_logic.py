# SPDX-License-Identifier: GPL-2.0-only
"""probes.h itself: which events make a sleep, a wait, a burst or a wait for a lock, and what sampling leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from probes_machine import ASLEEP, BLOCKED, DEAD, IDLE_THREAD, MUTEX, READS, RUNS, SPINS, STOPPED, slot_of

from collectors.ebpf import layout


@given(ns=st.one_of(st.integers(0, 1 << 63), st.sampled_from(layout.LATENCY_STARTS_NS + layout.OCTAVE_STARTS_NS)))
def test_slots_begin_where_the_layout_says(loaded, ns):
    for at in (ns, max(ns - 1, 0)):
        loaded.reset()
        loaded.latency(at)
        loaded.octave(at)
        assert loaded.filled("wakeup_latency_hist") == {slot_of(at, layout.LATENCY_STARTS_NS): 1}
        assert loaded.filled("burst_hist") == {slot_of(at, layout.OCTAVE_STARTS_NS): 1}


def test_a_sleep_a_wait_and_a_burst(machine):
    machine.leave(0, RUNS, 5, 1)
    machine.at(1_003_000)
    machine.leave(5, ASLEEP, 0, 0)
    machine.at(1_103_000)
    machine.wakeup(5, 0)
    machine.cpu(1)
    machine.at(1_105_000)
    machine.leave(0, RUNS, 5, 2)
    assert (machine["switches"], machine["wakeups"], machine["run_queue_length_sum"]) == (3, 1, 3)
    assert machine["involuntary_switches"] == 0  # the idle task is none
    assert machine["burst_ns"] == 3_000
    assert machine.filled("burst_hist") == {slot_of(3_000, layout.OCTAVE_STARTS_NS): 1}
    assert machine["sleep_ns"] == 100_000
    assert machine.filled("sleep_hist") == {slot_of(100_000, layout.OCTAVE_STARTS_NS): 1}
    assert machine["wakeup_latency_ns"] == 2_000
    assert machine.filled("wakeup_latency_hist") == {slot_of(2_000, layout.LATENCY_STARTS_NS): 1}
    assert machine["requeue_latency_ns"] == machine["futex_waits"] == machine["blocked"] == 0


def test_one_that_is_taken_off_the_cpu_waits_without_sleeping(machine):
    machine.leave(0, RUNS, 5, 2)
    machine.leave(5, RUNS, 6, 2)
    machine.at(1_004_000)
    machine.leave(6, ASLEEP, 5, 1)
    assert machine["involuntary_switches"] == 1
    assert machine["requeue_latency_ns"] == 4_000
    assert machine.filled("requeue_latency_hist") == {slot_of(4_000, layout.LATENCY_STARTS_NS): 1}
    assert machine["wakeup_latency_ns"] == machine["sleep_ns"] == 0


@pytest.mark.parametrize(
    ("state", "futex", "field"),
    [
        (ASLEEP, False, "sleep_ns"),
        (ASLEEP, True, "futex_wait_ns"),
        (BLOCKED, True, "blocked_ns"),
        (0x102, False, "blocked_ns"),  # TASK_KILLABLE
        (IDLE_THREAD, False, None),
        (STOPPED, False, None),
        (DEAD, False, None),
    ],
)
def test_kinds_of_absence(machine, state, futex, field):
    machine.leave(0, RUNS, 5, 1)
    machine.futex(futex)
    machine.leave(5, state, 0, 0)
    machine.at(1_009_000)
    machine.wakeup(5, 0)
    grown = {name for name in ("sleep_ns", "futex_wait_ns", "blocked_ns") if machine[name]}
    assert grown == ({field} | ({"sleep_ns"} if field == "futex_wait_ns" else set()) if field else set())
    assert (machine["blocked"], machine["futex_waits"]) == (field == "blocked_ns", field == "futex_wait_ns")
    if field:
        assert machine[field] == 9_000


def test_waking_one_that_runs_starts_no_wait(machine):
    machine.leave(0, RUNS, 5, 1)
    machine.wakeup(5, 0)  # it was about to sleep
    machine.at(1_500_000)
    machine.leave(5, RUNS, 6, 2)
    machine.at(1_501_000)
    machine.leave(6, RUNS, 5, 2)
    assert machine["wakeups"] == 1
    assert machine["wakeup_latency_ns"] == 0
    assert machine["requeue_latency_ns"] == 1_000


def test_pids_that_share_an_entry_never_take_each_others_time(machine):
    machine.leave(0, RUNS, 5, 1)
    machine.leave(5, ASLEEP, 69, 1)  # 5 and 69: the same entry of 64
    machine.at(1_700_000)
    machine.leave(69, ASLEEP, 0, 0)
    machine.wakeup(5, 0)
    machine.leave(0, RUNS, 5, 1)
    assert machine["sleep_ns"] == machine["wakeup_latency_ns"] == 0
    machine.at(1_800_000)
    machine.wakeup(69, 0)
    assert machine["sleep_ns"] == 100_000


def test_a_new_task_with_an_old_pid_starts_afresh(machine):
    machine.leave(0, RUNS, 5, 1)
    machine.leave(5, ASLEEP, 0, 0)
    machine.at(1_900_000)
    machine.wakeup(5, 1)
    machine.at(1_901_000)
    machine.leave(0, RUNS, 5, 1)
    assert machine["sleep_ns"] == 0
    assert machine["wakeup_latency_ns"] == 1_000


def test_clocks_that_differ_give_zero_not_centuries(machine):
    machine.wakeup(5, 1)
    machine.at(999_000)
    machine.leave(0, RUNS, 5, 1)
    assert machine["wakeup_latency_ns"] == 0
    assert machine.filled("wakeup_latency_hist") == {0: 1}


def sleeps(machine, rounds, tasks):
    """Tasks that sleep 100 us, wait 2 us and run 5 us, one after the other."""
    now = 1_000_000
    for turn in range(rounds):
        pid = 1 + turn % tasks
        machine.at(now)
        machine.wakeup(pid, 0)
        machine.at(now + 2_000)
        machine.leave(0, RUNS, pid, 1)
        machine.at(now + 7_000)
        machine.leave(pid, ASLEEP, 0, 0)
        now += 107_000 // tasks


@pytest.mark.parametrize("tasks", [1, 2, 8])
def test_sampling_keeps_counts_whole_and_sums_right_on_average(machine, tasks):
    machine.set("sample_mask", 7)
    machine.set("random", 12345)
    rounds = 16_000
    calls = machine.clock_calls()
    sleeps(machine, rounds, tasks)
    assert machine["switches"] == 2 * rounds
    assert machine["wakeups"] == rounds
    waits = machine.filled("wakeup_latency_hist")
    assert set(waits) == {slot_of(2_000, layout.LATENCY_STARTS_NS)}  # never a start with a later end
    assert set(machine.filled("burst_hist")) == {slot_of(5_000, layout.OCTAVE_STARTS_NS)}
    timed = sum(waits.values()) // 8
    # 16,000 draws of one in eight: 2,000 +- 42; five of these deviations
    assert 1_790 < timed < 2_210
    assert machine["wakeup_latency_ns"] == 8 * timed * 2_000
    assert 0.89 < machine["burst_ns"] / (rounds * 5_000) < 1.11
    assert machine.clock_calls() - calls < 0.6 * 3 * rounds


@pytest.mark.parametrize(("first", "then"), [(0, 1023), (1, 0)])
def test_what_was_drawn_under_one_mask_keeps_its_weight_under_another(machine, first, then):
    """Sleep, wait and burst begin under `first` and end under `then`."""
    weight = first + 1
    machine.set("sample_mask", first)
    for _ in range(200):  # until the sleep and the burst beside it are drawn
        machine.set("sample_mask", first)
        machine.leave(0, RUNS, 5, 1)
        machine.leave(5, ASLEEP, 6, 1)
        before = machine["burst_ns"], machine["sleep_ns"], machine["wakeup_latency_ns"]
        counted = sum(machine["burst_hist"]), sum(machine["sleep_hist"]), sum(machine["wakeup_latency_hist"])
        machine.set("sample_mask", then)
        machine.at(2_000_000)
        machine.wakeup(5, 0)
        machine.at(2_005_000)
        machine.leave(6, DEAD, 5, 1)
        after = machine["burst_ns"], machine["sleep_ns"], machine["wakeup_latency_ns"]
        slots = sum(machine["burst_hist"]), sum(machine["sleep_hist"]), sum(machine["wakeup_latency_hist"])
        machine.at(1_000_000)
        if after[1] != before[1]:
            break
    assert tuple(b - a for a, b in zip(before, after, strict=True)) == (
        weight * 1_005_000,
        weight * 1_000_000,
        weight * 5_000,
    )
    assert tuple(b - a for a, b in zip(counted, slots, strict=True)) == (weight, weight, weight)


@pytest.mark.parametrize(("first", "then"), [(0, 1023), (1, 0)])
def test_a_new_task_keeps_the_weight_of_its_draw(machine, first, then):
    for _ in range(200):
        machine.set("sample_mask", first)
        machine.at(1_000_000)
        machine.wakeup(5, 1)
        machine.set("sample_mask", then)
        machine.at(1_003_000)
        machine.leave(0, RUNS, 5, 1)
        if machine["wakeup_latency_ns"]:
            break
    assert machine["wakeup_latency_ns"] == (first + 1) * 3_000


def test_locks_that_spin_and_locks_that_sleep(machine):
    machine.contention_begin(500, SPINS, 5)
    machine.at(1_000_700)
    machine.contention_end(500, 0, 5)
    assert (machine["lock_contentions"], machine["lock_wait_ns"], machine["lock_failures"]) == (1, 700, 0)
    machine.contention_begin(600, MUTEX | SPINS, 5)
    machine.contention_begin(600, READS, 6)
    machine.at(1_002_700)
    machine.contention_begin(600, MUTEX, 5)  # gives up spinning
    machine.cpu(1)
    machine.at(1_003_700)
    machine.contention_end(600, 0, 5)
    machine.contention_end(600, 2**32 - 4, 6)  # interrupted
    assert (machine["lock_contentions"], machine["lock_wait_ns"], machine["lock_failures"]) == (3, 6_700, 1)
    machine.contention_end(600, 0, 5)  # an end without a beginning
    assert machine["lock_contentions"] == 3


def test_a_lock_waited_for_in_an_interrupt_leaves_the_outer_wait_out(machine):
    machine.contention_begin(500, SPINS, 5)
    machine.at(1_001_000)
    machine.contention_begin(501, SPINS, 5)
    machine.at(1_001_300)
    machine.contention_end(501, 0, 5)
    machine.at(1_009_000)
    machine.contention_end(500, 0, 5)
    assert (machine["lock_contentions"], machine["lock_wait_ns"]) == (1, 300)


def waiting_for(machine, pid, wait_ns, waiter=0):
    """A task that was taken off the CPU comes back after so long."""
    machine.waiter(waiter)
    machine.at(10**12)
    machine.leave(0, RUNS, pid, 1)
    machine.leave(pid, RUNS, 0, 0)
    machine.at(10**12 + wait_ns)
    machine.leave(0, RUNS, pid, 1)


@pytest.mark.parametrize("wait_ms", [125, 249, 250, 499, 500, 4000, 15_999, 16_000, 90_000])
@pytest.mark.parametrize("waiter", range(len(layout.WAITERS)))
def test_a_long_wait_is_told_by_who_waited(machine, wait_ms, waiter):
    waiting_for(machine, 5, wait_ms * 1_000_000, waiter)
    slot = slot_of(wait_ms * 1_000_000, layout.LONG_WAIT_STARTS_NS)
    assert machine.filled("long_waits") == {waiter * layout.LONG_WAIT_SLOTS + slot: 1}
    assert machine["requeue_latency_ns"] == wait_ms * 1_000_000


@pytest.mark.parametrize(("wait_ns", "waiter"), [(124_999_999, 0), (10**9, len(layout.WAITERS))])
def test_a_short_wait_and_one_of_nobody_knows_whom_are_none(machine, wait_ns, waiter):
    waiting_for(machine, 5, wait_ns, waiter)
    assert machine.filled("long_waits") == {}


def test_a_long_sleep_is_no_wait(machine):
    machine.leave(0, RUNS, 5, 1)
    machine.leave(5, ASLEEP, 0, 0)
    machine.at(10**10)
    machine.wakeup(5, 0)
    machine.leave(0, RUNS, 5, 1)
    assert machine.filled("long_waits") == {}
    machine.leave(5, STOPPED, 0, 0)  # SIGSTOP
    machine.at(10**11)
    machine.wakeup(5, 0)
    machine.leave(0, RUNS, 5, 1)
    assert machine.filled("long_waits") == {}
