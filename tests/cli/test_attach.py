# SPDX-License-Identifier: GPL-2.0-only
"""`asa report --attach`: what is shown is what is written, after a yes and to a new file alone."""

import io
import os
import pwd

import pytest
from standin import asa

from asa import doctor, paths
from asa.verdict import Finding, Level

PERSON = pwd.struct_passwd(("johanna", "x", 1000, 1000, "Johanna Maier,,,", "/home/johanna", "/bin/sh"))


@pytest.fixture
def out(tmp_path, monkeypatch):
    """A laptop of Johanna's; gives the file to write."""
    run = tmp_path / "johanna/run"
    places = paths.Places(run=run, cache=tmp_path, state=tmp_path, config=tmp_path / "johanna/asa.yaml")
    finding = Finding(subject="root", level=Level.OK, text="Maier runs it on maiers-laptop", needed=True)
    monkeypatch.setattr(paths, "default", lambda: places)
    monkeypatch.setattr(doctor, "examine", lambda *_: [finding])
    monkeypatch.setattr(pwd, "getpwall", lambda: [PERSON])
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "maiers-laptop", "6.18.7", "v", "x86_64")))
    return tmp_path / "bug.txt"


@pytest.mark.parametrize("typed", ["", "n\n"])
def test_nothing_is_written_without_a_yes(out, monkeypatch, capsys, typed):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    code, said, _ = asa(capsys, "report", "--attach", str(out))
    assert (code, out.exists()) == (1, False)
    assert said.endswith("nothing was written\n")


def test_without_a_name_it_is_in_this_folder(out, monkeypatch, capsys):
    monkeypatch.chdir(out.parent)
    assert asa(capsys, "report", "--attach", "--yes")[0] == 0
    assert (out.parent / "asa-bug.txt").stat().st_size > 0


def test_what_is_shown_is_what_is_written(out, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, said, _ = asa(capsys, "report", "--attach", str(out))
    text = out.read_text()
    assert (code, said.startswith(text)) == (0, True)
    assert "ok root: <user> runs it on <host>" in text
    assert not [one for one in ("johanna", "maier", "laptop") if one in text.lower()]
    assert "not to be had\njournal: " in text


def test_it_goes_over_no_file(out, capsys):
    out.write_text("mine")
    code, said, error = asa(capsys, "report", "--attach", str(out), "--yes")
    assert (code, said, error.count("\n"), out.read_text()) == (1, "", 1, "mine")


def test_a_folder_that_is_not_there(out, capsys):
    code, _, error = asa(capsys, "report", "--attach", str(out.parent / "nowhere/bug.txt"), "--yes")
    assert (code, error.count("\n")) == (1, 1)
