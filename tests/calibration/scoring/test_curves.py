# SPDX-License-Identifier: GPL-2.0-only
"""The two curves: by hand at known points, and what must hold for every figure and every constant."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.errors import AsaError
from calibration.scoring.curves import stability_score, value_score
from scenarios.metric import K_VALUE, Direction, ScoreError

NOISE = 1e-12  # of a float's last places
ANY = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=0.0, exclude_min=True, allow_nan=False, allow_infinity=False)
SPREAD = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)
DIRECTIONS = st.sampled_from(Direction)
CONSTANTS = st.fixed_dictionaries({"theta": ANY, "f": POSITIVE, "k": POSITIVE, "gamma": POSITIVE})
NOT_FINITE = [math.nan, math.inf, -math.inf]


def test_value_by_hand():
    frames = {"theta": 30.0, "f": 20.0, "k": K_VALUE, "gamma": 1.0, "direction": Direction.LARGER}
    assert value_score(30.0, **frames) == 0.5
    assert value_score(50.0, **frames) == pytest.approx(0.9)
    assert value_score(10.0, **frames) == pytest.approx(0.1)
    assert value_score(70.0, **frames) == pytest.approx(81 / 82)
    assert value_score(50.0, **(frames | {"direction": Direction.SMALLER})) == pytest.approx(0.1)


def test_the_power_keeps_the_sign():
    squared = {"theta": 10.0, "f": 2.0, "k": 0.5, "gamma": 2.0, "direction": Direction.SMALLER}
    assert value_score(14.0, **squared) == pytest.approx(1 / (1 + math.e**2))  # a plain square would give this twice
    assert value_score(6.0, **squared) == pytest.approx(1 / (1 + math.e**-2))


def test_stability_by_hand():
    assert stability_score(0.0, k=3.0, gamma=2.0) == 1.0
    assert stability_score(5.0, k=0.04, gamma=2.0) == pytest.approx(0.5)
    assert stability_score(10.0, k=0.04, gamma=2.0) == pytest.approx(0.2)
    assert stability_score(9.0, k=1.0, gamma=0.5) == pytest.approx(0.25)


@given(x=ANY, constants=CONSTANTS, direction=DIRECTIONS)
def test_value_is_bounded_whatever_is_put_in(x, constants, direction):
    assert 0.0 <= value_score(x, direction=direction, **constants) <= 1.0


@given(sigma=SPREAD, k=POSITIVE, gamma=POSITIVE)
def test_stability_is_bounded_whatever_is_put_in(sigma, k, gamma):
    assert 0.0 <= stability_score(sigma, k=k, gamma=gamma) <= 1.0


@given(pair=st.tuples(ANY, ANY), constants=CONSTANTS, direction=DIRECTIONS)
def test_value_never_falls_towards_the_better(pair, constants, direction):
    low, high = (value_score(x, direction=direction, **constants) for x in sorted(pair))
    worse, better = (low, high) if direction is Direction.LARGER else (high, low)
    assert better >= worse - NOISE


@given(pair=st.tuples(SPREAD, SPREAD), k=POSITIVE, gamma=POSITIVE)
def test_more_spread_never_scores_more(pair, k, gamma):
    calm, wild = (stability_score(sigma, k=k, gamma=gamma) for sigma in sorted(pair))
    assert calm >= wild - NOISE


@given(x=st.floats(-1e6, 1e6), theta=st.floats(-1e6, 1e6), f=st.floats(1e-3, 1e6), gamma=st.floats(0.1, 5.0))
def test_the_two_directions_are_mirrors(x, theta, f, gamma):
    rising, falling = (value_score(x, theta=theta, f=f, k=K_VALUE, gamma=gamma, direction=one) for one in Direction)
    assert rising + falling == pytest.approx(1.0)


@given(
    theta=st.floats(-1e6, 1e6),
    f=st.floats(1e-3, 1e6),
    gamma=st.floats(0.2, 5.0),
    beyond=st.tuples(st.floats(1.0, 1e6), st.floats(1.0, 1e6)),
    side=st.sampled_from([-1.0, 1.0]),
    direction=DIRECTIONS,
)
def test_it_is_flat_outside_the_sweet_spot_and_steep_inside(theta, f, gamma, beyond, side, direction):
    def at(away):
        return value_score(theta + away * f, theta=theta, f=f, k=K_VALUE, gamma=gamma, direction=direction)

    near, far = (at(side * one) for one in beyond)
    assert abs(near - far) <= 0.1 + 1e-6
    assert abs(at(1.0) - at(-1.0)) >= 0.8 - 1e-6


def test_what_is_beyond_a_float_is_an_end_of_the_curve():
    wide = {"theta": 0.0, "k": 1e300, "gamma": 300.0}
    assert value_score(1e308, f=1e-300, direction=Direction.SMALLER, **wide) == 0.0
    assert value_score(1e308, f=1e-300, direction=Direction.LARGER, **wide) == 1.0
    assert stability_score(1e308, k=1e300, gamma=300.0) == 0.0
    ends = {"theta": -1e308, "f": 1e308, "k": 1.0, "gamma": 1.0}  # x - theta alone is beyond a float
    assert value_score(1e308, direction=Direction.LARGER, **ends) == pytest.approx(1 / (1 + math.exp(-2)))


@pytest.mark.parametrize("number", NOT_FINITE)
@pytest.mark.parametrize("name", ["x", "theta", "f", "k", "gamma"])
def test_value_refuses_what_is_not_finite(name, number):
    given_ = {"x": 1.0, "theta": 1.0, "f": 1.0, "k": 1.0, "gamma": 1.0} | {name: number}
    with pytest.raises(ScoreError, match=f"^{name}: ") as refused:
        value_score(given_.pop("x"), direction=Direction.LARGER, **given_)
    assert isinstance(refused.value, AsaError)
    assert refused.value.what == name
    assert refused.value.value is number


@pytest.mark.parametrize("number", [*NOT_FINITE, -1e-9])
def test_stability_refuses_what_is_no_spread(number):
    with pytest.raises(ScoreError, match=r"^sigma: "):
        stability_score(number, k=1.0, gamma=1.0)


@pytest.mark.parametrize("number", [*NOT_FINITE, 0.0, -1.0])
@pytest.mark.parametrize("name", ["f", "k", "gamma"])
def test_constants_are_positive(name, number):
    constants = {"f": 1.0, "k": 1.0, "gamma": 1.0} | {name: number}
    with pytest.raises(ScoreError, match=rf"^{name}: .* above 0"):
        value_score(1.0, theta=0.0, direction=Direction.LARGER, **constants)
    if name != "f":
        del constants["f"]
        with pytest.raises(ScoreError, match=rf"^{name}: .* above 0"):
            stability_score(1.0, **constants)
