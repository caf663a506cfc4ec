# SPDX-License-Identifier: GPL-2.0-only
"""Energy of a window by the time that CPUs were busy."""

import pytest

from scenarios.energy import Core, Idling, Power, between

STAT = """\
cpu  100 0 100 {sum} 0 0 0 0 0 0
cpu0 50 0 50 {idle0} 10 0 0 5 0 0
cpu2 50 0 50 {idle2} 0 0 0 0 0 0
intr 1 2 3
ctxt 1
btime 1
processes 1
procs_running 1
procs_blocked 0
softirq 10 1 1 1 1 1 1 1 1 1 1
"""
POWER = Power(idle_w=4.0, cores=(Core(cpus=(0, 1), busy_w=10.0), Core(cpus=(2,), busy_w=2.0)))


def test_what_a_cpu_idles_waits_and_is_stolen_is_not_busy(tmp_path):
    (tmp_path / "stat").write_text(STAT.format(sum=1000, idle0=300, idle2=700))
    assert Idling.take(tmp_path).ticks == {0: 315, 2: 700}


def idling(at_s, **ticks):
    return Idling(at_ns=round(at_s * 1e9), ticks={int(name[1:]): value for name, value in ticks.items()})


def test_a_core_draws_while_one_of_its_threads_is_busy():
    found = between(idling(1.0, c0=0, c1=0, c2=0), idling(3.0, c0=100, c1=100, c2=0), POWER, user_hz=100)
    assert found.busy_s == [1.0, 1.0, 2.0]
    assert found.watts == pytest.approx(4.0 + 10.0 * 0.75 + 2.0)
    assert found.joules == pytest.approx(2.0 * found.watts)
    rest = between(idling(1.0, c0=0, c1=0, c2=0), idling(3.0, c0=201, c1=200, c2=200), POWER, user_hz=100)
    assert (rest.busy_s, rest.watts, rest.joules) == ([0.0, 0.0, 0.0], 4.0, 8.0)


def test_one_that_is_offline_draws_nothing():
    found = between(idling(0.0, c0=0, c2=0), idling(1.0, c0=0), POWER, user_hz=100)
    assert (found.busy_s, found.watts) == ([1.0, 0.0, 0.0], 14.0)


def test_without_a_description_the_busy_time_alone_is_known():
    found = between(idling(0.0, c0=0), idling(1.0, c0=50), None, user_hz=100)
    assert (found.busy_s, found.joules, found.watts) == ([0.5], None, None)
