# SPDX-License-Identifier: GPL-2.0-only
"""What trials came to, as it is kept."""

from asa.core.decision import EEVDF, Workload
from asa.decide.signals import SIGNALS
from asa.decide.trial_budget import Asked
from asa.decide.trial_pairs import Effect, Pair, Side, Verdict

CPU = Workload("cpu")
SIDE = Side(logs=(1.0,) * len(SIGNALS), means=(3.0,) * len(SIGNALS))
PAIR = Pair(in_force=SIDE, candidate=SIDE)


def tried(candidate, verdict=Verdict.BETTER, in_force=EEVDF, use=CPU, **changes):
    """One candidate against one in force; better by a fifth unless it is said otherwise."""
    values = {
        "kernel": "",
        "versions": ("", ""),
        "pairs": (),
        "effect": Effect(share=0.2, low=0.1, high=0.3),
        "count": 9,
        "tried_s": 180.0,
        "switches": 14,
        "words": "it waits less",
        "at_ns": 10**18,
    }
    return Asked(use=use, in_force=in_force, candidate=candidate, verdict=verdict, **(values | changes))
