# SPDX-License-Identifier: GPL-2.0-only
"""The gated switcher against faults that a real kernel does not show on demand, over a sysfs tree in a folder.

See `switcher_bench` for what is real in it. Real schedulers on a real kernel are in tests/guest/test_faults.py.
"""

import os
import select
import signal

import pytest
from switcher_bench import GOOD, OTHER, bench

from asa.act import switching
from asa.act.gated import leaving, switcher
from asa.act.process import SchedulerProcess
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, ExitKind, SchedulerExit, SwitchOutcome, Way
from asa.core.errors import AsaError, SchedulerError

__all__ = ["bench"]  # a fixture


def test_one_takes_the_others_place(bench):
    event = bench.switch(GOOD)
    steps = ["launched", "parked", "expedited", "released", "attached", "settled"]
    assert [step.name for step in event.steps] == steps == bench.steps
    bench.steps.clear()
    event = bench.switch(OTHER)
    assert (event.old, event.way) == (GOOD, Way.GATED)
    assert [step.name for step in event.steps] == [*steps[:3], "detached", *steps[3:]] == bench.steps
    assert event.gap_ns < event.elapsed_ns
    assert event.load.wall_ns <= event.elapsed_ns
    assert bench.attached() == "other_1.1.4"
    bench.until(lambda _: [one.scheduler for one in bench.undo.leftover()] == [OTHER])
    assert bench.switch(EEVDF).gap_ns is None
    assert not bench.attached()


def test_the_one_in_force_is_wanted_again(bench):
    bench.switch(GOOD)
    assert bench.switch(GOOD).detail == "it is in force already"
    assert (bench.tree / "enable_seq").read_text() == "1"


def test_one_that_is_just_going_is_no_stranger(bench):
    # `state` and `ops` are two files: read while a scheduler goes, the first may say enabled and the second nothing
    bench.switch(GOOD)
    bench.ops.rename(bench.root / "hidden")
    assert bench.switcher.poll() is None
    (bench.root / "hidden").rename(bench.ops)
    assert bench.switcher.poll() is None
    bench.hide_at = "parked"
    bench.switch(OTHER)


def test_only_one_switch_at_a_time(bench):
    bench.stand_by(GOOD)
    bench.switcher.begin(GOOD)
    with pytest.raises(SchedulerError, match="another switch is under way"):
        bench.switcher.begin(OTHER)
    assert bench.event().new == GOOD
    bench.switch(EEVDF)
    bench.stand_by(GOOD)
    (bench.tree / "root/ops").write_text("stranger_1\n")
    (bench.tree / "state").write_text("enabled\n")
    bench.switcher.begin(GOOD)  # has come to its end at once
    with pytest.raises(SchedulerError, match="another switch is under way"):
        bench.switcher.begin(OTHER)
    event = bench.event()
    assert event.outcome is SwitchOutcome.FOREIGN, event
    (bench.tree / "state").write_text("disabled\n")


def test_what_cannot_be_noted_is_not_started(bench, monkeypatch):
    def full(*_):
        raise AsaError("no space")

    bench.switch(GOOD)
    monkeypatch.setattr(bench.undo, "note", full)
    with pytest.raises(AsaError, match="no space"):
        bench.switcher.begin(OTHER)
    assert not bench.switcher.busy()
    assert bench.switcher.standbys() == ()
    assert not bench.until(lambda _: len(bench.switcher.descriptors()) <= 3)  # it has gone
    assert bench.attached() == "good_1.1.4"


def test_grace_periods_that_cannot_be_shortened_are_no_obstacle(bench, monkeypatch):
    def full():
        raise AsaError("no space")

    monkeypatch.setattr(bench.undo, "expedite", full)
    bench.switch(GOOD)


def test_one_that_attaches_after_its_time_is_no_stranger(bench):
    bench.switcher._limits = SwitchSettings(attach_limit_s=0.3)
    bench.behave("late", GOOD)
    bench.stand_by(GOOD)
    bench.switcher.begin(GOOD)
    assert bench.event().outcome is SwitchOutcome.FAILED
    assert not bench.until(lambda _: bench.attached())  # it does so while it is asked to end
    (bench.root / "seen").touch()
    assert not bench.until(lambda _: not bench.undo.leftover())
    assert not bench.attached()


