# SPDX-License-Identifier: GPL-2.0-only
"""What blocks measure and what pairs say, and how often that is wrong."""

import math
from dataclasses import fields, replace
from random import Random

import pytest

from asa.decide.signals import SIGNALS, Signal, Signals, values_of
from asa.decide.trial_pairs import (
    FEWEST_TICKS,
    SMALLEST,
    SOFT,
    TESTED,
    Block,
    Pair,
    Side,
    Verdict,
    effect,
    saved,
    spoiled,
    verdict,
)
from asa.decide.trial_signs import LIKELY, MOST_PAIRS

UNKNOWN = (None,) * len(SIGNALS)
NAMES = tuple(field.name for field in fields(Signals))


def side(log=0.0, means=None):
    """Of a machine that nobody sees and hears."""
    logs = tuple(log if signal in TESTED else None for signal in SIGNALS)
    return Side(logs=logs, means=means or (1.0,) * len(SIGNALS))


def told(**logs):
    """What a block says of the signals named."""
    known = tuple(logs.get(signal.name.lower()) for signal in SIGNALS)
    return Side(logs=known, means=UNKNOWN)


def pair(gain):
    return Pair(in_force=side(gain), candidate=side(0.0))


def block(*ticks):
    made = Block()
    for tick in ticks:
        made = made.plus(tick)
    return made.side


class Noise:
    """Blocks of a load that drifts and whose values depend on each other, with rare ones that are 30 times as large."""

    def __init__(self, seed, drift=0.02, alike=0.9, spikes=0.02):
        self.chance, self.drift, self.alike, self.spikes = Random(seed), drift, alike, spikes  # noqa: S311
        self.level, self.load = 0.0, 0.0

    def block(self, gain, ticks=17):
        logs = []
        for _ in range(ticks):
            self.load += self.drift / ticks
            self.level = self.alike * self.level + self.chance.gauss(0, 0.3 * math.sqrt(1 - self.alike**2))
            spike = math.log(30) * (self.chance.random() < self.spikes)
            logs.append(self.load + self.level + spike + self.chance.gauss(0, 0.2) - gain)
        return side(sum(logs) / ticks)

    def trial(self, gain):
        pairs = []
        while (found := verdict(pairs)) is None:
            first = self.chance.random() < 0.5
            blocks = [self.block(gain if candidate else 0.0) for candidate in (first, not first)]
            pairs.append(Pair(in_force=blocks[first], candidate=blocks[not first]))
        return found, len(pairs)


def test_a_scheduler_is_hardly_ever_better_or_worse_than_itself_whatever_the_noise():
    found = [Noise(seed).trial(0.0)[0] for seed in range(500)]
    assert found.count(Verdict.BETTER) <= 8  # 0.8 % are 4, and two standard errors
    assert found.count(Verdict.WORSE) <= 500 * LIKELY.error + 10
    assert found.count(Verdict.ALIKE) >= 450


@pytest.mark.parametrize("alike", [0.0, 0.99])
def test_large_gains_and_losses_are_found_and_never_the_other_way_round(alike):
    for gain, wanted, least in ((0.4, Verdict.BETTER, 8), (-0.4, Verdict.WORSE, 5)):
        found = [Noise(seed, alike=alike).trial(gain) for seed in range(60)]
        assert sum(one is wanted for one, _ in found) >= 50
        assert min(pairs for _, pairs in found) >= least
        assert {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}[wanted] not in {one for one, _ in found}


def test_a_block_is_the_mean_of_logarithms_and_knows_what_enough_ticks_know():
    ticks = [Signals(run_queue_p99_us=value, cpu_pressure=0.5) for value in (1000.0, 4000.0, 2000.0, 500.0)]
    made = block(*ticks)
    soft = SOFT[Signal.RUN_QUEUE]
    assert made.logs[0] == pytest.approx(sum(math.log(v + soft) for v in (1000, 4000, 2000, 500)) / 4)
    assert made.means[0] == pytest.approx(1875.0)
    assert made.logs[1] is None
    assert block(*ticks[: FEWEST_TICKS - 1]) == Side(logs=UNKNOWN, means=UNKNOWN)


def test_a_change_that_nobody_can_feel_is_none():
    few, more = (block(*[Signals(wakeup_p99_us=value)] * 5) for value in (20.0, 24.0))
    assert abs(Pair(in_force=more, candidate=few).gain) < SMALLEST
    assert Pair(in_force=block(*[Signals(wakeup_p99_us=6000.0)] * 5), candidate=few).gain > 3.0


def test_a_gain_is_of_what_both_know_and_the_timer_is_no_part_of_it():
    known = told(run_queue=2.0, pressure=1.0, timer=9.0)
    other = told(run_queue=1.0, wakeup=5.0, pressure=1.5, timer=0.0)
    assert Signal.TIMER not in TESTED
    assert Pair(in_force=known, candidate=other).gain == pytest.approx((1.0 - 0.5) / 2)
    assert Pair(in_force=Side(logs=UNKNOWN, means=UNKNOWN), candidate=other).gain is None


