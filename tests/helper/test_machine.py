# SPDX-License-Identifier: GPL-2.0-only
"""What a lease takes of the machine and gives back, over a sysfs tree in a folder and with real processes."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from stage import SETTINGS, Stage
from waiting import until

from asa.act import rivals
from asa.act.undo import UndoJournal
from asa.bus import BusError
from asa.core.decision import ExitKind, SchedulerExit, SchedulerName, Standby, SwitchEvent, SwitchOutcome
from asa.core.errors import InputError
from asa.core.helper_api import Failure
from asa.helper.machine import Host, Machine, RefusedError
from asa.status import StatusFile

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: sudo make test"),
]


def no_bus():
    raise BusError("there is none")


@pytest.fixture
def said():
    return []


@pytest.fixture
def host(tmp_path, said, monkeypatch):
    masters = rivals.masters

    def of_trees(proc, *rest, **more):
        # this machine's own are no matter of these tests
        return () if proc == Path("/proc") else masters(proc, *rest, **more)

    monkeypatch.setattr(rivals, "masters", of_trees)
    stage = Stage(tmp_path, "")
    host = Host.open(stage.places, None, say=said.append, connect=no_bus)
    yield host
    stage.end()


def test_what_the_settings_bar_is_had_by_nobody(host):
    assert "scx_flash" in host.installed()
    config = host.places.config
    config.write_text("switch: {never: [scx_flash, scx_lavd:powersave]}\n")
    host.reload()
    assert {"scx_lavd", "scx_bpfland"} <= set(host.installed())
    assert not {"scx_flash", "scx_flash:performance", "scx_lavd:powersave"} & set(host.installed())
    with pytest.raises(RefusedError, match=f"switch.never in the settings names scx_flash.*{config}") as caught:
        host.known("scx_flash:performance")
    assert caught.value.failure is Failure.NOT_AUTHORIZED


class Switcher:
    """Writes down what it is told to keep."""

    def __init__(self):
        self.kept = []
        self.look_s = None
        self.waiting = ()

    def begin(self, target, why):
        self.kept.append(target)

    def keep_ready(self, wanted):
        self.kept.append(wanted)

    def standbys(self):
        return tuple(Standby(scheduler=name, ready=True, memory_bytes=0, since_ns=0) for name in self.waiting)

    def current(self):
        return SchedulerName("scx_now")

    def poll(self):
        return None

    def look_in_s(self):
        return self.look_s

    def rest(self):
        raise ZeroDivisionError


def refused(do):
    with pytest.raises(RefusedError) as caught:
        do()
    return caught.value.failure


def test_names_of_the_manifest(host):
    for name in ("eevdf", "scx_rusty", "scx_flash:performance"):
        assert host.known(name) == name
    for name in (
        "",
        ":",
        "scx_flash:",
        "scx_flash:default",
        "scx_flash:performance:x",
        "SCX_flash",
        "scx_flash ",
        "x" * 99,
    ):
        assert refused(lambda name=name: host.known(name)) is Failure.UNKNOWN_SCHEDULER
    with pytest.raises(RefusedError, match=r"x{80}…") as caught:
        host.known("x" * 60_000)
    assert len(str(caught.value)) < 200


def test_installed_ones_in_each_mode(host):
    installed = host.installed()
    assert {"scx_bpfland", "scx_flash", "scx_flash:performance", "scx_lavd:powersave"} <= set(installed)
    assert "eevdf" not in installed
    assert "scx_rusty" not in installed
    (host.places.schedulers / "installed.json").chmod(0o666)
    with pytest.raises(InputError, match="writable"):
        host.installed()


def test_settings_that_are_wrong_change_nothing(host):
    before = host.settings
    host.places.config.write_text("switch: {gate: maybe}\n")
    with pytest.raises(InputError):
        host.reload()
    assert host.settings is before
    host.places.config.write_text(SETTINGS.format(stop_limit_s=3.0))
    host.reload()
    assert host.settings.switch.stop_limit_s == 3.0


def test_the_lock_is_held_for_the_lease_alone(host):
    machine = Machine.open(host)
    try:
        assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
        assert refused(lambda: Machine.open(host)) is Failure.NOT_POSSIBLE
        assert (machine.way, machine.no_gate) == ("plain", "the setting switch.gate is off")
    finally:
        assert machine.rest()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    again = Machine.open(host)
    assert again.rest()


def test_what_cannot_be_opened_is_given_back(host, monkeypatch):
    def breaks(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("asa.helper.machine.choice.switcher", breaks)
    with pytest.raises(ZeroDivisionError):
        Machine.open(host)
    StatusFile(host.places.run).close()


def test_another_master_is_named(host, tmp_path):
    """What there is besides is tests/act/test_rivals.py's; a real one would be in the way of others here."""
    process = tmp_path / "proc/812"
    process.mkdir(parents=True)
    (process / "status").write_text("Name:\tscx_loader\nState:\tS (sleeping)\nPPid:\t1\nUid:\t0\t0\t0\t0\n")
    (process / "cmdline").write_bytes(b"/usr/bin/scx_loader\0--auto\0")
    host.places = replace(host.places, proc=tmp_path / "proc")
    with pytest.raises(RefusedError, match=r"scx_loader --auto is running \(pid 812\)") as caught:
        Machine.open(host)
    assert caught.value.failure is Failure.NOT_POSSIBLE
    StatusFile(host.places.run).close()  # the lock is free


