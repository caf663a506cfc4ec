# SPDX-License-Identifier: GPL-2.0-only
"""What pytest says of the tests that ran as programs of aarch64, as a figure."""

from subprocess import CompletedProcess

import pytest

from asa.core.errors import SetupError
from calibration.users import foreign
from calibration.users.packages import ROOT


def test_the_figure_is_what_passed_and_names_what_did_not():
    said = "..F.\nFAILED tests/core/test_kinds.py::test_a - assert 1 == 2\n1 failed, 12 passed, 2 skipped in 4.00s\n"
    assert foreign.read(CompletedProcess((), 1, said, "")) == (
        12.0,
        "1 failed, 2 skipped; tests/core/test_kinds.py::test_a",
    )
    assert foreign.read(CompletedProcess((), 0, "12 passed in 4.00s\n", "")) == (12.0, "none failed")


@pytest.mark.parametrize(("code", "said"), [(2, "ERROR collecting"), (5, "no tests ran"), (139, "")])
def test_where_none_ran_the_figure_is_unknown(code, said):
    with pytest.raises(SetupError, match=f"ended with {code}"):
        foreign.read(CompletedProcess((), code, said, ""))


def test_the_tests_are_there():
    assert [name for name in foreign.TESTS if not (ROOT / name).exists()] == []