def test_what_is_shown_adds_to_what_waits_as_a_whole():
    waits = {"run_queue": 1.2, "wakeup": 1.0, "pressure": 1.0}
    shown = {"frames": 0.5, "interval": 0.1}
    alone = Pair(in_force=told(**waits), candidate=told(**waits | {"run_queue": 0.9}))
    assert alone.gain == pytest.approx(0.1)
    same = Pair(in_force=told(**waits, **shown), candidate=told(**waits | {"run_queue": 0.9}, **shown))
    assert same.gain == pytest.approx(0.1)  # pictures that are as before change nothing
    fewer = Pair(in_force=told(**waits, **shown), candidate=told(**waits, **shown | {"frames": 0.3}))
    assert fewer.gain == pytest.approx(0.1)
    heard = Pair(in_force=told(sound=0.2), candidate=told(sound=0.6, input=-9.0, progress=-9.0))
    assert heard.gain == pytest.approx(-0.4)  # the veto's signals are no part of it
    assert Pair(in_force=told(input=1.0, progress=1.0), candidate=told(input=0.0, progress=0.0)).gain is None


def test_a_picture_missed_by_chance_weighs_little_and_stuttering_much():
    calm = block(*[Signals(frames_missed=0.0)] * 10)
    one = block(*[Signals(frames_missed=0.0)] * 9, Signals(frames_missed=1 / 60))
    stutter = block(*[Signals(frames_missed=0.3)] * 10)
    assert -0.03 < Pair(in_force=calm, candidate=one).gain < 0
    assert Pair(in_force=calm, candidate=stutter).gain == pytest.approx(-math.log(7))


def test_two_pictures_for_one_spoil_a_gain_in_waits_and_so_does_sound_that_breaks():
    for worse in (Signals(frames_missed=0.2), Signals(underruns=1.0), Signals(input_ms=80.0)):
        fine = Signals(run_queue_p99_us=8000.0, frames_missed=0.0, underruns=0.0, input_ms=20.0)
        given = {name: value for name, value in zip(NAMES, values_of(worse), strict=False) if value is not None}
        bad = replace(fine, run_queue_p99_us=800.0, **given)
        pairs = [Pair(in_force=block(*[fine] * 5), candidate=block(*[bad] * 5))] * 8
        assert spoiled(pairs) in (Signal.FRAMES, Signal.SOUND, Signal.INPUT)
        assert verdict(pairs) is not Verdict.BETTER


def test_progress_spoils_only_what_the_pairs_show():
    def pairs(*pieces_ms):
        usual = block(*[Signals(run_queue_p99_us=8000.0, piece_ms=10.0)] * 5)
        others = [block(*[Signals(run_queue_p99_us=800.0, piece_ms=one)] * 5) for one in pieces_ms]
        return [Pair(in_force=usual, candidate=other) for other in others]

    assert spoiled(pairs(*[20.0] * 8)) is Signal.PROGRESS
    assert spoiled(pairs(20.0, 4.0, 20.0, 20.0, 4.0, 20.0, 4.0, 20.0)) is None  # it comes in bursts
    assert spoiled(pairs(*[11.0] * 8)) is None


@pytest.mark.parametrize(
    ("gains", "found"),
    [
        ([], None),
        ([0.3] * 7, None),
        ([0.3] * 8, Verdict.BETTER),
        ([-0.3] * 4, None),
        ([-0.3] * 5, Verdict.WORSE),
        ([0.001] * 5, Verdict.ALIKE),
        ([0.04] * 8, Verdict.ALIKE),
        ([-0.04] * 5, Verdict.ALIKE),
        ([0.5, -0.5] * 11, None),
        ([0.5, -0.5] * 12, Verdict.ALIKE),
    ],
)
def test_what_pairs_show(gains, found):
    assert verdict([pair(gain) for gain in gains]) is found


def test_pairs_that_know_nothing_in_common_do_not_count():
    empty = Pair(in_force=Side(logs=UNKNOWN, means=UNKNOWN), candidate=side())
    assert verdict([empty] * MOST_PAIRS) is None
    assert verdict([empty, *[pair(0.3)] * 8]) is Verdict.BETTER
    assert effect([empty]) is None


def test_what_is_felt_to_be_worse_in_one_signal_is_not_better():
    timer = SIGNALS.index(Signal.TIMER)
    before, after = ([1.0] * len(SIGNALS) for _ in range(2))
    before[timer], after[timer] = 100.0, 5000.0
    both = Pair(in_force=side(0.3, tuple(before)), candidate=side(0.0, tuple(after)))
    assert spoiled([both] * 8) is Signal.TIMER
    assert verdict([both] * 8) is None
    assert verdict([both] * MOST_PAIRS) is Verdict.ALIKE
    assert spoiled([pair(0.3)] * 8) is None
    assert spoiled([]) is None


def test_an_effect_is_the_share_of_the_wait_with_an_interval():
    told = effect([pair(-math.log(0.8) + wobble / 100) for wobble in (0, 3, -3, 1, -1, 5, -5, 2, -2, 4, -4)])
    assert told.share == pytest.approx(0.2, abs=0.005)
    assert told.low < told.share < told.high
    few = effect([pair(0.1)] * 3)
    assert (few.share, few.low, few.high) == (pytest.approx(saved(0.1)), None, None)
    assert saved(-math.log(2.0)) == pytest.approx(-1.0)