def test_a_kernel_that_does_not_let_go(bench, monkeypatch):
    monkeypatch.setattr(switcher, "DETACH_LIMIT_S", 0.5)
    monkeypatch.setattr(leaving, "_EXIT_LIMIT_S", 2.0)
    bench.behave("clings", GOOD)
    bench.switch(GOOD)
    bench.switcher._limits = bench.switcher._leaving._limits = SwitchSettings(stop_limit_s=0.5)
    bench.switcher.begin(OTHER)
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.FAILED, OTHER)
    assert event.detail == "the kernel does not let go of the last scheduler"
    kill = SchedulerProcess.kill

    def as_the_kernel_does(process):
        (bench.tree / "state").write_text("disabled\n")
        kill(process)

    monkeypatch.setattr(SchedulerProcess, "kill", as_the_kernel_does)
    assert not bench.until(lambda _: not bench.undo.leftover())
    bench.switch(OTHER)


def test_one_that_ends_while_the_next_loads_is_told_at_once(bench):
    bench.switch(GOOD)
    bench.behave("loads long", OTHER)
    bench.switcher.begin(OTHER)
    (bench.tree / "state").write_text("disabled\n")  # as the kernel would
    os.kill(bench.pid_of(GOOD), signal.SIGKILL)
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, GOOD)
    assert bench.switcher.busy()
    assert select.select(bench.switcher.descriptors(), [], [], 0.2)[0] == []  # nothing keeps the loop awake
    os.kill(bench.pid_of(OTHER), signal.SIGKILL)
    event = bench.event()
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.REFUSED, EEVDF, OTHER)


def test_a_stranger_that_comes_while_the_next_loads_is_told_at_once(bench):
    bench.behave("loads long", GOOD)
    bench.switcher.begin(GOOD)
    (bench.tree / "root/ops").write_text("stranger_1\n")
    (bench.tree / "state").write_text("enabled\n")
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.FOREIGN, "stranger_1")
    assert not bench.switcher.busy()
    assert not bench.until(lambda _: not bench.undo.leftover())
    bench.switcher.begin(EEVDF)  # not ours to take out
    assert bench.event().outcome is SwitchOutcome.FOREIGN
    (bench.tree / "state").write_text("disabled\n")


def test_nothing_that_is_dead_keeps_the_loop_awake(bench):
    bench.switch(GOOD)
    bench.behave("loads long", OTHER)
    bench.switcher.begin(OTHER)
    for name in (GOOD, OTHER):
        (bench.tree / "state").write_text("disabled\n")
        pid = bench.pid_of(name)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
        bench.switcher.poll()
        bench.switcher.poll()
        assert select.select(bench.switcher.descriptors(), [], [], 0)[0] == []


class Log:
    """What the kernel's log says of each end, once it has come to that."""

    exits: tuple = ()

    def why(self, _ops):
        return self.exits[-1] if self.exits else None

    def close(self):
        pass


@pytest.fixture
def log(monkeypatch):
    log = Log()
    monkeypatch.setattr(switching, "KernelLog", lambda: log)
    return log


@pytest.mark.parametrize(("kind", "comes"), [(ExitKind.SYSRQ, False), (ExitKind.ERROR, True)])
def test_the_next_one_is_ready_when_the_one_in_force_is_taken_out(log, bench, kind, comes):
    """It waits until the kernel has said why. Schedulers on a kernel end within a second, so this is hard to meet."""
    bench.switch(GOOD)
    bench.stand_by(OTHER)
    bench.ops.unlink()
    (bench.tree / "state").write_text("disabled\n")
    bench.switcher.begin(OTHER)
    assert bench.switcher.poll() is None  # the log says nothing yet
    assert "released" not in bench.steps[bench.steps.index("settled") :]
    log.exits = (SchedulerExit(kind=kind, reason="as the kernel says", source="the kernel's log"),)
    events = [bench.event()] if comes else [bench.event(), bench.event()]
    if comes:
        assert [(event.outcome, event.new) for event in events] == [(SwitchOutcome.CONFIRMED, OTHER)]
    else:
        assert [(event.outcome, event.new) for event in events] == [
            (SwitchOutcome.REFUSED, OTHER),
            (SwitchOutcome.LOST, GOOD),
        ]
        assert {event.exit.kind for event in events} == {ExitKind.SYSRQ}
        assert "taken out by SysRq-S" in events[-1].detail
    assert bool(bench.attached()) == comes
