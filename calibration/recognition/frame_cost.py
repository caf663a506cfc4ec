# SPDX-License-Identifier: GPL-2.0-only
"""What a tick costs from its sample to the probabilities: rates, window, frame, model; by the wall clock.

Takes recorded samples, gives microseconds of each step; everything runs in one thread, as in the agent. For
`asa lab bench recognition` and `asa lab evaluate model`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from asa.core.decision import FeatureFrame
from asa.core.errors import ModelError
from asa.core.sample import RawSample
from asa.pipeline import PLAN
from collectors import rates
from models import features

STEPS = ("derive", "push", "frame", "judge", "all")
Judge = Callable[[FeatureFrame], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one step, or of all together, over all ticks of all rounds."""

    step: str
    mean_us: float
    median_us: float  # what it takes while nothing else disturbs
    p99_us: float


def measure(samples: Sequence[RawSample], judge: Judge, rounds: int = 3, plan: rates.Plan = PLAN) -> tuple[Cost, ...]:
    """Costs in the order of STEPS. Every round but an untimed first one takes all samples through an empty window.

    `judge` is a model's (`models.runtime.Ensemble.judge`), `plan` that of the fields it asks for. Raises ModelError
    when no two samples follow each other.
    """
    spent: list[tuple[int, ...]] = []
    for number in range(rounds + 1):
        found = _round(samples, judge, plan)
        if not found:
            raise ModelError("no two consecutive samples with CPU counters; give a recording")
        spent += found if number else []
    table = np.diff(np.array(spent), axis=1) / 1e3
    columns = [*table.T, table.sum(axis=1)]
    return tuple(
        Cost(
            step=step,
            mean_us=float(column.mean()),
            median_us=float(np.median(column)),
            p99_us=float(np.percentile(column, 99)),
        )
        for step, column in zip(STEPS, columns, strict=True)
    )


def _round(samples: Sequence[RawSample], judge: Judge, plan: rates.Plan = PLAN) -> list[tuple[int, ...]]:
    window = features.Window()
    spent: list[tuple[int, ...]] = []
    for previous, sample in pairwise(samples):
        if sample.cpu is None:
            continue
        start_ns = time.perf_counter_ns()
        derived = rates.derive(previous, sample, plan)
        derived_ns = time.perf_counter_ns()
        if derived is None:
            window = features.Window()
            continue
        window = features.push(window, sample.monotonic_ns, derived, len(sample.cpu.cores))
        pushed_ns = time.perf_counter_ns()
        frame = features.frame(window)
        framed_ns = time.perf_counter_ns()
        judge(frame)
        spent.append((start_ns, derived_ns, pushed_ns, framed_ns, time.perf_counter_ns()))
    return spent
