# SPDX-License-Identifier: GPL-2.0-only
"""The gated switcher over a sysfs tree in a folder, with stand-ins for schedulers.

The gate is real, and the stand-in is a real process that makes the call by which a scheduler attaches; what the kernel
would do then, it writes into the tree.
"""

import os
import select
import sys
import time

import pytest
from waiting import LIMIT_S

from asa.act.gated import leaving
from asa.act.gated.switcher import GatedSwitcher
from asa.act.portfolio import Opened
from asa.act.undo import UndoJournal
from asa.clock import SystemClock
from asa.config import SwitchSettings
from asa.core.decision import SchedulerName, SwitchOutcome
from asa.core.errors import SchedulerError

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
    if behaviour == "late":
        enter()
        while not os.path.exists(root + "/seen"): time.sleep(0.02)
    if open(root + "/kernel/sched_ext/root/ops").read()[:len(name) - 4] not in ("", name[4:]): sys.exit(0)
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
            limits=SwitchSettings(attach_limit_s=60.0, stop_limit_s=30.0),
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

    def open(self, name):  # what the switcher asks of a portfolio
        if name.bare not in (GOOD, OTHER):
            raise SchedulerError(scheduler=name, reason="not installed")
        return Opened(fd=os.open(self.script, os.O_RDONLY), path=self.script, argv=("stand-in", name.bare, name.mode))

    def name_of_ops(self, ops):
        return next((name for name in (GOOD, OTHER) if ops.startswith(name.removeprefix("scx_"))), None)

    def attached(self):
        return (self.tree / "state").read_text().strip() == "enabled" and (self.tree / "root/ops").read_text().strip()

    def pid_of(self, name):
        return next(one.pid for one in self.undo.leftover() if one.scheduler == name)

    def until(self, what, limit_s=LIMIT_S):
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
    monkeypatch.setattr(leaving, "_EXIT_LIMIT_S", LIMIT_S)
    bench = Bench(tmp_path)
    yield bench
    bench.switcher.rest()
    assert bench.undo.leftover() == ()
