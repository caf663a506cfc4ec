# SPDX-License-Identifier: GPL-2.0-only
"""Which trials to play next, so that the best scheduler of each class is known soon. Pure.

A round is a new block, that is one class with fresh parameters, which the leader and its closest rivals play. Which
class and how many rivals: by what the block is expected to be worth for each trial, in score, were the choice made
anew after it (the knowledge gradient: Frazier, Powell and Dayanik, A Knowledge-Gradient Policy for Sequential
Information Collection, 2008; here of each rival against the leader, summed). That is much where intervals are wide and
candidates close, and little where they are close but well known: then either will do.

When to stop is best-arm identification with a fixed confidence, as of LUCB (Kalyanakrishnan, Tewari, Auer and Stone,
PAC Subset Selection in Stochastic Multi-armed Bandits, ICML 2012), by t intervals: the paper's, by Hoeffding, would
ask for hundreds of runs where scores within a block differ by hundredths. A rival is beaten once the interval of its
paired differences to the leader, at confidence 1 - delta / ((K - 1) n (n - 1)) after n common blocks, ends below the
margin. Whether they play a further block never depends on what it will show, and sum 1 / (n (n - 1)) from 2 on is 1:
so with normal errors the best of K is declared beaten by one that is worse by more than the margin with a probability
of delta at most, however often one looks.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

import numpy as np
from scipy import stats

from asa.core.decision import EEVDF, SchedulerName, Workload
from calibration.stages.ranking import SCORE_FLOOR, Block, Expected, Fit, Ranked, fit, spread

_FEWEST = 2  # blocks, before a test is possible


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`delta`: how probable a wrong answer for a class may be. `margin`: a difference in score that nobody minds.

    `most` is how many schedulers a block may have.
    """

    delta: float = 0.05
    margin: float = 0.01
    most: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Who may serve a class, in the order of what is believed before anything was played; `expected` of some."""

    names: tuple[SchedulerName, ...]
    expected: Mapping[SchedulerName, Expected] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A class's next block: these play it, the leader first. `worth`: what is expected of each trial, in score."""

    workload: Workload
    names: tuple[SchedulerName, ...]
    worth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known of a class. `open` are those that may be better than the leader by more than the margin."""

    workload: Workload
    leader: SchedulerName
    open: tuple[SchedulerName, ...]
    blocks: int

    @property
    def settled(self) -> bool:
        """Whether the leader is the best, by the rule."""
        return not self.open


def next_trials(
    ranked: Mapping[Workload, Sequence[Ranked]],
    candidates: Mapping[Workload, Candidates],
    budget: int,
    rule: Rule | None = None,
) -> tuple[Wish, ...]:
    """A block for each class that is not settled, the one that is worth most first, as many as `budget` trials give.

    `ranked` are the classes' own results (`ranking.rank`), a class that has none is left out there.
    """
    rule = rule or Rule()
    noise = spread(_cells(found) for found in ranked.values())
    wishes = []
    for workload, given in candidates.items():
        found = ranked.get(workload, ())
        said = verdict(workload, found, given, rule, noise)
        if not said.settled:
            wishes.append(_wish(said, fit(_cells(found), given.names, noise, given.expected), found, noise, rule))
    wishes.sort(key=lambda wish: -wish.worth)
    ends = accumulate(len(wish.names) for wish in wishes)
    return tuple(wish for wish, end in zip(wishes, ends, strict=True) if end <= budget)


def verdict(
    workload: Workload,
    ranked: Sequence[Ranked],
    candidates: Candidates,
    rule: Rule | None = None,
    noise: float | None = None,
) -> Verdict:
    """Who leads by what was played and expected, and who is not beaten yet. `noise`: of a cell, if known better."""
    rule = rule or Rule()
    known = _cells(ranked)
    found = fit(known, candidates.names, spread([known]) if noise is None else noise, candidates.expected)
    gains = dict(zip(found.names, found.gains, strict=True))
    leader = max(candidates.names, key=lambda name: round(float(gains[name]), 9))  # of equals the first
    rivals = [name for name in candidates.names if name != leader]
    return Verdict(
        workload=workload,
        leader=leader,
        open=tuple(name for name in rivals if not _beaten(known, leader, name, len(rivals), rule)),
        blocks=len(known),
    )


def _wish(said: Verdict, found: Fit, ranked: Sequence[Ranked], noise: float, rule: Rule) -> Wish:
    played = {one.name for one in ranked}
    alone = {name: _worth(found, (said.leader, name), noise) for name in said.open}
    # of equals the first: the order of belief. EEVDF, which all must be better than, comes first until it was played
    rivals = sorted(said.open, key=lambda name: (name != EEVDF or EEVDF in played, -alone[name]))
    sets = [(said.leader, *rivals[:count]) for count in range(1, min(rule.most, len(found.names)))]
    worths = {names: _worth(found, names, noise) / len(names) for names in sets}
    best = max(worths, key=lambda names: worths[names])
    return Wish(workload=said.workload, names=best, worth=worths[best])


def _worth(found: Fit, names: tuple[SchedulerName, ...], noise: float) -> float:
    """What the choice between the leader (the first) and the others gains by a block of these, in score."""
    chosen = [found.names.index(name) for name in names]
    precision = np.linalg.inv(found.covariance)
    precision[np.ix_(chosen, chosen)] += (np.eye(len(chosen)) - 1.0 / len(chosen)) / noise**2
    after = Fit(names=found.names, gains=found.gains, covariance=np.linalg.inv(precision))
    total = 0.0
    for name in names[1:]:
        gain, error = found.difference(names[0], name)
        change = math.sqrt(max(0.0, error**2 - after.difference(names[0], name)[1] ** 2))
        if change > 0.0:
            total += change * _loss(abs(gain) / change)
    return total


def _loss(ratio: float) -> float:
    """Mean of what a standard normal has above `ratio`."""
    density = math.exp(-0.5 * ratio**2) / math.sqrt(2.0 * math.pi)
    return density - ratio * 0.5 * math.erfc(ratio / math.sqrt(2.0))


def _beaten(
    known: Mapping[Block, Mapping[SchedulerName, float]],
    leader: SchedulerName,
    rival: SchedulerName,
    rivals: int,
    rule: Rule,
) -> bool:
    differences = [row[leader] - row[rival] for row in known.values() if leader in row and rival in row]
    count = len(differences)
    if count < _FEWEST:
        return False
    deviation = max(statistics.stdev(differences), SCORE_FLOOR)
    half = _quantile(1.0 - rule.delta / (rivals * count * (count - 1)), count - 1) * deviation / math.sqrt(count)
    return statistics.fmean(differences) - half > -rule.margin


@cache
def _quantile(probability: float, freedom: int) -> float:
    return float(stats.t.ppf(probability, freedom))


def _cells(ranked: Sequence[Ranked]) -> dict[Block, dict[SchedulerName, float]]:
    found: dict[Block, dict[SchedulerName, float]] = {}
    for one in ranked:
        for block, score in zip(one.blocks, one.scores, strict=True):
            found.setdefault(block, {})[one.name] = score
    return dict(sorted(found.items()))
