# SPDX-License-Identifier: GPL-2.0-only
"""Standbys of the gated switcher: those that are stopped, die, load long, or were loaded for other processors."""

import os
import signal
import time

from switcher_bench import GOOD, OTHER, bench

from asa.act.gated import leaving
from asa.act.undo import start_ticks
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SwitchOutcome, Way

__all__ = ["bench"]  # a fixture


def test_a_standby_that_was_interrupted_waits_all_the_same(bench):
    bench.stand_by(GOOD)
    gated = bench.switcher._pool.get(GOOD)
    call = gated._waiting
    os.kill(bench.pid_of(GOOD), signal.SIGSTOP)  # as the freezer does when the machine is suspended
    bench.until(lambda _: not gated.waits())
    bench.switcher.begin(GOOD)
    assert bench.switcher.poll() is None  # nothing is taken out for one that does not wait
    os.kill(bench.pid_of(GOOD), signal.SIGCONT)
    assert (bench.event().outcome, bench.attached()) == (SwitchOutcome.CONFIRMED, "good_1.1.4")
    bench.stand_by(OTHER)
    gated = bench.switcher._pool.get(OTHER)
    call = gated._waiting
    os.kill(bench.pid_of(OTHER), signal.SIGSTOP)
    bench.until(lambda _: not gated.waits())
    os.kill(bench.pid_of(OTHER), signal.SIGCONT)
    bench.until(lambda _: gated._waiting != call and gated.waits())
    assert bench.attached() == "good_1.1.4"  # it did not attach by itself
    assert bench.switch(OTHER).way is Way.STANDBY


def test_a_standby_has_more_time_to_load_and_all_of_its_own_once_it_is_wanted(bench):
    bench.switcher._pool._limits = SwitchSettings(attach_limit_s=0.2)
    bench.behave("loads long", GOOD)
    began_s = time.monotonic()
    bench.switcher.keep_ready((GOOD,))
    assert not bench.until(lambda _: time.monotonic() - began_s > 1.0)
    bench.switcher.begin(GOOD)
    event = bench.event()
    assert event.outcome is SwitchOutcome.REFUSED
    assert "not ready to attach within 0.2 s" in event.detail
    assert event.elapsed_ns >= 0.2e9
    began_s = time.monotonic()
    bench.switcher._pool._not_before_ns.clear()
    bench.switcher.keep_ready((GOOD,))
    event = bench.event()
    assert "as a standby" in event.detail
    assert "not ready to attach within 2 s" in event.detail
    assert time.monotonic() - began_s >= 2.0


def test_a_standby_that_stays_stopped_is_refused(bench, monkeypatch):
    monkeypatch.setattr(leaving, "_EXIT_LIMIT_S", 1.0)
    bench.stand_by(GOOD)
    bench.switcher._limits = bench.switcher._leaving._limits = SwitchSettings(attach_limit_s=0.3, stop_limit_s=0.5)
    pid = bench.pid_of(GOOD)
    os.kill(pid, signal.SIGSTOP)
    bench.until(lambda _: not bench.switcher._pool.get(GOOD).waits())
    bench.switcher.begin(GOOD)
    event = bench.event()
    assert (event.outcome, event.gap_ns) == (SwitchOutcome.REFUSED, None)
    assert "no longer waits at its attach" in event.detail
    assert not bench.until(lambda _: not bench.undo.leftover())


def test_a_standby_that_died_just_before_it_was_wanted_is_loaded_again(bench):
    bench.switch(OTHER)
    bench.stand_by(GOOD)
    gated = bench.switcher._pool.get(GOOD)
    os.kill(bench.pid_of(GOOD), signal.SIGKILL)
    end_s = time.monotonic() + 30.0
    while gated.waits():
        assert time.monotonic() < end_s
    event = bench.switch(GOOD)
    assert event.way is Way.GATED
    assert "detached" in [step.name for step in event.steps]


def test_a_standby_of_other_processors_is_not_attached(bench):
    bench.stand_by(GOOD)
    before = bench.pid_of(GOOD)
    (bench.tree / "hotplug_seq").write_text("1\n")
    assert bench.switch(GOOD).way is Way.GATED
    assert start_ticks(before) is None or bench.pid_of(GOOD) != before
    bench.stand_by(OTHER)
    before = bench.pid_of(OTHER)
    (bench.tree / "hotplug_seq").write_text("2\n")
    bench.switcher.keep_ready((OTHER,))  # lets it go and loads another
    bench.until(lambda _: start_ticks(before) is None)
    bench.stand_by(OTHER)
    assert bench.switch(OTHER).way is Way.STANDBY


def test_a_standby_that_dies_is_replaced_once_a_minute(bench):
    for again in (True, False):
        bench.stand_by(GOOD)
        os.kill(bench.pid_of(GOOD), signal.SIGKILL)
        assert not bench.until(lambda _: not bench.switcher.standbys())
        bench.switcher.keep_ready((GOOD,))
        assert bool(bench.switcher.standbys()) is again


def test_a_standby_that_is_dropped_while_it_loads_casts_no_doubt_on_what_a_user_sets(bench):
    setting = bench.root / "devices/system/cpu/cpu0/cpufreq/energy_performance_preference"
    setting.parent.mkdir(parents=True)
    setting.write_text("balance_performance\n")
    bench.switch(OTHER)
    bench.behave("loads long", GOOD)
    bench.switcher.keep_ready((GOOD,))
    bench.switcher.keep_ready(())
    bench.until(lambda _: len(bench.undo.leftover()) == 1)
    setting.write_text("power\n")
    bench.switch(EEVDF)
    bench.until(lambda _: not bench.undo.leftover())
    bench.switcher.rest()
    assert setting.read_text() == "power\n"
