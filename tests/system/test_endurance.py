# SPDX-License-Identifier: GPL-2.0-only
"""What the helper survives: random calls, SIGKILL, standing still; and what its unit keeps it from."""

import re

import pytest
from waiting import until

from asa.core.helper_api import Failure
from asa.helper.desk import NOBODY
from scenarios.lab.box import installed as box_asa
from scenarios.lab.box.installed import Caller

WORST_SCORE = 3.5  # of 10; 0 is best
MAY = {21, 23, 34, 38, 39}  # capabilities: SYS_ADMIN, SYS_NICE, SYSLOG, PERFMON, BPF
OWN_FAULTS = ("NoReply", "TimedOut", "Disconnected", "ServiceUnknown", "NameHasNoOwner", "Spawn")


@pytest.fixture
def root(installed):
    with Caller.start(installed) as caller:
        caller.call("Ping", interface="org.freedesktop.DBus.Peer")
        yield caller


@pytest.mark.parametrize(("who", "calls"), [("eve", 4000), ("ada", 3000), ("root", 3000)])
def test_ten_thousand_random_calls_change_nothing(installed, ada, root, who, calls):
    options = {"session": ada} if who == "ada" else {"user": who}
    fuzzed = box_asa.fuzz(installed, calls, seed=len(who) * calls, **options)
    root.call("Resume")  # root's random holds are as good as any
    assert fuzzed.calls >= calls * 0.95  # those after a malformed one are not sent
    assert fuzzed.outcomes["answered"] > 0
    assert [name for name in fuzzed.outcomes if any(fault in name for fault in OWN_FAULTS)] == []
    assert fuzzed.crashes == 0
    assert fuzzed.grown_bytes < 16 << 20
    assert fuzzed.grown_descriptors <= 4
    assert (root.property("Holder"), root.property("State")) == (NOBODY, "")
    assert "Traceback" not in installed.journal(box_asa.UNIT)


def test_one_that_is_killed_is_back_at_once(installed, ada, root):
    with Caller.start(installed, session=ada) as caller:
        before = box_asa.helper_pid(installed)
        installed.run(["kill", "-KILL", str(before)], check=True)
        until(lambda: box_asa.helper_pid(installed) not in {0, before}, "another helper")
        assert caller.call("Acquire").error in ("", Failure.NOT_POSSIBLE)


def test_one_that_stands_still_is_replaced(installed, root):
    folder = installed.path / f"run/systemd/system/{box_asa.UNIT}.d"
    folder.mkdir(parents=True)
    (folder / "soon.conf").write_text("[Service]\nWatchdogSec=2\n")
    try:
        installed.systemctl("daemon-reload")
        installed.systemctl("restart", box_asa.UNIT)
        before = box_asa.helper_pid(installed)
        installed.run(["kill", "-STOP", str(before)], check=True)
        until(lambda: box_asa.helper_pid(installed) not in {0, before}, "another helper")
        assert "watchdog" in installed.journal(box_asa.UNIT).lower()
        assert root.call("Ping", interface="org.freedesktop.DBus.Peer").error == ""
    finally:
        (folder / "soon.conf").unlink()
        folder.rmdir()
        installed.systemctl("daemon-reload")
        installed.systemctl("restart", box_asa.UNIT)


def test_a_restart_of_the_bus_ends_it_and_it_comes_again(installed):
    installed.systemctl("restart", "dbus.service")
    with Caller.start(installed, user="eve") as eve:
        until(lambda: eve.call("Ping", interface="org.freedesktop.DBus.Peer").error == "", "the helper on the new bus")


def test_its_unit_is_in_force(installed, root):
    pid = box_asa.helper_pid(installed)
    status = dict(line.split(":\t", 1) for line in (installed.path / f"proc/{pid}/status").read_text().splitlines())
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert {number for number in range(64) if int(status["CapBnd"], 16) >> number & 1} <= MAY
    assert box_asa.security_score(installed) <= WORST_SCORE


def test_its_files_are_read_only_and_homes_are_hidden(installed, root):
    pid = box_asa.helper_pid(installed)
    mounts = [line.split() for line in (installed.path / f"proc/{pid}/mountinfo").read_text().splitlines()]
    read_only = {words[4] for words in mounts if "ro" in words[5].split(",")}
    assert {"/", "/sys"} <= read_only
    seen = installed.path / f"proc/{pid}/root"
    assert not any((seen / "home").iterdir())
    assert not any((seen / "tmp").iterdir())


def test_it_has_nothing_but_the_bus_and_the_kernels_events(installed, root):
    sockets = installed.run(["ss", "--all", "--no-header", "--processes"], check=True).stdout.splitlines()
    pid = box_asa.helper_pid(installed)
    own = {line.split()[0] for line in sockets if re.search(rf"pid={pid},", line)}
    assert own <= {"u_str", "u_dgr", "nl"}


def test_the_installed_program_is_roots_alone(installed):
    for folder in ("usr/lib/asa", "var/lib/asa", "usr/bin/asa"):
        for path in [installed.path / folder, *(installed.path / folder).rglob("*")]:
            state = path.lstat()
            assert (state.st_uid, bool(state.st_mode & 0o022)) == (0, False) or path.is_symlink(), path
