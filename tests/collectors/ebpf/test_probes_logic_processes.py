# SPDX-License-Identifier: GPL-2.0-only
"""probes.h itself: turns of single processes, and who of them gets a slot."""

from probes_machine import ASLEEP, RUNS

from collectors.ebpf import layout


def test_turns_are_added_up_by_process_and_cpu(machine):
    machine.turn(5, 3_000)
    machine.turn(5, 1_000, RUNS)
    machine.turn(6, 7_000)
    machine.cpu(1)
    machine.turn(5, 500, RUNS)
    assert machine.processes(0) == {5: (4_000, 2, 1), 6: (7_000, 1, 0)}
    assert machine.processes(1) == {5: (500, 1, 1)}


def test_a_timed_turn_counts_for_all_that_were_passed_over(machine):
    machine.set("sample_mask", 3)
    turns = 4000
    for _ in range(turns):
        machine.turn(5, 1_000)
    length_ns, count, _ = machine.processes()[5]
    assert length_ns == 1_000 * count
    assert count % 4 == 0
    assert turns * 0.85 < count < turns * 1.15  # one in four of 4,000, a binomial of deviation 27, times 4


def same_set(machine, count):
    """So many pids of one set: those that push another out."""
    sets = {}
    for pid in range(1, 60 * count):
        sets.setdefault((pid * 0x9E3779B1 & 0xFFFFFFFF) >> (32 - layout.PROCESS_SETS_LOG2), []).append(pid)
    return next(pids for pids in sets.values() if len(pids) >= count)[:count]


MS = 1_000_000


def test_of_three_in_a_set_those_that_use_the_most_are_counted(machine):
    """By turns, which is where the slot that was unused for longest is always the one that is needed next."""
    render, player, helper = same_set(machine, 3)
    for _ in range(100):
        machine.turn(render, 9 * MS, RUNS)
        machine.turn(player, 1 * MS)
        machine.turn(helper, 30_000)
    assert machine.processes() == {render: (900 * MS, 100, 100), player: (100 * MS, 100, 0)}


def test_one_that_becomes_busy_wins_a_slot_from_those_that_were(machine):
    first, second, third = same_set(machine, 3)
    for pid in (first, second) * 100:  # all the credit that there is
        machine.turn(pid, 10 * MS)
    for _ in range(50):
        machine.turn(first, 30_000)
        machine.turn(second, 30_000)
        machine.turn(third, 5 * MS)
    length_ns, turns, _ = machine.processes()[third]
    assert turns >= 30  # 100 ms of credit are 20 turns of 5 ms, and a little more is earned meanwhile
    assert length_ns == turns * 5 * MS


def test_who_had_no_turn_for_a_second_has_no_claim(machine):
    first, second, third = same_set(machine, 3)
    for pid in (first, second) * 100:
        machine.turn(pid, 10 * MS)
    machine.turn(third, 1_000, at=machine.now() + layout.PROCESS_IDLE_NS)
    assert machine.processes()[third] == (1_000, 1, 0)


def test_the_idle_task_is_no_process(machine):
    machine.leave(5, ASLEEP, 64, 0)  # BCC learns which task is the idle one when it leaves
    machine.at(machine.now() + 1_000 * MS)
    machine.process(0)
    machine.leave(0, RUNS, 6, 1)
    assert machine.processes() == {}
    assert machine["burst_ns"] == 0


def test_every_process_finds_a_slot(machine):
    for pid in range(1, 500):
        machine.turn(pid, 1_000, at=machine.now() + layout.PROCESS_IDLE_NS)
        assert machine.processes()[pid] == (1_000, 1, 0)
    assert len(machine.processes()) > layout.PROCESSES * 0.9  # they spread over all sets
