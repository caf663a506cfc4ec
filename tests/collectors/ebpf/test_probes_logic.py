# SPDX-License-Identifier: GPL-2.0-only
"""probes.h itself, compiled for this machine, under a clock and events of the test's own: what pairs with what."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.ebpf import layout
from collectors.ebpf.build import SOURCES

HERE = Path(__file__).parent
PROBES = next(path for path in SOURCES if path.name == "probes.h")
RUNS, ASLEEP, BLOCKED, STOPPED, DEAD, IDLE_THREAD = 0, 1, 2, 4, 0x80, 0x402
ROW_WORDS = layout.ROW_BYTES // 8
SPINS, READS, MUTEX = 1, 2, 32


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes")
    (folder / "stats.h").write_text(layout.render())
    options = ["-O2", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{folder}", f"-I{PROBES.parent}"]
    subprocess.run(["cc", *options, str(HERE / "probes_host.c"), "-o", str(folder / "probes.so")], check=True)
    return folder / "probes.so"


class Machine:
    """Two CPUs whose time is `at` (ns); each call of an attribute is an event."""

    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._rows = (ctypes.c_uint64 * (2 * ROW_WORDS)).in_dll(self._library, "rows")

    def reset(self):
        ctypes.memset(self._rows, 0, ctypes.sizeof(self._rows))
        self.at(1_000_000)
        self.cpu(0)
        self.process(0)
        self.futex(False)

    def at(self, ns):
        ctypes.c_uint64.in_dll(self._library, "test_ns").value = ns

    def cpu(self, number):
        ctypes.c_uint32.in_dll(self._library, "test_cpu").value = number

    def process(self, pid):
        ctypes.c_uint32.in_dll(self._library, "test_process").value = pid

    def processes(self, cpu=0):
        """pid -> (burst_ns, bursts, involuntary) of a CPU's slots."""
        first, words = cpu * ROW_WORDS + layout.ROW_WORDS, len(layout.PROCESS_WORDS)
        slots = [self._rows[at : at + words] for at in range(first, first + layout.SLOT_WORDS, words)]
        named = [slot for slot in slots if slot[0]]
        assert len({slot[0] for slot in named}) == len(named), "a process has two slots"
        return {slot[0]: tuple(slot[layout.PROCESS_WORDS.index("burst_ns") :]) for slot in named}

    def turn(self, pid, length_ns, state=ASLEEP, at=None):
        """A process comes to the CPU and leaves it."""
        start_ns = self.now() if at is None else at
        self.at(start_ns)
        self.process(0)
        self.leave(0, RUNS, pid, 1)
        self.at(start_ns + length_ns)
        self.process(pid)
        self.leave(pid, state, 0, 0)

    def now(self):
        return ctypes.c_uint64.in_dll(self._library, "test_ns").value

    def futex(self, inside):
        ctypes.c_bool.in_dll(self._library, "futex").value = inside

    def network_irq(self, irq):
        ctypes.c_uint64.in_dll(self._library, "network_irq").value = irq

    def clock_calls(self):
        return ctypes.c_uint64.in_dll(self._library, "clock_calls").value

    def __getattr__(self, event):
        function = getattr(self._library, event)
        return lambda *numbers: function(*(ctypes.c_uint64(number) for number in numbers))

    def set(self, word, value):
        for cpu in (0, 1):
            self._rows[cpu * ROW_WORDS + layout.OFFSETS[word]] = value

    def __getitem__(self, name):
        words = {field.name: field.words for field in layout.FIELDS}[name]
        sums = [
            sum(self._rows[cpu * ROW_WORDS + layout.OFFSETS[name] + word] for cpu in (0, 1)) for word in range(words)
        ]
        return sums if words > 1 else sums[0]

    def filled(self, name):
        return {slot: count for slot, count in enumerate(self[name]) if count}


@pytest.fixture(scope="module")
def loaded(library):
    return Machine(library)


@pytest.fixture
def machine(loaded):
    loaded.reset()
    for pid in range(64):  # entries that earlier tests left
        loaded.wakeup(pid, 1)
        loaded.leave(0, 0, pid, 0)
    loaded.reset()
    return loaded


def slot_of(ns, starts):
    return max(slot for slot, start in enumerate(starts) if start <= ns)


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


def test_a_start_that_is_not_drawn_forgets_an_older_one(machine):
    machine.transmit_queued(77, 6)
    machine.set("packet_mask", (1 << 62) - 1)  # as good as never
    machine.set("random", 1)
    machine.at(2_000_000)
    machine.transmit_queued(77, 17)  # the packet was dropped, its address is used again
    machine.at(2_001_000)
    machine.transmit_started(77)
    assert machine["transmits_measured"] == 0
    assert (machine["packets_sent"], machine["tcp_packets"], machine["udp_packets"]) == (2, 1, 1)


