# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab verify` on sources: its verdict is its exit status, and --json has the whole report."""

import argparse
import json

import pytest

from asa.cli.lab import verify as command
from asa.core.errors import AsaError
from calibration.verify import corpus


@pytest.fixture(autouse=True)
def no_kernel(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_BTF", tmp_path / "none")


def answered(words, capsys):
    parser = argparse.ArgumentParser()
    command.register(parser.add_subparsers())
    given = parser.parse_args(["verify", *map(str, words)])
    code = given.run(given)
    return code, capsys.readouterr().out


def test_a_planted_fault_fails_and_is_named(tmp_path, capsys):
    planted = next(one for one in corpus.planted() if one.name.startswith("names-"))
    source = tmp_path / "scx_mine.bpf.c"
    source.write_text(planted.source)
    code, said = answered([source, "--composed", "--json"], capsys)
    told = json.loads(said)
    assert (code, told["verdict"]) == (command.EXIT_FAIL, "fail")
    code, said = answered([source, "--composed"], capsys)
    assert code == command.EXIT_FAIL
    assert planted.rule in said


def test_a_sound_source_passes(tmp_path, capsys):
    source = tmp_path / "scx_mine.bpf.c"
    source.write_text(corpus.good())
    code, said = answered([source, "--composed", "--json"], capsys)
    assert (code, json.loads(said)["verdict"]) == (0, "pass")


def test_what_is_no_scheduler_is_one_line(tmp_path, capsys):
    with pytest.raises(AsaError, match=r"nothing.bpf.c"):
        answered([tmp_path / "nothing.bpf.c"], capsys)
    with pytest.raises(AsaError, match="eevdf: it is the kernel's own"):
        answered(["eevdf"], capsys)
