# SPDX-License-Identifier: GPL-2.0-only
"""Trials played on recorded noise, with a gain or a loss of known size planted into the candidate's blocks.

Each pair is a piece of a recording, without a break, so that it has the recording's own drift, tails and dependence
from second to second. What else may trouble a trial is added to it (`Trouble`). The verdict is the agent's own.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import numpy as np

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.signals import SIGNALS
from asa.decide.trial import SETTLE_S, Outcome, Plan, TrialTick, begin, candidate_first, take
from asa.decide.trial_pairs import FEWEST_TICKS, SOFT, Pair, Side, Verdict, verdict
from asa.decide.trial_signs import MOST_PAIRS
from calibration.trials.recorded import Array, Use, means, scaled, signals_of

BLOCK = 20  # ticks of a second
PAIR = 2 * (BLOCK + 1)
"""Ticks of a pair: a block begins with the tick in which its scheduler is first seen in force."""
NEW = SchedulerName("scx_new")
_S = 1_000_000_000
_FIRST = int(SETTLE_S) + 1  # tick of a block that counts: all of it lies after the first seconds
_SOFT = np.array([SOFT[signal] for signal in SIGNALS])


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What is added to the recorded noise."""

    drift: float = 0.0  # of the logarithms, a pair: the load grows all the time
    left_s: float = 0.0  # a block's effect fades into the next one with this time constant
    spikes: float = 0.0  # chance of a tick that is 30 times as large
    wander: float = 0.0  # deviation of what wanders slowly, its values 0.97 alike from tick to tick


@dataclass(slots=True)
class Play:
    """A use under two schedulers, pair by pair. `gain`: the share of each signal that the candidate saves."""

    use: Use
    gain: float
    trouble: Trouble
    chance: Random
    pairs: int = field(default=0, init=False)
    _wander: float = field(default=0.0, init=False)
    _effect: float = field(default=0.0, init=False)  # how much of the candidate's gain is there, 0 to 1

    def ticks(self, *, first: bool) -> Array:
        """One pair's values, tick by tick; `first`: the candidate comes first."""
        session = self.use.sessions[self.chance.randrange(len(self.use.sessions))]
        at = self.chance.randrange(len(session) - PAIR + 1)
        logs = self._effects(first=first)
        trouble = self.trouble
        if trouble.drift:
            logs = logs + trouble.drift * (self.pairs + np.arange(PAIR) / PAIR)
        if trouble.wander:
            logs = logs + np.array([self._wandered() for _ in range(PAIR)])
        if trouble.spikes:
            logs = logs + np.array([math.log(30.0) * (self.chance.random() < trouble.spikes) for _ in range(PAIR)])
        self.pairs += 1
        return scaled(session[at : at + PAIR, : len(SIGNALS)], np.exp(logs)[:, None])

    def _wandered(self) -> float:
        fresh = self.trouble.wander * math.sqrt(1.0 - 0.97**2)
        self._wander = 0.97 * self._wander + fresh * self.chance.gauss(0.0, 1.0)
        return self._wander

    def _effects(self, *, first: bool) -> Array:
        keeps = math.exp(-1.0 / self.trouble.left_s) if self.trouble.left_s else 0.0
        found = []
        for tick in range(PAIR):
            under = (tick <= BLOCK) == first
            self._effect = keeps * self._effect + (1.0 - keeps) * under
            found.append(self._effect)
        return math.log1p(-self.gain) * np.array(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How a trial ended, and after how many pairs."""

    verdict: Verdict
    pairs: int


def trial(play: Play, seed: int) -> Result:
    """A whole trial, by its blocks."""
    pairs: list[Pair] = []
    while True:
        first = candidate_first(seed, len(pairs))
        values = play.ticks(first=first)
        one, two = _side(values[_FIRST : BLOCK + 1]), _side(values[BLOCK + 1 + _FIRST :])
        pairs.append(Pair(in_force=two, candidate=one) if first else Pair(in_force=one, candidate=two))
        found = verdict(pairs)
        if found is not None:
            return Result(verdict=found, pairs=len(pairs))
        if len(pairs) >= MOST_PAIRS:
            return Result(verdict=Verdict.VOID, pairs=len(pairs))  # nothing was measured


def by_ticks(play: Play, seed: int) -> Outcome:
    """The same by the agent's own state machine, told tick by tick: some times slower."""
    plan = Plan(use=Workload(play.use.label), in_force=EEVDF, candidate=NEW, block_s=float(BLOCK), seed=seed)
    shown = _shown(play, seed)
    now = begin(plan, next(shown))
    while now.outcome is None:
        now = take(now, next(shown))
    return now.outcome


def _shown(play: Play, seed: int) -> Iterator[TrialTick]:
    """What the machine shows: the switch that a block wants is made within a tick."""
    number = second = 0
    in_force: SchedulerName = EEVDF
    yield _tick(play.use.label, second, in_force, None)
    while True:
        first = candidate_first(seed, number)
        values = play.ticks(first=first)
        for half, wanted in enumerate((NEW, EEVDF) if first else (EEVDF, NEW)):
            seen = int(wanted == in_force)  # in the tick before, then
            in_force = wanted
            for row in values[half * (BLOCK + 1) + seen : (half + 1) * (BLOCK + 1)]:
                second += 1
                yield _tick(play.use.label, second, wanted, row)
        number += 1


def _tick(label: str, second: int, in_force: SchedulerName, values: Array | None) -> TrialTick:
    return TrialTick(
        now_ns=second * _S,
        wall_ns=second * _S,
        suspended_ns=0,
        awake_s=3600.0 + second,
        use=Workload(label),
        in_force=in_force,
        signals=None if values is None else signals_of(values),
    )


def _side(values: Array) -> Side:
    return Side(logs=means(np.log(values + _SOFT), FEWEST_TICKS), means=means(values, FEWEST_TICKS))
