# SPDX-License-Identifier: GPL-2.0-only
"""The shadow switcher under the real gate, over a sysfs tree in a folder and stand-in schedulers.

The stand-in is a real process that makes the real call by which a scheduler attaches. Real schedulers on a real kernel
are in tests/guest/test_shadow.py.
"""

import os
import select
import sys
import time
from pathlib import Path

import pytest
from waiting import LIMIT_S

from asa.act.gate import Stage, launch
from asa.act.portfolio import Opened
from asa.act.shadow import ShadowSwitcher
from asa.act.undo import UndoJournal, start_ticks
from asa.clock import SystemClock
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome, Way
from asa.core.errors import AsaError, SchedulerError

GOOD, OTHER = SchedulerName("scx_good"), SchedulerName("scx_other:server")
QOS = "devices/system/cpu/cpu0/power/pm_qos_resume_latency_us"
BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
STAND_IN = """#!/usr/bin/python3
import ctypes, os, signal, struct, sys, time
root, behaviour = {root!r}, open({root!r} + "/behaviour").read()
if behaviour == "dies": sys.exit("Error: no such BPF helper")
if behaviour == "sleeps": time.sleep(60)
if behaviour == "deaf": signal.signal(signal.SIGINT, signal.SIG_IGN)
if behaviour.startswith("sets"): open(root + "/{qos}", "w").write("32")
if behaviour == "sets and dies": sys.exit("Error: no such BPF helper")
libc = ctypes.CDLL(None, use_errno=True)
def attach(kind):
    attributes = ctypes.create_string_buffer(struct.pack("IIII", 0, 0, kind, 0), 16)
    libc.syscall({bpf}, 28, attributes, 16)
    return ctypes.get_errno()
print("probe:", attach(0), flush=True)
fault = attach(44)
if behaviour == "deaf": time.sleep(60)
sys.exit(f"Error: attach: {{os.strerror(fault)}}, state {{open(root + '/kernel/sched_ext/state').read()}}")
"""


