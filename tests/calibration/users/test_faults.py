# SPDX-License-Identifier: GPL-2.0-only
"""The list of faults names tests that there are, and a test that fails or is skipped leaves its fault open."""

import ast
from functools import cache

from calibration.users.desktops import desktops
from calibration.users.faults import ROOT, Fault, faults, mended, named


@cache
def those_of(file):
    return {node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)}


def test_each_fault_has_tests_that_there_are():
    every = faults()
    assert [fault.number for fault in every] == list(range(1, len(every) + 1))
    for fault in every:
        for name in fault.tests:
            file, _, test = name.partition("::")
            assert test in those_of(file), name


def test_each_desktop_has_tests_that_there_are():
    every = desktops()
    assert [one.name for one in every] == ["GNOME", "KWin", "sway", "X11"]
    for name in (name for one in every for name in one.tests):
        file, _, test = name.partition("::")
        assert test in those_of(file), name


def test_a_fault_is_mended_by_all_of_its_tests():
    one = Fault(number=1, report="", right="", tests=("tests/test_a.py::test_a", "tests/test_a.py::test_b"))
    other = Fault(number=2, report="", right="", tests=("tests/test_c.py::test_c",))
    assert list(mended((one, other), ["tests/test_a.py::test_b[x-1]"])) == [other]
    assert list(mended((one, other), ["tests/test_c.py"])) == [one]
    assert list(mended((one, other), [])) == [one, other]


def test_what_a_summary_names():
    summary = (
        "=== short test summary info ===\n"
        "FAILED tests/test_a.py::test_b[x y] - assert 1 == 2\n"
        "ERROR tests/test_c.py::test_d - OSError\n"
        "SKIPPED [2] tests/test_e.py:12: needs root\n"
        "1 failed, 3 passed\n"
    )
    assert list(named(summary)) == ["tests/test_a.py::test_b[x", "tests/test_c.py::test_d", "tests/test_e.py"]
