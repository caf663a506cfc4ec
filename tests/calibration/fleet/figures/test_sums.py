# SPDX-License-Identifier: GPL-2.0-only
"""What chance leaves open in the fleet's figures: intervals and tests hold what they promise, also of like machines."""

import math
import random
import statistics

import pytest

from calibration.fleet.figures import pairs as by
from calibration.fleet.figures import sums
from calibration.fleet.figures.blocks import Block, Run

OF = by.of_column("eevdf")


def block(eevdf, agent, *, scenario="S1", machine="m"):
    runs = {
        column: {(machine, place): Run(score=score, seed=place) for place, score in enumerate(scores, 1)}
        for column, scores in (("eevdf", eevdf), ("agent", agent))
    }
    return Block(machine=machine, prototype=True, scenario=scenario, label=f"of {scenario}", phased=False, runs=runs)


def pairs(blocks):
    return by.pairs(blocks, "agent", OF)


def alike(chance, *, scenarios=8, machines=2, repeats=1, mean=0.0, own=0.1):
    """Blocks whose difference is nearly the same on all machines: `own` of its deviation is the machine's."""
    found = []
    for place in range(scenarios):
        everywhere = chance.gauss(0.0, 0.03)
        for number in range(machines):
            noise = [everywhere + chance.gauss(0.0, 0.03 * own) for _ in range(repeats)]
            ours = [0.5 + mean + one for one in noise]
            found.append(block((0.5,) * repeats, ours, scenario=f"S{place}", machine=f"m{number}"))
    return pairs(found)


def test_wilsons_interval():
    half = sums.share(5, 10)
    assert (half.pct, half.low, half.high) == pytest.approx((50.0, 23.66, 76.34), abs=0.01)  # by hand
    assert (sums.share(10, 10).low, sums.share(10, 10).high) == pytest.approx((72.25, 100.0), abs=0.01)
    assert sums.share(0, 0) is None


def test_an_interval_of_a_mean_is_that_of_its_scenarios():
    """Of a plain mean the jackknife is the t interval. A second machine that plays the same makes it no narrower."""
    apart = [0.01 * place for place in range(9)]
    once = [block((0.5,), (0.5 + one,), scenario=f"S{place}") for place, one in enumerate(apart)]
    twice = once + [block((0.5,), (0.5 + one,), scenario=f"S{place}", machine="n") for place, one in enumerate(apart)]
    half = 2.3060 * statistics.stdev(apart) / 3.0  # t of 8, 97.5 %
    for blocks in (once, twice):
        found = sums.points(pairs(blocks))
        assert (found.value, found.low, found.high) == pytest.approx(
            (4.0, 4.0 - 100 * half, 4.0 + 100 * half), rel=1e-3
        )
        assert sums.gain(pairs(blocks)).low == pytest.approx(2.0 * found.low)
        assert sums.overall(pairs(blocks)).pairs == 9
    assert sums.gain(pairs(once[:2])).low is None
    assert sums.gain([]) is None


def test_one_scenario_is_judged_by_the_draws_of_its_parameters():
    """Three draws on two machines are three, and not six; two are too few."""
    three = pairs([block((0.5,) * 3, (0.6, 0.7, 0.8), machine=name) for name in "mn"])
    test = sums.overall(three)
    assert (test.pairs, test.mean) == (3, pytest.approx(0.2))
    assert sums.points(three).high == pytest.approx(20.0 + 4.3027 * 10.0 / math.sqrt(3.0), rel=1e-3)  # t of 2
    two = pairs([block((0.5,) * 2, (0.6, 0.7), machine=name) for name in "mn"])
    assert (sums.overall(two).p, sums.points(two).low) == (None, None)


def test_blocks_of_any_number_of_runs_count_the_same():
    found = pairs([block((0.5,) * 4, (0.6,) * 4), block((0.5,), (0.5,), scenario="S2")])
    assert sums.points(found).value == pytest.approx(5.0)
    assert sums.gain(found).value == pytest.approx(10.0)


def test_where_machines_agree_nothing_is_claimed_more_often_than_promised():
    """Of 400 fleets on which the agent is EEVDF with noise, 5 % may differ by their test, or miss their interval.

    Taken for independent, two machines that agree differ in 15 % and more.
    """
    chance = random.Random(3)  # noqa: S311
    fleets = [alike(chance) for _ in range(400)]
    tests = [sums.overall(one).p < 0.05 for one in fleets]
    outside = [not (found.low < 0.0 < found.high) for found in map(sums.points, fleets)]
    assert 0.02 < statistics.fmean(tests) < 0.08
    assert 0.02 < statistics.fmean(outside) < 0.08
    apart = [sums.overall(pairs([_named(one, place) for place, one in enumerate(fleet)])) for fleet in fleets]
    assert statistics.fmean(one.p < 0.05 for one in apart) > 0.12  # what this guards against


def _named(one, place):
    return block(one.theirs, one.ours, scenario=f"S{place}")


def test_a_gap_leaves_out_what_both_sides_play():
    """Both sides swing alike from scenario to scenario, and so the gap does not swing."""
    swing = (0.0, 0.02, 0.04, 0.06)
    sides = [
        pairs([block((0.5,), (0.5 + one + more,), scenario=f"S{place}") for place, one in enumerate(swing)])
        for more in (0.01, 0.0)
    ]
    found = sums.gap(*sides)
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert sums.gap(sides[0], []) is None
    assert sums.gap(sides[0], pairs([block((0.5,), (0.5,), scenario="S0")])).low is None  # without S0 there is none


def test_a_block_is_tested_by_its_repeats_and_says_what_that_takes():
    noise = (-0.01, 0.0, 0.01)
    blocks = [block((0.5,) * 3, [0.53 + one for one in noise], scenario=f"S{place}") for place in range(10)]
    found = pairs(blocks)
    assert sums.significant(found, 1.0).pct == 0.0  # 3 standard deviations
    assert sums.significant(found[:1], 1.0).pct == 100.0
    assert sums.significant(found[:1], -1.0).pct == 0.0
    assert sums.significant(pairs([block((0.5,) * 2, (0.6, 0.6))]), 1.0) is None
    least = sums.least_effect(10, 3)
    assert least > 3.0
    sure = [
        block((0.5,) * 3, [0.5 + 0.01 * least + 0.0002 + one for one in noise], scenario=f"S{n}") for n in range(10)
    ]
    assert sums.significant(pairs(sure), 1.0).pct == 100.0
    assert sums.least_effect(10, 2) is None
    assert sums.least_effect(0, 3) is None
