# SPDX-License-Identifier: GPL-2.0-only
"""Folders as `asa lab fleet run` leaves them, whose samples were made up so that the score of each trial is known."""

import json
import math

from asa import wire
from calibration.scenarios import tables as bench_tables
from calibration.scoring.table import APPLICATIONS
from scenarios import catalogue
from scenarios.application import Tier
from scenarios.metric import Direction
from scenarios.runner_plan import CONTROLLER, Asked, Outcome, Result, Series, make, split

ALONE = 100.0
COLUMNS = ("eevdf", "scx_lavd", "scx_bpfland", "scx_flash", "agent", "loader-auto", "random")
MEANS = {"eevdf": 0.5, "scx_lavd": 0.6, "scx_bpfland": 0.45, "scx_flash": 0.4, "agent": 0.6}
MEANS |= {"loader-auto": 0.55, "random": 0.5}


def planted(label, column, repeat):
    """The same for all scenarios; repeats differ, alike for all columns."""
    return MEANS[column] + 0.01 * (repeat - 2)


def held(label, column, repeat):
    if column == "loader-auto":
        return {"held_s": {"scx_lavd": 5.0, "eevdf": 15.0}}
    if not column.startswith("agent"):
        return None
    return {"held_s": {"scx_lavd": 18.0, "eevdf": 2.0}, "classes": {label: 19, "idle": 1}, "cpu_pct": 0.5}


def sample(metric, score):
    """What measures as this score, steady throughout; from 0.2 to 0.85."""
    value = score ** (1.0 / (1.0 - metric.stability_weight))
    away = math.log((1.0 - value) / value) / metric.k_value
    x = metric.theta + metric.f * (away if metric.curve is Direction.SMALLER else -away)
    if not metric.relative:
        return x
    return ALONE * x if metric.direction is Direction.LARGER else ALONE / x


def series(name, score, phase=1):
    return [
        Series(
            application=name,
            metric=metric.name,
            at_s=[1.0, 2.0],
            values=[ALONE if score is None and metric.relative else sample(metric, score or 0.5)] * 2,
            phase=phase,
        )
        for metric in APPLICATIONS[name].metrics
    ]


def result(trial, score, record):
    """`score` is None of a trial that failed, and a tuple of one that has two phases; alone all do what they can."""
    parameters = {CONTROLLER: record} if record else {}
    if score is None:
        words = {"failure": "hung", "application": trial.interactive, "reason": "no frame for 10 s"}
        return Result(
            trial=trial, outcome=Outcome.FAILED, attempts=1, started_ns=9, took_s=9.0, parameters=parameters, **words
        )
    scores = score if isinstance(score, tuple) else (score,)
    found = [
        one
        for phase, (names, of_phase) in enumerate(zip(trial.phases, scores, strict=True), 1)
        for name in names
        for one in series(name, None if len(trial.applications) == 1 else of_phase, phase)
    ]
    return Result(
        trial=trial,
        outcome=Outcome.DONE,
        attempts=1,
        started_ns=1_780_000_000_000_000_000 + trial.order,
        took_s=9.0,
        window_s=20.0,
        then_window_s=20.0,
        kernel="6.18",
        asa_version="0.1",
        scheduler_version="1.1",
        parameters=parameters,
        series=found,
    )


def machine(folder, truth, *, columns, scenarios, repeats=3, record=None, left=(), clock="", **facts):
    """One machine's folder.

    `truth(label, column, repeat)` is a trial's score, None of one that fails; `record(label, column, repeat)` what its
    controller kept. Trials of the columns in `left` were planned and not played.
    """
    wanted = catalogue.find(scenarios)
    asked = Asked(
        tier=Tier.LAB,
        scenarios=tuple(one.label for one in wanted),
        schedulers=columns,
        repeats=repeats,
        seed=4,
        seconds=20.0,
        warm_up_s=1.0,
        cpus=4,
        clock=clock,
    )
    plan = make(asked, wanted, run=f"run-{folder.name}")
    results = {}
    for trial in plan.trials:
        single = len(trial.applications) == 1
        column = trial.scheduler if trial.copy == 1 else f"{trial.scheduler} ({trial.copy})"
        if column in left:
            continue
        score = 0.5 if single else truth(trial.label, column, trial.repeat)
        kept = record(trial.label, column, trial.repeat) if record is not None and not single else None
        results[trial.id] = result(trial, score, kept)
    folder.mkdir(parents=True)
    apart, parts = split(plan, results)
    bench_tables.write(folder, apart, list(parts.values()))
    (folder / "plan.json").write_bytes(wire.json_bytes(plan))
    known = {"name": folder.name, "cpus": 4, "prototype": True, **facts}
    (folder / "machine.json").write_text(json.dumps(known))
    return folder
