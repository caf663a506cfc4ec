# SPDX-License-Identifier: GPL-2.0-only
"""Made-up recordings of a use, as noise that trials are played on."""

import numpy as np

from asa.decide.signals import SIGNALS
from calibration.trials.recorded import Use


def a_use(spread=0.1, unknown=(), seed=1):
    chance = np.random.default_rng(seed)
    sessions = []
    for _ in range(3):
        values = np.exp(chance.normal(np.log(5000.0), spread, (60, len(SIGNALS) + 3)))
        values[:, SIGNALS.index("cpu-pressure")] = np.exp(chance.normal(np.log(0.3), spread, 60))
        load = np.tile([0.5, 1000.0, 2.0, 50.0, 3.0], (60, 1))
        values = np.hstack([values[:, : len(SIGNALS)], load])
        values[:, list(unknown)] = np.nan
        sessions.append(values)
    return Use(label="web", sessions=tuple(sessions))
