# SPDX-License-Identifier: GPL-2.0-only
"""How `asa` ends: its exit code and its last words, whatever becomes of its output and of the files it meets."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from asa import paths
from asa.cli import status
from asa.cli.main import COMMANDS, GROUPS, LAB_COMMANDS, LAB_GROUPS, MOVED, enter_laboratory, main, parser

CUT_OFF = 141  # 128 + SIGPIPE
TOO_LONG = "x" * 300  # no name of a file: looking at it is an error for root, too


def asa(*words, **more):
    command = [sys.executable, "-m", "asa.cli", *words]
    return subprocess.run(command, capture_output="stdout" not in more, check=False, timeout=60, **more)


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def env(request, tmp_path):
    there = {"XDG_STATE_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    return {**os.environ, **there, "PYTHONUNBUFFERED": request.param}


def test_a_full_disk_is_one_line(env):
    with Path("/dev/full").open("w") as full:
        done = asa("config", "show", stdout=full, stderr=subprocess.PIPE, env=env)
    assert done.returncode == 1
    assert done.stderr == b"asa: standard output, or another file: No space left on device\n"


@pytest.mark.parametrize("words", [("report",), ("journal", "list"), ("journal", "replay"), ("explain", "--journal")])
def test_a_journal_that_cannot_be_looked_at_is_one_line(words):
    done = asa(*words, TOO_LONG)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"asa: {TOO_LONG}: cannot be read as a journal: File name too long\n"


def test_what_no_command_expected_is_one_line(monkeypatch, capsys):
    def refused(_):
        raise PermissionError(errno.EACCES, "Permission denied", "/root/x")

    monkeypatch.setattr(status, "run", refused)
    with pytest.raises(SystemExit) as ended:
        main(["status"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == "asa: /root/x: Permission denied\n"


def test_a_name_that_is_no_utf_8(tmp_path):
    name = tmp_path / os.fsdecode(b"n\xff.journal.xz")
    done = asa("journal", "list", name.with_suffix(""))
    assert done.returncode == 1
    assert done.stderr.endswith(b"/n?.journal: there is no such journal\n")
    name.write_bytes(next((paths.base_model().parents[1] / "recordings").glob("*.xz")).read_bytes())
    done = asa("journal", "list", "--json", name)
    assert done.returncode == 1
    assert done.stderr.endswith(b"n\\udcff' cannot be written: surrogates not allowed; give the file another name\n")


def without_a_reader(env, *words):
    """Exit code and last words of a command whose reader has left before it writes."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        done = asa(*words, env=env, stdout=gone, stderr=subprocess.PIPE)
    return done.returncode, done.stderr


def test_a_reader_that_leaves_is_told_by_the_exit_code_alone(env):
    assert without_a_reader(env, "config", "show") == (CUT_OFF, b"")
    assert without_a_reader(env, "--help") == (CUT_OFF, b"")


def test_the_agent_ends_in_order_when_its_reader_leaves(env):
    code, words = without_a_reader(env, "run", "--observe", "--ebpf", "off", "--for", "20")
    assert (code, words) == (CUT_OFF, b"")
    assert asa("status", env=env).returncode == 3


def test_what_is_known_is_not_lost_with_the_reader(env, tmp_path):
    (tmp_path / "bad.yaml").write_text("interval_s: -1\n")
    code, words = without_a_reader(env, "config", "check", str(tmp_path / "bad.yaml"))
    assert (code, words) == (CUT_OFF if env["PYTHONUNBUFFERED"] else 1, b"")  # cut off: it had not come to a result
    assert without_a_reader({**env, "PYTHONUNBUFFERED": ""}, "status") == (3, b"")
    code, words = without_a_reader(env, "report", str(tmp_path / "none"))
    assert (code, words.count(b"\n")) == (1, 1)


@pytest.mark.parametrize("old", MOVED)
def test_a_command_that_has_moved_says_where_it_is(old, capsys):
    with pytest.raises(SystemExit) as ended:
        main([old, "--help"])
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err) == (2, "", f"asa: `asa {old}` is `asa {MOVED[old]}` now\n")
    with pytest.raises(SystemExit) as shown:
        main([*MOVED[old].split(), "--help"])
    assert shown.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: asa {MOVED[old]} ")


def test_every_command_that_was_the_laboratory_s_is_told():
    assert set(LAB_COMMANDS) - set(MOVED) == {"run", "setup", "status"}  # daily commands have these names too
    assert not set(MOVED) & set(COMMANDS)


def test_help_leaves_out_what_only_machines_call():
    shown = parser().format_help()
    for name in ("daemon", "helper", "completion"):
        assert f"\n  {name} " not in shown
        assert parser(name).parse_args([name, *(["bash"] if name == "completion" else [])]).command == name


@pytest.mark.parametrize("words", [(), ("lab",)], ids=" ".join)
def test_help_has_a_line_for_each_command(words, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    listed = capsys.readouterr().out.partition("\noptions:")[0].splitlines()
    names = [line.split()[0] for line in listed if line.startswith("  ")]
    groups = LAB_GROUPS if words else GROUPS
    assert names == [name for group in groups.values() for name in group]


def test_the_libraries_of_an_installed_laboratory_come_before_the_programs_own(tmp_path, monkeypatch):
    program, libraries = tmp_path / "asa", tmp_path / "asa-lab"
    monkeypatch.setattr(sys, "path", ["/usr/lib/python3.11", str(program)])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    enter_laboratory(libraries, program)
    assert (sys.path[-1], os.environ.get("PYTHONPATH")) == (str(program), None)  # nothing was fetched yet
    libraries.mkdir()
    enter_laboratory(libraries, program)
    assert sys.path == ["/usr/lib/python3.11", str(libraries), str(program)]
    assert os.environ["PYTHONPATH"] == f"{libraries}:{program}"
