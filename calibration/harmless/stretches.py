# SPDX-License-Identifier: GPL-2.0-only
"""Stretches of recorded use under one and the same scheduler, told to the guard as if there were two. Nothing runs.

Each is a course of one use whose load swings: pieces of 10 to 40 s of its recordings, which differ in load on purpose,
follow each other. Somewhere in it a switch is said to happen. Whatever the guard then takes back is taken back wrongly.
"""

from random import Random

import numpy as np

from asa.core.decision import EEVDF, Workload
from asa.decide import guard
from asa.decide.guard import GuardState, Regression
from calibration.trials.play import NEW
from calibration.trials.recorded import Array, Use, scaled, signals_of

SHORTEST_PIECE, LONGEST_PIECE = 10, 40  # ticks of a second
FEWEST_BEFORE, MOST_BEFORE = 30, 90
AFTER = 63
"""Ticks after the switch: all looks of the guard lie in them."""
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


def taken_back(use: Use, seed: int, *, times: float = 1.0, near: bool = False) -> tuple[int, Regression] | None:
    """After how many seconds the guard takes the second half of a stretch back, and why; None: it does not.

    `times`: so many times as large is each signal there. `near`: what `guard.near` says counts, too.
    """
    chance, state = Random(seed), GuardState()  # noqa: S311  # the same each time
    before = chance.randrange(FEWEST_BEFORE, MOST_BEFORE + 1)
    values = swinging(use, before + AFTER, chance)
    workload, asked = Workload(use.label), (guard.judge, guard.near) if near else (guard.judge,)
    for tick, row in enumerate([*values[:before], *scaled(values[before:], times)], start=1):
        scheduler = EEVDF if tick <= before else NEW
        state = guard.observe(state, now_ns=tick * _S, workload=workload, scheduler=scheduler, signals=signals_of(row))
        for ask in asked:
            verdict = ask(state, workload=workload, scheduler=scheduler, previous=None)
            if verdict is not None:
                return tick - before, verdict
    return None
