# SPDX-License-Identifier: GPL-2.0-only
"""Work a second from counts at uneven times."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.background.pace import Pace


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 50)), min_size=1))
def test_the_mean_of_the_samples_is_the_mean_of_the_work(steps):
    now, said = [0.0], []
    driver = SimpleNamespace(measured=lambda metric, value: said.append(value))
    pace = Pace(driver, "objects_per_s", clock=lambda: now[0])
    steps = [*steps, (8, 0)]  # one whole second at the end, so that nothing is left
    for eighths, count in steps:
        now[0] += eighths / 8
        pace.done(count)
    assert len(said) <= now[0]
    if now[0] == len(said):
        assert sum(said) == pytest.approx(sum(count for _, count in steps))


def test_a_pause_does_not_count_and_a_rest_does():
    now, said = [0.0], []
    driver = SimpleNamespace(measured=lambda metric, value: said.append((metric, value)))
    pace = Pace(driver, "frames_per_s", clock=lambda: now[0])
    now[0] = 0.5
    pace.done(3)
    now[0] = 100.0
    pace.start()
    now[0] = 101.5
    pace.done(5)
    assert said == [("frames_per_s", 4.0)] * 2
