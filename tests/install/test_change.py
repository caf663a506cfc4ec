# SPDX-License-Identifier: GPL-2.0-only
"""Putting files on a machine and taking them away, in a small tree: what changes, what stays, what is refused."""

import fcntl
import os
from pathlib import PurePosixPath
from types import SimpleNamespace

import pytest

from asa.core.errors import AsaError, SetupError
from asa.install import change, prefix, record
from asa.install.change import What
from asa.install.payload import PROGRAM, SETTINGS, Item, Kind
from asa.install.prefix import Prefix

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="installed files are root's; run the tests as root"),
]


def item(path, text="text", **more):
    return Item(path=PurePosixPath(path), body=text.encode(), **more)


ITEMS = (
    item(f"{PROGRAM}/asa/a.py", "a"),
    item(f"{PROGRAM}/old/b.py", "b"),
    item("/usr/bin/asa", "run", executable=True),
    item(SETTINGS, "# defaults", kind=Kind.CONFIG),
)


@pytest.fixture
def root(tmp_path):
    """A machine with folders and files of others."""
    for name in ("usr/lib", "usr/bin", "etc", "var/lib/dpkg/info"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "usr/bin/other").write_text("other")
    return tmp_path


def look(root):
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def install(root, items=ITEMS):
    old = record.read(root)
    steps = change.plan(root, items, old)
    change.put(root, items, steps, old)
    return {step.path: step.what for step in steps}


def uninstall(root, *, purge=False):
    old = record.read(root)
    steps = change.plan_removal(root, old, purge=purge)
    assert change.take_away(root, steps, old) == []
    return {step.path: step.what for step in steps}


def test_what_was_put_there_is_roots_and_goes_without_a_trace(root):
    before = look(root)
    old_mask = os.umask(0o077)
    try:
        told = install(root)
    finally:
        os.umask(old_mask)
    assert set(told.values()) == {What.CREATE}
    assert (root / "usr/bin/asa").stat().st_mode & 0o7777 == 0o755
    assert (root / "usr/lib/asa/asa/a.py").stat().st_mode & 0o7777 == 0o644
    assert (root / "usr/lib/asa/asa").stat().st_mode & 0o7777 == 0o755
    assert not [path for path in root.rglob("*") if path.name.endswith((".asa-new", ".new"))]
    told = uninstall(root)
    assert told["/etc/asa/asa.yaml"] is What.REMOVE
    assert look(root) == before


def test_a_second_time_there_is_nothing_to_do(root):
    install(root)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    steps = change.plan(root, ITEMS, record.read(root))
    assert {step.what for step in steps} == {What.SAME}
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("changed"),
        lambda path: path.chmod(0o777),
        lambda path: os.chown(path, 1, 0),
        lambda path: (path.unlink(), path.with_name("other").write_text("not ours"), path.symlink_to("other")),
        lambda path: path.unlink(),
    ],
    ids=["content", "mode", "owner", "symlink", "gone"],
)
def test_a_spoilt_program_file_is_put_right(root, spoil):
    install(root)
    path = root / "usr/lib/asa/asa/a.py"
    spoil(path)
    told = install(root)
    assert told[f"{PROGRAM}/asa/a.py"] in (What.REPLACE, What.CREATE)
    facts = path.lstat()
    assert (path.read_text(), facts.st_mode, facts.st_uid) == ("a", 0o100644, 0)
    assert [path for path, what in told.items() if what is not What.SAME] == [f"{PROGRAM}/asa/a.py"]
    other = path.with_name("other")
    assert not other.exists() or other.read_text() == "not ours"


def test_an_upgrade_takes_away_what_the_older_version_had(root):
    before = look(root)
    install(root)
    compiled = root / "usr/lib/asa/old/__pycache__"
    compiled.mkdir()
    (compiled / "b.pyc").write_text("")
    kept = root / "usr/lib/asa/asa/__pycache__"
    kept.mkdir()
    (kept / "a.pyc").write_text("")
    new = (item(f"{PROGRAM}/asa/a.py", "newer"), *ITEMS[2:], item("/usr/share/new/file"))
    told = install(root, new)
    assert told[f"{PROGRAM}/old/b.py"] is What.REMOVE
    assert not (root / "usr/lib/asa/old").exists()
    assert (kept / "a.pyc").exists()
    assert f"{PROGRAM}/old/b.py" not in record.read(root).files
    uninstall(root)
    assert look(root) == before


