# SPDX-License-Identifier: GPL-2.0-only
"""Compiling the programs: what is made, when again, and what a missing or failing compiler says."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from asa.core.errors import SetupError
from collectors.ebpf import build, core


def test_the_object_is_made_once_and_again_when_a_source_is_newer(tmp_path):
    out = tmp_path / "probes.bpf.o"
    assert build.build(out)
    first = out.read_bytes()
    assert first.startswith(b"\x7fELF")
    assert not build.build(out)
    newest = max(source.stat().st_mtime_ns for source in build.SOURCES)
    os.utime(out, ns=(newest - 1, newest - 1))
    assert not build.is_current(out)
    assert build.build(out)
    assert out.read_bytes() == first  # the same sources give the same object
    assert list(tmp_path.iterdir()) == [out]


def test_the_object_keeps_its_types_and_drops_debug_sections(tmp_path):
    out = tmp_path / "probes.bpf.o"
    build.build(out)
    readelf = subprocess.run(["readelf", "-SW", str(out)], capture_output=True, text=True, check=True).stdout
    assert ".BTF" in readelf
    assert ".BTF.ext" in readelf
    assert ".debug_info" not in readelf


def test_the_command(tmp_path):
    out = tmp_path / "probes.bpf.o"
    command = [sys.executable, "-m", "collectors.ebpf.build", "--out", str(out)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"{out}: built, {out.stat().st_size} bytes\n"
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"{out}: is current, {out.stat().st_size} bytes\n"


def tool(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def tools(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_without_a_clang_the_packages_are_named(tools):
    tool(tools, "clang", "echo 'Debian clang version 11.0.1-2'")
    with pytest.raises(SetupError, match=r"no clang of version 14 or newer.*apt-get install clang-19 .*libbpf-dev"):
        build.find_clang()


def test_any_new_enough_clang_serves(tools):
    tool(tools, "clang", "echo 'Debian clang version 11.0.1-2'")
    wanted = tool(tools, "clang-16", "echo 'Debian clang version 16.0.6'")
    assert build.find_clang() == str(wanted)


def test_a_failing_compiler_leaves_nothing_and_shows_its_first_error(tools, tmp_path):
    broken = "[ $1 = --version ] && echo 'clang version 19.1.7' && exit; echo 'x.h:1: note' >&2; "
    tool(tools, "clang-19", f"{broken} echo \"probes.bpf.c:8:10: fatal error: 'bpf/x.h' file not found\" >&2; exit 1")
    out = tmp_path / "out" / "probes.bpf.o"
    out.parent.mkdir()
    with pytest.raises(SetupError, match=r"clang-19 failed with 1: probes.bpf.c:8:10: fatal error.*apt-get install"):
        build.build(out)
    assert list(out.parent.iterdir()) == []


def test_the_command_prints_one_line_for_an_error(tools, tmp_path):
    command = [sys.executable, "-m", "collectors.ebpf.build", "--out", str(tmp_path / "probes.bpf.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(core.OBJECT).parents[2])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("asa: no clang")
    assert done.stderr.count("\n") == 1
