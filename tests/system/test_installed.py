# SPDX-License-Identifier: GPL-2.0-only
"""On a whole machine with real systemd, D-Bus and polkit: `asa install` and the Debian package, in use, and gone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from asa.core.helper_api import Failure
from calibration.laptop.installation import leftovers, look
from scenarios.lab.box.installed import UNIT, Caller, helper_pid
from scenarios.lab.box.machine import Box, end

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="a box needs root; run the tests as root"),
]

TMP = "/tmp/"  # noqa: S108  # of the box, which is ours alone
ASA = Path(sys.executable).parent / "asa"
NAME, OBJECT = "org.asa.Helper1", "/org/asa/Helper1"
# What dpkg and man-db keep books in; anything else that a removed package leaves is ours.
BOOKS = ("/var/lib/dpkg", "/var/cache/man", "/var/cache/debconf", "/var/lib/systemd/deb-systemd")


@pytest.fixture
def box():
    with Box.start() as box:
        policy = box.path / "usr/sbin/policy-rc.d"
        policy.unlink(missing_ok=True)  # of images for containers: forbids packages to stop services
        yield box


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg is not here: packages are made on Debian")
    folder = tmp_path_factory.mktemp("deb")
    subprocess.run([ASA, "lab", "deb", "--out", folder], check=True, capture_output=True)
    (path,) = folder.glob("asa_*.deb")
    return path


@pytest.fixture(scope="module")
def laboratory(package):
    (path,) = package.parent.glob("asa-lab_*.deb")
    return path


def in_use(box):
    """Somebody at the machine starts the daemon, and the bus the helper; gives the session."""
    session = box.login("ada")
    enabled = box.run(["systemctl", "--user", "is-enabled", "asa.service"], session=session)
    assert enabled.stdout == "enabled\n", enabled
    box.run(["systemctl", "--user", "start", "asa.service"], session=session, check=True)
    get = ["busctl", "--system", "get-property", NAME, OBJECT, NAME, "Version"]
    assert box.run(get, session=session, check=True).stdout.startswith('s "')
    assert helper_pid(box) > 0
    assert box.run(["systemctl", "--user", "is-active", "asa.service"], session=session).stdout == "active\n"
    return session


def no_longer_in_use(box, session):
    assert box.run(["systemctl", "--user", "is-active", "asa.service"], session=session).stdout != "active\n"
    assert box.show(UNIT, "ActiveState") == "inactive"
    assert box.run(["asa"]).returncode != 0
    box.logout(session)


def test_without_a_desktop_the_agent_starts_with_the_machine(installed):
    unit = "asa-system.service"
    installed.systemctl("enable", "--now", unit)
    try:
        until(lambda: installed.run(["asa", "status"]).returncode == 0, "the agent's status")
        assert installed.show(unit, "ActiveState") == "active"
        session = installed.login("ada")  # everybody sees it, and the helper gives nobody the lease
        assert installed.run(["asa", "status"], session=session).returncode == 0
        with Caller.start(installed, session=session) as ada:
            refused = ada.call("Acquire")
            assert refused.error == Failure.NOT_POSSIBLE
        installed.logout(session)
        said = installed.journal(unit)
        assert "Traceback" not in said
        assert not [line for line in said.splitlines() if "ermi" in line], "the sandbox leaves it what it needs"
    finally:
        print(installed.journal(unit)[-3000:])
        installed.systemctl("disable", "--now", unit)
    assert installed.show(unit, "Result") == "success"
    assert installed.run(["asa", "status"]).returncode != 0


def ours(before, box):
    return [path for path in leftovers(before, look(box.path)) if not path.startswith(BOOKS)]


def test_installed_by_its_own_command_it_works_and_goes_without_a_trace(box):
    before = look(box.path)
    done = box.run([str(ASA), "install"], timeout_s=300, check=True)
    assert done.stdout.startswith("done: ")
    assert box.run([str(ASA), "install"], timeout_s=300, check=True).stdout.splitlines()[0] == "nothing to do"
    assert box.run(["asa", "--version"], user="eve", check=True).stdout.startswith("asa ")
    session = in_use(box)
    again = box.run(["asa", "install"])
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    box.run(["asa", "uninstall"], timeout_s=300, check=True)
    no_longer_in_use(box, session)
    assert ours(before, box) == []


def test_it_goes_while_somebody_calls_the_helper_on_and_on(box):
    """The bus starts it for each call, which cancels an order to stop it."""
    before = look(box.path)
    box.run([str(ASA), "install"], timeout_s=300, check=True)
    calls = f"while :; do busctl --system call {NAME} {OBJECT} org.freedesktop.DBus.Peer Ping; done >/dev/null 2>&1"
    caller = box.spawn(["sh", "-c", calls], user="eve")
    until(lambda: helper_pid(box) > 0, "the helper")
    assert box.run(["asa", "uninstall"], timeout_s=300, check=True).stderr == ""
    assert box.show(UNIT, "LoadState") == "not-found"
    assert box.show(UNIT, "ActiveState") == "inactive"
    assert caller.poll() is None
    end(caller)
    assert ours(before, box) == []


def test_the_package_works_and_goes_without_a_trace(box, package):
    file = "/tmp/asa.deb"  # noqa: S108  # of the box, which is ours alone
    (box.path / file.removeprefix("/")).write_bytes(package.read_bytes())
    before = look(box.path)
    box.run(["dpkg", "--install", file], timeout_s=300, check=True)
    assert box.run(["asa", "--version"], user="eve", check=True).stdout.startswith("asa ")
    findings = json.loads(box.run(["asa", "doctor", "--json"]).stdout)["findings"]
    assert {one["subject"]: one["level"] for one in findings}["model"] == "ok"
    refused = box.run([str(ASA), "install"], timeout_s=300)
    assert refused.stderr == "asa: the Debian package asa is installed; use apt to upgrade or remove it\n"
    session = in_use(box)
    box.run(["dpkg", "--install", file], timeout_s=300, check=True)  # an upgrade
    box.run(["dpkg", "--remove", "asa"], timeout_s=300, check=True)
    no_longer_in_use(box, session)
    assert (box.path / "etc/asa/asa.yaml").exists()
    box.run(["dpkg", "--purge", "asa"], timeout_s=300, check=True)
    assert ours(before, box) == []


def test_the_package_is_not_put_over_another_installation(box, package):
    (box.path / "usr/lib/asa").mkdir()
    (box.path / "usr/lib/asa/files.json").write_text("{}")
    (box.path / "tmp/asa.deb").write_bytes(package.read_bytes())
    done = box.run(["dpkg", "--install", "/tmp/asa.deb"], timeout_s=300)  # noqa: S108  # as above
    assert done.returncode != 0
    assert "run 'sudo asa uninstall' first" in done.stderr


def test_the_laboratory_comes_and_goes_with_its_own_package(box, package, laboratory):
    for path in (package, laboratory):
        (box.path / "tmp" / path.name).write_bytes(path.read_bytes())
    before = look(box.path)
    box.run(["dpkg", "--install", TMP + package.name], timeout_s=300, check=True)
    without = box.run(["asa", "calibrate", "--help"])
    assert (without.returncode, without.stdout) == (1, "")
    assert without.stderr.startswith("asa: asa calibrate comes with the package asa-lab; install it: ")
    # its dependency python3-venv may not be on the host's root file system, which is the box's too
    box.run(["dpkg", "--install", "--force-depends", TMP + laboratory.name], timeout_s=300, check=True)
    assert box.run(["asa", "calibrate", "--help"], check=True).stdout.startswith("usage: asa calibrate")
    assert "bench" in box.run(["asa", "lab", "--help"], check=True).stdout
    lacking = box.run(["asa", "lab", "evaluate", "scenarios"])
    assert (lacking.returncode, lacking.stderr.count("\n")) == (1, 1)
    assert "sudo asa lab setup" in lacking.stderr
    box.run(["dpkg", "--purge", "asa-lab"], timeout_s=300, check=True)
    assert box.run(["asa", "calibrate", "--help"]).returncode == 1
    assert box.run(["asa", "status"]).returncode == 3
    box.run(["dpkg", "--purge", "asa"], timeout_s=300, check=True)
    assert ours(before, box) == []


@pytest.mark.parametrize("name", ["package", "laboratory"])
def test_lintian_finds_no_error_in_the_package(name, request):
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed; `asa lab setup --tests` does it")
    command = ["lintian", "--allow-root", "--fail-on", "error", str(request.getfixturevalue(name))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
