# SPDX-License-Identifier: GPL-2.0-only
"""What one unbroken stretch of a class under a scheduler showed, and which of two such stretches was better. Pure.

A stretch is a trial of the guard (`asa.decide.guard`): its first minute, or all of it when it was shorter. One stretch
is one piece of evidence, however many blocks it has: what differs from one to the next (another page, another level of
a game) is in every block of it, so that blocks of two stretches tell about the stretches first, and about the
schedulers only when it happens again and again.
"""

from dataclasses import dataclass

from asa.core.decision import SchedulerName, Workload
from asa.decide.guard import FEWEST_BLOCKS, MOST_BLOCKS, GuardState
from asa.decide.signals import LOAD_MATCH, SIGNALS, SWITCHES, Values, chattier, felt, middle


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWindow:
    """What was measured of a class under a scheduler without a break."""

    workload: Workload
    scheduler: SchedulerName
    at_ns: int  # CLOCK_MONOTONIC, when it was complete or had ended
    medians: Values  # of its blocks; a signal is None that fewer than FEWEST_BLOCKS of them know


def taken(before: GuardState, after: GuardState, now_ns: int) -> SampleWindow | None:
    """The stretch that became complete, or ended, between two states of the guard; each trial gives one at most.

    None: there is none, or it was too short to tell anything.
    """
    trial, following = before.trial, after.trial
    if trial is None or trial is following or trial.blocks >= MOST_BLOCKS:
        return None
    pair = (trial.workload, trial.scheduler)
    if following is not None and (following.workload, following.scheduler) == pair and following.blocks >= trial.blocks:
        if following.blocks < MOST_BLOCKS:
            return None
        blocks = after.seen[pair][-MOST_BLOCKS:]
    elif trial.blocks >= FEWEST_BLOCKS:
        blocks = before.seen[pair][-trial.blocks :]
    else:
        return None
    signals = [
        middle(blocks, place) if sum(block[place] is not None for block in blocks) >= FEWEST_BLOCKS else None
        for place in range(len(SIGNALS))
    ]
    load = [middle(blocks, place) for place in range(len(SIGNALS), len(blocks[0]))]
    return SampleWindow(workload=pair[0], scheduler=pair[1], at_ns=now_ns, medians=(*signals, *load))


def compare(one: SampleWindow, other: SampleWindow, worse_by: float) -> int | None:
    """1: `one` was better, -1: worse, 0: alike, or better in one signal and worse in another. Of the same class.

    Only differences count that the guard would count (`felt`; `worse_by` as there). None: the load was not
    comparable, no signal is known of both, or what was worse switched far more often (`chattier`).
    """
    for place, by, share in LOAD_MATCH:
        mine, its = one.medians[place], other.medians[place]
        if mine is not None and its is not None and abs(mine - its) > max(by, share * max(mine, its)):
            return None
    known = better = worse = False
    for signal, mine, its in zip(SIGNALS, one.medians, other.medians, strict=False):  # the load comes after them
        if mine is not None and its is not None:
            known = True
            better = better or felt(signal, its, mine, worse_by)
            worse = worse or felt(signal, mine, its, worse_by)
    lost, won = (one, other) if worse else (other, one)
    if better != worse and chattier(lost.medians[SWITCHES], won.medians[SWITCHES]):
        return None
    return better - worse if known else None