def test_packets_in_and_out(machine):
    machine.transmit_queued(77, 6)
    machine.received(88, 17)
    machine.at(1_004_000)
    machine.transmit_started(77)
    machine.transmit_started(77)  # a second start of the same is not one
    machine.at(1_009_000)
    machine.copied(88)
    machine.copied(88)
    assert (machine["transmits_measured"], machine["transmit_latency_ns"]) == (1, 4_000)
    assert (machine["receives_measured"], machine["receive_latency_ns"]) == (1, 9_000)


def test_delivery_counts_from_the_oldest_unread_data_to_the_read_that_takes_it(machine):
    machine.data_ready(99)
    machine.at(1_002_000)
    machine.data_ready(99)
    machine.receive_returned(99, 2**32 - 11, 0)  # EAGAIN
    machine.receive_returned(99, 10, 2)  # MSG_PEEK
    machine.at(1_005_000)
    machine.receive_returned(99, 10, 0)
    machine.receive_returned(99, 10, 0)
    assert (machine["deliveries_measured"], machine["delivery_latency_ns"]) == (1, 5_000)
    machine.data_ready(99)
    machine.tcp_state(1, 7, 99)  # closed unread: the next socket there starts afresh
    machine.at(9_000_000)
    machine.receive_returned(99, 10, 0)
    assert machine["deliveries_measured"] == 1


def test_a_start_that_a_closed_socket_left_is_never_charged_to_the_next_one_there(machine):
    most = layout.DELIVERY_MOST_NS
    machine.data_ready(99)  # a UDP socket, closed unread: nobody tells
    machine.at(1_000_000 + most + 1)
    machine.data_ready(99)
    machine.at(1_000_000 + most + 4_001)
    machine.receive_returned(99, 10, 0)
    assert (machine["deliveries_measured"], machine["delivery_latency_ns"]) == (1, 4_000)
    machine.data_ready(99)
    machine.at(1_000_000 + 2 * most + 4_002)  # the reader of the next one finds the old start
    machine.receive_returned(99, 10, 0)
    machine.receive_returned(99, 10, 0)
    assert machine["deliveries_measured"] == 1
    machine.data_ready(99)
    machine.at(1_000_000 + 3 * most + 4_002)
    machine.data_ready(99)  # still the one before
    machine.receive_returned(99, 10, 0)
    assert (machine["deliveries_measured"], machine["delivery_latency_ns"]) == (2, 4_000 + most)
    machine.data_ready(99)
    machine.set("packet_mask", (1 << 62) - 1)
    machine.set("random", 1)
    machine.at(1_000_000 + 4 * most + 4_003)
    machine.data_ready(99)  # not drawn: the old one goes all the same
    machine.at(1_000_000 + 3 * most + 4_002)
    machine.receive_returned(99, 10, 0)
    assert machine["deliveries_measured"] == 2


def test_connections(machine):
    for old, new in [(7, 2), (2, 1), (3, 1), (1, 4), (4, 5), (5, 7), (9, 7), (2, 7), (3, 7), (10, 7), (12, 7), (7, 7)]:
        machine.tcp_state(old, new, 1)
    assert (machine["connections_opened"], machine["connections_closed"]) == (2, 2)


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


def test_interrupts_and_softirqs_by_kind(machine):
    machine.network_irq(38)
    machine.irq_exit(38)  # its entry was before the programs came
    machine.softirq_exit(3)
    for irq, end in ((38, 1_000_400), (9, 1_000_900)):
        machine.irq_entry()
        machine.at(end)
        machine.irq_exit(irq)
    assert (machine["interrupts"], machine["interrupt_ns"]) == (2, 900)
    assert (machine["network_interrupts"], machine["network_interrupt_ns"]) == (1, 400)
    for kind in (3, 9, 10, 2**31):
        machine.at(2_000_000)
        machine.softirq_entry()
        machine.at(2_000_250)
        machine.softirq_exit(kind)
    assert machine.filled("softirqs") == {3: 1, 9: 1}
    assert machine.filled("softirq_ns") == {3: 250, 9: 250}


def test_block_latency_only_where_the_kernel_keeps_account(machine):
    machine.at(5_000_000)
    machine.block_complete(4_000_000)
    machine.block_complete(0)
    assert (machine["block_completed"], machine["block_latency_ns"]) == (2, 1_000_000)
    assert sum(machine["block_latency_hist"]) == 1


def test_input_is_counted_by_class(machine):
    for kind, value in [(1, 1), (1, 0), (1, 2), (2, 2**32 - 3), (3, 40), (0, 0), (4, 4), (17, 1)]:
        machine.input(kind, value)
    assert (machine["input_keys"], machine["input_motions"]) == (1, 2)
