# SPDX-License-Identifier: GPL-2.0-only
"""Statistics of the last seconds are those of NumPy over the known ticks, and forget what has left the window."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.rates import Rates
from models import features
from models.features.table import FOLLOWED

S = 1_000_000_000
FIELDS = [field.name for field in dataclasses.fields(Rates)]


def rates(involuntary: float | None, **known: float | None) -> Rates:
    return Rates(involuntary_switch_share=involuntary, **known)


def pushed(ticks: list[tuple[float, float | None]]) -> features.Window:
    window = features.Window()
    for at_s, share in ticks:
        window = features.push(window, int(at_s * S), rates(share), 4)
    return window


def statistics(window: features.Window, name: str = "involuntary_share") -> list[float]:
    seen = features.vector(window)
    ends = ("mean3s", "mean6s", "slope6s", "deviation6s")
    return [float(seen[features.NAMES.index(f"{name}_{end}")]) for end in ends]


def test_an_empty_window_knows_nothing():
    assert np.isnan(features.frame(features.Window()).values).all()
    assert len(features.vector(features.Window())) == len(features.NAMES)


def test_the_first_tick_has_the_statistics_of_itself():
    assert statistics(pushed([(1, 0.5)])) == [0.5, 0.5, 0.0, 0.0]


def test_a_rising_value():
    window = pushed([(second, second / 10) for second in range(1, 10)])
    # 7, 8, 9 and 4 to 9
    assert statistics(window) == pytest.approx([0.8, 0.65, 0.1, np.std(range(6)) / 10])


def test_ticks_that_come_a_little_early_or_late_are_as_many():
    for shift in (-0.2, 0.2):
        window = pushed([(second + shift * (second == 9), second / 10) for second in range(1, 10)])
        assert len(window.times_ns) == 6
        assert statistics(window)[0] == pytest.approx(0.8)


def test_what_is_unknown_at_some_ticks_is_that_of_the_others():
    assert statistics(pushed([(1, 0.2), (2, None), (3, 0.4)])) == pytest.approx([0.3, 0.3, 0.1, 0.1])
    assert statistics(pushed([(1, 0.2), (2, 0.2), (3, None)]))[1:] == pytest.approx([0.2, 0.0, 0.0])
    old = pushed([(1, 0.2), (4, None), (5, None), (6, None)])
    assert np.isnan(statistics(old)[0])
    assert statistics(old)[1] == pytest.approx(0.2)
    assert np.isnan(statistics(pushed([(1, None), (2, None)]))).all()


def test_a_gap_and_time_that_goes_back_begin_anew():
    assert statistics(pushed([(1, 0.2), (2, 0.3), (9, 0.9)])) == [0.9, 0.9, 0.0, 0.0]
    assert statistics(pushed([(5, 0.2), (6, 0.3), (6, 0.9)])) == [0.9, 0.9, 0.0, 0.0]
    assert statistics(pushed([(5, 0.2), (6, 0.3), (1, 0.9)])) == [0.9, 0.9, 0.0, 0.0]


def test_a_window_is_a_value():
    one = pushed([(1, 0.2), (2, None)])
    before = features.vector(one)
    features.push(one, 3 * S, rates(0.9), 4)
    assert np.array_equal(features.vector(one), before, equal_nan=True)
    assert one == pushed([(1, 0.2), (2, None)])
    assert one != pushed([(1, 0.2), (2, 0.3)])
    with pytest.raises(ValueError, match="read-only"):
        one.followed[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        one.newest[0] = 1.0


def test_the_tick_itself_stands_first():
    window = pushed([(1, 0.2), (2, 0.7)])
    assert features.vector(window)[features.NAMES.index("involuntary_share")] == 0.7


def test_every_followed_value_is_made_of_its_own_column():
    window = features.Window()
    chance = np.random.default_rng(5)
    ticks = [dict(zip(FIELDS, chance.uniform(0.01, 50.0, len(FIELDS)).tolist(), strict=True)) for _ in range(4)]
    frames = []
    for number, fields in enumerate(ticks):
        window = features.push(window, number * S, Rates(**fields), 4)
        frames.append(features.vector(window))
    for name in FOLLOWED:
        column = np.array([frame[features.NAMES.index(name)] for frame in frames])
        slope = np.polyfit(np.arange(4.0), column, 1)[0]
        expected = [column[1:].mean(), column.mean(), slope, column.std()]
        assert statistics(window, name) == pytest.approx(expected, rel=1e-9, abs=1e-9), name


@given(
    steps=st.lists(
        st.tuples(st.floats(0.2, 4.0), st.none() | st.floats(0.0, 1.0)),
        min_size=1,
        max_size=20,
    )
)
def test_statistics_are_those_of_numpy(steps):
    at_ns, ticks = 0, []
    for gap_s, share in steps:
        at_ns += int(gap_s * S)
        ticks.append((at_ns / S, share))
    window = pushed(ticks)
    last_s = ticks[-1][0]
    kept = [(at_s, share) for at_s, share in ticks if at_s > last_s - 5.5 and share is not None]
    mean3, mean6, slope, deviation = statistics(window)
    short = [share for at_s, share in kept if at_s > last_s - 2.5]
    assert mean3 == pytest.approx(np.mean(short)) if short else np.isnan(mean3)
    if not kept:
        assert np.isnan([mean6, slope, deviation]).all()
        return
    times, shares = np.array(kept).T
    assert mean6 == pytest.approx(shares.mean(), abs=1e-12)
    assert deviation == pytest.approx(shares.std(), abs=1e-9)
    assert slope == pytest.approx(np.polyfit(times, shares, 1)[0] if len(kept) > 1 else 0.0, abs=1e-7)


def test_a_window_never_holds_more_than_its_time():
    window = pushed([(number / 10, 0.5) for number in range(200)])
    assert len(window.times_ns) == len(window.followed) == 56  # 5.5 s of ten a second, both ends
