# SPDX-License-Identifier: GPL-2.0-only
"""The plain switcher against faults that real schedulers do not show on demand, over a sysfs tree in a folder.

The stand-in is a real process which "attaches" by writing into the tree. Real schedulers on a real kernel are in
tests/guest/test_switching.py.
"""

import os
import select
import signal
import time

import pytest
from waiting import LIMIT_S

from asa.act.kernel import sched_ext_state
from asa.act.plain import PlainSwitcher
from asa.act.portfolio import Opened
from asa.act.undo import UndoJournal, start_ticks
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome
from asa.core.errors import SchedulerError

GOOD, OTHER = SchedulerName("scx_good"), SchedulerName("scx_other")
STAND_IN = """#!/usr/bin/python3
import os, signal, sys, time
name, root = sys.argv[1], {root!r}
behaviour = open(root + "/behaviour").read()
def put(file, text):
    with open(root + "/new", "w") as out: out.write(text)
    os.rename(root + "/new", root + "/kernel/sched_ext/" + file)
def leave(*_):
    os.unlink(root + "/kernel/sched_ext/root/ops"); put("state", "disabled\\n"); sys.exit(0)
if behaviour == "dies": sys.exit("Error: no such BPF helper")
if behaviour == "sleeps": time.sleep(60)
signal.signal(signal.SIGINT, signal.SIG_IGN if behaviour == "deaf" else leave)
put("enable_seq", str(int(open(root + "/kernel/sched_ext/enable_seq").read()) + (behaviour != "stale")))
put("root/ops", name[4:] + "_1.1.4_x86_64\\n"); put("state", "enabled\\n")
if behaviour == "quits":
    while not os.path.exists(root + "/quit"): time.sleep(0.02)
    print("EXIT: runnable task stall", file=sys.stderr); leave()
time.sleep(60)
"""


class Clock:
    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


class Bench:
    """A tree, a portfolio of stand-ins, and a switcher over both."""

    def __init__(self, folder):
        self.root = folder
        self.tree = folder / "kernel/sched_ext"
        (self.tree / "root").mkdir(parents=True)
        (self.tree / "state").write_text("disabled\n")
        (self.tree / "enable_seq").write_text("0\n")
        self.behave("well")
        self.script = folder / "stand-in"
        self.script.write_text(STAND_IN.format(root=str(folder)))
        self.script.chmod(0o755)
        self.undo = UndoJournal(folder / "undo.json")
        self.switcher = PlainSwitcher(
            portfolio=self,
            undo=self.undo,
            clock=Clock(),
            limits=SwitchSettings(attach_limit_s=60.0, stop_limit_s=30.0),
            sys=folder,
            logs=folder / "logs",
        )

    def behave(self, how):
        (self.root / "behaviour").write_text(how)

    def open(self, name):  # what the switcher asks of a portfolio
        if name not in (GOOD, OTHER):
            raise SchedulerError(scheduler=name, reason="not installed")
        assert name.mode == "default"
        return Opened(fd=os.open(self.script, os.O_RDONLY), path=self.script, argv=("stand-in", name))

    def name_of_ops(self, ops):
        return SchedulerName(f"scx_{ops.partition('_')[0]}") if ops.startswith(("good", "other")) else None

    def event(self, limit_s=LIMIT_S):
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            event = self.switcher.poll()
            if event is not None:
                return event
            select.select([], [], [], 0.005)
        raise AssertionError("no event")

    def switch(self, name):
        self.switcher.begin(name)
        assert self.switcher.busy()
        return self.event()


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.switcher.rest()


def test_there_and_back(bench):
    event = bench.switch(GOOD)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, EEVDF, GOOD)
    assert bench.switcher.current() == GOOD
    assert [one.scheduler for one in bench.undo.leftover()] == [GOOD]
    event = bench.switch(OTHER)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, GOOD, OTHER)
    event = bench.switch(EEVDF)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, OTHER, EEVDF)
    assert sched_ext_state(bench.root).state == "disabled"
    assert not bench.undo.leftover()


def test_one_that_dies_is_named_with_its_own_words(bench):
    bench.behave("dies")
    event = bench.switch(GOOD)
    assert event.outcome is SwitchOutcome.FAILED
    assert "scx_good: ended by itself with code 1" in event.detail
    assert "Error: no such BPF helper" in event.detail
    assert bench.switcher.current() == EEVDF


def test_one_that_never_attaches_is_stopped(bench):
    bench.behave("sleeps")
    bench.switcher._limits = SwitchSettings(attach_limit_s=0.5)
    event = bench.switch(GOOD)
    assert event.outcome is SwitchOutcome.FAILED
    assert "did not attach within 0.5 s" in event.detail
    assert not bench.undo.leftover()


def test_an_old_enable_count_is_not_believed(bench):
    bench.behave("stale")
    bench.switcher._limits = SwitchSettings(attach_limit_s=2.0)
    assert bench.switch(GOOD).outcome is SwitchOutcome.FAILED


