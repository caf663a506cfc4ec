# SPDX-License-Identifier: GPL-2.0-only
"""The real scx_loader, dbus-daemon and polkitd with real schedulers on a real kernel. Runs as root inside the lab."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from agents import (
    LIMIT_S,
    SYS,
    attached,
    clean_machine,
    event_of,
    eventually,
    pid_of,
    portfolio_of_host,
    scheduler_processes,
)

from asa import paths
from asa.act import build
from asa.act.kernel import sched_ext_state
from asa.act.loader import LoaderSwitcher
from asa.act.loader_bus import LoaderBus
from asa.act.rivals import Harm, found, masters
from asa.act.undo import UndoJournal
from asa.bus import Bus, BusError
from asa.clock import SystemClock
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome

BPFLAND, FLASH = SchedulerName("scx_bpfland"), SchedulerName("scx_flash")
PROC = Path("/proc")
ACTIONS = "/usr/share/polkit-1/actions"
BUS = """<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>"""
POLICY = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE policyconfig PUBLIC "-//freedesktop//DTD PolicyKit Policy Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/PolicyKit/1/policyconfig.dtd">
<policyconfig><action id="org.scx.loader.manage-schedulers"><description>d</description><message>m</message>
<defaults><allow_any>auth_admin</allow_any><allow_inactive>auth_admin</allow_inactive>
<allow_active>auth_admin</allow_active></defaults></action></policyconfig>
"""


class Machine:
    """A system bus with polkitd and scx_loader, and a switcher that gives orders over it."""

    def __init__(self, folder):
        self.folder = folder
        self.address = f"unix:path={folder}/bus"
        self.processes = []
        self.undo = UndoJournal(folder / "undo.json")
        self.switcher = LoaderSwitcher(
            portfolio=portfolio_of_host(),
            undo=self.undo,
            clock=SystemClock(),
            limits=SwitchSettings(attach_limit_s=LIMIT_S, stop_limit_s=LIMIT_S),
            sys=SYS,
            loader=LoaderBus(self.connect),
        )

    def start_all(self):
        (self.folder / "bus.conf").write_text(BUS.format(path=self.folder / "bus"))
        self.start("dbus-daemon", f"--config-file={self.folder}/bus.conf", "--nofork", "--nopidfile")
        assert eventually(self.is_bus_there), self.said()
        self.start("/usr/lib/polkit-1/polkitd")
        assert eventually(lambda: self.is_there("org.freedesktop.PolicyKit1")), self.said()
        self.start_loader()

    def said(self):
        return (self.folder / "log").read_text()[-2000:]

    def start_loader(self):
        binary = build.loader(portfolio_of_host(), paths.default().cache, None)  # was built on the host
        self.loader = self.start(str(binary), PATH=str(paths.default().schedulers))
        assert eventually(lambda: self.is_there("org.scx.Loader")), self.said()

    def start(self, *command, **environment):
        log = (self.folder / "log").open("a")
        environment = os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": self.address} | environment
        self.processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        return self.processes[-1]

    def connect(self):
        return Bus.open(self.address, limit_s=LIMIT_S)

    def is_bus_there(self):
        try:
            self.connect().close()
        except BusError:
            return False
        return True

    def is_there(self, name):
        bus = self.connect()
        to = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
        try:
            return bus.ask(*to, "NameHasOwner", "s", (name,), limit_s=LIMIT_S) == (True,)
        finally:
            bus.close()

    def switch(self, name):
        self.switcher.begin(name)
        event = event_of(self.switcher)
        assert (event.outcome, event.new) == (SwitchOutcome.CONFIRMED, name), (event, self.said())
        return event

    def close(self):
        rested = self.switcher.rest()
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        assert rested


@pytest.fixture
def machine(tmp_path):
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):  # polkitd is another user
        folder.chmod(0o755)
    with clean_machine():
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", ACTIONS], check=True)
        (Path(ACTIONS) / "org.scx.Loader.policy").write_text(POLICY)
        machine = Machine(tmp_path)
        try:
            machine.start_all()
            yield machine
        finally:
            machine.close()
            subprocess.run(["umount", ACTIONS], check=True)


def test_from_one_to_the_next_and_back(machine):
    assert masters(PROC) == ()
    for before, name in ((EEVDF, BPFLAND), (BPFLAND, FLASH)):
        sequence = sched_ext_state(SYS).enable_seq
        assert machine.switch(name).old == before
        state = sched_ext_state(SYS)
        assert (state.state, state.enable_seq) == ("enabled", sequence + 1)
        assert re.match(rf"{name.removeprefix('scx_')}(_|$)", state.ops)
        assert [(one.scheduler, one.pid) for one in machine.undo.leftover()] == [(name, pid_of(name))]
    (rival,) = masters(PROC)  # for a switcher of ours
    assert (rival.name, rival.harm, rival.text) == ("scx_loader", Harm.SWITCHES, "it has loaded scx_flash")
    assert masters(PROC, loader_is_ours=True) == ()
    machine.switch(EEVDF)
    assert attached() == ""
    assert [rival.harm for rival in found(PROC) if rival.name == "scx_loader"] == [Harm.MAY_SWITCH]


def test_a_scheduler_killed_behind_its_back_is_lost(machine):
    machine.switch(BPFLAND)
    os.kill(pid_of(BPFLAND), signal.SIGKILL)  # the loader will start it again, and say nothing of it
    event = event_of(machine.switcher)
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, BPFLAND), event
    assert (attached(), scheduler_processes()) == ("", [])
    machine.switch(FLASH)
    os.kill(pid_of(FLASH), signal.SIGINT)  # and now it will not, but goes on naming it
    event = event_of(machine.switcher)
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, FLASH), event
    assert "scx_loader did not say so" in event.detail


def test_a_killed_loader_is_a_loss_and_nothing_stays_behind(machine):
    machine.switch(BPFLAND)
    machine.loader.kill()
    machine.loader.wait()
    event = event_of(machine.switcher)
    assert (event.outcome, event.new) == (SwitchOutcome.LOST, BPFLAND), event
    assert "scx_loader has left the bus" in event.detail
    assert (attached(), scheduler_processes()) == ("", [])
    machine.start_loader()
    machine.switch(BPFLAND)
