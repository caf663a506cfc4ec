# SPDX-License-Identifier: GPL-2.0-only
"""Trials on made-up noise: block by block as the agent does it tick by tick, what is planted, and what troubles it."""

from random import Random

import numpy as np
import pytest
from trial_noise import MEASURED, a_use

from asa.decide.signals import SIGNALS
from asa.decide.trial_pairs import TESTED, Verdict
from asa.decide.trial_signs import MOST_PAIRS
from calibration.trials.play import BLOCK, PAIR, Play, Trouble, by_ticks, trial
from calibration.trials.recorded import deviation


def played(gain, seed, use=None, **trouble):
    return Play(use=use or a_use(), gain=gain, trouble=Trouble(**trouble), chance=Random(seed))  # noqa: S311


@pytest.mark.parametrize("gain", [0.0, 0.1, -0.3])
@pytest.mark.parametrize("trouble", [{}, {"left_s": 3.0, "drift": 0.1}, {"spikes": 0.05, "wander": 0.3}])
def test_a_trial_by_its_blocks_is_the_one_that_the_agent_does_tick_by_tick(gain, trouble):
    for seed in (1, 2, 3):
        ours, agents = trial(played(gain, seed, **trouble), seed), by_ticks(played(gain, seed, **trouble), seed)
        assert (ours.verdict, ours.pairs) == (agents.verdict, len(agents.pairs))


def test_what_is_planted_is_what_the_agent_finds():
    outcome = by_ticks(played(0.2, 1), 1)
    assert outcome.verdict is Verdict.BETTER
    assert outcome.effect.low < 0.2 < outcome.effect.high
    assert outcome.seconds == pytest.approx(len(outcome.pairs) * 2 * BLOCK, rel=0.05)


def test_the_planted_gain_lies_in_the_candidates_block_alone():
    plain, first, second = (played(gain, 5) for gain in (0.0, 0.2, 0.2))
    assert plain.ticks(first=True).shape == (PAIR, len(SIGNALS))
    plain, known = played(0.0, 5), [SIGNALS.index(signal) for signal in MEASURED]
    values, candidate_first, candidate_second = (
        plain.ticks(first=True)[:, known],
        first.ticks(first=True)[:, known],
        second.ticks(first=False)[:, known],
    )
    assert candidate_first[: BLOCK + 1] / values[: BLOCK + 1] == pytest.approx(0.8)
    assert candidate_first[BLOCK + 1 :] / values[BLOCK + 1 :] == pytest.approx(1.0)
    assert candidate_second[: BLOCK + 1] / values[: BLOCK + 1] == pytest.approx(1.0)


def test_what_a_block_leaves_behind_fades():
    values = played(0.0, 5).ticks(first=True)
    left = played(0.2, 5, left_s=3.0).ticks(first=True) / values
    assert left[0, 0] > 0.9  # not there yet
    assert left[BLOCK, 0] == pytest.approx(0.8, abs=0.01)
    assert left[BLOCK + 1, 0] < 0.9 < left[BLOCK + 8, 0] < left[PAIR - 1, 0]


def test_troubles_are_of_their_size():
    drifting = played(0.0, 5, drift=0.1)
    first, second = played(0.0, 5).ticks(first=True), drifting.ticks(first=True)
    assert second[-1, 0] / first[-1, 0] == pytest.approx(np.exp(0.1), rel=0.01)
    spikes = played(0.0, 5, spikes=0.1).ticks(first=True)[:, 0] / first[:, 0]
    assert 0 < sum(spikes > 20) < PAIR / 2
    wandering = played(0.0, 5, wander=0.3)
    found = np.log([wandering.ticks(first=True)[:, 0].mean() for _ in range(200)])
    assert 0.15 < found.std() < 0.35


def test_pressure_stays_a_share():
    assert played(-9.0, 5).ticks(first=True)[:, SIGNALS.index("cpu-pressure")].max() == 1.0


def test_where_nothing_is_measured_the_trial_ends_undecided():
    places = [SIGNALS.index(signal) for signal in TESTED]
    result = trial(played(0.2, 1, a_use(unknown=places)), 1)
    assert (result.verdict, result.pairs) == (Verdict.VOID, MOST_PAIRS)


def test_the_noise_of_a_use_is_what_was_put_in():
    soft = {0: 0.0, 1: 0.0}
    spread, alike = deviation(a_use(spread=0.2), 17, (0, 1), soft)
    assert spread == pytest.approx(0.2 / np.sqrt(17), rel=0.5)  # two blocks and two signals
    assert abs(alike) < 0.2
