# SPDX-License-Identifier: GPL-2.0-only
"""Switching through the real scx_loader on a bus of our own, with stand-ins for schedulers over a folder as sysfs.

The authority that scx_loader asks is played by the test; a real one, and real schedulers on a real kernel, are in
tests/guest/test_loader.py.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import until

from asa import paths
from asa.act import build, loader
from asa.act.kernel import sched_ext_state
from asa.act.loader import LoaderSwitcher
from asa.act.loader_bus import LoaderBus, Ordered
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal, start_ticks
from asa.bus import Bus, BusError, Method, Object, Property
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome
from asa.core.errors import SchedulerError

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


def test_there_and_back(bench):
    event = bench.switch(BPFLAND)
    assert (event.outcome, event.old, event.new, event.why) == (SwitchOutcome.CONFIRMED, EEVDF, BPFLAND, "for a test")
    assert bench.switcher.current() == BPFLAND
    assert [(one.scheduler, one.pid) for one in bench.undo.leftover()] == [(BPFLAND, bench.pids()[0])]
    event = bench.switch(SchedulerName("scx_flash:performance"))
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, BPFLAND, "scx_flash:performance")
    assert bench.switcher.current() == "scx_flash:performance"
    assert (bench.root / "started").read_text() == "\n--primary-domain performance\n"
    assert [one.scheduler for one in bench.undo.leftover()] == ["scx_flash:performance"]
    event = bench.switch(EEVDF)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.CONFIRMED, "scx_flash:performance", EEVDF)
    assert sched_ext_state(bench.root).state == "disabled"
    assert not bench.undo.leftover()
    assert bench.turn() is None


def test_a_yes_of_the_loader_is_not_believed(make):
    bench = make(attach_limit_s=1.0)
    bench.behave("sleeps")
    event = bench.switch(BPFLAND)
    assert event.outcome is SwitchOutcome.FAILED
    assert "scx_bpfland: scx_loader has not brought it up within 1 s" in event.detail
    assert bench.pids() == []  # the loader was told to stop it: it does not come later
    assert not bench.undo.leftover()


def test_an_old_enable_count_is_not_believed(make):
    bench = make(attach_limit_s=1.0)
    bench.behave("stale")
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.FAILED
    assert sched_ext_state(bench.root).state == "disabled"


def test_what_the_loader_does_not_know_is_refused_and_the_running_one_stays(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    event = bench.switch(NEST)
    assert (event.outcome, event.old, event.new) == (SwitchOutcome.REFUSED, BPFLAND, NEST)
    assert "unknown variant" in event.detail
    assert not bench.switcher.busy()
    assert bench.switcher.current() == BPFLAND
    assert bench.turn() is None
    assert bench.switch(EEVDF).outcome is SwitchOutcome.CONFIRMED


def test_what_the_authority_forbids_is_refused(bench):
    bench.allowed = False
    event = bench.switch(BPFLAND)
    assert event.outcome is SwitchOutcome.REFUSED
    assert "Not allowed" in event.detail
    assert not (bench.root / "started").exists()


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
    until(lambda: sched_ext_state(bench.root).ops.startswith("flash"), "theirs is in force")
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
    monkeypatch.setattr(loader, "_DETACH_LIMIT_S", 2.0)  # systemd would have cleared up
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
    monkeypatch.setattr(loader, "_DETACH_LIMIT_S", 2.0)
    bench.behave("sleeps")
    bench.switcher.begin(BPFLAND)
    until(lambda: bench.turn() or bench.undo.leftover(), "it is noted before it is in force")
    bench.loader.kill()
    event = bench.event()
    assert (event.outcome, event.new) == (SwitchOutcome.FAILED, BPFLAND)
    assert bench.pids() == []


def test_without_a_bus_nothing_is_ordered(bench):
    bench.bus.kill()
    bench.bus.wait()
    with pytest.raises(SchedulerError, match="scx_loader cannot be told"):
        bench.switcher.begin(BPFLAND)
    assert not bench.switcher.busy()


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
    monkeypatch.setattr(loader, "_DETACH_LIMIT_S", 0.2)
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


@pytest.mark.parametrize("when", ["in force", "loading", "nothing"])
def test_rest(bench, when):
    if when == "in force":
        bench.switch(BPFLAND)
    elif when == "loading":
        bench.behave("sleeps")
        bench.switcher.begin(BPFLAND)
        until(lambda: bench.turn() or bench.pids(), "it is loading")
    serving = os.fork()
    if serving == 0:  # the authority has to answer while the switcher waits
        while True:
            select.select([bench.authority], [], [], 1.0)
            bench.authority.advance()
    try:
        assert bench.switcher.rest()
    finally:
        os.kill(serving, signal.SIGKILL)
        os.waitpid(serving, 0)
    assert (sched_ext_state(bench.root).state, bench.pids()) == ("disabled", [])
    assert not bench.undo.leftover()


def test_what_a_killed_agent_left_is_ended_and_not_started_again(bench):
    assert bench.switch(BPFLAND).outcome is SwitchOutcome.CONFIRMED
    assert "scx_bpfland" in UndoJournal(bench.root / "undo.json").recover(30.0)
    assert (sched_ext_state(bench.root).state, bench.pids()) == ("disabled", [])
    bench.undo = UndoJournal(bench.root / "undo.json")
    bench.switcher = bench.new_switcher()
    assert bench.switch(FLASH).outcome is SwitchOutcome.CONFIRMED


def test_a_mode_that_is_not_in_the_manifest(bench):
    with pytest.raises(SchedulerError, match="has no mode 'nonsense'"):
        bench.switcher.begin(SchedulerName("scx_bpfland:nonsense"))
    assert not bench.switcher.busy()


def test_one_order_at_a_time(bench):
    bench.switcher.begin(BPFLAND)
    with pytest.raises(SchedulerError, match="under way"):
        bench.switcher.begin(FLASH)
    assert bench.event().outcome is SwitchOutcome.CONFIRMED
    assert bench.switcher.standbys() == ()


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, None),
        ({"CurrentScheduler": ("u", 5)}, None),
        ({"CurrentScheduler": ("s", "unknown")}, Ordered(scheduler=EEVDF, arguments=None)),  # scx_loader 1.0
        (
            {"CurrentScheduler": ("s", "scx_flash"), "CurrentSchedulerArgs": ("as", ["-v"])},
            Ordered(scheduler=FLASH, arguments=("-v",)),
        ),
    ],
)
def test_what_another_version_says(bench, properties, expected):
    bench.loader.kill()
    until(lambda: not bench.is_loader_there(), "the name is free")
    bench.authority.own(LOADER[0])
    read = {
        name: Property(signature=kind, read=lambda value=value: value) for name, (kind, value) in properties.items()
    }
    bench.authority.serve(Object(path=LOADER[1], interface=LOADER[2], methods={}, properties=read))
    loader_bus = LoaderBus(lambda: Bus.open(bench.address))
    heard = []
    loader_bus.ordered(heard.append)
    until(lambda: bench.authority.advance() or loader_bus.advance() or heard, "the answer")
    assert heard == [expected]
    assert loader_bus.present
    loader_bus.close()
    assert not loader_bus.present
