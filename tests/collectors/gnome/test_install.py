# SPDX-License-Identifier: GPL-2.0-only
"""Installing where GNOME is missing, strange, or in the way; a real one is in test_install_shell.py."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from gnome_stand_in import Gnome

from asa.core.errors import SetupError
from collectors.gnome import extension, install
from collectors.gnome.extension import UUID, Format
from collectors.gnome.install import Condition, Installation
from collectors.gnome.shell import major


@pytest.fixture
def gnome(tmp_path):
    return Gnome(tmp_path)


def text_of(gnome):
    return (Installation(gnome.env).folder / "extension.js").read_text()


def test_where_it_goes(tmp_path):
    below = f"gnome-shell/extensions/{UUID}"
    assert Installation({"HOME": "/home/ann"}).folder == Path("/home/ann/.local/share") / below
    assert Installation({"HOME": "/home/ann", "XDG_DATA_HOME": "/data"}).folder == Path("/data") / below


@pytest.mark.parametrize(
    ("version", "format_"), [("43.9", Format.LEGACY), ("45.0", Format.ESM), ("47.beta", Format.ESM)]
)
def test_the_program_tells_the_format(tmp_path, version, format_):
    gnome = Gnome(tmp_path, version)
    status = Installation(gnome.env).install()
    assert (status.condition, status.shell_version) == (Condition.NOT_RUNNING, version)
    assert text_of(gnome) == extension.render(format_)["extension.js"]
    assert gnome.setting("enabled-extensions") == repr([UUID])


@pytest.mark.parametrize("version", ["42.5", "52.0"])
def test_a_version_that_it_is_not_made_for(tmp_path, version):
    gnome = Gnome(tmp_path, version)
    with pytest.raises(SetupError, match=r"GNOME Shell .*: the extension is made for 43 to 51"):
        Installation(gnome.env).install()
    assert gnome.tree() == []
    assert Installation(gnome.env).status().condition is Condition.UNSUPPORTED


def test_a_program_that_says_no_version(tmp_path):
    gnome = Gnome(tmp_path, "of Theseus")
    with pytest.raises(SetupError, match="'of Theseus'"):
        Installation(gnome.env).install()
    with pytest.raises(SetupError, match="''"):
        major("")


def test_no_gnome(tmp_path):
    gnome = Gnome(tmp_path, None)
    status = Installation(gnome.env).status()
    assert (status.condition, status.shell_version, status.folder) == (Condition.NO_GNOME, None, "")
    with pytest.raises(SetupError, match="no GNOME Shell here"):
        Installation(gnome.env).install()
    assert gnome.tree() == []


def test_other_extensions_and_files_stay(gnome):
    others = ["a@b", "dash-to-dock@micxgx.gmail.com"]
    gnome.settings(**{"enabled-extensions": others, "disabled-extensions": ["c@d", UUID]})
    beside = Installation(gnome.env).folder.with_name("a@b")
    beside.mkdir(parents=True)
    Installation(gnome.env).install()
    assert gnome.setting("enabled-extensions") == repr([*others, UUID])
    assert gnome.setting("disabled-extensions") == repr(["c@d"])
    assert Installation(gnome.env).remove() is True
    assert gnome.setting("enabled-extensions") == repr(others)
    assert gnome.setting("disabled-extensions") == repr(["c@d"])
    assert [path for path in gnome.tree() if "@" in path] == [".local/share/gnome-shell/extensions/a@b"]


def test_installing_twice_writes_once(gnome):
    Installation(gnome.env).install()
    before = (Installation(gnome.env).folder / "extension.js").stat()
    Installation(gnome.env).install()
    assert (Installation(gnome.env).folder / "extension.js").stat() == before


@pytest.mark.parametrize("spoil", ["extension.js", "metadata.json"])
def test_a_file_that_is_missing_or_changed_is_outdated(gnome, spoil):
    Installation(gnome.env).install()
    path = Installation(gnome.env).folder / spoil
    path.write_text(path.read_text() + "\n")
    assert Installation(gnome.env).status().condition is Condition.OUTDATED
    path.unlink()
    assert Installation(gnome.env).status().condition is Condition.OUTDATED
    assert Installation(gnome.env).install().condition is Condition.NOT_RUNNING


@pytest.mark.parametrize("can_exchange", [True, False])
def test_another_one_is_replaced_whole(gnome, monkeypatch, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(install, "_RENAME_EXCHANGE", 1 << 20)  # a flag that no file system knows: EINVAL, as on NFS
    folder = Installation(gnome.env).folder
    folder.mkdir(parents=True)
    (folder / "left-over.js").write_text("")
    Installation(gnome.env).install()
    assert sorted(path.name for path in folder.iterdir()) == ["extension.js", "metadata.json"]
    assert [path for path in gnome.tree() if f".{UUID}" in path] == []


def test_a_kill_leaves_the_old_one_or_the_new_one(gnome):
    """Installs of two texts in turn, killed anywhere: what lies there is always one of them, whole."""
    script = (
        "import os, sys, itertools\n"
        "from collectors.gnome.install import Installation\n"
        "one = Installation(os.environ)\n"
        "for turn in itertools.count():\n"
        "    made = {name: f'{turn % 2}' * 4096 for name in ('extension.js', 'metadata.json')}\n"
        "    one._write(made)\n"
        "    print(turn, flush=True)\n"
    )
    folder = Installation(gnome.env).folder
    for number in range(8):
        process = subprocess.Popen([sys.executable, "-c", script], env=gnome.env, stdout=subprocess.PIPE, text=True)
        for _ in range(number * 7 + 1):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        texts = {(folder / name).read_text() for name in ("extension.js", "metadata.json")}
        assert texts in ({"0" * 4096}, {"1" * 4096})
    assert Installation(gnome.env).remove() is True
    assert [path for path in gnome.tree() if UUID in path] == []  # what killed ones left beside it is gone too


def test_a_link_of_a_developer_is_taken_away_not_followed(gnome, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "mine.js").write_text("")
    folder = Installation(gnome.env).folder
    folder.parent.mkdir(parents=True)
    folder.symlink_to(work)
    assert Installation(gnome.env).remove() is True
    assert not folder.is_symlink()
    assert (work / "mine.js").exists()
    folder.symlink_to(work)
    Installation(gnome.env).install()
    assert not folder.is_symlink()
    assert (work / "mine.js").exists()


def test_a_home_that_cannot_be_written(gnome):
    (gnome.home / ".local").write_text("a file where a folder should be")
    with pytest.raises(SetupError, match=r"\.local.*Not a directory; mend that"):
        Installation(gnome.env).install()
    assert gnome.setting("enabled-extensions") == "@as []"


@pytest.mark.root
@pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root: run the tests by sudo, or with CI=true"
)
@pytest.mark.parametrize("action", ["install", "remove", "status"])
def test_a_home_of_which_a_part_is_closed(action):
    """Under sudo, after a mishap: ~/.local is root's alone, and we are the user."""
    script = (
        "import os, sys\n"
        "from asa.core.errors import SetupError\n"
        "from collectors.gnome.install import Installation\n"
        "one = Installation(os.environ)\n"
        "os.setgroups([])\n"
        "os.setgid(65534)\n"
        "os.setuid(65534)\n"
        "try:\n"
        f"    one.{action}()\n"
        "except SetupError as error:\n"
        "    sys.exit(str(error))\n"
    )
    place = Path(tempfile.mkdtemp())  # not in tmp_path, which is root's alone
    try:
        place.chmod(0o755)
        gnome = Gnome(place)
        (gnome.home / ".local").mkdir(mode=0o700)
        done = subprocess.run(
            [sys.executable, "-c", script], env=gnome.env, capture_output=True, text=True, check=False
        )
    finally:
        shutil.rmtree(place)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Permission denied; m" in done.stderr  # mend that, make the folders your own
    assert ".local" in done.stderr


