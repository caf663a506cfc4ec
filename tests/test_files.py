# SPDX-License-Identifier: GPL-2.0-only
"""Replacing a file as a whole: what is left after each kind of end, and that nobody else does it by hand."""

import ast
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from asa import files

ROOT = Path(__file__).resolve().parents[1]
# Moves, not replacements: of a folder, of what was built in a folder of its own, or of a damaged file out of the way.
MOVES = {
    "asa/act/build.py",
    "asa/assembly.py",
    "asa/book.py",
    "asa/debian.py",
    "calibration/stages/play.py",
    "collectors/ebpf/build.py",
    "collectors/gnome/install.py",
    "scenarios/background/kernel.py",
    "scenarios/background/llm_model.py",
    "scenarios/background/video.py",
    "scenarios/interactive/audio.py",
    "scenarios/lab/guest.py",
    "scenarios/programs/other.py",
    "scenarios/programs/watch.py",
    "scenarios/standins/build.py",
}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_and_an_old_one(tmp_path):
    path = tmp_path / "one"
    before = os.umask(0o027)
    try:
        files.replace(path, b"first")
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"first", 0o640)
        path.chmod(0o604)
        files.replace(path, b"second", durable=True)  # whoever could read the old one can read the new one
        assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"second", 0o604)
        files.replace(path, b"third", mode=0o644)
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    finally:
        os.umask(before)
    assert names(tmp_path) == ["one"]


def test_after_an_error_all_is_as_it_was(tmp_path):
    path = tmp_path / "one"
    path.write_bytes(b"old")
    half = files.fresh(path)
    half.__enter__().write(b"half")
    assert half.__exit__(ValueError, ValueError("no"), None) is False
    assert (path.read_bytes(), names(tmp_path)) == (b"old", ["one"])
    with pytest.raises(FileNotFoundError):
        files.replace(tmp_path / "none/one", b"")


def test_a_link_is_replaced_and_a_device_never(tmp_path):
    (tmp_path / "target").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.replace(tmp_path / "link", b"ours")
    assert ((tmp_path / "target").read_bytes(), (tmp_path / "link").is_symlink()) == (b"theirs", False)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(OSError, match="it is no file"):
            files.replace(tmp_path / name, b"x")
    assert names(tmp_path) == ["folder", "link", "pipe", "target"]


def test_no_link_that_somebody_laid_is_written_through(tmp_path, monkeypatch):
    (tmp_path / "theirs").write_bytes(b"theirs")
    monkeypatch.setattr(files.threading, "get_native_id", lambda: 7)
    (tmp_path / f".one.{os.getpid()}-7.part").symlink_to(tmp_path / "theirs")
    files.replace(tmp_path / "one", b"ours")
    assert ((tmp_path / "theirs").read_bytes(), (tmp_path / "one").read_bytes()) == (b"theirs", b"ours")


def test_a_full_disk_leaves_the_old_file(tmp_path):
    code = (
        "import resource, signal; from pathlib import Path; from asa import files;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4));"
        f"files.replace(Path({str(tmp_path / 'one')!r}), b'longer than four')"
    )
    (tmp_path / "one").write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "File too large" in done.stderr
    assert ((tmp_path / "one").read_bytes(), names(tmp_path)) == (b"old", ["one"])


def test_there_is_one_way():
    found = set()
    for package in ("asa", "collectors", "models", "scenarios", "calibration"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and renames(node):
                    found.add(str(path.relative_to(ROOT)))
    assert found - MOVES == {"asa/files.py"}


def renames(node):
    """Whether it is os.rename, os.replace, or a path's: these take one word, where a text's `replace` takes two."""
    of_os = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
    of_a_path = len(node.args) == 1 and not node.keywords
    return node.func.attr in ("rename", "replace") and (of_os or of_a_path)
