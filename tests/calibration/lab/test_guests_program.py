# SPDX-License-Identifier: GPL-2.0-only
"""machine.c on this host: each mode gives its figures, and what is not allowed is one line."""

import json
import os
import subprocess

import pytest

from asa import wire
from calibration.lab.guests import _SOURCES
from calibration.lab.samples import Clocks, Hotplug, Late
from calibration.programs import STATIC, compiled

CPUS = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    program = compiled(_SOURCES[0], tmp_path_factory.mktemp("lab"), STATIC)

    def run(*words):
        return subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=60)

    return run


def test_loops_run_on_each_cpu_that_is_named(machine):
    loops = json.loads(machine("hogs", "0.2", *CPUS).stdout)
    assert list(loops) == CPUS
    assert all(rounds > 0 for rounds in loops.values())


def test_time_goes_forward_on_a_real_machine(machine):
    clocks = wire.from_json(machine("clocks", "0.4").stdout, Clocks)
    assert clocks.looks > 0
    assert clocks.hops > 0
    assert (clocks.back_ns, clocks.tsc_back, clocks.across_ns, clocks.hop_ns) == (0, 0, 0, 0)


@pytest.mark.parametrize("mode", ["timer", "ipi", "wake"])
@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs; run on a machine that has them")
def test_samples_are_in_order(machine, mode):
    late = wire.from_json(machine(mode, "0.3", *CPUS).stdout, Late)
    assert late.samples > 10
    assert 0 < late.p50_ns <= late.p99_ns <= late.worst_ns


def test_a_cpu_that_is_not_there_cannot_be_taken_offline(machine):
    found = wire.from_json(machine("hotplug", "4095").stdout, Hotplug)
    assert found.offline_errno == found.online_errno == 2  # ENOENT
    assert found.before == found.meanwhile == found.after


@pytest.mark.parametrize(
    "words",
    [(), ("hogs", "1"), ("hogs", "0", "0"), ("hogs", "61", "0"), ("wake", "1", "0"), ("clocks", "1", "0"), ("x", "1")],
)
def test_how_it_is_called_is_said_where_it_is_called_otherwise(machine, words):
    done = machine(*words)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: machine hogs|clocks|")
    assert done.stdout == ""


def test_a_cpu_that_is_not_there_runs_no_loop(machine):
    done = machine("hogs", "0.1", "1023")
    assert (done.returncode, done.stderr) == (1, "machine: sched_setaffinity: Invalid argument\n")
