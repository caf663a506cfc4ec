# SPDX-License-Identifier: GPL-2.0-only
"""/proc/PID/stat: one splitter for all, right for every name that a process can give itself."""

import ast
import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa import procstat

ROOT = Path(__file__).resolve().parents[1]
PR_SET_NAME = 15  # prctl(2)
NUMBERS = b" ".join(str(n).encode() for n in range(1, 50))


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
def test_whatever_the_name(name):
    text = b"7 (%b) S %b\n" % (name, NUMBERS)
    found = procstat.fields(text)
    assert (found[procstat.STATE], found[procstat.PARENT], found[procstat.RESIDENT]) == (b"S", b"1", b"21")
    assert procstat.name(text) == name


def test_what_is_no_stat_has_no_fields():
    assert procstat.fields(b"") == procstat.fields(b"7 no bracket") == []
    assert procstat.name(b"") == b""
    assert procstat.fields(b"7 (x) S 1 2 3 4\n", 2) == [b"S", b"1", b"2 3 4\n"]


@pytest.mark.parametrize("name", [b"a b", b") R 1 (", b"x\ny) Z 9"])
def test_a_real_process(name):
    code = f"import ctypes, sys; ctypes.CDLL(None).prctl({PR_SET_NAME}, {name!r}); print('named', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"named\n"
        text = Path(f"/proc/{process.pid}/stat").read_bytes()
        process.kill()
    found = procstat.fields(text)
    assert found[procstat.STATE] in b"SR"
    assert int(found[procstat.SESSION]) == ctypes.CDLL(None).getsid(0)
    assert procstat.name(text) == name


def test_there_is_one_splitter():
    """Who takes a text apart after a bracket takes /proc/PID/stat apart."""
    found = set()
    for package in ("asa", "collectors", "models", "scenarios", "calibration"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in ("rpartition", "rfind", "rindex", "rsplit")
                    and node.args
                    and isinstance(node.args[0], ast.Constant)
                    and node.args[0].value in (")", b")", ") ", b") ")
                ):
                    found.add(str(path.relative_to(ROOT)))
    assert found - {"scenarios/background/kernel.py"} == {"asa/procstat.py"}  # the other reads a version of a program
