# SPDX-License-Identifier: GPL-2.0-only
"""Does the model rank compositions as the lab does? Kendall's tau over pairs that it tells apart, for two loads.

The batch of longtail.py (one job twenty times as long, no history), by its makespan; and a task that wants to run each
2.3 ms beside a hog for each CPU (the scale benchmark's `wakeup`), by its median wait. The model plays the same loads.
Below `LEAST_TAU` it is not used for tuning.
"""

import statistics
from collections.abc import Callable, Sequence
from itertools import combinations

from asa.core.errors import AsaError
from calibration.composing import model
from calibration.composing.model import Task
from calibration.composing.spec import Spec, load
from calibration.policies import playing
from calibration.policies.played import Orders
from calibration.policies.playing import CPUS, Bench, Tell

LEAST_TAU = 0.6
_NAME = "agreement"
_ROUNDS, _SEED = 2, 3
_RATIO, _UNIT_US = 20, 10_000
JOBS = 40
_SECONDS = 0.3
_FORK_US = 150  # between two starts of jobs, seen in the lab
_WAKE_US, _WORK_US = 2_311, 10  # scale.c's period, and about what its task computes
_BATCH, _WAKEUP = "batch", "wakeup"
_MEASURED = {_BATCH: "makespan_ns", _WAKEUP: "p50_ns"}
_APART = 1.02  # times: what the model has nearer than that it does not rank

POINTS: tuple[tuple[str, dict[str, int]], ...] = (
    ("fifo", {"slice-us": 1_000}),
    ("fifo", {"slice-us": 5_000}),
    ("fifo", {"slice-us": 20_000}),
    ("vtime", {"slice-us": 10_000}),
    ("sjf", {"slice-us": 2_000}),
    ("sjf", {"slice-us": 20_000, "age-ms": 20}),
    ("ljf", {"slice-us": 1_000}),
    ("ljf", {"slice-us": 2_000, "cap-ms": 50}),
    ("ljf", {"slice-us": 20_000, "age-ms": 100}),
    ("edf", {"slice-us": 2_000}),
    ("edf", {"slice-us": 10_000, "period-us-1": 5_000}),
    ("two_level", {"slice-us": 1_000, "threshold-us": 20_000, "weight-1": 1_000}),
    ("two_level", {"slice-us": 5_000, "weight-0": 10, "weight-1": 500}),
    ("two_level", {"slice-us": 20_000, "weight-0": 50}),
)
"""Presets with numbers, so that the model tells them apart by one load at least."""


def orders(bench: Bench) -> Orders:
    """Of the guest."""
    return Orders(
        subjects=tuple(bench.composed(name, *_flags(numbers)) for name, numbers in POINTS),
        measures=(bench.batch(_BATCH, _RATIO, _UNIT_US, 1), bench.scale(_WAKEUP, _SECONDS)),
        rounds=_ROUNDS,
        seed=_SEED,
    )


def tau(tell: Tell) -> tuple[float, str]:
    """The smaller of the two loads'. Raises AsaError."""
    found = playing.played(_NAME, orders, tell)
    told, pairs = dict[str, float](), dict[str, int]()
    plays: dict[str, Callable[[Spec], float]] = {_BATCH: batch_us, _WAKEUP: wait_us}
    for label, value in _MEASURED.items():
        lab, modelled = [], []
        for name, numbers in POINTS:
            subject = " ".join((name, *_flags(numbers)))
            lab.append(statistics.fmean(found.values(subject, label, 1, value).values()))
            modelled.append(plays[label](load(name, numbers)))
        told[label], pairs[label] = ranked(modelled, lab)
    said = ", ".join(f"{label} {one:.2f} ({pairs[label]} pairs)" for label, one in told.items())
    least = min(told.values())
    use = "a first guess for the tuner" if least >= LEAST_TAU else "not used for tuning"
    return least, f"{said}, over {len(POINTS)} compositions; the model is {use}"


def ranked(modelled: Sequence[float], lab: Sequence[float]) -> tuple[float, int]:
    """Pairs in the same order less those in the other one, as a share of those that the model tells apart; how many.

    Raises AsaError where it tells none apart.
    """
    signs = [
        1 if (left[0] > right[0]) == (left[1] > right[1]) else -1
        for left, right in combinations(zip(modelled, lab, strict=True), 2)
        if max(left[0], right[0]) >= _APART * min(left[0], right[0])
    ]
    if not signs:
        raise AsaError("the model tells no composition from another")
    return sum(signs) / len(signs), len(signs)


def batch_us(spec: Spec) -> float:
    """Makespan of the batch in the model, the mean over places of the long job."""
    return statistics.fmean(makespan_us(spec, place) for place in range(2, JOBS, 6))


def makespan_us(spec: Spec, place: int) -> int:
    """The same where the job at `place` (0 to JOBS - 1) is the long one."""
    jobs = [
        Task(name=str(one), bursts=((one * _FORK_US, _UNIT_US * (_RATIO if one == place else 1)),))
        for one in range(JOBS)
    ]
    end_us = 2 * _UNIT_US * (JOBS + _RATIO)
    return max(one.until_us for one in model.play(spec, jobs, CPUS, end_us).stretches)


def wait_us(spec: Spec) -> float:
    """Median wait of the task that wakes, in the model."""
    end_us = round(_SECONDS * 1e6)
    hogs = [Task(name=f"hog {one}", bursts=((one, 2 * end_us),)) for one in range(CPUS)]
    sleeper = Task(name="sleeper", bursts=((_WAKE_US, _WORK_US),) * (end_us // _WAKE_US))
    trace = model.play(spec, [*hogs, sleeper], CPUS, end_us)
    return statistics.median(one.until_us - one.since_us for one in trace.waits if one.task == sleeper.name)


def _flags(numbers: dict[str, int]) -> list[str]:
    return [word for name, value in numbers.items() for word in (f"--{name}", f"{value}")]
