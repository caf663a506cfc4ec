# SPDX-License-Identifier: GPL-2.0-only
"""What a command line takes as a number, and what it says of anything else."""

import argparse

import pytest

from asa.cli.lab import bounds


def test_what_lies_within_the_bounds_is_taken():
    assert [bounds.number(2, 9)(text) for text in ("2", "9")] == [2, 9]
    assert [bounds.COUNT_FROM_0(text) for text in ("0", "1000")] == [0, 1000]
    assert [bounds.time(0.2, 60.0)(text) for text in ("0.2", "6e1")] == [0.2, 60.0]
    assert (bounds.SECONDS("0"), bounds.SECONDS_ABOVE_0("0.1"), bounds.MINUTES("10000")) == (0.0, 0.1, 10_000.0)


@pytest.mark.parametrize(
    ("reader", "text", "words"),
    [
        (bounds.COUNT, "0", "0 is not a number from 1 to 1000"),
        (bounds.COUNT, "1001", "1001 is not a number from 1 to 1000"),
        (bounds.COUNT, "two", "two is not a number from 1 to 1000"),
        (bounds.COUNT, "1.5", "1.5 is not a number from 1 to 1000"),
        (bounds.SECONDS, "nan", "nan is not a time from 0 to 3600 seconds"),
        (bounds.SECONDS, "-1", "-1 is not a time from 0 to 3600 seconds"),
        (bounds.SECONDS, "soon", "soon is not a time from 0 to 3600 seconds"),
        (bounds.SECONDS_ABOVE_0, "0", "0 is not a time from 0 to 3600 seconds and above 0"),
        (bounds.MINUTES, "inf", "inf is not a time from 0 to 10000 minutes and above 0"),
    ],
)
def test_anything_else_is_told_with_the_bounds(reader, text, words):
    with pytest.raises(argparse.ArgumentTypeError) as raised:
        reader(text)
    assert str(raised.value) == words
