# SPDX-License-Identifier: GPL-2.0-only
"""Rivals by /proc as kernels and systemd write it, and by systemd's word over a real bus."""

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from waiting import until

from asa.act.rivals import (
    LOADER_UNIT,
    Harm,
    by_loader,
    found,
    is_active,
    masters,
    process_of,
    processes,
    unit_states,
)
from asa.bus import Bus, BusError, Method, Object

BUS = """<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>"""
SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
STATUS = """Name:\t{name}
Umask:\t0022
State:\t{state} (sleeping)
Tgid:\t{pid}
Pid:\t{pid}
PPid:\t{parent}
TracerPid:\t0
Uid:\t{uid}\t{euid}\t{euid}\t{euid}
Gid:\t{uid}\t{uid}\t{uid}\t{uid}
"""


@pytest.fixture
def run(tmp_path):
    """Puts a process into a tree like /proc; gives the tree."""

    def running(pid, *words, parent=1, uid=0, euid=None, group="/", state="S", name=None):
        folder = tmp_path / str(pid)
        folder.mkdir()
        name = name or Path(words[0]).name[:15]
        text = STATUS.format(
            name=name, pid=pid, parent=parent, uid=uid, euid=uid if euid is None else euid, state=state
        )
        (folder / "status").write_text(text)
        (folder / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        (folder / "cgroup").write_text(f"0::{group}\n")
        return tmp_path

    return running


def one(proc, states=None):
    (rival,) = found(proc, states)
    return rival


def test_nobody(run):
    assert found(run(1, "/sbin/init")) == ()


def test_an_idle_loader_may_switch(run):
    rival = one(run(812, "/usr/bin/scx_loader", group="/system.slice/scx_loader.service"))
    assert (rival.name, rival.harm, rival.where) == ("scx_loader", Harm.MAY_SWITCH, "pid 812")
    assert rival.stop == "systemctl disable --now scx_loader.service"


def test_a_loader_with_a_scheduler_is_a_master_unless_it_is_ours(run):
    group = "/system.slice/scx_loader.service"
    run(812, "/usr/bin/scx_loader", group=group)
    proc = run(900, "scx_lavd", "--autopilot", parent=812, group=group)
    (rival,) = masters(proc)
    assert (rival.name, rival.text) == ("scx_loader", "it has loaded scx_lavd")
    assert "systemctl disable --now scx_loader.service" in rival.sentence
    assert masters(proc, loader_is_ours=True) == ()


@pytest.mark.parametrize("flag", ["--auto", "-a"])
def test_a_loader_that_follows_the_load_is_always_a_master(run, flag):
    proc = run(812, "/usr/bin/scx_loader", flag, group="/system.slice/scx_loader.service")
    (rival,) = masters(proc, loader_is_ours=True)
    assert rival.name == "scx_loader --auto"


@pytest.mark.parametrize("words", [("scx_loader", "--auto"), ("scx-adapt",)])
def test_a_user_cannot_stop_us_by_a_name(run, words):
    proc = run(812, *words, uid=1000)
    assert masters(proc) == ()


def test_nor_by_another_name_for_a_setuid_program(run):
    """`ln -s /usr/bin/su scx_loader; ./scx_loader root -c -a` waits for a password as long as they like."""
    proc = run(812, "./scx_loader", "root", "-c", "-a", uid=1000, euid=0)
    assert masters(proc) == ()


def test_a_unit_that_keeps_a_scheduler(run):
    proc = run(700, "/usr/bin/scx_bpfland", "-m", "auto", group="/system.slice/scx.service")
    rival = one(proc, {"scx.service": "active"})  # named once
    assert (rival.name, rival.harm) == ("scx", Harm.SWITCHES)
    assert (rival.text, rival.stop) == ("it keeps scx_bpfland loaded", "systemctl disable --now scx.service")
    proc = run(701, "/usr/bin/scx_nest", group="/system.slice/sched-ext-nest.service")
    assert [rival.name for rival in masters(proc)] == ["scx", "sched-ext-nest"]


@pytest.mark.parametrize(
    ("group", "parent"),
    [
        ("/system.slice/asa-helper.service", 1),  # left by a helper that was killed
        ("/system.slice/asa-helper.service", 600),
        ("/user.slice/user-0.slice/session-3.scope", 1),  # by hand: sysfs shows it
        ("/", 1),
    ],
)
def test_schedulers_that_are_no_rivals(run, group, parent):
    assert found(run(700, "scx_bpfland", group=group, parent=parent)) == ()


@pytest.mark.parametrize(
    ("words", "name", "group", "stop"),
    [
        (
            "/usr/bin/system76-scheduler",
            "system76-scheduler",
            "/system.slice/com.system76.Scheduler.service",
            "systemctl disable --now com.system76.Scheduler.service",
        ),
        ("/usr/sbin/tuned", "tuned", "/system.slice/tuned.service", "systemctl disable --now tuned.service"),
        ("/usr/bin/ananicy-cpp", "ananicy-cpp", "/system.slice/docker-1.scope", "kill 50"),
        ("/usr/bin/ananicy", "ananicy", "/system.slice/ananicy.service", "systemctl disable --now ananicy.service"),
    ],
)
def test_those_that_set_priorities(run, words, name, group, stop):
    proc = run(50, words, group=group)
    rival = one(proc)
    assert (rival.name, rival.harm, rival.stop) == (name, Harm.PRIORITIES, stop)
    assert masters(proc) == ()


@pytest.mark.parametrize(
    ("group", "stop"),
    [
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/gamemoded.service",
            "systemctl --user disable --now gamemoded.service",
        ),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/app-1.scope", "kill 60"),
        ("/user.slice/user-1000.slice/session-2.scope", "kill 60"),
    ],
)
def test_a_users_daemon(run, group, stop):
    rival = one(run(60, "/usr/bin/gamemoded", uid=1000, group=group))
    assert (rival.harm, rival.stop) == (Harm.NONE, stop)


