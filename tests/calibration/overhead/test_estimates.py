# SPDX-License-Identifier: GPL-2.0-only
"""Slope and spread against known lines and against numpy's own regression."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibration.overhead.estimates import slope, spread


def test_the_slope_of_a_straight_line_has_no_error():
    found = slope([(x, 40_000.0 + 3.5 * x) for x in range(30)])
    assert found is not None
    assert found.value == pytest.approx(3.5)
    assert found.error == pytest.approx(0.0, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e5, 1e5)), min_size=4, max_size=40))
def test_slope_and_error_are_those_of_numpy(points):
    x, y = np.array(points).T
    assume(np.ptp(x) > 1.0)
    found = slope(points)
    (value, _), covariance = np.polyfit(x, y, 1, cov=True)  # scaled by the residuals over n - 2, as ours
    assert found is not None
    scale = max(1.0, float(np.ptp(y)))
    assert found.value == pytest.approx(value, rel=1e-4, abs=1e-6 * scale)
    assert found.error == pytest.approx(np.sqrt(covariance[0, 0]), rel=1e-4, abs=1e-6 * scale)


@pytest.mark.parametrize("points", [[], [(0.0, 1.0), (1.0, 2.0)], [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]])
def test_too_little_for_a_slope(points):
    assert slope(points) is None


def test_one_round_that_was_disturbed_does_not_move_the_middle():
    found = spread([226.0, 231.0, 9_000.0, 222.0, 229.0])
    assert found is not None
    assert (found.median, found.least, found.greatest, found.count) == (229.0, 222.0, 9_000.0, 5)
    assert spread([]) is None
