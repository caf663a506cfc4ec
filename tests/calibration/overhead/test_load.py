# SPDX-License-Identifier: GPL-2.0-only
"""The loads make the switches they promise, by the kernel's own counts, and leave nothing behind."""

import os
import time
from pathlib import Path

import pytest

from asa.core.errors import AsaError
from calibration.overhead.load import build, last_cpu, ping_pong, switches_per_s

RATE = 20_000
IDLE_SWITCHES_PER_S = 1_000  # of the idle task, one in each period of a millisecond: it has no count of its own
SPAN_S, SPANS = 1.0, 45

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true",
    reason="SCHED_FIFO needs root: run the tests by sudo, or with CI=true",
)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("load"))


def switches_of_the_machine():
    return next(
        int(line.split()[1]) for line in Path("/proc/stat").read_text().splitlines() if line.startswith("ctxt ")
    )


def processes_of(program):
    """Pids of all its processes; zombies have no `exe` any more."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and (entry / "exe").readlink() == program:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def switches_of(pids):
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if "ctxt_switches:" in line:
                total += int(line.split()[1])
    return total


def gone(program, limit_s=10.0):
    deadline = time.monotonic() + limit_s
    while processes_of(program) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not processes_of(program)


def paced(pids):
    """Switches a second of the two tasks, and of the whole machine, over one span."""
    start_s, own, machine = time.monotonic(), switches_of(pids), switches_of_the_machine()
    time.sleep(SPAN_S)  # what is measured
    own, machine = switches_of(pids) - own, switches_of_the_machine() - machine
    elapsed_s = time.monotonic() - start_s
    return own / elapsed_s + IDLE_SWITCHES_PER_S, machine / elapsed_s


@pytest.mark.alone
@pytest.mark.parametrize("rate", [4_000, 11_500, RATE])
def test_the_paced_load_makes_its_rate(program, rate):
    with switches_per_s(program, last_cpu(), rate):
        pids = processes_of(program)
        assert len(pids) == 2
        # An ordinary task: where others want its CPU too, it comes late in some spans and is preempted in some, so
        # one undisturbed span has to be among several.
        for _ in range(SPANS):
            own, machine = paced(pids)
            if own == pytest.approx(
                rate, rel=0.1, abs=600
            ):  # half of what leaving out the idle task would make it wrong
                break
        else:
            pytest.fail(f"{own:.0f} switches/s in the last of {SPANS} spans, wanted {rate}")
    assert machine >= 0.9 * rate  # /proc/stat counts all tasks, so it bounds from below only
    assert gone(program)


@pytest.mark.root
@needs_root
@pytest.mark.alone
def test_a_hand_over_is_one_switch_and_takes_the_time_it_is_said_to(program):
    batches, per_batch, warm_up = 100, 1_000, 4_000
    with ping_pong(program, last_cpu()) as pair:
        pair.time_ns(1)  # both are up and have their priority
        pids = processes_of(program)
        policies = {os.sched_getscheduler(pid) for pid in pids}
        before, start_ns = switches_of(pids), time.monotonic_ns()
        took_ns = pair.time_ns(batches)
        elapsed_ns, made = time.monotonic_ns() - start_ns, switches_of(pids) - before
    assert policies == {os.SCHED_FIFO}
    assert made == pytest.approx(batches * per_batch + warm_up, rel=0.02)
    # The median batch is near the mean of all, to which real-time throttling, interrupts and a busy host add in some;
    # but not by as much as a time or a count that is wrong by a factor of two would make it.
    assert 0.6 * elapsed_ns / made < took_ns <= 1.5 * elapsed_ns / made
    assert gone(program)


def test_a_cpu_that_is_not_there(program):
    said = r"pingpong: ended with code 1: 'pingpong: CPU: Invalid argument'"
    with pytest.raises(AsaError, match=said), switches_per_s(program, 1_000, RATE):
        pass
    assert gone(program)