@pytest.mark.parametrize(
    ("words", "name", "harm", "told"),
    [
        ("/usr/bin/falcond", "falcond", Harm.MAY_SWITCH, "scx_sched = none"),
        ("/usr/lib/steamos-manager", "steamos-manager", Harm.MAY_SWITCH, "ASA holds until that ends"),
        ("/usr/bin/scx-manager", "scx-manager", Harm.MAY_SWITCH, "ASA holds until that ends"),
        ("/usr/bin/gamemoded", "gamemoded", Harm.NONE, "gamemode.ini"),
        ("/usr/libexec/power-profiles-daemon", "power-profiles-daemon", Harm.NONE, "which ASA follows"),
        ("/usr/sbin/tuned-ppd", "tuned-ppd", Harm.NONE, "which ASA follows"),
        ("/usr/bin/auto-cpufreq", "auto-cpufreq", Harm.NONE, "which ASA follows"),
    ],
)
def test_those_that_start_schedulers_by_others_or_none(run, words, name, harm, told):
    rival = one(run(812, words, group=f"/system.slice/{name}.service"))
    assert (rival.name, rival.harm, rival.stop) == (name, harm, f"systemctl disable --now {name}.service")
    assert told in rival.text
    assert not rival.is_master(loader_is_ours=False)


@pytest.mark.parametrize(("text", "harm"), [(b"\x7fELF\0org.scx.Loader\0", Harm.MAY_SWITCH), (b"\x7fELF\0", Harm.NONE)])
def test_a_power_profiles_daemon_that_tells_scx_loader(run, tmp_path, text, harm):
    program = tmp_path / "power-profiles-daemon"
    program.write_bytes(text)
    rival = one(run(812, str(program), group="/system.slice/power-profiles-daemon.service"))
    assert (rival.name, rival.harm) == ("power-profiles-daemon", harm)
    assert ("tell scx_loader" in rival.text) is rival.orders_loader is (harm is Harm.MAY_SWITCH)


def test_falcond_by_systemds_word(run):
    rival = one(run(1, "/sbin/init"), {"falcond.service": "active"})
    assert (rival.name, rival.harm, rival.orders_loader) == ("falcond", Harm.MAY_SWITCH, True)


