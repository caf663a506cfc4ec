# SPDX-License-Identifier: GPL-2.0-only
"""The monitor's help: each number that its panels show is in it, and it fits the screen."""

import pytest

from asa.monitor import numbers, panels


def test_it_fits_a_terminal_of_80_columns():
    lines = numbers.help_text().splitlines()
    assert max(map(len, lines)) <= numbers.COLUMNS
    assert [one.shown for one in numbers.NUMBERS if not any(line.startswith(one.shown) for line in lines)] == []


@pytest.mark.parametrize("name", [name for name, _ in panels.LATENCIES.values()])
def test_each_latency_is_explained(name):
    assert name in {one.shown for one in numbers.NUMBERS}


def test_each_strip_is_explained():
    assert set(panels.STRIPS) <= {one.shown for one in numbers.NUMBERS}