def test_settings_that_were_changed_stay(root):
    install(root)
    settings = root / "etc/asa/asa.yaml"
    settings.write_text("interval_s: 2.0\n")
    newer = (*ITEMS[:3], item(SETTINGS, "# other defaults", kind=Kind.CONFIG))
    assert install(root, newer)[str(SETTINGS)] is What.KEEP
    assert uninstall(root)[str(SETTINGS)] is What.KEEP
    assert settings.read_text() == "interval_s: 2.0\n"
    assert install(root)[str(SETTINGS)] is What.KEEP
    assert uninstall(root, purge=True)[str(SETTINGS)] is What.REMOVE
    assert not settings.exists()


def test_settings_that_nobody_changed_follow_the_version(root):
    install(root)
    newer = (*ITEMS[:3], item(SETTINGS, "# other defaults", kind=Kind.CONFIG))
    assert install(root, newer)[str(SETTINGS)] is What.REPLACE
    assert (root / "etc/asa/asa.yaml").read_text() == "# other defaults"


def test_a_file_of_somebody_else_is_not_touched(root):
    (root / "usr/bin/asa").write_text("another program")
    before = look(root)
    with pytest.raises(SetupError, match=r"usr/bin/asa is there and is not ASA's; move it away"):
        install(root)
    assert look(root) == before


def broken(monkeypatch, error, name="b.py"):
    """Placing that file fails."""
    place = change._place

    def full(path, one):
        if path.name == name:
            raise error
        place(path, one)

    monkeypatch.setattr(change, "_place", full)


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device", "x"), OSError(30, "Read-only file system", "x"), KeyboardInterrupt()],
)
@pytest.mark.parametrize("name", ["a.py", "b.py", "asa", "asa.yaml"])
def test_an_installation_that_fails_leaves_nothing(root, monkeypatch, error, name):
    before = look(root)
    broken(monkeypatch, error, name)
    with pytest.raises(type(error)):
        install(root)
    assert look(root) == before
    monkeypatch.undo()
    install(root)
    assert (root / "usr/lib/asa/old/b.py").read_text() == "b"


def test_an_upgrade_that_fails_leaves_the_old_version(root, monkeypatch):
    install(root)
    (root / "usr/lib/asa/asa/a.py").chmod(0o600)
    before = look(root)
    new = (item(f"{PROGRAM}/asa/a.py", "newer"), item(f"{PROGRAM}/z.py", "z"), *ITEMS[2:])
    broken(monkeypatch, OSError(28, "No space left on device", "x"), "z.py")
    with pytest.raises(OSError, match="No space"):
        install(root, new)
    assert look(root) == before
    assert (root / "usr/lib/asa/asa/a.py").stat().st_mode & 0o777 == 0o600
    monkeypatch.undo()
    install(root, new)
    assert (root / "usr/lib/asa/asa/a.py").read_text() == "newer"


def test_a_folder_that_cannot_be_made_takes_the_others_along(root, monkeypatch):
    before = look(root)
    monkeypatch.setattr(change.record, "write", lambda *_: (_ for _ in ()).throw(AsaError("read-only")))
    with pytest.raises(AsaError, match="read-only"):
        install(root)
    assert look(root) == before


def test_what_fails_after_the_files_takes_a_first_installation_along(root):
    before = look(root)
    install(root)
    with pytest.raises(AsaError, match="no space"), change.taken_back(root):
        raise AsaError("no space for schedulers")
    assert look(root) == before


def test_below_usr_local_and_etc(root):
    before = look(root)
    items = prefix.below(
        (
            *ITEMS,
            item("/usr/lib/systemd/system/asa-helper.service", "ExecStart=/usr/bin/asa helper"),
            item("/usr/share/dbus-1/system.d/a.conf"),
            item("/usr/share/dbus-1/system-services/a.service"),
            item("/usr/share/polkit-1/actions/a.policy"),
            item("/usr/share/zsh/vendor-completions/_asa"),
        ),
        Prefix.LOCAL,
    )
    old = record.read(root)
    change.put(root, items, change.plan(root, items, old), old, Prefix.LOCAL)
    assert (root / "usr/local/lib/asa/asa/a.py").read_text() == "a"
    assert (root / "etc/systemd/system/asa-helper.service").read_text() == "ExecStart=/usr/local/bin/asa helper"
    for name in (
        "usr/local/bin/asa",
        "etc/asa/asa.yaml",
        "etc/dbus-1/system.d/a.conf",
        "usr/local/share/dbus-1/system-services/a.service",
        "etc/polkit-1/actions/a.policy",
        "usr/local/share/zsh/site-functions/_asa",
    ):
        assert (root / name).is_file(), name
    assert {str(path.relative_to(root)) for path in (root / "usr").iterdir()} == {"usr/lib", "usr/bin", "usr/local"}
    assert record.read(root).program == "/usr/local/lib/asa"
    uninstall(root)
    assert look(root) == before