def test_a_full_disk_leaves_what_was_there(gnome, monkeypatch):
    Installation(gnome.env).install()
    before = text_of(gnome)
    monkeypatch.setattr(install, "render", lambda _: {"extension.js": "new", "metadata.json": "{}"})
    installation = Installation(gnome.env)

    def full(path, *_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    with monkeypatch.context() as during:
        during.setattr(Path, "write_text", full)
        with pytest.raises(SetupError, match="No space left"):
            installation.install()
    assert text_of(gnome) == before
    assert [path for path in gnome.tree() if f".{UUID}" in path] == []


def test_settings_that_cannot_be_written(gnome):
    gnome.env["STAND_IN_LOSES_CHANGES"] = "1"  # gsettings without a session bus warns, and exits with 0
    with pytest.raises(
        SetupError, match="enabled-extensions had no effect; run this in a terminal of your GNOME session"
    ):
        Installation(gnome.env).install()


@pytest.mark.parametrize("value", ["nonsense", "['a'", "[1]", "{}", ""])
def test_settings_that_make_no_sense(gnome, value):
    gnome.settings(**{"enabled-extensions": value, "disabled-extensions": "@as []"})
    with pytest.raises(SetupError, match="is no list of names"):
        Installation(gnome.env).install()
    assert gnome.setting("enabled-extensions") == value


def test_gsettings_that_fails_hangs_or_is_missing(gnome, monkeypatch):
    gnome.program("gsettings", "#!/bin/sh\necho boom >&2\nexit 3\n")
    with pytest.raises(SetupError, match="'boom'"):
        Installation(gnome.env).install()
    monkeypatch.setattr(install, "_LIMIT_S", 0.1)
    gnome.program("gsettings", "#!/usr/bin/python3\nimport time\ntime.sleep(60)\n")
    begin_s = time.monotonic()
    with pytest.raises(SetupError, match="no answer within"):
        Installation(gnome.env).install()
    assert time.monotonic() - begin_s < 30
    (gnome.bin / "gsettings").unlink()
    with pytest.raises(SetupError, match=r"libglib2\.0-bin"):
        Installation(gnome.env).install()


@pytest.mark.parametrize("gone", ["schema", "program"])
def test_remove_after_gnome_has_left_the_machine(gnome, gone):
    Installation(gnome.env).install()
    if gone == "schema":
        gnome.settings()
    else:
        (gnome.bin / "gsettings").unlink()
    (gnome.bin / "gnome-shell").unlink()
    assert Installation(gnome.env).remove() is True
    assert [path for path in gnome.tree() if UUID in path] == []
    assert Installation(gnome.env).remove() is False


def test_a_session_bus_that_is_none(gnome, tmp_path):
    """An address of nobody, or of somebody who is no bus: as if no Shell ran."""
    for address in (f"unix:path={tmp_path}/nobody", "nonsense", "tcp:host=localhost,port=1"):
        gnome.env["DBUS_SESSION_BUS_ADDRESS"] = address
        assert Installation(gnome.env).status().condition is Condition.ABSENT
