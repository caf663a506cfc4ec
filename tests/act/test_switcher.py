# SPDX-License-Identifier: GPL-2.0-only
"""The gated switcher against faults that a real kernel does not show on demand, over a sysfs tree in a folder.

The gate is real, and the stand-in is a real process that makes the call by which a scheduler attaches; what the kernel
would do then, it writes into the tree. Real schedulers on a real kernel are in tests/guest/test_faults.py.
"""

import os
import select
import signal
import sys
import time

import pytest

from asa.act import leaving, switcher
from asa.act.portfolio import Opened
from asa.act.process import SchedulerProcess
from asa.act.switcher import GatedSwitcher
from asa.act.undo import UndoJournal, start_ticks
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, ExitKind, SchedulerExit, SchedulerName, SwitchOutcome, Way
from asa.core.errors import AsaError, SchedulerError
from collectors.sampler import SystemClock

GOOD, OTHER = SchedulerName("scx_good"), SchedulerName("scx_other")
BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
STAND_IN = """#!/usr/bin/python3 -IS
import ctypes, os, signal, struct, sys, time
root = {root!r}
name = open("/proc/self/cmdline").read().split(chr(0))[-3]
behaviour = open(root + "/behaviour-" + name).read()
def put(file, text):
    with open(root + "/new-" + name, "w") as out: out.write(text)
    os.rename(root + "/new-" + name, root + "/kernel/sched_ext/" + file)
def enter():
    put("enable_seq", str(int(open(root + "/kernel/sched_ext/enable_seq").read()) + 1))
    put("root/ops", name[4:] + "_1.1.4\\n"); put("state", "enabled\\n")
def leave(*_):
    if behaviour == "clings": return
    if behaviour == "late": enter(); time.sleep(0.5)
    os.rename(root + "/kernel/sched_ext/root/ops", root + "/old-ops"); put("state", "disabled\\n"); sys.exit(0)
libc = ctypes.CDLL(None, use_errno=True)
if behaviour == "loads long": time.sleep(60)
libc.syscall({bpf}, 28, ctypes.create_string_buffer(struct.pack("IIII", 0, 0, 44, 0), 16), 16)
if ctypes.get_errno() == 1: sys.exit("Error: not permitted")
signal.signal(signal.SIGINT, leave)
if behaviour != "late": enter()
while True: time.sleep(60)
"""


class Bench:
    """A tree, a portfolio of stand-ins, and a switcher over both."""

    def __init__(self, folder):
        self.root = folder
        self.tree = folder / "kernel/sched_ext"
        (self.tree / "root").mkdir(parents=True)
        (self.tree / "state").write_text("disabled\n")
        (self.tree / "enable_seq").write_text("0\n")
        (self.tree / "hotplug_seq").write_text("0\n")
        self.behave("well")
        self.script = folder / "stand-in"
        self.script.write_text(STAND_IN.format(root=str(folder), bpf=BPF))
        self.script.chmod(0o755)
        self.undo = UndoJournal(folder / "undo.json", sys=folder)
        self.ops = self.tree / "root/ops"
        self.steps, self.hide_at = [], ""
        self.switcher = GatedSwitcher(
            portfolio=self,
            undo=self.undo,
            clock=SystemClock(),
            limits=SwitchSettings(attach_limit_s=10.0, stop_limit_s=0.5),
            sys=folder,
            logs=folder / "logs",
            run=folder / "run",
            on_step=self.step,
        )

    def step(self, name):
        self.steps.append(name)
        if name == self.hide_at:
            self.ops.rename(self.root / "hidden")
            self.ops.touch()

    def behave(self, how, *names):
        for name in names or (GOOD, OTHER):
            (self.root / f"behaviour-{name}").write_text(how)

    def open(self, name, mode):  # what the switcher asks of a portfolio
        if name not in (GOOD, OTHER):
            raise SchedulerError(scheduler=name, reason="not installed")
        return Opened(fd=os.open(self.script, os.O_RDONLY), path=self.script, argv=("stand-in", name, mode))

    def name_of_ops(self, ops):
        return next((name for name in (GOOD, OTHER) if ops.startswith(name.removeprefix("scx_"))), None)

    def attached(self):
        return (self.tree / "state").read_text().strip() == "enabled" and (self.tree / "root/ops").read_text().strip()

    def pid_of(self, name):
        return next(one.pid for one in self.undo.leftover() if one.scheduler == name)

    def until(self, what, limit_s=30.0):
        """As the agent waits, on the descriptors and for as long as the switcher says; the events that came."""
        events, end_s = [], time.monotonic() + limit_s
        while True:
            event = self.switcher.poll()
            if event is not None:
                events.append(event)
            if what(event):
                return events
            assert time.monotonic() < end_s, events
            wait_s = self.switcher.look_in_s()
            select.select(self.switcher.descriptors(), [], [], 0.05 if wait_s is None else min(wait_s, 0.05))

    def event(self):
        return self.until(lambda event: event is not None)[-1]

    def switch(self, name):
        self.switcher.begin(name)
        event = self.event()
        assert (event.outcome, event.new) == (SwitchOutcome.CONFIRMED, name), event
        return event

    def stand_by(self, name):
        self.switcher.keep_ready((name,))
        self.until(lambda _: [one.scheduler for one in self.switcher.standbys() if one.ready] == [name])


@pytest.fixture
def bench(tmp_path, monkeypatch):
    covered = tmp_path / "covered"  # the stand-in has to write to the tree's own
    covered.touch()
    monkeypatch.setattr(sys.modules["asa.act.gate.launch"], "_STATE", covered)
    monkeypatch.setattr(leaving, "_EXIT_LIMIT_S", 2.0)
    bench = Bench(tmp_path)
    yield bench
    bench.switcher.rest()
    assert bench.undo.leftover() == ()


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
    assert not bench.until(lambda _: not bench.undo.leftover())
    assert not bench.attached()


def test_a_kernel_that_does_not_let_go(bench, monkeypatch):
    monkeypatch.setattr(switcher, "_DETACH_LIMIT_S", 0.5)
    bench.behave("clings", GOOD)
    bench.switch(GOOD)
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


def test_a_standby_that_stays_stopped_is_refused(bench):
    bench.stand_by(GOOD)
    bench.switcher._limits = SwitchSettings(attach_limit_s=0.3)
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
    monkeypatch.setattr(switcher, "KernelLog", lambda: log)
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
