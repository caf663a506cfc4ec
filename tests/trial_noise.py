# SPDX-License-Identifier: GPL-2.0-only
"""Made-up recordings of a use, as noise that trials are played on."""

import numpy as np

from asa.decide.signals import SIGNALS, Signal
from asa.decide.trial_pairs import TESTED
from calibration.trials.recorded import Use

MEASURED = (*TESTED, Signal.TIMER)
"""As recorded before there were screens and sound in recordings."""


def a_use(spread=0.1, unknown=(), seed=1):
    chance = np.random.default_rng(seed)
    sessions = []
    for _ in range(3):
        drawn = np.exp(chance.normal(np.log(5000.0), spread, (60, 7)))
        values = np.full((60, len(SIGNALS)), np.nan)
        for column, signal in enumerate(MEASURED):
            values[:, SIGNALS.index(signal)] = drawn[:, column]
        values[:, SIGNALS.index("cpu-pressure")] = np.exp(chance.normal(np.log(0.3), spread, 60))
        load = np.tile([0.5, 1000.0, 2.0, 50.0, 3.0], (60, 1))
        values[:, list(unknown)] = np.nan
        sessions.append(np.hstack([values, load]))
    return Use(label="web", sessions=tuple(sessions))
