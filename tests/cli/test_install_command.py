# SPDX-License-Identifier: GPL-2.0-only
"""`asa install` and `asa uninstall` with everything they bring along, into a folder that stands for a machine."""

import json
import os
import shutil

import pytest
from made_up_status import status as example

from asa.act.undo import UndoJournal
from asa.cli.main import main
from asa.install import record
from asa.install.payload import DATA
from asa.install.system import System
from asa.status import StatusFile

PLACES = ("etc", "usr", "var")


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # without schedulers
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def ran(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="installed files are root's; run the tests as root")
def test_in_again_and_out(root, capsys):
    if shutil.which("systemctl") is None:
        pytest.skip("systemd is not installed; `asa lab setup --tests` does it")
    code, out, err = ran(capsys, "install", "--dry-run", "--root", root)
    assert (code, list(root.iterdir())) == (0, [])
    lines = out.splitlines()
    assert "create   /usr/bin/asa" in lines
    assert "create   /usr/lib/systemd/system/asa-helper.service" in lines
    assert lines[-3].startswith("would: ")
    assert "at most 5 % of the time and with 12 switches an hour" in lines[-1]
    assert "no schedulers are installed yet" in err

    code, out, err = ran(capsys, "install", "--root", root, "--json")
    told = json.loads(out)
    assert (code, told["dry_run"], len(told["notes"])) == (0, False, 1)
    assert {step["what"] for step in told["steps"]} == {"create"}
    for step in told["steps"]:
        assert (root / step["path"].removeprefix("/")).exists(), step
    wish = root / "etc/systemd/user/graphical-session.target.wants/asa.service"
    assert wish.is_symlink()
    assert list((root / "usr/lib/asa/asa/__pycache__").glob("*.pyc"))

    wish.unlink()  # as an administrator who does not want it
    code, out, err = ran(capsys, "install", "--root", root)
    assert (code, out) == (0, "nothing to do\n")
    assert not wish.exists()

    code, out, err = ran(capsys, "uninstall", "--dry-run", "--json", "--root", root)
    assert "/usr/bin/asa" in {step["path"] for step in json.loads(out)["steps"]}
    assert (root / "usr/bin/asa").exists()
    code, out, err = ran(capsys, "uninstall", "--root", root)
    assert (code, err) == (0, "")
    assert list(root.iterdir()) == []
    assert ran(capsys, "uninstall", "--root", root) == (0, "nothing to do\n", "")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="installed files are root's; run the tests as root")
def test_without_a_desktop_root_s_agent_is_enabled_instead_and_goes_with_the_rest(root, capsys):
    if shutil.which("systemctl") is None:
        pytest.skip("systemd is not installed; `asa lab setup --tests` does it")
    daemon = root / "etc/systemd/user/graphical-session.target.wants/asa.service"
    agent = root / "etc/systemd/system/multi-user.target.wants/asa-system.service"
    for words in (("--system",), ("--system",), ()):  # again, and as an upgrade
        code, out, _ = ran(capsys, "install", *words, "--root", root)
        assert (code, "gnome" in out.lower()) == (0, False)
        assert agent.is_symlink()
        assert agent.readlink().name == "asa-system.service"
        assert not daemon.exists()
    code, _, err = ran(capsys, "uninstall", "--root", root)
    assert (code, err) == (0, "")
    assert list(root.iterdir()) == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="installed files are root's; run the tests as root")
def test_a_desktop_s_machine_can_become_one_without(root, capsys):
    if shutil.which("systemctl") is None:
        pytest.skip("systemd is not installed; `asa lab setup --tests` does it")
    ran(capsys, "install", "--root", root)
    daemon = root / "etc/systemd/user/graphical-session.target.wants/asa.service"
    assert daemon.is_symlink()
    assert not (root / "etc/systemd/system/multi-user.target.wants/asa-system.service").exists()
    assert ran(capsys, "install", "--system", "--root", root)[0] == 0
    assert not daemon.exists()
    assert (root / "etc/systemd/system/multi-user.target.wants/asa-system.service").is_symlink()


def test_without_systemd_it_says_how_to_start(root, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _: None)
    said = ["no systemd here, so nothing starts ASA: have your init system run `asa run` as root"]
    assert System(root).enable() == said
    assert System(root).enable(system=True) == said
    assert list(root.iterdir()) == []


def test_a_daemon_that_a_removed_package_has_masked_is_enabled(root):
    if shutil.which("systemctl") is None:
        pytest.skip("systemd is not installed; `asa lab setup --tests` does it")
    units = root / "usr/lib/systemd/user"
    units.mkdir(parents=True)
    shutil.copy(DATA / "asa.service", units)
    mask = root / "etc/systemd/user/asa.service"
    mask.parent.mkdir(parents=True)
    mask.symlink_to("/dev/null")
    assert System(root).enable() == []
    assert not mask.is_symlink()
    assert (root / "etc/systemd/user/graphical-session.target.wants/asa.service").is_symlink()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="installed files are root's; run the tests as root")
def test_nothing_goes_beside_a_running_agent_and_what_a_killed_one_left_is_put_back(root, capsys):
    for name in ("usr/lib/asa", "run/asa", "sys/kernel"):
        (root / name).mkdir(parents=True)
    record.write(root, record.Record(version="1", files={}, config={}, folders=()))
    grace_periods = root / "sys/kernel/rcu_expedited"
    grace_periods.write_text("0")
    UndoJournal(root / "run/asa/undo.json", sys=root / "sys").expedite()
    lock = StatusFile(root / "run/asa")
    lock.write(example(pid=4711))
    code, out, err = ran(capsys, "uninstall", "--root", root)
    assert (code, out) == (1, "")
    assert err == f"asa: {root}/run/asa: an agent (pid 4711) is running; end it first, then run this again\n"
    assert (root / "usr/lib/asa/files.json").exists()
    assert grace_periods.read_text() == "1"
    lock.close()
    code, out, err = ran(capsys, "uninstall", "--root", root)
    assert code == 0
    assert "settings it had changed: rcu_expedited: 1 -> 0" in out + err
    assert grace_periods.read_text() == "0"
    assert not (root / "run/asa").exists()


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_anybody_but_root_may_only_look(root, capsys, monkeypatch, verb):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, out, err = ran(capsys, verb, "--root", root)
    assert (code, out) == (1, "")
    assert err == f"asa: only root can do that; run `sudo asa {verb}`, or `asa {verb} --dry-run` to look\n"
    assert list(root.iterdir()) == []
    assert ran(capsys, verb, "--dry-run", "--root", root)[0] == 0


def test_a_root_that_is_not_there_is_one_line(root, capsys):
    code, _, err = ran(capsys, "uninstall", "--dry-run", "--root", root / "none")
    assert (code, err.count("\n")) == (1, 1)
    assert str(root / "none") in err
