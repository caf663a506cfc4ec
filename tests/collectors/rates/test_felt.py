# SPDX-License-Identifier: GPL-2.0-only
"""What a person sees, hears and waits for, by hand-computed examples; and what is unknown while nothing is drawn."""

from dataclasses import replace

import pytest
from two_samples import FELT, NEW, OLD, grown

from asa.core.sample import FeltCounters, HintState
from collectors.rates import derive

HINTS = HintState(
    front="",
    entries=(),
    playing=None,
    game_clients=None,
    idle_inhibited=None,
    sound_played=True,
    sound_recorded=False,
)


def after(**growth):
    """Two seconds later."""
    return derive(OLD, replace(NEW, felt=grown(FELT, **growth)))


def test_hand_computed_examples():
    rates = derive(OLD, NEW)
    assert rates.flips_per_s == 55
    assert rates.frame_interval_mean_ms == 20
    assert rates.frame_interval_p99_ms == pytest.approx(4 * 2000 / 120)  # the slowest five of a hundred took four
    assert rates.frames_missed_share == pytest.approx(20 / 120)
    assert rates.input_to_flip_mean_ms == 25
    assert (rates.sound_underruns_per_s, rates.hung_tasks_per_s, rates.rcu_stalls_per_s) == (1, 0.5, 1)


def test_with_few_pictures_nothing_is_said_of_them():
    rates = after(flips=12, flip_gaps={0: 9}, missed_frames=5, drawn_ns=10**8, drawn_refreshes=14)
    assert rates.flips_per_s == 6
    assert rates.frames_missed_share is rates.frame_interval_mean_ms is rates.frame_interval_p99_ms is None


def test_without_a_press_there_is_no_answer_to_it():
    assert after(flips=100, flip_gaps={0: 92}, drawn_ns=10**9, drawn_refreshes=92).input_to_flip_mean_ms is None


def test_what_the_kernel_does_not_tell_is_unknown():
    blind = replace(NEW, felt=FeltCounters(hung_tasks=0))
    rates = derive(replace(OLD, felt=FeltCounters(hung_tasks=0)), blind)
    assert rates.hung_tasks_per_s == 0
    assert rates.frames_missed_share is rates.input_to_flip_mean_ms is rates.sound_underruns_per_s is None
    assert derive(OLD, replace(NEW, felt=None)).flips_per_s is None
    assert derive(NEW, OLD) is None


@pytest.mark.parametrize(
    ("hints", "underruns", "expected"),
    [
        (HINTS, 0, 0),
        (replace(HINTS, sound_played=False), 0, None),  # nothing plays: no underrun says nothing
        (replace(HINTS, sound_played=False, sound_recorded=True), 0, 0),
        (replace(HINTS, sound_played=False), 4, 2),  # the card was let go meanwhile
        (replace(HINTS, sound_played=None, sound_recorded=None), 0, None),  # there is no card
        (None, 0, 0),  # nobody tells what plays
    ],
)
def test_underruns_are_known_while_a_card_is_in_use(hints, underruns, expected):
    new = replace(NEW, hints=hints, felt=grown(FELT, sound_underruns=underruns))
    assert derive(OLD, new).sound_underruns_per_s == expected