class Bench:
    """A tree with a stranger's scheduler in force, a portfolio of stand-ins, and a shadow switcher over both."""

    def __init__(self, folder):
        self.root = folder
        tree = folder / "kernel/sched_ext"
        (tree / "root").mkdir(parents=True)
        (tree / "state").write_text("enabled\n")
        (tree / "enable_seq").write_text("7\n")
        (tree / "root/ops").write_text("stranger_1.0\n")
        self.qos = folder / QOS
        self.qos.parent.mkdir(parents=True)
        self.qos.write_text("0\n")
        self.behave("well")
        self.script = folder / "stand-in"
        self.script.write_text(STAND_IN.format(root=str(folder), qos=QOS, bpf=BPF))
        self.script.chmod(0o755)
        self.undo = UndoJournal(folder / "undo.json", sys=folder)
        self.steps = []
        self.qos_at_steps = []
        self.switcher = ShadowSwitcher(
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
        self.qos_at_steps.append(self.qos.read_text().strip())

    def behave(self, how):
        (self.root / "behaviour").write_text(how)

    def open(self, name):  # what the switcher asks of a portfolio
        if name.bare not in ("scx_good", "scx_other"):
            raise SchedulerError(scheduler=name, reason="not installed")
        return Opened(fd=os.open(self.script, os.O_RDONLY), path=self.script, argv=("stand-in", name.bare, name.mode))

    def name_of_ops(self, ops):
        return SchedulerName("scx_good") if ops.startswith("good") else None

    def event(self, limit_s=LIMIT_S):
        """As the agent waits: on the descriptors, for as long as the switcher says."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            event = self.switcher.poll()
            if event is not None:
                return event
            wait_s = self.switcher.look_in_s()
            assert wait_s is not None
            select.select(self.switcher.descriptors(), [], [], min(wait_s, end_s - time.monotonic()))
        raise AssertionError("no event")

    def try_out(self, name):
        self.switcher.begin(name, "because")
        assert self.switcher.busy()
        return self.event()

    def log(self, name):
        return (self.root / f"logs/{name.replace(':', '-')}.log").read_text()


def open_descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["asa.act.gate.launch"], "_STATE", tmp_path / "kernel/sched_ext/state")
    bench = Bench(tmp_path)
    yield bench
    bench.switcher.rest()


def test_one_loads_and_its_attach_is_denied(bench):
    before = open_descriptors()
    event = bench.try_out(GOOD)
    assert (event.outcome, event.old, event.new, event.way) == (SwitchOutcome.SHADOWED, EEVDF, GOOD, Way.GATED)
    assert event.why == "because"
    assert "ended by itself with code 1" in event.detail
    assert event.load.wall_ns > 0
    assert event.load.memory_bytes > 1 << 20
    assert [step.name for step in event.steps] == ["launched", "parked", "denied", "ended"] == bench.steps
    assert event.load.wall_ns < event.elapsed_ns
    said = bench.log(GOOD)
    assert "probe: " in said
    assert "probe: 1\n" not in said  # what is not the scheduler itself was let through, and failed by itself
    assert "Error: attach: Operation not permitted, state disabled" in said
    assert not bench.switcher.busy()
    assert bench.undo.leftover() == ()
    assert bench.switcher.descriptors() == ()
    assert bench.switcher.look_in_s() is None
    assert open_descriptors() == before


def test_one_that_is_ending_leaves_nothing_that_is_readable_for_good(bench):
    gated = launch(bench.open(SchedulerName("scx_good")), bench.root / "log", bench.root / "run")
    while gated.stage is Stage.LOADING:
        select.select([gated.fileno()], [], [], 10.0)
        gated.advance()
    gated.deny()
    os.waitid(os.P_PID, gated.process.pid, os.WEXITED | os.WNOWAIT)  # not reaped yet
    gated.advance()
    assert gated.fileno() == -1  # a real-time agent that waited on it would starve the one that is ending
    assert gated.process.exit_code() == 1
    gated.process.forget()


def test_the_stranger_in_force_is_told_and_disturbs_nothing(bench):
    assert bench.switcher.poll() is None
    assert bench.switcher.current() == "stranger_1.0"
    assert bench.try_out(GOOD).outcome is SwitchOutcome.SHADOWED
    event = bench.try_out(OTHER)
    assert (event.old, event.new) == (GOOD, OTHER)  # from what was chosen last
    assert bench.switcher.current() == "stranger_1.0"
    assert bench.switcher.state().enable_seq == 7


def test_the_kernels_own_costs_nothing(bench):
    bench.try_out(GOOD)
    event = bench.try_out(EEVDF)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.SHADOWED, GOOD, EEVDF)
    assert event.load is None
    assert event.elapsed_ns < 1e9


def test_one_that_does_not_load_is_refused_with_its_words(bench):
    bench.behave("dies")
    event = bench.try_out(GOOD)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.REFUSED, EEVDF, GOOD)
    assert "scx_good: ended by itself with code 1" in event.detail
    assert "no such BPF helper" in event.detail
    assert "no such BPF helper" in event.exit.reason
    assert event.load is None
    bench.behave("well")
    assert bench.try_out(OTHER).old == EEVDF  # what was refused was not chosen


def test_one_that_never_comes_to_its_attach_is_stopped(bench):
    bench.behave("sleeps")
    bench.switcher._limits = SwitchSettings(attach_limit_s=0.3)
    event = bench.try_out(GOOD)
    assert event.outcome is SwitchOutcome.REFUSED
    assert "was not ready to attach within 0.3 s" in event.detail
    assert bench.undo.leftover() == ()


def test_one_that_stays_after_the_denial_is_killed(bench, monkeypatch):
    monkeypatch.setattr("asa.act.gated.leaving._EXIT_LIMIT_S", 0.5)
    bench.behave("deaf")
    bench.switcher._leaving._limits = SwitchSettings(stop_limit_s=0.5)
    event = bench.try_out(GOOD)
    assert event.outcome is SwitchOutcome.SHADOWED
    assert "was ended by signal 9" in event.detail
    assert event.load is not None


def test_what_it_has_set_is_put_back(bench):
    bench.behave("sets")  # the copies that the gate gives are for files below /sys, not for this tree's
    assert bench.try_out(GOOD).outcome is SwitchOutcome.SHADOWED
    assert bench.qos.read_text().strip() == "0"


@pytest.mark.parametrize(
    ("behaviour", "outcome"), [("sets", SwitchOutcome.SHADOWED), ("sets and dies", SwitchOutcome.REFUSED)]
)
def test_what_it_sets_reaches_nobody(bench, behaviour, outcome, monkeypatch):
    monkeypatch.setattr(sys.modules["asa.act.gate.launch"], "_SYS", bench.root)
    bench.undo.put_back = list  # it has nothing to do
    bench.behave(behaviour)
    assert bench.try_out(GOOD).outcome is outcome
    assert set(bench.qos_at_steps) == {"0"}
    assert bench.qos.read_text().strip() == "0"


def test_one_that_dies_while_it_loads_casts_no_doubt_on_what_a_user_sets(bench):
    bench.behave("dies")
    bench.switcher.begin(GOOD)
    bench.qos.write_text("100\n")
    assert bench.event().outcome is SwitchOutcome.REFUSED
    assert bench.qos.read_text().strip() == "100"


def test_what_cannot_start_is_an_error_and_leaves_nothing(bench):
    with pytest.raises(SchedulerError, match="not installed"):
        bench.switcher.begin(SchedulerName("scx_missing"))
    assert not bench.switcher.busy()
    bench.switcher.begin(GOOD)
    with pytest.raises(SchedulerError, match="still being tried"):
        bench.switcher.begin(OTHER)
    assert bench.event().new == GOOD


def test_an_undo_journal_that_cannot_be_written_stops_it(bench, monkeypatch):
    def full(*_):
        raise AsaError("undo journal: no space")

    pids = []
    monkeypatch.setattr(bench.undo, "note", lambda _, pid, __: pids.append(pid) or full())
    with pytest.raises(AsaError, match="no space"):
        bench.switcher.begin(GOOD)
    assert not bench.switcher.busy()
    while bench.switcher.look_in_s() is not None:
        assert bench.switcher.poll() is None
        select.select(bench.switcher.descriptors(), [], [], 0.1)
    assert start_ticks(pids[0]) is None


@pytest.mark.parametrize("behaviour", ["sleeps", "sets", "deaf"])
def test_rest_ends_what_loads(bench, behaviour, monkeypatch):
    monkeypatch.setattr("asa.act.gated.leaving._EXIT_LIMIT_S", 1.0)
    monkeypatch.setattr(sys.modules["asa.act.gate.launch"], "_SYS", bench.root)  # it may come to set something
    bench.behave(behaviour)
    bench.switcher.begin(GOOD)
    (noted,) = bench.undo.leftover()
    assert bench.switcher.rest()
    assert start_ticks(noted.pid) is None
    assert not bench.switcher.busy()
    assert bench.undo.leftover() == ()
    assert bench.qos.read_text().strip() == "0"


def test_nothing_is_kept_ready(bench):
    bench.switcher.keep_ready((GOOD, OTHER))
    assert bench.switcher.standbys() == ()
    assert bench.undo.leftover() == ()
