# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab man`: pages of every command, without a warning of the programs that set them."""

import argparse
import os
import shlex
import shutil
import subprocess

import pytest

import asa
from asa.cli import grammar, manpages
from asa.cli.main import main, parser
from asa.core.errors import InputError

WIDTH = {"MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}


def ran(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["lab", "man", *map(str, words)])
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man")
    for name, text in manpages.pages(grammar.read(parser()), {}).items():
        (folder / name).write_text(text)
    return folder


def as_text(path):
    if shutil.which("man") is None:
        pytest.skip("man is not installed; `asa lab setup --tests` does it")
    command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **WIDTH})
    assert done.stderr == ""
    return subprocess.run(["col", "-bx"], input=done.stdout, capture_output=True, text=True, check=True).stdout


def test_a_page_for_each_command_and_no_warning(folder):
    commands = [command.path[-1] for command in grammar.read(parser()).children]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["asa.1", *(f"asa-{one}.1" for one in commands)])
    for path in folder.iterdir():
        text = as_text(path)
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS"):
            assert f"\n{section}\n" in text, path
        assert f"asa {asa.__version__}" in text.splitlines()[-1]


def test_a_page_as_it_is_read(folder):
    text = as_text(folder / "asa-config.1")
    assert "asa config check [-h] [--json] [FILE]\n" in text
    assert "       asa config check new.yaml\n              A file before it is put into its place.\n" in text
    assert "       FILE   settings (default: those that asa run takes)\n" in text
    assert "       ~/.config/asa/asa.yaml\n" in text


def test_whatever_stands_in_a_help_text(tmp_path):
    top = argparse.ArgumentParser(prog="asa", description="It's: a \\b -x ~user ^ `--code` \N{SNOWMAN}")
    commands = top.add_subparsers()
    one = commands.add_parser("one", help=".TH 'dot' \\n", description="'quote\n\n.sp 9 paragraph")
    one.add_argument("--a-b", help=".dot 100%% \\fBno", metavar="A|B")
    one.add_argument("--seen", choices=("x", "y-z"), default="x", help="(default: %(default)s)")
    one.add_argument("--hidden", help=argparse.SUPPRESS)
    for name, text in manpages.pages(grammar.read(top), {}).items():
        (tmp_path / name).write_text(text)
        assert text.isascii()
    said = as_text(tmp_path / "asa-one.1")
    assert "asa-one - .TH 'dot' \\n\n" in said
    assert "       'quote\n\n       .sp 9 paragraph\n" in said
    assert "--a-b A|B\n              .dot 100% \\fBno\n" in said
    assert "--seen x|y-z\n              (default: x)\n" in said
    assert "hidden" not in said
    assert "It's: a \\b -x ~user ^ --code \N{SNOWMAN}\n" in as_text(tmp_path / "asa.1")


def test_the_date_is_that_of_the_source():
    top = grammar.read(parser())
    assert manpages.pages(top, {})["asa.1"].startswith('.TH ASA 1 "" ')
    pages = manpages.pages(top, {"SOURCE_DATE_EPOCH": "86400"})
    assert all(' 1 "1970-01-02" ' in page.splitlines()[0] for page in pages.values())
    with pytest.raises(InputError, match="SOURCE_DATE_EPOCH"):
        manpages.pages(top, {"SOURCE_DATE_EPOCH": "today"})


def test_written_and_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    code, said, _ = ran(capsys, "--out", tmp_path / "new/man")
    count = len(list((tmp_path / "new/man").iterdir()))
    assert (code, said) == (0, f"wrote {count} pages to {tmp_path}/new/man\n")
    assert ran(capsys, "run")[1] == (tmp_path / "new/man/asa-run.1").read_text()
    assert ran(capsys)[1] == (tmp_path / "new/man/asa.1").read_text()
    assert ran(capsys, "status", "--out", tmp_path / "one")[0] == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["asa-status.1"]
    code, _, error = ran(capsys, "nonsense")
    assert code == 1
    assert error.startswith("asa: 'nonsense' is no command of asa; there are run, status, monitor, explain, ")
    (tmp_path / "file").touch()
    assert "cannot be written" in ran(capsys, "--out", tmp_path / "file")[2]


def test_every_command_is_described_and_its_examples_are_right():
    top = grammar.read(parser())
    for page in (top, *top.children):  # by itself, or all that it can do
        family = page.children if page is not top else ()
        assert page.description or (family and all(one.description for one in family)), page.path
        assert any("examples" in one.sections for one in (page, *family)), page.path
    for command in top.all():
        assert "notes" not in command.sections, command.path
        for item in command.sections.get("examples", ()):
            words = shlex.split(item.term.removeprefix("sudo ").partition(" > ")[0])
            if words[0] == "systemctl":  # of a service's own page
                assert words[-1] in {"asa", "asa-helper"}, item
                continue
            assert words[0] == "asa", item
            assert item.text, item
            parser().parse_args(words[1:])


def test_every_option_is_explained():
    for command in grammar.read(parser()).all():
        assert [option.names for option in command.options if not option.help] == [], command.path
        assert [word.metavar for word in command.words if not word.help] == [], command.path
