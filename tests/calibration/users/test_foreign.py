# SPDX-License-Identifier: GPL-2.0-only
"""What a machine of aarch64 prints of the tests that ran in it, as a figure."""

import pytest

from asa.core.errors import SetupError
from calibration.users import foreign
from calibration.users.packages import ROOT

BOOT = "EFI stub: 3 passed\r\n@@ begins\r\n"


def test_the_figure_is_what_passed_and_names_what_did_not():
    said = "..F.\nFAILED tests/core/test_kinds.py::test_a - assert 1 == 2\n1 failed, 12 passed, 2 skipped in 4.00s\n"
    assert foreign.read(f"{BOOT}{said}@@ ended with 1\n") == (
        12.0,
        "1 failed, 2 skipped; tests/core/test_kinds.py::test_a",
    )
    assert foreign.read(f"{BOOT}12 passed in 4.00s\n@@ ended with 0\nreboot: Power down\n") == (12.0, "0 failed")


@pytest.mark.parametrize(
    "said",
    [
        "",
        "qemu-system-aarch64: could not load kernel\n",
        f"{BOOT}12 passed",  # and then it died
        f"{BOOT}ERROR collecting\n@@ ended with 2\n",
        f"{BOOT}no tests ran\n@@ ended with 5\n",
    ],
)
def test_where_none_ran_to_their_end_the_figure_is_unknown(said):
    with pytest.raises(SetupError, match="ran no tests to their end"):
        foreign.read(said)


def test_the_tests_are_there():
    assert [name for name in foreign.TESTS if not (ROOT / name).exists()] == []
