# SPDX-License-Identifier: GPL-2.0-only
"""The methods of a tuning on functions whose answer is known, and the study's own table."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibration.tuning import golden, racing, screening, simulated, surface, swarm
from calibration.tuning.racing import Verdict
from calibration.tuning.surface import Searched
from calibration.tuning.swarm import Coefficients


def valley(bottom):
    return lambda points: [(x - bottom) ** 2 for x in points]


@given(st.floats(0.0, 1.0), st.integers(2, 25))
def test_golden_section_has_the_valley_between_its_ends(bottom, evaluations):
    found = golden.search(valley(bottom), evaluations)
    assert found.evaluations == evaluations
    assert found.low - 1e-9 <= bottom <= found.high + 1e-9
    assert found.high - found.low == pytest.approx(golden.RATIO ** (evaluations - 1))
    assert abs(found.best - bottom) <= golden.RATIO ** (evaluations - 1) + 1e-9


def test_golden_section_evaluates_once_a_step():
    asked = []
    golden.search(lambda points: asked.append(points) or [abs(x - 0.2) for x in points], 9)
    assert [len(points) for points in asked] == [2] + [1] * 7
    assert len({x for points in asked for x in points}) == 9
    assert asked[0] == (pytest.approx(0.382, abs=1e-3), pytest.approx(0.618, abs=1e-3))


def sphere(bottom):
    return lambda points: [sum((x - at) ** 2 for x, at in zip(point, bottom, strict=True)) for point in points]


CONSTRICTED = Coefficients(inertia=0.7298, own=1.4962, swarm=1.4962)  # Clerc and Kennedy, 2002: it comes to rest


@pytest.mark.parametrize(("given_", "within"), [(CONSTRICTED, 0.01), (None, 0.15)], ids=["constricted", "the study's"])
@pytest.mark.parametrize("seed", range(3))
def test_a_swarm_finds_the_bottom_of_a_bowl(seed, given_, within):
    bottom = (0.2, 0.7, 0.55)
    found = swarm.search(sphere(bottom), 3, 600, seed, given_)
    assert found.evaluations == 600
    assert found.best == pytest.approx(bottom, abs=within)
    assert found.cost == pytest.approx(sphere(bottom)([found.best])[0])


def test_a_swarm_stays_inside_and_within_its_trials():
    asked = []

    def costs(points):
        asked.extend(points)
        return [-sum(point) for point in points]

    found = swarm.search(costs, 2, 50, 1)
    assert (len(asked), found.evaluations) == (50, 50)
    assert all(0.0 <= x <= 1.0 for point in asked for x in point)
    assert -found.cost == max(sum(point) for point in asked)
    assert sum(asked[found.found_after - 1]) == -found.cost


def test_a_swarm_is_the_same_by_its_seed_and_outlives_trials_that_fail():
    def costs(points):
        return [float("inf") if point[0] < 0.5 else point[0] for point in points]

    first, second = (swarm.search(costs, 1, 120, 7) for _ in range(2))
    assert first == second
    assert 0.5 <= first.cost < 0.55
    assert swarm.search(lambda points: [float("inf")] * len(points), 1, 20, 7).cost == float("inf")


def test_the_boxes_edges_are_those_of_the_studys_table():
    coded = [
        tuple((one - middle) / half for one, middle, half in zip(row[:3], surface.MIDDLES, surface.HALVES, strict=True))
        for row in surface.STUDY
    ]
    assert sorted(coded) == sorted(surface.box_behnken())


def test_the_studys_coefficients_come_out_of_its_table_and_are_a_saddle():
    responses = [least + iterations for *_, least, iterations in surface.STUDY]
    coded = [((row[0] - 0.45) / 0.45, (row[2] - 2.0) / 2.0) for row in surface.STUDY]
    found = surface.fitted(coded, responses)  # its own pull had no effect, and is left out of the model
    inertia, pull = (middle * (1.0 + one) for middle, one in zip((0.45, 2.0), found.stationary, strict=True))
    assert (inertia, pull) == (pytest.approx(0.4365, abs=5e-5), pytest.approx(3.020, abs=1e-3))
    assert not found.minimum
    assert found.curvatures == (pytest.approx(-74.4, abs=0.1), pytest.approx(700.8, abs=0.1))


@given(st.lists(st.floats(-0.9, 0.9), min_size=3, max_size=3))
def test_a_surface_finds_the_bottom_of_a_bowl(bottom):
    points = surface.box_behnken()
    responses = [5.0 + sum((x - at) ** 2 for x, at in zip(point, bottom, strict=True)) for point in points]
    found = surface.fitted(points, responses)
    assert found.minimum
    assert found.best == found.stationary == pytest.approx(bottom, abs=1e-6)


def test_a_surface_without_a_bottom_has_its_least_at_the_border():
    points = surface.box_behnken()
    found = surface.fitted(points, [a - b - c * c for a, b, c in points])
    assert found.best[:2] == (-1.0, 1.0)
    assert abs(found.best[2]) == 1.0
    with pytest.raises(ValueError, match="do not tell"):
        surface.fitted(points[:5], [1.0] * 5)


def test_coefficients_are_chosen_by_fourteen_searches():
    def search(given_):
        cost = (given_.inertia - 0.6) ** 2 + (given_.own - 1.0) ** 2 + (given_.swarm - 3.0) ** 2
        return Searched(coefficients=given_, cost=cost, iterations=7)

    found = surface.choose(search)
    assert len(found.runs) == 14
    assert found.surface.minimum
    assert (found.best.inertia, found.best.own, found.best.swarm) == pytest.approx((0.6, 1.0, 3.0), abs=1e-6)


def test_a_searchs_response_is_what_it_found_and_how_soon():
    search = surface.searching(sphere((0.3, 0.3)), 2, seed=3)
    still, moving = search(Coefficients(inertia=0.0, own=0.0, swarm=0.0)), search(Coefficients())
    assert still.iterations == 1  # nothing moves
    assert moving.cost < still.cost < moving.response == moving.cost + moving.iterations


def test_the_simulated_batch_is_quicker_where_the_long_job_is_found_soon():
    costs = simulated.costs()
    soon, late, again = costs([(0.0, 1.0, 0.7), (1.0, 1.0, 0.7), (0.0, 1.0, 0.7)])
    assert soon == again
    assert 147_500.0 < soon < late  # us: 590 ms of work on four CPUs


def test_the_screening_design_is_orthogonal():
    rows = np.array(screening.design())
    assert rows.shape == (12, 11)
    assert (rows.T @ rows == 12 * np.eye(11)).all()
    assert (rows.sum(axis=0) == 0).all()


def test_a_screening_finds_what_matters():
    noise = random.Random(1)  # noqa: S311
    real = {"--a": 4.0, "--b": 0.0, "--c": -2.5, "--d": 0.0, "--e": 0.0, "--f": 0.0}
    responses = [
        10.0 + sum(effect / 2.0 * sign for effect, sign in zip(real.values(), row, strict=False)) + noise.gauss(0, 0.4)
        for row in screening.design()
    ]
    found = screening.effects(list(real), responses)
    assert [one.flag for one in found[:2]] == ["--a", "--c"]
    assert found[0].effect == pytest.approx(4.0, abs=0.5)
    assert [one.flag for one in found if one.matters] == ["--a", "--c"]


def test_a_screening_of_nothing_and_of_too_much():
    assert not any(one.matters for one in screening.effects(["--a", "--b"], [1.0] * 12))
    exact = screening.effects(["--a"], [row[0] for row in screening.design()])
    assert (exact[0].effect, exact[0].p) == (2.0, pytest.approx(0.0, abs=1e-9))
    with pytest.raises(ValueError, match="1 to 8"):
        screening.effects([f"--{number}" for number in range(9)], [1.0] * 12)


def test_a_race_ends_as_soon_as_it_is_sure():
    sure = racing.race(lambda pair: 5.0 + (pair % 2) * 0.1)
    assert (sure.verdict, sure.pairs) == (Verdict.BETTER, 3)
    assert sure.low < 5.0 < sure.high
    assert racing.race(lambda pair: -5.0 - (pair % 2) * 0.1).verdict is Verdict.WORSE
    open_ = racing.race(lambda pair: (-1.0) ** pair)
    assert (open_.verdict, open_.pairs) == (Verdict.NEITHER, racing.MOST)


def test_equal_pairs_are_not_sure_below_the_floor():
    assert racing.race(lambda _: 0.1).verdict is Verdict.BETTER
    assert racing.race(lambda _: 0.1, floor=0.5).verdict is Verdict.NEITHER


def test_races_of_equals_are_seldom_won():
    noise = random.Random(2)  # noqa: S311
    ended = [racing.race(lambda _: noise.gauss(0.0, 3.0)).verdict for _ in range(2000)]
    assert ended.count(Verdict.BETTER) / len(ended) < 0.025
    assert ended.count(Verdict.WORSE) / len(ended) < 0.025


def test_the_golden_steps_shrink_evenly():
    widths = [golden.search(valley(0.3), count) for count in range(2, 8)]
    for wide, narrow in pairwise(one.high - one.low for one in widths):
        assert narrow / wide == pytest.approx(golden.RATIO)