@pytest.mark.parametrize(
    ("there", "folder"),
    [
        ("etc/debian_version", "vendor-completions"),
        ("var/lib/dpkg/status", "vendor-completions"),
        ("", "site-functions"),
    ],
)
def test_zsh_looks_in_the_distributions_own_place(tmp_path, there, folder):
    if there:
        (tmp_path / there).parent.mkdir(parents=True)
        (tmp_path / there).touch()
    (only,) = prefix.below((item("/usr/share/zsh/vendor-completions/_asa"),), Prefix.USR, tmp_path)
    assert str(only.path) == f"/usr/share/zsh/{folder}/_asa"


def test_a_file_system_that_is_mounted_read_only(tmp_path, monkeypatch):
    assert not prefix.read_only(tmp_path / "not/there")
    monkeypatch.setattr(prefix.os, "statvfs", lambda folder: SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NODEV))
    assert prefix.read_only(tmp_path)


def test_which_prefix(root, monkeypatch):
    local, usr = prefix.program(Prefix.LOCAL), prefix.program(Prefix.USR)
    assert prefix.choose(root, None, None) is Prefix.USR
    monkeypatch.setattr(prefix, "read_only", lambda folder: folder == root / "usr")
    assert prefix.choose(root, None, None) is Prefix.LOCAL
    assert prefix.choose(root, Prefix.USR, None) is Prefix.USR
    assert prefix.choose(root, None, usr) is Prefix.USR
    assert prefix.choose(root, None, local) is Prefix.LOCAL
    with pytest.raises(SetupError, match="installed below /usr/local; run `sudo asa uninstall` first"):
        prefix.choose(root, Prefix.USR, local)


def test_state_of_a_running_asa_goes_and_a_folder_with_things_of_others_stays(root):
    install(root)
    for name in ("var/lib/asa/scx", "run/asa", "run/scx"):
        (root / name).mkdir(parents=True)
    (root / "var/lib/asa/approvals.json").write_text("{}")
    (root / "etc/asa/note").write_text("mine")
    uninstall(root)
    assert [name for name in ("var/lib/asa", "run/asa", "run/scx") if (root / name).exists()] == []
    assert (root / "etc/asa/note").read_text() == "mine"


def test_what_cannot_be_removed_is_told_and_can_be_tried_again(root, monkeypatch):
    install(root)
    old = record.read(root)
    steps = change.plan_removal(root, old, purge=False)
    (root / "usr/bin/asa").unlink()
    (root / "usr/bin/asa").mkdir()  # as a file that cannot be removed
    left = change.take_away(root, steps, old)
    assert left == [f"{root}/usr/bin/asa: Is a directory"]
    (root / "usr/bin/asa").rmdir()
    assert change.take_away(root, steps, record.read(root)) == []
    assert not (root / "usr/lib/asa").exists()


def test_one_at_a_time_and_never_beside_the_package(root):
    locks = root / "locks"
    locks.mkdir()
    with change.alone(root, locks):
        (lock,) = locks.iterdir()
        assert lock.stat().st_mode == 0o100600  # nobody else can take it
        with pytest.raises(SetupError, match="another installation is under way"), change.alone(root, locks):
            pass
        with change.alone(locks, locks):  # another root
            pass
    assert list(locks.iterdir()) == []
    lock.touch()  # of one that was killed
    with change.alone(root, locks):
        pass
    with pytest.raises(SetupError, match="not a folder"), change.alone(root / "none", locks):
        pass
    folder = os.open(root, os.O_RDONLY)  # anybody can do this to /
    fcntl.flock(folder, fcntl.LOCK_EX)
    with change.alone(root, locks):
        pass
    os.close(folder)
    (root / "var/lib/dpkg/info/asa.list").write_text("/etc/asa/asa.yaml\n")
    with change.alone(root, locks):  # it was removed, not purged
        pass
    (root / "var/lib/dpkg/info/asa.md5sums").write_text("0  usr/bin/asa\n")
    with pytest.raises(SetupError, match="the Debian package asa is installed; use apt"), change.alone(root):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"version": "1", "files": {"/usr/bin/../../etc/passwd": ""}, "config": {}, "folders": []}',
        '{"version": "1", "files": {}, "config": {}, "folders": ["etc"]}',
        '{"version": "1", "files": {"": ""}, "config": {}, "folders": []}',
    ],
)
def test_a_damaged_record_is_refused(root, text):
    (root / "usr/lib/asa").mkdir()
    (root / "usr/lib/asa/files.json").write_text(text)
    with pytest.raises(SetupError, match=r"files\.json: damaged"):
        record.read(root)


def test_a_record_that_is_not_roots_is_refused(root):
    install(root)
    os.chown(root / "usr/lib/asa/files.json", 1, 1)
    with pytest.raises(AsaError, match="belongs to user 1"):
        record.read(root)
