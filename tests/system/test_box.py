# SPDX-License-Identifier: GPL-2.0-only
"""The box itself: is it a machine as others, and is nothing left of it afterwards?"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from asa.core.errors import LabError
from scenarios.lab.box import root as box_root
from scenarios.lab.box.machine import Box

ALLOWED, CHALLENGE = 0, 2  # exit codes of pkcheck(1)
OWNER = """
import sys
from scenarios.lab.box.machine import Box
box = Box.start()
print(box.pid, flush=True)
sys.stdin.read()
"""
ASK = "exec pkcheck --action-id org.freedesktop.login1.suspend --process $$"  # active sessions may, by default


def groups(owner):
    """Control groups of that process's boxes."""
    found = Path("/sys/fs/cgroup").rglob(f"asa-box-{owner}-*")
    return {path.name for path in found if path.is_dir()}


def test_its_services_run_and_nothing_else_of_the_hosts(box):
    assert box.run(["cat", "/proc/1/comm"]).stdout == "systemd\n"
    assert box.systemctl("list-units", "--failed", "--plain", "--no-legend") == ""
    running = box.systemctl("list-units", "--type=service", "--state=running", "--plain", "--no-legend").splitlines()
    names = {line.split()[0] for line in running}
    assert {"dbus.service", "polkit.service", "systemd-logind.service", "systemd-journald.service"} <= names
    assert {name for name in names if not name.startswith(("user@", "asa-box"))} <= set(box_root.KEPT)


def test_programs_run_as_whom_and_end_as_they_end(box):
    done = box.run(["sh", "-c", "id -un; id -Gn; pwd; echo oh >&2; exit 3"], user="ada")
    assert (done.returncode, done.stdout, done.stderr) == (3, "ada\nada\n/\n", "oh\n")
    assert box.run(["sh", "-c", "grep CapEff /proc/self/status"], user="ada").stdout.split()[1].strip("0") == ""
    assert box.run(["id", "-u"]).stdout == "0\n"
    with pytest.raises(LabError, match="ended with 3"):
        box.run(["sh", "-c", "exit 3"], check=True)


def test_what_takes_too_long_is_ended(box):
    with pytest.raises(LabError, match="took longer than 1 s"):
        box.run(["sleep", "4711"], user="eve", timeout_s=1)
    until(lambda: box.run(["pgrep", "-u", "eve"]).returncode == 1, "the end of what took too long")


def test_a_file_put_there_is_not_the_hosts(box):
    (box.path / "etc/asa-box-file").write_text("here\n")
    assert box.run(["cat", "/etc/asa-box-file"], user="ben").stdout == "here\n"
    assert not Path("/etc/asa-box-file").exists()


def test_the_session_in_front_may_what_others_may_not(box):
    ada = box.login("ada")
    assert box.in_front() == ada.id
    assert box.run(["systemctl", "--user", "is-system-running"], session=ada).stdout == "running\n"
    assert box.run(["sh", "-c", ASK], session=ada).returncode == ALLOWED
    ben = box.login("ben")
    assert (box.in_front(), box.session_state(ada)) == (ben.id, "online")
    assert box.run(["sh", "-c", ASK], session=ben).returncode == ALLOWED
    assert box.run(["sh", "-c", ASK], session=ada).returncode == CHALLENGE
    assert box.run(["sh", "-c", ASK], user="eve").returncode == CHALLENGE
    box.activate(ada)
    until(lambda: box.in_front() == ada.id, "ada's session in front")
    assert box.run(["sh", "-c", ASK], session=ada).returncode == ALLOWED
    for session in (ada, ben):
        box.logout(session)
    until(lambda: box.in_front() == "", "nobody in front")


def test_a_unit_that_is_killed_is_started_again(box):
    unit = box.path / "etc/systemd/system/sleeper.service"
    unit.write_text("[Service]\nExecStart=/bin/sleep infinity\nRestart=on-failure\nRestartSec=0\n")
    box.systemctl("daemon-reload")
    box.systemctl("start", "sleeper")
    first = box.show("sleeper", "MainPID")
    box.run(["kill", "-KILL", first], check=True)
    until(lambda: box.show("sleeper", "MainPID") not in {first, "0"}, "a second process")
    assert "status=9/KILL" in box.journal("sleeper")


def test_two_boxes_do_not_meet(box):
    with Box.start() as other:
        (other.path / "run/only-there").touch()
        assert not (box.path / "run/only-there").exists()
        assert other.login("ada").id == "c1"
        assert other.run(["pgrep", "-c", "polkitd"]).stdout == "1\n"


def test_nothing_is_left_of_it():
    mounts, before = Path("/proc/self/mounts").read_text(), groups(os.getpid())
    with Box.start() as box:
        box.login("ada")
        sleeper = box.spawn(["sleep", "infinity"], user="ben")
        assert groups(os.getpid()) > before
        pid = box.pid
    assert not Path(f"/proc/{pid}").exists()
    sleeper.communicate(timeout=30)
    assert groups(os.getpid()) == before
    assert Path("/proc/self/mounts").read_text() == mounts


def test_the_kernel_ends_it_when_its_owner_is_killed():
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        pid = int(owner.stdout.readline())
        assert Path(f"/proc/{pid}/root", box_root.READY).exists()
        assert len(groups(owner.pid)) == 1
        os.kill(owner.pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the box")
    with Box.start():  # which sweeps
        assert groups(owner.pid) == set()


def test_one_that_cannot_boot_says_why(monkeypatch):
    before = groups(os.getpid())
    monkeypatch.setattr(box_root, "INIT", "echo no such thing >&2; exit 4")
    with pytest.raises(LabError, match=r"ended with 4 before it was up: 'no such thing"):
        Box.start()
    assert groups(os.getpid()) == before
