# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab compose`: the presets, a build whose tools are stood in for, and what it refuses."""

import argparse
import json
from pathlib import Path

import pytest

from asa import debian
from asa.act import manifest
from asa.cli.lab import compose
from asa.core.errors import InputError, LabError
from calibration.composing import spec
from scenarios.lab import kernel, scx_tree
from scenarios.lab.kernel import Kernel


def asa(*words):
    parser = argparse.ArgumentParser()
    compose.register(parser.add_subparsers())
    arguments = parser.parse_args(["compose", *map(str, words)])
    return arguments.run(arguments)


@pytest.fixture
def tools(monkeypatch, tmp_path):
    """The lab's kernel is there; what would be compiled says what fills the slots."""

    def unpack(tools, cache, kernel, report):
        (tools.folder / scx_tree.INSIDE / "build/obj/sched_ext").mkdir(parents=True)

    def compile_in(tools, name, sources):
        text = b"".join(Path(source).read_bytes() for source in sources)
        for made in (tools.folder / scx_tree.INSIDE / name, scx_tree.object_of(tools, name)):
            made.write_bytes(text)
        return tools.folder / scx_tree.INSIDE / name

    its = Kernel(version="6.18.0-asa", image=tmp_path / "vmlinuz", modules=tmp_path, tick_hz=1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel, "found", lambda cache, tick_hz: its)
    monkeypatch.setattr(debian, "install", lambda packages, **_: None)
    monkeypatch.setattr(scx_tree, "unpack", unpack)
    monkeypatch.setattr(scx_tree, "compile_in", compile_in)


def test_a_preset_is_compiled_into_a_folder_that_says_what_it_is(tools, tmp_path, capsys):
    out = tmp_path / "made"
    assert asa("two_level", "--out", out, "--param", "weight-0=300", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    program = Path(made["program"])
    assert program.name == "scx_compose_two_level"
    assert program.stat().st_mode & 0o777 == 0o755
    assert 'X("weight-0", weight[0], "weight", 1, 1000, 300)' in program.read_text()
    (entry,) = manifest.read(Path(made["manifest"])).schedulers
    assert entry.ops == "compose_two_level"
    assert spec.load(made["spec"], {}).parameters["weight-0"] == 300
    assert asa(made["spec"], "--out", tmp_path / "again") == 0  # what it was made of makes it again
    assert (tmp_path / "again" / program.name).read_bytes() == program.read_bytes()


def test_the_presets_are_listed(capsys):
    assert asa("--list") == 0
    shown = capsys.readouterr().out
    assert "vtime: least run time by weight, one queue, which is what scx_simple does" in shown
    assert "  slice-us = 20000 (us, 100 to 20000)" in shown
    assert asa("--list", "--json") == 0
    assert sorted(json.loads(capsys.readouterr().out)) == spec.preset_names()


def test_what_it_cannot_do_is_told_and_nothing_is_made(monkeypatch, tmp_path, capsys):
    out = tmp_path / "made"
    with pytest.raises(InputError, match="'vtme' is not accepted"):
        asa("vtme", "--out", out)
    with pytest.raises(InputError, match="a whole number of us, 100 to 20000"):
        asa("vtime", "--out", out, "--param", "slice-us=20001")
    for words in (["vtime"], ["--out", str(out)], ["vtime", "--out", str(out), "--param", "slice-us=x"]):
        with pytest.raises(SystemExit):
            asa(*words)
    assert "'slice-us=x': give NAME=NUMBER, such as slice-us=5000" in capsys.readouterr().err
    monkeypatch.setattr(kernel, "found", lambda cache, tick_hz: None)
    with pytest.raises(LabError, match="run `asa lab setup --guests`"):
        asa("vtime", "--out", out)
    assert not out.exists()
