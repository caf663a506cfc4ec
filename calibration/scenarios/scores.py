# SPDX-License-Identifier: GPL-2.0-only
"""From the samples of a run's trials to figures and scores, each beside what it is to be compared with. Pure.

`Played` is a trial as its samples alone; it comes from a result (`played`) or from kept tables
(`calibration.scenarios.tables.read`). A relative metric is compared with the same application alone, of the same run
and repeat under the kernel's own scheduler. Within a run, the trials of one scenario and repeat are compared with each
other, so they are scored by what all of them measured.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from asa.core.decision import EEVDF
from calibration.scoring.fusion import ApplicationScore, Measured, alike, application_score, measured, scenario_score
from calibration.scoring.table import APPLICATIONS
from scenarios.metric import Direction, Metric
from scenarios.runner_plan import Outcome, Result

Figures: TypeAlias = dict[str, dict[str, Measured]]
"""Application -> metric -> figure, of what was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A trial that did not fail. `samples`: application -> metric -> values.

    `used` is the share of all CPUs' time that was used in the measured windows, 0 to 1; None: nobody knows.
    """

    trial: str
    run: str
    repeat: int
    interactive: str
    background: str
    scheduler: str
    copy: int
    samples: Mapping[str, Mapping[str, Sequence[float]]]
    used: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of a trial; `score` is None when too little was measured, and of idle."""

    score: float | None
    applications: Mapping[str, ApplicationScore]


def played(run: str, results: Sequence[Result]) -> list[Played]:
    """Those that did not fail."""
    found = []
    for result in results:
        if result.outcome is Outcome.FAILED:
            continue
        samples: dict[str, dict[str, Sequence[float]]] = defaultdict(dict)
        for series in result.series:
            samples[series.application][series.metric] = series.values
        trial = result.trial
        found.append(
            Played(
                trial=trial.id,
                run=run,
                repeat=trial.repeat,
                interactive=trial.interactive,
                background=trial.background,
                scheduler=trial.scheduler,
                copy=trial.copy,
                samples=samples,
                used=_used(result),
            )
        )
    return found


def _used(result: Result) -> float | None:
    window_s = (result.window_s or 0.0) + (result.then_window_s or 0.0)
    if not result.energy or not result.cpus or not window_s:
        return None
    return sum(sum(one.busy_s) for one in result.energy) / (result.cpus * window_s)


def figures(trials: Sequence[Played]) -> dict[tuple[str, str], Figures]:
    """(run, trial) -> its figures. What is relative and was not measured alone is left out."""
    alone: dict[tuple[str, int, str], Mapping[str, Sequence[float]]] = {}
    for one in trials:
        single = [name for name in (one.interactive, one.background) if name]
        if len(single) == 1 and (one.scheduler, one.copy) == (EEVDF, 1):
            alone[one.run, one.repeat, single[0]] = one.samples.get(single[0], {})
    return {
        (one.run, one.trial): {
            name: _figures(name, samples, alone.get((one.run, one.repeat, name), {}))
            for name, samples in one.samples.items()
        }
        for one in trials
    }


def scores(trials: Sequence[Played]) -> dict[tuple[str, str], Score]:
    """(run, trial) -> its score, made of what all trials of its scenario and repeat in that run have measured."""
    known = figures(trials)
    groups: dict[tuple[str, int, str, str], list[Played]] = defaultdict(list)
    for one in trials:
        groups[one.run, one.repeat, one.interactive, one.background].append(one)
    return {
        (one.run, one.trial): score
        for group in groups.values()
        for one, score in zip(group, of_alike(group, known), strict=True)
    }


def of_alike(group: Sequence[Played], known: Mapping[tuple[str, str], Figures]) -> list[Score]:
    """Of trials of one scenario, made of what all of them have measured. `known` is as of `figures`."""
    parts: list[dict[str, ApplicationScore]] = [{} for _ in group]
    for name in filter(None, (group[0].interactive, group[0].background)) if group else ():
        runs = alike([known[one.run, one.trial].get(name, {}) for one in group])
        for part, run in zip(parts, runs, strict=True):
            part[name] = application_score(name, run)
    return [Score(score=_whole(one, part), applications=part) for one, part in zip(group, parts, strict=True)]


def mean(values: Sequence[float | None]) -> float | None:
    """Of those that are known."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _figures(
    name: str, samples: Mapping[str, Sequence[float]], alone: Mapping[str, Sequence[float]]
) -> dict[str, Measured]:
    found = {}
    for metric in APPLICATIONS[name].metrics:
        figure = _figure(metric, samples.get(metric.name, ()), alone.get(metric.name, ()))
        if figure is not None:
            found[metric.name] = figure
    return found


def _figure(metric: Metric, samples: Sequence[float], alone: Sequence[float]) -> Measured | None:
    base = measured(metric, alone) if metric.relative else None
    figure = measured(metric, samples, alone=base.value if base is not None else None)
    if figure is None or not metric.relative:
        return figure
    return figure if figure.alone and _comparable(metric, figure) else None


def _comparable(metric: Metric, figure: Measured) -> bool:
    # a time of 0 is no speed; a rate of 0 is one: nothing was done
    return figure.value > 0.0 or metric.direction is Direction.LARGER


def _whole(one: Played, parts: Mapping[str, ApplicationScore]) -> float | None:
    if one.interactive and one.background:
        return scenario_score(parts[one.interactive], parts[one.background]).score
    return next((part.score for part in parts.values()), None)
