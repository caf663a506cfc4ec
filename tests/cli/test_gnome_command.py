# SPDX-License-Identifier: GPL-2.0-only
"""`asa gnome`: what it prints, its exit codes, and for whom it acts."""

import argparse
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest
from gnome_stand_in import Gnome

from asa.cli import gnome
from asa.core.errors import SetupError
from collectors.gnome.extension import UUID

WORK = Path(gnome.__file__).resolve().parents[2]


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A person's desktop with GNOME on it, none running."""
    desk = Gnome(tmp_path)
    desk.use(monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return desk


def run(*words):
    parser = argparse.ArgumentParser()
    gnome.register(parser.add_subparsers())
    arguments = parser.parse_args(["gnome", *words])
    return arguments.run(arguments)


def test_one_clear_line_each(desk, capsys):
    assert run("status") == 1
    assert capsys.readouterr().out == "the extension is not installed; run `asa gnome install`\n"
    assert run("install") == 0
    installed = capsys.readouterr().out
    assert installed.startswith("the extension is installed and enabled, but no GNOME Shell answers on the session bus")
    assert installed.endswith("; log in to GNOME\n")
    assert run("status") == 1
    assert capsys.readouterr().out == installed
    assert run("remove") == 0
    assert capsys.readouterr().out == "removed the extension\n"
    assert run("remove") == 0
    assert capsys.readouterr().out == "there was no extension to remove\n"
    assert [path for path in desk.tree() if UUID in path] == []


def test_json(desk, capsys):
    assert run("install", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["condition"], told["shell_version"]) == ("not-running", "43.9")
    assert Path(told["folder"]).joinpath("extension.js").exists()
    assert run("status", "--json") == 1
    assert json.loads(capsys.readouterr().out) == told
    assert run("remove", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["condition"], told["folder"]) == ("absent", "")


def test_without_gnome(tmp_path, monkeypatch, capsys):
    desk = Gnome(tmp_path, None)
    desk.use(monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run("status") == 1
    assert capsys.readouterr().out.startswith("there is no GNOME Shell here")
    with pytest.raises(SetupError, match="there is no GNOME Shell here"):
        run("install")


@pytest.mark.parametrize("person", [None, "", "root"])
@pytest.mark.parametrize("action", ["install", "remove", "status"])
def test_root_is_refused(desk, monkeypatch, person, action):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    if person is not None:
        monkeypatch.setenv("SUDO_USER", person)
    with pytest.raises(SetupError, match="per user, and this is root; run it as the user of the desktop"):
        run(action)
    assert desk.tree() == []


def test_sudo_of_nobody_known(desk, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "no-such-user")
    with pytest.raises(SetupError, match="SUDO_USER: there is no user 'no-such-user'"):
        run("install")


@pytest.mark.root
def test_under_sudo_it_is_that_user_for_good():
    if os.geteuid() != 0:
        assert os.environ.get("CI") != "true"
        pytest.skip("needs root: run the tests with sudo")
    user = pwd.getpwnam("nobody")
    script = (
        "import json, os\n"
        "from asa.cli import gnome\n"
        "from collectors.gnome.install import Installation\n"
        "environment, user = gnome.person(os.environ)\n"
        "installation = Installation(environment)\n"
        "gnome.become(user)\n"
        "try:\n"
        "    os.setuid(0)\n"
        "    back = True\n"
        "except PermissionError:\n"
        "    back = False\n"
        "status = installation.status()\n"
        "print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), back, environment, status.folder]))\n"
    )
    spoiled = {"XDG_DATA_HOME": "/root", "HOME": "/root", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/root/bus"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": os.environ["PATH"], "SUDO_USER": "nobody", **spoiled},
        cwd=WORK,
        capture_output=True,
        text=True,
        check=True,
    )
    uids, gids, groups, back, environment, folder = json.loads(done.stdout)
    assert (uids, gids) == ([user.pw_uid] * 3, [user.pw_gid] * 3)
    assert 0 not in groups
    assert not back
    assert environment["HOME"] == user.pw_dir
    assert environment["DBUS_SESSION_BUS_ADDRESS"] == f"unix:path=/run/user/{user.pw_uid}/bus"
    assert "XDG_DATA_HOME" not in environment
    assert folder == ""
