# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab setup`: it gets what is missing, and only that; of the lab's kernels it builds the one of 1000 Hz."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from asa import debian, paths
from asa.cli.lab import setup
from asa.core.errors import ModelError, SetupError, SourceError
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


@pytest.fixture
def laboratory(monkeypatch, tmp_path):
    """An installed laboratory without its libraries. Python's modules `venv` and `pip` are stood in for."""
    program = tmp_path / "asa"
    monkeypatch.setattr(paths, "PROGRAM", program)
    monkeypatch.setattr(paths, "LIBRARIES", tmp_path / "asa-lab")
    monkeypatch.setattr(setup, "__file__", str(program / "asa/cli/lab/setup.py"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


class Python:
    """Stands in for subprocess.run: what was run; what pip is to say where it fails."""

    def __init__(self, complaint=""):
        self.ran, self.complaint = [], complaint

    def __call__(self, words, **_):
        self.ran.append(words)
        failed = False
        if "pip" in words:
            target = Path(words[words.index("--target") + 1])
            target.mkdir()
            (target / "numpy.py").touch()
            failed = bool(self.complaint)
        return subprocess.CompletedProcess(words, int(failed), "", self.complaint)


def test_an_installed_laboratory_gets_its_pinned_libraries_once(laboratory, monkeypatch):
    python = Python()
    monkeypatch.setattr(subprocess, "run", python)
    setup.libraries()
    assert [path.name for path in laboratory.iterdir()] == ["asa-lab"]  # whole: nothing under another name
    assert (laboratory / "asa-lab/numpy.py").is_file()
    venv, pip = python.ran
    assert venv[1:3] == ["-m", "venv"]
    assert pip[0].startswith(venv[3])  # the host's pip may be missing, or managed by its distribution
    assert {"--require-hashes", "--no-deps"} <= set(pip)
    assert pip[-2:] == ["-r", str(laboratory / "asa/calibration/requirements.lock")]
    setup.libraries()
    assert len(python.ran) == 2


def test_libraries_that_cannot_be_had_leave_nothing_behind(laboratory, monkeypatch):
    monkeypatch.setattr(subprocess, "run", Python("Collecting numpy\nERROR: hashes do not match\n"))
    with pytest.raises(SetupError, match=r"python -m pip .* ended with 1: 'ERROR: hashes do not match'$"):
        setup.libraries()
    assert list(laboratory.iterdir()) == []


def test_libraries_are_made_by_root_alone(laboratory, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    with pytest.raises(SetupError, match="asa-lab can be made by root only; run `sudo asa lab setup`"):
        setup.libraries()


def test_a_checkout_has_its_libraries_already(laboratory, monkeypatch):
    monkeypatch.setattr(setup, "__file__", "/home/me/asa/asa/cli/lab/setup.py")
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    setup.libraries()
    assert not (laboratory / "asa-lab").exists()