def test_what_a_killed_helper_left_is_cleared_up(host, said):
    host.clear_up()
    assert said == []
    with subprocess.Popen(["sleep", "600"]) as left:
        UndoJournal(host.places.run / "undo.json", host.places.proc, host.places.sys).note("scx_left", left.pid)
        agent = StatusFile(host.places.run)
        host.clear_up()
        assert (said, left.poll()) == ([], None)  # an agent's own, while it is there
        agent.close()
        host.clear_up()
        until(lambda: left.poll() is not None, "its end")
    assert "scx_left" in said[0]
    StatusFile(host.places.run).close()  # the lock is free


def test_standbys_load_one_after_the_other(monkeypatch):
    now_s = [100.0]
    monkeypatch.setattr("asa.helper.machine.time.monotonic", lambda: now_s[0])
    switcher = Switcher()
    machine = Machine(switcher=switcher)
    machine.keep_ready(("scx_a", "scx_b", "scx_a"))
    for _ in range(3):
        machine.poll()
    assert switcher.kept == [(), ("scx_a", "scx_b")]
    now_s[0] += 1.0
    machine.poll()
    assert switcher.kept[2:] == [("scx_a", "scx_b")]
    switcher.waiting = ("scx_a", "scx_b")
    machine.keep_ready(("scx_b", "scx_c"))
    assert switcher.kept[3:] == [("scx_b",)]
    machine.keep_ready(())
    assert switcher.kept[4:] == [()]


def test_orders_in_quick_succession_start_no_more_processes(monkeypatch):
    now_s = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    switcher = Switcher()
    machine = Machine(switcher=switcher)
    for number in range(100):
        machine.keep_ready((f"scx_{number}",))
        machine.poll()
    assert [kept for kept in switcher.kept if kept] == [("scx_0",)]
    now_s[0] += 1.0
    machine.poll()
    assert [kept for kept in switcher.kept if kept] == [("scx_0",), ("scx_99",)]


def test_it_looks_when_the_switcher_wants_to():
    switcher = Switcher()
    machine = Machine(switcher=switcher)
    assert machine.look_in_s() == 1.0
    switcher.look_s = 0.002
    assert machine.look_in_s() == 0.002


def test_what_is_in_use():
    machine = Machine(switcher=Switcher())
    machine.begin(SchedulerName("scx_next:fast"), "")
    machine.keep_ready((SchedulerName("scx_ready"),))
    for name in ("scx_now", "scx_next", "scx_next:fast", "scx_ready"):
        assert machine.uses(name)
    for name in ("scx_next:slow", "scx", "scx_ready:fast"):
        assert not machine.uses(name)


def test_a_rest_that_breaks_gives_the_lock_back():
    done = []
    machine = Machine(switcher=Switcher(), release=lambda: done.append("released"))
    with pytest.raises(ZeroDivisionError):
        machine.rest()
    assert done == ["released"]


def test_what_the_kernel_takes_out_loses_its_token(host, said, monkeypatch):
    """The breaker of what was composed or tuned; what ends in order keeps it."""
    withdrawn = []
    monkeypatch.setattr(host.portfolio, "guarded", lambda name: name == "scx_flash")
    monkeypatch.setattr(host.portfolio.tokens, "withdraw", lambda name: withdrawn.append(name) or True)

    def lost(name, kind):
        gone = SchedulerExit(kind=kind, reason="runnable task stall", source="the kernel's log")
        return SwitchEvent(
            monotonic_ns=0,
            outcome=SwitchOutcome.LOST,
            old=SchedulerName(name),
            new=SchedulerName(name),
            elapsed_ns=0,
            detail="",
            undo="",
            exit=gone,
        )

    events = [lost("scx_flash", ExitKind.UNREGISTERED), lost("scx_lavd", ExitKind.STALL)]
    events.append(lost("scx_flash", ExitKind.STALL))
    machine = Machine(switcher=Switcher(), heard=host.broke)
    monkeypatch.setattr(machine.switcher, "poll", lambda: events.pop(0), raising=False)
    while events:
        assert machine.poll() is not None
    assert withdrawn == ["scx_flash"]
    assert "scx_flash has lost its token" in said[-1]