def test_one_that_ignores_sigint_is_killed_when_told_to_go(bench):
    bench.behave("deaf")
    assert bench.switch(GOOD).outcome is SwitchOutcome.CONFIRMED
    pid = bench.undo.leftover()[0].pid
    bench.switcher._limits = SwitchSettings(stop_limit_s=0.5)
    bench.switcher.begin(EEVDF)
    end = time.monotonic() + LIMIT_S
    while start_ticks(pid) is not None and time.monotonic() < end:
        assert bench.switcher.poll() is None
        select.select([], [], [], 0.005)
    assert start_ticks(pid) is None
    assert bench.switcher.poll() is None  # not before the kernel says so; this tree has no kernel behind it
    (bench.tree / "state").write_text("disabled\n")
    assert bench.event().outcome is SwitchOutcome.CONFIRMED


def test_one_that_quits_later_is_reported_lost(bench):
    bench.behave("quits")
    assert bench.switch(GOOD).outcome is SwitchOutcome.CONFIRMED
    (bench.root / "quit").touch()
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, GOOD)
    assert "EXIT: runnable task stall" in event.detail
    assert bench.switcher.current() == EEVDF


def test_what_cannot_start_leaves_the_running_one_alone(bench):
    bench.switch(GOOD)
    with pytest.raises(SchedulerError, match="not installed"):
        bench.switcher.begin(SchedulerName("scx_missing"))
    assert not bench.switcher.busy()
    assert bench.switcher.current() == GOOD


def test_a_second_order_is_refused_while_one_is_under_way(bench):
    bench.switcher.begin(GOOD)
    with pytest.raises(SchedulerError, match="under way"):
        bench.switcher.begin(OTHER)
    assert bench.event().outcome is SwitchOutcome.CONFIRMED


def test_a_stranger_is_reported_once(bench):
    assert bench.switcher.poll() is None
    (bench.tree / "root/ops").write_text("layered_1.0\n")
    (bench.tree / "state").write_text("enabled\n")
    event = bench.switcher.poll()
    assert (event.outcome, event.new) == (SwitchOutcome.FOREIGN, "layered_1.0")
    assert bench.switcher.poll() is None
    assert bench.switcher.current() == "layered_1.0"


def test_one_that_was_evicted_and_does_not_end_is_stopped(bench, monkeypatch):
    monkeypatch.setattr("asa.act.plain.DETACH_LIMIT_S", 0.3)
    assert bench.switch(GOOD).outcome is SwitchOutcome.CONFIRMED
    (bench.tree / "state").write_text("disabled\n")
    assert bench.switcher.poll() is None  # its process gets time to say why
    assert not bench.switcher.busy()
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, GOOD)
    assert "lost the kernel but did not end" in event.detail
    assert not bench.undo.leftover()


def test_a_stranger_that_is_faster_is_not_taken_for_ours(bench):
    bench.switch(GOOD)
    bench.switcher.begin(OTHER)
    end = time.monotonic() + LIMIT_S
    while sched_ext_state(bench.root).state != "disabled" and time.monotonic() < end:
        select.select([], [], [], 0.005)  # ours lets go; nobody polls, and a stranger attaches
    (bench.tree / "root/ops").write_text("layered_1.0\n")
    (bench.tree / "state").write_text("enabled\n")
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.FOREIGN, "layered_1.0")
    assert bench.switcher.rest()
    assert bench.switcher.current() == "layered_1.0"


def test_the_log_stays_small(bench):
    assert bench.switch(GOOD).outcome is SwitchOutcome.CONFIRMED
    log = bench.root / "logs/scx_good.log"
    with log.open("ab") as file:
        file.write(b"x" * (2 << 20))
    assert bench.switcher.poll() is None
    assert log.stat().st_size == 0


def test_an_undo_journal_that_cannot_be_written_stops_the_scheduler(bench):
    (bench.root / "undo.json").mkdir()
    event = bench.switch(GOOD)
    assert event.outcome is SwitchOutcome.FAILED
    assert "undo journal" in event.detail
    assert bench.switcher.current() == EEVDF


def test_the_scheduler_ends_with_a_killed_agent(bench, tmp_path):
    child = os.fork()
    if child == 0:  # an agent that starts a scheduler and is then killed
        try:
            event = bench.switch(GOOD)
            (tmp_path / "confirmed").write_text(event.outcome)
            signal.pause()
        finally:
            os._exit(1)
    end = time.monotonic() + LIMIT_S
    while not (tmp_path / "confirmed").exists() and time.monotonic() < end:
        select.select([], [], [], 0.01)
    assert sched_ext_state(tmp_path).state == "enabled"
    pid = bench.undo.leftover()[0].pid
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while start_ticks(pid) is not None and time.monotonic() < end:
        select.select([], [], [], 0.01)
    assert start_ticks(pid) is None
    assert sched_ext_state(tmp_path).state == "disabled"
    assert UndoJournal(tmp_path / "undo.json").recover(1.0) is None
