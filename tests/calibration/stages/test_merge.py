# SPDX-License-Identifier: GPL-2.0-only
"""New runs and older ones make one ranking whose figures are of both, on one level."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.table import Entry
from calibration.stages import merge as stages_merge
from calibration.stages.ranking import ranking, to_classes, wider

NOISE = 0.005


def blocks(*rows, run="run"):
    """Scores of a class, a dict a block."""
    return {
        ("web+archive", run, place): {SchedulerName(name): score for name, score in row.items()}
        for place, row in enumerate(rows, 1)
    }


def entries(cells):
    own = ranking(cells, NOISE)
    (found,) = to_classes({Workload("web+archive"): own}).values()
    return own, found


def merge(new, old):
    own, fresh = entries(new)
    return {entry.name: entry for entry in stages_merge.merged(fresh, own, entries(old)[1], new, NOISE)}


def test_a_scheduler_that_was_not_played_again_stands_on_the_new_level():
    """The new block is hard for all: who was 0.1 ahead of EEVDF in nine runs is not beaten by who is 0.05 ahead now."""
    old = blocks(*[{EEVDF: 0.8 + step, "scx_b": 0.9 + step} for step in (-0.01, 0.0, 0.01) * 3], run="old")
    found = merge(blocks({EEVDF: 0.3, "scx_a": 0.35}), old)
    assert list(found) == ["scx_b", "scx_a", EEVDF]
    above = {name: entry.score - found[EEVDF].score for name, entry in found.items()}
    assert above["scx_b"] == pytest.approx(0.1, abs=0.002)
    assert above["scx_a"] == pytest.approx(0.05, abs=0.005)
    assert (found["scx_b"].runs, found[EEVDF].runs, found["scx_a"].runs) == (9, 10, 1)
    assert found["scx_b"].high - found["scx_b"].low == pytest.approx(0.0128, abs=0.001)  # as wide as it was
    assert "; beside later runs of others" in found["scx_b"].why


def test_one_new_run_does_not_take_the_place_of_five():
    """Paired differences of older runs are sure, however far their blocks lie apart; so is their number."""
    old = blocks(*[{EEVDF: level, "scx_a": level + 0.03} for level in (0.55, 0.6, 0.7, 0.8, 0.85)], run="old")
    found = merge(blocks({EEVDF: 0.72, "scx_a": 0.70}), old)
    assert list(found) == ["scx_a", EEVDF]
    gain = found["scx_a"].score - found[EEVDF].score
    assert gain == pytest.approx((5 * 0.03 - 0.02) / 6, abs=0.002)
    assert found["scx_a"].error == pytest.approx(NOISE * math.sqrt(2.0 / 6.0), rel=0.1)
    assert found["scx_a"].runs == 6
    assert "with the 5 runs before these" in found["scx_a"].why
    assert found["scx_a"].low < found["scx_a"].score < found["scx_a"].high
    assert found["scx_a"].score == pytest.approx((3.5 + 5 * 0.03 + 0.70) / 6, abs=0.005)


def test_no_score_leaves_its_bounds_and_no_lead_is_lost():
    """Old blocks were hard and new ones easy: on their common level one would be at 1.04."""
    old = blocks(*[{EEVDF: 0.5 + step, "scx_b": 0.7 + step} for step in (-0.01, 0.0, 0.01)], run="old")
    found = merge(blocks(*[{EEVDF: 0.95 + step, "scx_a": 0.96 + step} for step in (-0.01, 0.0, 0.01) * 3]), old)
    assert found["scx_b"].score == 1.0
    assert found["scx_b"].score - found[EEVDF].score == pytest.approx(0.2, abs=0.003)
    assert f"beside later runs of others {found['scx_b'].score:.3f}" in found["scx_b"].why


def test_a_score_that_is_not_that_of_its_own_runs_says_why():
    found = merge(blocks({EEVDF: 0.3, "scx_a": 0.35}), blocks({EEVDF: 0.8, "scx_b": 0.9}, run="old"))
    assert found["scx_a"].why.endswith(f"; beside older runs of others {found['scx_a'].score:.3f}")


def test_two_quiet_blocks_do_not_outweigh_many():
    """Their noise rests on one degree of freedom, and t says how little that is."""
    old = {Workload("a"): blocks({EEVDF: 0.5, "scx_a": 0.6}, {EEVDF: 0.7, "scx_a": 0.801})}
    many = {Workload("a"): blocks(*[{EEVDF: 0.5, "scx_a": 0.5 + step} for step in (-0.04, 0.0, 0.04) * 4])}
    assert wider(old.values()) == pytest.approx(12.706 / 1.96, rel=1e-3)
    assert 1.0 < wider(many.values()) < 1.2
    assert wider([]) == 1.0


def test_the_words_do_not_grow_with_every_campaign():
    old = blocks({EEVDF: 0.8, "scx_b": 0.9}, run="old")
    new = blocks({EEVDF: 0.3, "scx_a": 0.35})
    own, fresh = entries(new)
    once = stages_merge.merged(fresh, own, entries(old)[1], new, NOISE)
    twice = stages_merge.merged(fresh, own, once, new, NOISE)
    assert max(entry.why.count("beside later runs") for entry in twice) == 1


def test_without_eevdf_in_the_older_ones_nothing_is_mixed():
    old = [Entry(scheduler="scx_b", why="old", score=0.9, runs=2), Entry(scheduler="scx_c", why="prior")]
    new = blocks({EEVDF: 0.3, "scx_a": 0.35})
    own, fresh = entries(new)
    assert stages_merge.merged(fresh, own, old, new, NOISE) == [*fresh, *old]


SCORES = st.lists(st.floats(0.3, 0.7), min_size=3, max_size=5)


@given(SCORES, SCORES, st.floats(-0.1, 0.1))
def test_in_two_parts_it_is_nearly_what_it_is_in_one(first, second, gain):
    """Runs that all schedulers played: ranked at once, or the later ones merged into the table of the earlier ones."""
    old = blocks(*[{EEVDF: level, "scx_a": level + gain} for level in first], run="old")
    new = blocks(*[{EEVDF: level, "scx_a": level + gain} for level in second])
    found = merge(new, old)
    whole = {entry.name: entry for entry in entries({**old, **new})[1]}
    for name, entry in found.items():
        assert entry.score == pytest.approx(whole[name].score, abs=0.002)
        assert entry.runs == whole[name].runs
        assert (entry.low, entry.high) == pytest.approx((whole[name].low, whole[name].high), abs=0.004)
