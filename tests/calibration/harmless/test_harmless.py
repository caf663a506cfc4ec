# SPDX-License-Identifier: GPL-2.0-only
"""What the guard takes back wrongly on recorded use, and what it finds there; and the command."""

import json
from functools import cache

import pytest

from calibration import kept
from calibration.harmless import __main__ as command
from calibration.harmless.benchmark import KEPT, HarmlessFigure, counts
from calibration.harmless.stretches import AFTER, played, swinging
from calibration.trials.recorded import journals, uses

STRETCHES = 80


@cache
def found():
    """Of real programs, each with recordings whose loads differ on purpose."""
    return uses([journals()[-1].parents[1] / "programs/host-2009.journal.xz"], 20)


def stretches(**changes):
    return [played(found()[number % len(found())], number, **changes) for number in range(STRETCHES)]


def test_a_swinging_load_is_seldom_blamed_on_a_scheduler():
    """Here the programs of a class change, too, which is harder than the benchmark's recordings."""
    reverted = [one.worse.sentence for one in stretches() if one.worse is not None]
    assert len(reverted) <= 0.05 * STRETCHES, reverted


def test_four_times_the_wait_is_found_far_more_often_than_by_chance():
    taken_back = [one for one in stretches(times=4.0) if one.worse is not None]
    assert len(taken_back) >= 0.6 * STRETCHES
    assert all(0 < one.under_s <= one.seconds <= AFTER for one in taken_back)
    assert sorted(one.seconds for one in taken_back)[len(taken_back) // 2] <= 15
    assert len([one for one in stretches(times=4.0, near=True) if one.worse]) >= len(taken_back)


def test_a_course_is_as_long_as_asked_and_of_recorded_ticks():
    from random import Random

    use = found()[0]
    values = swinging(use, 150, Random(3))  # noqa: S311
    assert values.shape == (150, use.sessions[0].shape[1])
    # as text: nan is not even itself
    rows = {repr(row) for session in use.sessions for row in session.tolist()}
    assert {repr(row) for row in values.tolist()} <= rows


def test_each_figure_is_measured_and_kept(capsys):
    assert set(counts()) == set(HarmlessFigure)
    known = kept.read(KEPT)
    assert set(known.values) <= set(HarmlessFigure)
    assert command.main([]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["name"] for one in printed] == list(HarmlessFigure)
    assert all(one["value"] is not None or one["reason"] for one in printed)
    assert all(one["value"] is not None for one in printed if not one["name"].startswith("planted_"))


@pytest.mark.parametrize("name", ["trial_false_better_pct", "trial_pairs_to_find_10pct"])
def test_figures_of_trials_are_those_that_are_kept_there(name):
    from calibration.trials.benchmark import KEPT as TRIALS

    assert kept.read(KEPT).values[name] == kept.read(TRIALS).values[name]
