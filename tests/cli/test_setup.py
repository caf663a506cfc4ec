# SPDX-License-Identifier: GPL-2.0-only
"""`asa setup`: the library that loads the eBPF programs is got where it is missing, and only there."""

import shutil

import pytest

from asa import debian
from asa.cli import setup
from asa.core.errors import SourceError
from collectors.ebpf import build, core, libbpf


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
