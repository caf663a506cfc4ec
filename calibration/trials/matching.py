# SPDX-License-Identifier: GPL-2.0-only
"""The same recordings judged by what needs no trials: the guard, and daily comparisons, both by matching load.

A minute of a use under one scheduler is compared with another minute of it under the other one, by the agent's own
rules. The recordings of a use differ in what was done on purpose, as days do.
"""

import math
from collections.abc import Sequence
from random import Random

from asa.core.decision import EEVDF, Workload
from asa.decide import guard
from asa.decide.guard import WORSE_BY, GuardState
from asa.decide.signals import middle
from calibration.trials.daily import ALPHA, MOST_COUNTED, SampleWindow, compare, evidence
from calibration.trials.play import NEW
from calibration.trials.recorded import Array, Use, means, scaled, signals_of

_S = 1_000_000_000
_BLOCK = 3  # ticks of a second: guard.BLOCK_S


def outcomes(use: Use, gain: float) -> list[int | None]:
    """Of each two recordings of a use, the first under the kernel's own scheduler: 1 better, -1 worse, 0 alike.

    None: not comparable. `gain`: the share of each signal that the other scheduler saves.
    """
    plain = [_window(session, 0.0) for session in use.sessions]
    gained = [_window(session, gain) for session in use.sessions]
    return [
        compare(gained[one], plain[other], WORSE_BY)
        for one in range(len(gained))
        for other in range(len(plain))
        if one != other
    ]


def comparisons_to_find(found: Sequence[int | None], chance: Random) -> float:
    """How many comparisons drawn from these it takes until one scheduler counts as better; infinite: it never does."""
    won = lost = 0
    for count in range(1, 10 * MOST_COUNTED):
        outcome = chance.choice(found)
        won, lost = won + (outcome == 1), lost + (outcome == -1)
        if won + lost > MOST_COUNTED:
            break
        if evidence(won, lost) * ALPHA >= 1.0:
            return float(count)
    return math.inf


def reverted(use: Use, *, times: float) -> list[bool]:
    """Does the guard take back a scheduler under which each signal is so many times as large, recording by recording?

    Before it another recording ran under the kernel's own. How many tasks are able to run, which such a scheduler makes
    more, the guard does not look at.
    """
    found = []
    for number, session in enumerate(use.sessions):
        before = use.sessions[(number + 1) % len(use.sessions)]
        found.append(_judged(use.label, before, scaled(session, times)))
    return found


def _judged(label: str, before: Array, after: Array) -> bool:
    state, now_ns = GuardState(), 0
    for scheduler, values in ((EEVDF, before), (NEW, after)):
        for row in values:
            now_ns += _S
            state = guard.observe(
                state, now_ns=now_ns, workload=Workload(label), scheduler=scheduler, signals=signals_of(row)
            )
            if guard.judge(state, workload=Workload(label), scheduler=scheduler, previous=None) is not None:
                return True
    return False


def _window(session: Array, gain: float) -> SampleWindow:
    values = scaled(session, 1.0 - gain)
    blocks = tuple(means(values[at : at + _BLOCK], 1) for at in range(0, len(values) - _BLOCK + 1, _BLOCK))
    medians = tuple(middle(blocks[: guard.MOST_BLOCKS], place) for place in range(values.shape[1]))
    return SampleWindow(medians=medians)
