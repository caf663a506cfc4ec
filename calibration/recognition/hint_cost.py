# SPDX-License-Identifier: GPL-2.0-only
"""What the desktop's hints cost in a tick: evidence from a sample, and its part in the model's word.

No recording has a person's desktop, so it is made up: sixteen applications of known entries of which one works, a
player, GameMode. Everything runs in one thread, as in the agent.
"""

import time
from pathlib import Path

import numpy as np

from asa.core.decision import Judgement, Probabilities, Workload
from asa.core.sample import DesktopEntry, GroupUsage, HintState, PackageUse, RawSample
from asa.decide import evidence, hints
from calibration.recognition.frame_cost import Cost

STEP = "hints"
_APPLICATIONS = 16
_CATEGORIES = ("GTK", "Office", "WordProcessor", "Utility")
_SECOND_NS = 1_000_000_000


def measure(classes: tuple[Workload, ...], turns: int = 1_000) -> Cost:
    """Of so many ticks, with a weight by which the hints count."""
    table = hints.load(Path("/nowhere/asa.yaml"), 1.0)
    judged = Judgement(
        probabilities=Probabilities(classes=classes, values=(1.0 / len(classes),) * len(classes)),
        score=None,
        known=True,
    )
    before, now = _sample(1), _sample(2)
    spent = []
    for _ in range(turns):
        start_ns = time.perf_counter_ns()
        evidence.pooled(judged, evidence.of_tick(before, now, table, evidence.at_work((), now)), table.weight)
        spent.append(time.perf_counter_ns() - start_ns)
    taken = np.array(spent) / 1e3
    return Cost(
        step=STEP,
        mean_us=float(taken.mean()),
        median_us=float(np.median(taken)),
        p99_us=float(np.percentile(taken, 99)),
    )


def _sample(second: int) -> RawSample:
    names = [f"org.example.One{number}" for number in range(_APPLICATIONS)]
    state = HintState(
        front=names[0],
        entries=tuple(DesktopEntry(name, _CATEGORIES) for name in sorted(names)),
        playing=(names[1],),
        game_clients=1,
        idle_inhibited=False,
        sound_played=True,
        sound_recorded=False,
        packages=(PackageUse(facets=("section::utils", "use::compressing", "works-with::archive"), cores=0.9),),
    )
    used_us = [second * 900_000, *(second * 1_000 for _ in names[1:])]
    folder = "user.slice/user-1000.slice/user@1000.service/app.slice"
    groups = tuple(
        (f"{folder}/app-gnome-{name}-4711.scope", cpu_us) for name, cpu_us in zip(names, used_us, strict=True)
    )
    return RawSample(
        monotonic_ns=second * _SECOND_NS, wall_ns=second * _SECOND_NS, hints=state, groups=GroupUsage(cpu_us=groups)
    )
