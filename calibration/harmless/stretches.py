# SPDX-License-Identifier: GPL-2.0-only
"""Stretches of recorded use under one and the same scheduler, told to the guard as if there were two. Nothing runs.

Each is a course of one use whose load swings: pieces of 10 to 40 s of its recordings, which differ in load on purpose,
follow each other. Somewhere in it a switch is said to happen; when the guard asks for turns, they are said to be taken,
each after a tick. Whatever the guard then takes back is taken back wrongly.
"""

from dataclasses import dataclass
from random import Random

import numpy as np

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import check, guard
from asa.decide.check import Check, Checks, End, Turned
from asa.decide.guard import GuardState, Regression
from calibration.trials.play import NEW
from calibration.trials.recorded import Array, Use, scaled, signals_of

SHORTEST_PIECE, LONGEST_PIECE = 10, 40  # ticks of a second
FEWEST_BEFORE, MOST_BEFORE = 30, 90
AFTER = 90
"""Ticks after the switch: all looks of the guard lie in them, and all checks that follow each other."""
_SETTLE = 2  # ticks after a switch that tell of the switch: guard.SETTLE_S
_S = 1_000_000_000


def swinging(use: Use, ticks: int, chance: Random) -> Array:
    """So many ticks of a use, by places of `asa.decide.signals.Values`."""
    pieces: list[Array] = []
    while sum(map(len, pieces)) < ticks:
        session = use.sessions[chance.randrange(len(use.sessions))]
        length = min(len(session), chance.randrange(SHORTEST_PIECE, LONGEST_PIECE + 1))
        at = chance.randrange(len(session) - length + 1)
        pieces.append(session[at : at + length])
    return np.concatenate(pieces)[:ticks]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What came of one."""

    seconds: int | None  # from the switch until the second one has gone for good; None: it stays
    under_s: int  # of them, in which it was in force
    switches: int  # for turns
    worse: Regression | Turned | None


def played(use: Use, seed: int, *, times: float = 1.0, near: bool = False) -> Stretch:
    """A stretch. `times`: so many times as large is each signal under the second scheduler. `near`: what `guard.near`
    says counts, too."""
    chance, made = Random(seed), _Machine(use.label, near=near)  # noqa: S311  # the same each time
    before = chance.randrange(FEWEST_BEFORE, MOST_BEFORE + 1)
    values = swinging(use, before + AFTER, chance)
    for row in values[:before]:
        made.tick(row)
    made.switch(NEW)
    made.switches, begun = 0, made.second
    bad = scaled(values[before:], times)
    for row, worse_row in zip(values[before:], bad, strict=True):
        made.tick(worse_row if made.in_force == NEW else row)
        if made.worse is not None:
            break
    left = None if made.worse is None or made.left is None else made.left - begun
    return Stretch(seconds=left, under_s=made.under, switches=made.switches, worse=made.worse)


class _Machine:
    """The guard's part of the policy, at a machine that switches within the tick in which that is asked."""

    def __init__(self, label: str, *, near: bool) -> None:
        self.workload, self.near = Workload(label), near
        self.guard, self.checks = GuardState(), Checks()
        self.in_force: SchedulerName = EEVDF
        self.second = self.settled = self.under = self.switches = 0
        self.left: int | None = None
        self.worse: Regression | Turned | None = None

    def switch(self, name: SchedulerName) -> None:
        if name != self.in_force:
            if self.in_force == NEW:
                self.left = self.second
            self.in_force, self.settled = name, self.second + _SETTLE
            self.switches += 1

    def tick(self, row: Array) -> None:
        self.second += 1
        self.under += self.in_force == NEW
        now_ns, signals, one = self.second * _S, signals_of(row), self.checks.now
        if one is not None:
            self._follow(check.take(one, now_ns=now_ns, in_force=self.in_force, signals=signals))
        elif self.second >= self.settled:
            self.guard = guard.observe(
                self.guard, now_ns=now_ns, workload=self.workload, scheduler=self.in_force, signals=signals
            )
            self._judge(now_ns)

    def _judge(self, now_ns: int) -> None:
        for ask in (guard.judge, guard.near) if self.near else (guard.judge,):
            found = ask(self.guard, workload=self.workload, scheduler=self.in_force, previous=None)
            if found is not None:
                self.worse = found
                self.switch(EEVDF)
                return
        self.checks = check.begun(self.checks, self.guard, now_ns)
        if self.checks.now is not None:
            self.guard = guard.broken_off(self.guard)
            self.switch(EEVDF)

    def _follow(self, one: Check) -> None:
        self.checks = Checks(now=one if one.end is None else None, begun_ns=self.checks.begun_ns)
        if one.end is None:
            self.switch(one.wants)
            return
        for block in one.theirs:
            self.guard = guard.remember(self.guard, self.workload, EEVDF, block, self.second * _S)
        if one.end is End.WORSE:
            self.worse = one.worse
        else:
            self.switch(NEW)
