# SPDX-License-Identifier: GPL-2.0-only
"""A guest of four CPUs under the parallel clock: is it the machine that its description says, under every scheduler?

Two cores of two threads, one of half speed (calibration/lab/halves.yaml), in one guest for all of it.
"""

import pytest

from asa import paths
from asa.act.portfolio import Portfolio
from calibration.lab.guests import HALVES, Guests, expected, sets, speed_errors
from calibration.scale.benchmark import usable
from calibration.scale.samples import Mode
from scenarios.lab import guest
from scenarios.lab.emulator import QUANTUM_NS

pytestmark = pytest.mark.vm

SPEED_PCT = 2.0
REPEAT_PCT = 6.0  # of a hundred and thirty jobs in half a second; two guests are compared by `make bench-lab`
PAUSE_NS = 560  # 140 instructions of 4 ns: scenarios/lab/qemu/icount-parallel.c
VERIFIED_LONG = "scx_lavd"  # 89 s of a guest: tests/scenarios/lab/test_machines_vm.py has it under this clock


@pytest.fixture(scope="module")
def names():
    """Of the schedulers that are installed."""
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    return [str(name) for name in usable(portfolio, ()) if name != VERIFIED_LONG]


@pytest.fixture(scope="module")
def found(names, tmp_path_factory):
    lab = guest.ready(paths.default().cache, print, measuring=True, tick_hz=HALVES.tick_hz)
    guests = Guests(lab=lab, out=tmp_path_factory.mktemp("parallel"), tell=print)
    together = ";".join(" ".join(map(str, cpus)) for cpus in sets(HALVES))
    words = ("--hogs", together, "--seconds", "0.5", "--repeat", "2", "--modes", str(Mode.THROUGHPUT))
    return guests.play(HALVES, (*words, "--scheduler", ",".join(names)))


@pytest.fixture(scope="module")
def checks(found):
    return found.checks


def test_cpus_run_at_the_same_time_each_at_its_speed_and_threads_share_a_core(checks):
    assert found_sets(checks) == set(sets(HALVES))
    errors = speed_errors(HALVES, checks.hogs)
    assert {place: round(error, 1) for place, error in errors.items() if abs(error) > SPEED_PCT} == {}
    whole = checks.hogs["0"]["0"]
    scaling = sum(checks.hogs["0 1 2 3"].values()) / whole
    assert scaling == pytest.approx(sum(expected(HALVES, range(4)).values()), rel=SPEED_PCT / 100.0)


def found_sets(checks):
    return {tuple(map(int, words.split())) for words in checks.hogs}


def test_what_is_played_again_takes_as_long(found):
    first, second = (reading[Mode.THROUGHPUT] for reading in found.readings)
    rates = [reading["jobs"] / reading["elapsed_ns"] for reading in (first, second)]
    assert rates[0] == pytest.approx(rates[1], rel=REPEAT_PCT / 100.0)


def test_time_never_goes_back_on_a_cpu_and_by_a_quantum_at_most_from_one_to_another(checks):
    assert checks.clocksource == "tsc"
    clocks = checks.clocks
    assert clocks.looks > 10_000
    assert clocks.hops > 100
    assert (clocks.back_ns, clocks.tsc_back) == (0, 0)
    assert clocks.across_ns <= QUANTUM_NS
    assert clocks.hop_ns <= QUANTUM_NS


def test_timers_and_interrupts_come_within_some_quanta(checks):
    assert checks.timer.p99_ns <= 3 * QUANTUM_NS, checks.timer
    assert checks.timer_beside.p50_ns <= 3 * QUANTUM_NS, checks.timer_beside
    assert checks.ipi.p99_ns <= 3 * QUANTUM_NS, checks.ipi  # there and back
    assert checks.wake.p99_ns <= 6 * QUANTUM_NS, checks.wake  # two turns, and two schedulers


def test_a_loop_that_waits_takes_the_time_of_its_instruction(checks):
    assert 100 * PAUSE_NS <= checks.pause.p50_ns <= 110 * PAUSE_NS, checks.pause


def test_a_program_that_asks_for_it_runs_at_another_speed_and_its_child_does_not(checks):
    hurry = checks.hurry
    assert hurry.given_pct == 1000
    assert hurry.after / hurry.before == pytest.approx(10.0, rel=0.05)
    assert hurry.child / hurry.before == pytest.approx(1.0, rel=0.05)


def test_a_cpu_goes_offline_and_comes_back(checks):
    hotplug = checks.hotplug
    assert (hotplug.offline_errno, hotplug.online_errno) == (0, 0)
    assert (hotplug.before, hotplug.meanwhile, hotplug.after) == (4, 3, 4)


def test_every_scheduler_loads_keeps_all_cpus_busy_and_leaves(found, names):
    assert found.troubles == {}
    assert len(names) > 1, "no scheduler is installed; run `asa lab setup`"
    assert list(found.loads) == names
    for name, load in found.loads.items():
        assert sorted(load.hogs) == ["0", "1", "2", "3"], name
        assert min(load.hogs.values()) > 0, (name, load)
