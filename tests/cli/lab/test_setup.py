# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab setup`: it gets what is missing, and only that; of the lab's kernels it builds the one of 1000 Hz."""

import shutil

import pytest

from asa import debian
from asa.cli.lab import setup
from asa.core.errors import ModelError, SourceError
from collectors.ebpf import build, core, libbpf
from models import runtime_compiled
from scenarios.lab import emulator, kernel


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """What set-up has apt install, on a machine whose programs came with a wheel."""
    asked = []
    monkeypatch.setattr(debian, "install", lambda packages, **_: asked.extend(packages))
    wheel = tmp_path / "site-packages/collectors/ebpf/probes.bpf.o"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    monkeypatch.setattr(core, "OBJECT", wheel)
    monkeypatch.setattr(build, "build", lambda *_: asked.append("built"))
    return asked


def refuse(*_):
    raise SourceError(source="ebpf", reason="libbpf.so.1: cannot be loaded")


def test_a_wheel_still_needs_the_library(installed, monkeypatch):
    monkeypatch.setattr(libbpf, "Library", refuse)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/apt-get")
    setup.probes()
    assert installed == ["libbpf1"]


def test_a_library_that_is_there_is_left_alone(installed, monkeypatch):
    monkeypatch.setattr(libbpf, "Library", object)
    setup.probes()
    assert installed == []


def test_without_apt_it_says_what_is_missing_and_goes_on(installed, monkeypatch, capsys):
    monkeypatch.setattr(libbpf, "Library", refuse)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    setup.probes()
    assert installed == []
    assert "libbpf.so.1: cannot be loaded" in capsys.readouterr().out


@pytest.fixture
def evaluators(monkeypatch, tmp_path):
    """Whose library is missing; what set-up compiled."""
    made = []
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(runtime_compiled, "SOURCE", tmp_path / "models/members.c")
    monkeypatch.setattr(runtime_compiled, "load", lambda: None)
    monkeypatch.setattr(runtime_compiled, "build", lambda: made.append("built"))
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/cc")
    return made


def test_the_evaluator_is_compiled_where_it_cannot_be_loaded(evaluators, monkeypatch):
    setup.evaluator()
    assert evaluators == ["built"]
    monkeypatch.setattr(runtime_compiled, "load", lambda: print)
    setup.evaluator()
    assert evaluators == ["built"]


def test_a_wheel_without_an_evaluator_does_without(evaluators, tmp_path):
    (tmp_path / "pyproject.toml").unlink()
    setup.evaluator()
    assert evaluators == []


def test_a_compiler_that_fails_does_not_end_the_set_up(evaluators, monkeypatch, capsys):
    def fail():
        raise ModelError("cc: no such file")

    monkeypatch.setattr(runtime_compiled, "build", fail)
    setup.evaluator()
    assert "cc: no such file; going on without: NumPy evaluates the model" in capsys.readouterr().out


def test_a_compiler_is_got_where_there_is_none(evaluators, installed, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "cc" else f"/usr/bin/{name}")
    setup.evaluator()
    assert (installed, evaluators) == (["gcc", "libc6-dev"], ["built"])


def test_of_the_kernels_with_a_tick_rate_the_one_that_measures_is_built(monkeypatch):
    asked = []
    monkeypatch.setattr(emulator, "found", lambda _: None)
    monkeypatch.setattr(emulator, "ensure", lambda *_, measuring, **__: asked.append(("QEMU", measuring)))
    monkeypatch.setattr(kernel, "found", lambda *_: None)
    monkeypatch.setattr(kernel, "ensure", lambda _, __, tick_hz, **___: asked.append(("kernel", tick_hz)))
    setup.measuring()
    assert asked == [("QEMU", True), ("kernel", 1000)]
