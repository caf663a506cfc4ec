# SPDX-License-Identifier: GPL-2.0-only
"""The real scx_loader on a bus of our own, with stand-ins for schedulers over a folder as sysfs.

The authority that it asks is played here.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import until

from asa import paths
from asa.act import build
from asa.act.loader import LoaderSwitcher
from asa.act.loader_bus import LoaderBus
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal, start_ticks
from asa.bus import Bus, BusError, Method, Object
from asa.config import SwitchSettings
from asa.core.decision import SchedulerName

BPFLAND, FLASH, NEST = (SchedulerName(f"scx_{name}") for name in ("bpfland", "flash", "nest"))
STAND_IN = """#!{python} -IS
import os, signal, sys, time
name, root = os.path.basename(sys.argv[0]), {root!r}
behaviour = open(root + "/behaviour").read()
def put(file, text):
    with open(root + "/new" + str(os.getpid()), "w") as out: out.write(text)
    os.rename(root + "/new" + str(os.getpid()), root + "/kernel/sched_ext/" + file)
def leave(*_):
    if "sleeps" in behaviour: os._exit(0)
    os.unlink(root + "/kernel/sched_ext/root/ops"); put("state", "disabled\\n"); os._exit(0)
with open(root + "/started", "a") as file: print(*sys.argv[1:], file=file)
signal.signal(signal.SIGINT, signal.SIG_IGN if "deaf" in behaviour else leave)
if "sleeps" in behaviour: time.sleep(1000)
put("enable_seq", str(int(open(root + "/kernel/sched_ext/enable_seq").read()) + (behaviour != "stale")))
put("root/ops", name[4:] + "_1.1.4_x86_64\\n"); put("state", "enabled\\n")
time.sleep(1000)
"""
BUS = """<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>"""
POLKIT = ("org.freedesktop.PolicyKit1", "/org/freedesktop/PolicyKit1/Authority", "org.freedesktop.PolicyKit1.Authority")
LOADER = ("org.scx.Loader", "/org/scx/Loader", "org.scx.Loader")
TIED = [shutil.which("setpriv"), "--pdeathsig", "KILL", "--"]  # the kernel ends it if the test is killed


class Clock:
    monotonic_ns = staticmethod(time.monotonic_ns)
    wall_ns = staticmethod(time.time_ns)


class Silent:
    def begin(self, name, position, total):
        pass

    def line(self, text):
        pass

    def end(self, outcome):
        pass


@pytest.fixture(scope="module")
def portfolio():
    return Portfolio.load(paths.manifest(), paths.default().schedulers)


@pytest.fixture(scope="module")
def binary(portfolio):
    return build.loader(portfolio, paths.default().cache, Silent())


class Bench:
    """A tree, a bus with an authority and a loader, and a switcher over all of it."""

    def __init__(self, folder, portfolio, binary, **limits):
        self.root = folder
        self.tree = folder / "kernel/sched_ext"
        (self.tree / "root").mkdir(parents=True)
        (self.tree / "state").write_text("disabled\n")
        (self.tree / "enable_seq").write_text("0\n")
        (folder / "bin").mkdir()
        for name in (BPFLAND, FLASH):
            script = folder / "bin" / name
            script.write_text(STAND_IN.format(python=sys.executable, root=str(folder)))
            script.chmod(0o755)
        self.behave("well")
        self.allowed = True
        self.thinking = None  # a list: of those that have to wait
        self.portfolio = portfolio
        self.binary = binary
        self.processes = []
        self.start_bus()
        self.start_loader()
        self.undo = UndoJournal(folder / "undo.json")
        self.switcher = self.new_switcher(**limits)

    def new_switcher(self, **limits):
        return LoaderSwitcher(
            portfolio=self.portfolio,
            undo=self.undo,
            clock=Clock(),
            limits=SwitchSettings(**{"attach_limit_s": 60.0, "stop_limit_s": 30.0, **limits}),
            sys=self.root,
            loader=LoaderBus(lambda: Bus.open(self.address)),
        )

    def start_bus(self):
        path = self.root / "bus"
        self.address = f"unix:path={path}"
        (self.root / "bus.conf").write_text(BUS.format(path=path))
        self.bus = self.start(["dbus-daemon", f"--config-file={self.root}/bus.conf", "--nofork", "--nopidfile"])

        def opened():
            try:
                return Bus.open(self.address)
            except BusError:
                return None

        self.authority = until(opened, "the bus takes connections")
        self.authority.own(POLKIT[0])
        check = Method(takes="(sa{sv})sa{ss}us", gives="(bba{ss})", run=self.judge)
        self.authority.serve(Object(path=POLKIT[1], interface=POLKIT[2], methods={"CheckAuthorization": check}))

    def judge(self, request):
        assert request.body[1] == "org.scx.loader.manage-schedulers"
        if self.thinking is not None:
            self.thinking.append(request)
        else:
            request.answer((self.allowed, False, {}))

    def start_loader(self):
        env = {"PATH": f"{self.root}/bin", "DBUS_SYSTEM_BUS_ADDRESS": self.address}
        self.loader = self.start([str(self.binary)], env=env)
        until(self.is_loader_there, "scx_loader is on the bus")

    def is_loader_there(self):
        bus = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
        return self.authority.ask(*bus, "NameHasOwner", "s", (LOADER[0],), limit_s=30.0) == (True,)

    def start(self, command, **more):
        log = (self.root / "log").open("a")
        self.processes.append(subprocess.Popen([*TIED, *command], stdout=log, stderr=log, **more))
        return self.processes[-1]

    def behave(self, how):
        (self.root / "behaviour").write_text(how)

    def turn(self):
        self.authority.advance()
        return self.switcher.poll()

    def event(self):
        return until(self.turn, lambda: f"an event; {(self.root / 'log').read_text()}", 90.0)

    def switch(self, name):
        self.switcher.begin(name, "for a test")
        assert self.switcher.busy()
        return self.event()

    def order(self, member, signature="", body=()):
        """As another program tells the loader."""
        answers = []
        self.authority.send(*LOADER, member, signature, body, then=answers.append)
        until(lambda: self.authority.advance() or answers, "the loader's answer")
        assert answers == [()]

    def pids(self):
        """Of schedulers in this bench."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(word.startswith(f"{self.root}/bin/scx_".encode()) for word in words):
                found.append(int(folder.name))
        return [pid for pid in found if start_ticks(pid) is not None]

    def attach(self, ops):
        (self.tree / "root/ops").write_text(f"{ops}\n")
        (self.tree / "state").write_text("enabled\n")

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self.authority.close()


@pytest.fixture
def make(tmp_path, portfolio, binary):
    made = []

    def making(**more):
        made.append(Bench(tmp_path, portfolio, binary, **more))
        return made[-1]

    yield making
    for bench in made:
        bench.close()


@pytest.fixture
def bench(make):
    return make()
