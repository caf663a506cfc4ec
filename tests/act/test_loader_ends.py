# SPDX-License-Identifier: GPL-2.0-only
"""Switching through the real scx_loader: schedulers that are lost or do not end, a loader that is killed, and what
somebody else orders or attaches. See `loader_bench`."""

import os
import signal

import pytest
from loader_bench import BPFLAND, FLASH, LOADER, bench, binary, make, portfolio
from waiting import until

from asa.act import loader
from asa.act.kernel import sched_ext_state
from asa.core.decision import EEVDF, SwitchOutcome
from asa.core.errors import SchedulerError

__all__ = ["bench", "binary", "make", "portfolio"]  # fixtures


def test_one_killed_behind_its_back_is_lost_and_not_started_again(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    (pid,) = bench.pids()
    os.kill(pid, signal.SIGKILL)  # the loader starts it again: it ended with an error
    until(lambda: sched_ext_state(bench.root).enable_seq == 2, "the loader has started it again")
    event = bench.event()
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.LOST, BPFLAND, BPFLAND)
    assert event.exit is not None
    assert (sched_ext_state(bench.root).state, bench.pids()) == ("disabled", [])
    assert not bench.undo.leftover()
    assert bench.switch(FLASH).outcome is SwitchOutcome.CONFIRMED


def test_a_loss_is_told_when_the_loader_has_heard_that_it_shall_not_start_it_again(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    bench.thinking = []
    (bench.root / "bin" / BPFLAND).unlink()
    os.kill(bench.pids()[0], signal.SIGKILL)
    (bench.tree / "state").write_text("disabled\n")
    until(lambda: bench.turn() or bench.thinking, "StopScheduler")
    assert [bench.turn() for _ in range(20)] == [None] * 20
    assert bench.switcher.busy()
    bench.thinking[0].answer((True, False, {}))
    assert bench.event().outcome is SwitchOutcome.LOST


def test_one_that_ends_in_order_is_lost_though_the_loader_still_names_it(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    os.kill(bench.pids()[0], signal.SIGINT)
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, BPFLAND)
    assert "scx_loader did not say so" in event.detail
    assert bench.switcher.current() == EEVDF
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED


def test_what_somebody_else_orders_of_the_loader_stays(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    bench.order("SwitchSchedulerWithArgs", "sas", (FLASH, ["--theirs"]))
    event = bench.event()
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.FOREIGN, BPFLAND, FLASH)
    until(lambda: bench.switcher.current() == FLASH, "theirs is in force")
    with pytest.raises(SchedulerError, match="of somebody else is in force"):
        bench.switcher.begin(BPFLAND)
    assert bench.switcher.rest()
    assert sched_ext_state(bench.root).ops.startswith("flash")
    assert not bench.undo.leftover()


def test_one_that_somebody_else_stops_is_not_a_fault_of_it(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    bench.order("StopScheduler")
    event = bench.event()
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.FOREIGN, BPFLAND, EEVDF)


def test_a_killed_loader_leaves_nothing_behind(bench, monkeypatch):
    monkeypatch.setattr(loader, "DETACH_LIMIT_S", 2.0)  # systemd would have cleared up
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    bench.loader.kill()
    bench.loader.wait()
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, BPFLAND)
    assert "scx_loader has left the bus" in event.detail
    assert (sched_ext_state(bench.root).state, bench.pids()) == ("disabled", [])
    event = bench.switch(FLASH)
    assert event.outcome is SwitchOutcome.REFUSED
    assert "ServiceUnknown" in event.detail
    bench.start_loader()
    assert bench.switch(FLASH).outcome is SwitchOutcome.CONFIRMED


def test_a_loader_killed_before_it_has_brought_it_up(bench, monkeypatch):
    monkeypatch.setattr(loader, "DETACH_LIMIT_S", 2.0)
    bench.behave("sleeps")
    bench.switcher.begin(BPFLAND)
    until(lambda: bench.turn() or bench.undo.leftover(), "it is noted before it is in force")
    bench.loader.kill()
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.FAILED, BPFLAND)
    assert bench.pids() == []


def test_one_that_ignores_its_end_is_killed(make):
    bench = make(stop_limit_s=0.2)
    bench.behave("deaf")
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    bench.switcher.begin(EEVDF)
    until(lambda: bench.turn() or not bench.pids(), "it is killed")
    assert bench.turn() is None  # not before the kernel says so; this tree has no kernel behind it
    (bench.tree / "state").write_text("disabled\n")
    assert bench.event().outcome is SwitchOutcome.CONFIRMED


def test_one_that_neither_comes_nor_goes_is_killed(make):
    bench = make(attach_limit_s=1.0, stop_limit_s=0.2)
    bench.behave("deaf sleeps")
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.FAILED
    assert bench.pids() == []


def test_one_that_loads_itself_anew_is_still_the_same(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    (bench.tree / "state").write_text("disabled\n")  # a CPU went: its process lives, and attaches again
    assert bench.turn() is None
    assert bench.switcher.look_in_s() is not None
    (bench.tree / "enable_seq").write_text("2\n")
    (bench.tree / "state").write_text("enabled\n")
    for _ in range(5):  # also when the loader has had time to answer
        assert bench.turn() is None
        assert bench.is_loader_there()
        bench.authority.ask(*LOADER[:2], "org.freedesktop.DBus.Peer", "Ping", limit_s=30.0)
    assert not bench.switcher.busy()
    assert bench.switcher.current() == BPFLAND


def test_one_evicted_that_does_not_end_is_stopped(bench, monkeypatch):
    monkeypatch.setattr(loader, "DETACH_LIMIT_S", 0.2)
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    (bench.tree / "state").write_text("disabled\n")
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, BPFLAND)
    assert bench.pids() == []


def test_a_stranger_is_reported_once_and_left_alone(bench):
    bench.attach("layered_1.0")
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.FOREIGN, "layered_1.0")
    assert bench.turn() is None
    with pytest.raises(SchedulerError, match="of somebody else is in force"):
        bench.switcher.begin(BPFLAND)
    assert bench.switcher.rest()
    assert bench.switcher.current() == "layered_1.0"


def test_a_stranger_that_takes_the_place_of_ours_stays(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    (bench.root / "bin" / BPFLAND).unlink()  # the loader's further tries fail
    os.kill(bench.pids()[0], signal.SIGKILL)
    bench.attach("layered_1.0")
    assert bench.event().outcome is SwitchOutcome.LOST
    assert bench.event().outcome is SwitchOutcome.FOREIGN
    assert bench.switcher.current() == "layered_1.0"
