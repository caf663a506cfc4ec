# SPDX-License-Identifier: GPL-2.0-only
"""Who plays when, how long a block is, and whose a sample is."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.decision import EEVDF
from calibration.switchback import design
from calibration.switchback.design import LEAST_S, MOST_S, Turn, correlation_time, memory_s, orders, window_s

NAMES = ("scx_a", "scx_b", "scx_c", "scx_d")


@given(st.lists(st.sampled_from((EEVDF, *NAMES)), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 99))
def test_each_round_has_every_scheduler_between_two_blocks_of_the_kernels_own(names, rounds, seed):
    made = orders(names, rounds, seed)
    assert len(made) == rounds
    for order in made:
        assert (order[0], order[-1]) == (Turn(scheduler=EEVDF, copy=1), Turn(scheduler=EEVDF, copy=2))
        assert Counter(turn.scheduler for turn in order[1:-1]) == Counter(names)
        assert len(set(order)) == len(order)  # copies tell them apart
    assert made == orders(names, rounds, seed)


def test_the_order_is_drawn_anew_for_each_round_and_seed():
    made = orders(NAMES, 12, 1)
    assert len({tuple(turn.scheduler for turn in order) for order in made}) > 6
    assert made != orders(NAMES, 12, 2)


def test_white_noise_is_forgotten_at_once_and_what_wanders_is_not():
    chance = random.Random(1)  # noqa: S311
    white = [chance.gauss(0.0, 1.0) for _ in range(4000)]
    assert correlation_time(white) == pytest.approx(1.0, abs=0.2)
    value, wandering = 0.0, []
    for _ in range(20_000):
        value = 0.8 * value + chance.gauss(0.0, 1.0)
        wandering.append(value)
    assert correlation_time(wandering) == pytest.approx(9.0, rel=0.25)  # (1 + 0.8) / (1 - 0.8)
    assert correlation_time([3.0] * 20) == 1.0
    assert correlation_time([1.0, 2.0, 3.0]) is None


def test_a_wait_is_remembered_for_the_time_between_two_of_them_and_a_rate_not_at_all():
    chance = random.Random(2)  # noqa: S311
    at_s = [0.5 * number for number in range(400)]
    white = [chance.gauss(0.0, 1.0) for _ in at_s]
    assert memory_s("key_ms", at_s, white) == pytest.approx(0.5, abs=0.15)
    assert memory_s("tiles_per_s", at_s, white) == pytest.approx(0.0, abs=0.15)
    assert memory_s("key_ms", at_s[:3], white[:3]) is None


def test_a_window_holds_eight_values_of_the_slowest_metric_within_its_bounds():
    assert window_s({"a": 0.1, "b": 0.2, "c": None}) == LEAST_S
    assert window_s({"a": 0.1, "b": 1.0}) == 8.0
    assert window_s({"a": 60.0}) == MOST_S
    assert window_s({"a": None}) == window_s({}) == MOST_S  # nothing is known: the longest


def test_a_sample_is_of_the_block_in_which_its_wait_began():
    at_ns = 10_000_000_000
    assert design.began_ns("key_ms", at_ns, 250.0) == at_ns - 250_000_000
    assert design.began_ns("tiles_per_s", at_ns, 250.0) == at_ns - 1_000_000_000
    assert design.began_ns("fps", at_ns, 60.0) == at_ns - 1_000_000_000
    assert design.began_ns("block_pct", at_ns, 250.0) == at_ns


def test_what_takes_as_long_as_a_whole_film_is_no_blocks():
    assert [design.of_block(name) for name in ("total_s", "frame_s", "tiles_per_s", "key_ms", "fps")] == [
        *(False, False, True, True, True)
    ]