def test_the_worst_comes_first(run):
    run(60, "gamemoded")
    run(61, "tuned")
    run(62, "scx_loader")
    proc = run(63, "scx-adapt")
    order = [Harm.SWITCHES, Harm.MAY_SWITCH, Harm.PRIORITIES, Harm.NONE]
    assert [rival.harm for rival in found(proc)] == order


def test_what_only_systemd_knows(run):
    proc = run(1, "/sbin/init")
    rival = one(proc, {"scx.service": "activating", "tuned.service": "inactive", LOADER_UNIT: "failed"})
    assert (rival.name, rival.harm, rival.where) == ("scx", Harm.SWITCHES, "scx.service is activating")
    assert one(proc, {LOADER_UNIT: "active"}).harm is Harm.MAY_SWITCH


def test_processes_that_end_or_are_no_such(run):
    proc = run(70, "scx_loader", "--auto", state="Z")
    (proc / "71").mkdir()
    (proc / "72").mkdir()
    (proc / "72/status").write_text("Name:\tscx_loader\nState:\tS (sleeping)\n")
    run(73, "tuned")
    (proc / "73/cgroup").unlink()
    (proc / "self").mkdir()
    assert [rival.stop for rival in found(proc)] == ["kill 73"]


def test_this_process():
    mine = process_of(Path("/proc"), os.getpid())
    assert (mine.parent, mine.uid, mine.name) == (
        os.getppid(),
        os.getuid(),
        Path("/proc/self/comm").read_text().strip(),
    )
    assert mine in list(processes(Path("/proc")))
    assert process_of(Path("/proc"), 1 << 22) is None


@pytest.mark.parametrize(
    ("backend", "state", "expected"),
    [
        ("auto", "active", True),
        ("auto", "inactive", False),
        ("auto", None, False),
        ("own", "active", False),
        ("loader", None, True),
    ],
)
def test_whose_loading_it_is(backend, state, expected):
    assert by_loader(backend, {LOADER_UNIT: state} if state else {}) is expected


@pytest.fixture
def bus_address(tmp_path, monkeypatch):
    path = tmp_path / "bus"
    (tmp_path / "bus.conf").write_text(BUS.format(path=path))
    command = [shutil.which("setpriv"), "--pdeathsig", "KILL", "--", "dbus-daemon"]
    command += [f"--config-file={tmp_path}/bus.conf", "--nofork", "--nopidfile"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **silent) as daemon:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={path}")

        def answers():
            try:
                Bus.system().close()
            except BusError:
                return False
            return True

        until(answers, "the bus takes connections")
        yield
        daemon.kill()


def answer(gives, reply):
    """A thread that answers one question as systemd."""
    bus = Bus.system()
    bus.own(SYSTEMD[0])
    asked = []

    def take(request):
        asked.extend(request.body[0])
        request.answer(reply)

    method = Method(takes="as", gives=gives, run=take)
    bus.serve(Object(path=SYSTEMD[1], interface=SYSTEMD[2], methods={"ListUnitsByNames": method}))

    def serve():
        until(lambda: bus.advance() or asked, "a question")
        bus.close()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread, asked


@pytest.mark.usefixtures("bus_address")
def test_the_word_of_systemd():
    rows = [
        (name, "", "loaded", state, "sub", "", "/a", 0, "", "/")
        for name, state in ((LOADER_UNIT, "active"), ("scx.service", "inactive"))
    ]
    thread, asked = answer("a(ssssssouso)", rows)
    states = unit_states()
    thread.join()
    assert states == {LOADER_UNIT: "active", "scx.service": "inactive"}
    assert is_active(states, LOADER_UNIT)
    assert not is_active(states, "scx.service")
    assert {LOADER_UNIT, "tuned.service", "com.system76.Scheduler.service"} <= set(asked)


@pytest.mark.usefixtures("bus_address")
def test_one_that_answers_otherwise_is_no_systemd():
    thread, _ = answer("as", ["nonsense"])
    assert unit_states() == {}
    thread.join()


@pytest.mark.usefixtures("bus_address")
def test_a_bus_without_systemd():
    assert unit_states() == {}


def test_no_bus(monkeypatch, tmp_path):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/none")
    assert unit_states() == {}
