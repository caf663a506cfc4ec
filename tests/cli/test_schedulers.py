# SPDX-License-Identifier: GPL-2.0-only
"""`asa schedulers`: what each command prints, as text and as JSON, and its exit code."""

import argparse
import io
import json
import os

import pytest

from asa import paths
from asa.act.build import Outcome, Status
from asa.cli import schedulers
from asa.core.errors import SchedulerError

MANIFEST = """
schedulers:
  - {name: eevdf, source: {kind: kernel}, purpose: rests, ops: null, help: null, paper: true}
  - {name: scx_one, source: {kind: host, reason: nobody has it}, purpose: does one, ops: one, help: [--help],
     paper: false, knobs: {switches: [--fast]}}
  - {name: scx_two, source: {kind: host, reason: nobody has it}, purpose: does two, ops: two, help: null,
     paper: true}
"""
FAST = {
    "id": "scx_one:fast",
    "version": "1.5.0",
    "purpose": "does one fast",
    "flags": {"--fast": True},
    "provenance": {"kind": "author", "source": "its help"},
}
BINARY = "#!/bin/sh\necho 'Usage: scx_one 1.5.0'\necho '      --fast  Be fast'\n"


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with scx_one on PATH; gives the folder."""
    (tmp_path / "manifest.yaml").write_text(MANIFEST)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/scx_one-fast.yaml").write_text(json.dumps(FAST))
    monkeypatch.setattr(paths, "manifest", lambda: tmp_path / "manifest.yaml")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "scx_one").write_text(BINARY)
    (bin_ / "scx_one").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    return bin_


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    schedulers.register(parser.add_subparsers())
    arguments = parser.parse_args(["schedulers", *words])
    return arguments.run(arguments)


def test_install_takes_what_there_is_and_says_the_rest(host, capsys):
    assert run("install") == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("[1/3] eevdf: kernel")
    assert said[1].startswith(f"[2/3] scx_one: found, {host}/scx_one")
    assert said[2].startswith("[3/3] scx_two: unavailable, not on PATH, and nobody has it")
    assert said[3:] == ["2 of 3 schedulers are usable"]


def test_install_of_one_that_cannot_be_had_fails(host, capsys):
    assert run("install", "scx_one") == 0
    assert run("install", "scx_one", "scx_two") == 1
    assert "asa: scx_two: not on PATH, and nobody has it" in capsys.readouterr().err
    with pytest.raises(SchedulerError, match="scx_tow: not in the manifest"):
        run("install", "scx_tow")


def test_a_failure_is_told_and_counts(host, capsys):
    (host / "scx_one").write_text(BINARY.replace("--fast", "--slow"))
    assert run("install") == 1
    assert (
        "asa: scx_one: its own help does not name '--fast', which the policy scx_one:fast sets"
        in capsys.readouterr().err
    )


def test_install_missing_for_set_up(host):
    output = io.StringIO()
    assert schedulers.install_missing(output=output) == 0
    assert "2 of 3 schedulers are usable" in output.getvalue()


def test_list_before_and_after(host, capsys):
    assert run("list") == 0
    assert f"scx_one      candidate unavailable: {host}/scx_one is not recorded yet" in capsys.readouterr().out
    run("install")
    capsys.readouterr()
    assert run("list") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "eevdf        paper     kernel"
    assert told[3] == f"scx_one      candidate path 1.5.0 {host}/scx_one"
    assert told[4].strip() == "does one"
    assert told[5].strip() == "modes: default, fast"
    assert told[6].startswith("scx_two      paper     unavailable: not on PATH, and nobody has it")


def test_list_as_json(host, capsys):
    run("install")
    capsys.readouterr()
    assert run("list", "--json") == 0
    eevdf, one, two = json.loads(capsys.readouterr().out)
    assert (eevdf["available"], eevdf["origin"], eevdf["path"]) == (True, "kernel", None)
    assert (one["name"], one["paper"], one["available"], one["origin"]) == ("scx_one", False, True, "path")
    assert (one["version"], one["flags"], one["reason"]) == ("1.5.0", ["--fast"], None)
    assert one["modes"] == {"default": [], "fast": ["--fast"]}
    assert one["policies"] == [{**FAST, "verified": []}]
    assert one["path"] == str(host / "scx_one")
    assert len(one["sha256"]) == 64
    assert (two["available"], two["origin"], two["sha256"]) == (False, None, None)
    assert "nobody has it" in two["reason"]


@pytest.mark.parametrize("spoil", [lambda path: path.write_text(BINARY + "#"), lambda path: path.unlink()])
def test_verify_finds_what_changed(host, capsys, spoil):
    assert run("verify") == 0
    assert "nothing is installed" in capsys.readouterr().out
    run("install")
    assert run("verify") == 0
    assert f"{host}/scx_one: ok" in capsys.readouterr().out
    assert run("verify", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["ok"], row["why"]) == ("scx_one", True, None)
    spoil(host / "scx_one")
    assert run("verify") == 1
    assert "asa schedulers install scx_one" in capsys.readouterr().out
    assert run("verify", "--json") == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["ok"] is False
    assert row["why"]


def test_without_a_terminal_a_long_build_shows_signs_of_life():
    now_s = [0.0]
    output = io.StringIO()
    watcher = schedulers._Lines(output, lambda: now_s[0])
    watcher.begin("scx_one", 2, 3)
    for second in range(25):
        now_s[0] = float(second)
        watcher.line(f"  Compiling part {second}")
    watcher.end(Outcome(name="scx_one", status=Status.BUILT, detail="/x/scx_one", elapsed_s=24.6))
    assert output.getvalue().splitlines() == [
        "[2/3] scx_one … Compiling part 10",
        "[2/3] scx_one … Compiling part 20",
        "[2/3] scx_one: built, /x/scx_one (25 s)",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_is_a_bar(host, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    terminal = Terminal()
    assert schedulers.install_missing(output=terminal) == 0
    shown = terminal.getvalue()
    assert f"scx_one: found, {host}/scx_one" in shown
    assert "━━━" in shown
    assert "3/3" in shown
    assert "2 of 3 schedulers are usable" in shown
