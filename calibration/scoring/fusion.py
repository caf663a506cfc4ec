# SPDX-License-Identifier: GPL-2.0-only
"""From a run's figures to one score: metric, application, scenario. Pure.

A metric's score is the weighted geometric mean of its value score and its stability score: a weighted sum would give
an application that hangs, steadily, the stability's whole weight, and rank it above one that works with hiccups.
Metrics make their application's score, and the two applications the scenario's, as weighted arithmetic means.

A metric that was not measured (None) leaves its weight to the others of its application, down to LEAST_MEASURED; below
that the application has no score, and the scenario none without both. Runs that are compared must go through `alike`
first: otherwise one that lost its worst metric would win by that.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from calibration.scoring.curves import stability_score, value_score
from calibration.scoring.table import APPLICATIONS, LEAST_MEASURED, ROLE_WEIGHT, Application
from scenarios.application import Role
from scenarios.metric import Direction, Metric, ScoreError, Summary

_QUANTILES = {Summary.P95: 0.95, Summary.P99: 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A metric's figure of one run, in the metric's unit.

    `sigma` is the standard deviation of its samples, None when it is not known. `alone` is the same figure of the same
    load without the other application (same seed, same machine, the kernel's own scheduler); a relative metric needs
    it.
    """

    value: float
    sigma: float | None = None
    alone: float | None = None


Figures: TypeAlias = Mapping[str, Measured | None]
"""A run of one application: metric's name -> figure, None or absent where it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScore:
    """0 to 1 each; `stability` is None where spread does not count or is not known. `weight` is that of the table."""

    name: str
    score: float
    value: float
    stability: float | None
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationScore:
    """`score` is None when less than LEAST_MEASURED of the weight was measured; `missing` are the metrics without."""

    application: str
    score: float | None
    measured_share: float
    metrics: tuple[MetricScore, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioScore:
    """`score` is None when one of the two has none."""

    score: float | None
    interactive: ApplicationScore
    background: ApplicationScore


def measured(metric: Metric, samples: Sequence[float], *, alone: float | None = None) -> Measured | None:
    """The figure that stands for these samples, in the metric's unit; None without any.

    One sample has no spread that is known. Raises ScoreError for a sample that is not finite or is negative.
    """
    for sample in samples:
        _amount(metric.name, sample)
    if not samples:
        return None
    if metric.summary is Summary.MEAN:
        value = statistics.mean(samples)
    else:
        value = sorted(samples)[math.ceil(_QUANTILES[metric.summary] * len(samples)) - 1]  # the nearest rank
    sigma = statistics.pstdev(samples) if len(samples) > 1 else None
    return Measured(value=float(value), sigma=sigma, alone=alone)


def metric_score(metric: Metric, figure: Measured) -> MetricScore:
    """Raises ScoreError for figures that are not finite or negative, and a relative metric without `alone`."""
    x, sigma = _scaled(metric, figure)
    value = value_score(
        x, theta=metric.theta, f=metric.f, k=metric.k_value, gamma=metric.gamma_value, direction=metric.curve
    )
    score, stability, k = value, None, metric.k_stability
    if sigma is not None and k is not None:
        stability = stability_score(sigma, k=k, gamma=metric.gamma_stability)
        score = math.pow(value, 1.0 - metric.stability_weight) * math.pow(stability, metric.stability_weight)
    return MetricScore(name=metric.name, score=score, value=value, stability=stability, weight=metric.weight)


def application_score(name: str, figures: Figures) -> ApplicationScore:
    """Of one application in one run. Raises ScoreError for a name that the table has not, and as `metric_score`."""
    application = _application(name)
    known = {metric.name: metric for metric in application.metrics}
    for stranger in figures.keys() - known.keys():
        raise ScoreError(what=f"{name}.{stranger}", value=figures[stranger], allowed=", ".join(known))
    found = {one.name: figure for one in application.metrics if (figure := figures.get(one.name)) is not None}
    scores = tuple(metric_score(known[metric], figure) for metric, figure in found.items())
    share = math.fsum(score.weight for score in scores) / math.fsum(metric.weight for metric in application.metrics)
    enough = share >= LEAST_MEASURED
    return ApplicationScore(
        application=name,
        score=_mean([(score.score, score.weight) for score in scores]) if enough else None,
        measured_share=share,
        metrics=scores,
        missing=tuple(metric for metric in known if metric not in found),
    )


def scenario_score(interactive: ApplicationScore, background: ApplicationScore) -> ScenarioScore:
    """Of both. Raises ScoreError when one is not what it should be."""
    for part, role in ((interactive, Role.INTERACTIVE), (background, Role.BACKGROUND)):
        if _application(part.application).role is not role:
            allowed = ", ".join(one.name for one in APPLICATIONS.values() if one.role is role)
            raise ScoreError(what=f"{role} application", value=part.application, allowed=allowed)
    score = None
    if interactive.score is not None and background.score is not None:
        parts = ((interactive.score, Role.INTERACTIVE), (background.score, Role.BACKGROUND))
        score = _mean([(one, ROLE_WEIGHT[role]) for one, role in parts])
    return ScenarioScore(score=score, interactive=interactive, background=background)


def alike(runs: Sequence[Figures]) -> list[dict[str, Measured]]:
    """The same runs with what all of them measured; a spread that one lacks counts in none."""
    names = [name for name in dict.fromkeys(name for run in runs for name in run) if all(run.get(name) for run in runs)]
    found: list[dict[str, Measured]] = [{} for _ in runs]
    for name in names:
        figures = [figure for run in runs if (figure := run.get(name)) is not None]
        spread = all(figure.sigma is not None for figure in figures)
        for place, figure in enumerate(figures):
            found[place][name] = figure if spread else replace(figure, sigma=None)
    return found


def _scaled(metric: Metric, figure: Measured) -> tuple[float, float | None]:
    """Figure and spread on the metric's scale."""
    value, sigma = figure.value, figure.sigma
    _amount(metric.name, value)
    if sigma is not None:
        _amount(f"{metric.name}.sigma", sigma)
    if not metric.relative:
        return value, sigma
    alone = figure.alone
    if alone is None or not (math.isfinite(alone) and alone > 0.0):
        raise ScoreError(what=f"{metric.name}.alone", value=alone, allowed="what the load reaches alone, above 0")
    if metric.direction is Direction.SMALLER:
        if value == 0.0:
            raise ScoreError(what=metric.name, value=value, allowed="a time above 0")
        return _finite(metric.name, alone / value), None
    share = _finite(metric.name, value / alone)
    return share, None if sigma is None else _finite(f"{metric.name}.sigma", sigma / alone)


def _amount(what: str, number: float) -> None:
    if not (math.isfinite(number) and number >= 0.0):
        raise ScoreError(what=what, value=number, allowed="a finite number from 0")


def _finite(what: str, share: float) -> float:
    if math.isinf(share):
        raise ScoreError(what=what, value=share, allowed="a share of what the load reaches alone that is finite")
    return share


def _application(name: str) -> Application:
    found = APPLICATIONS.get(name)
    if found is None:
        raise ScoreError(what="application", value=name, allowed=", ".join(APPLICATIONS))
    return found


def _mean(parts: Sequence[tuple[float, float]]) -> float:
    return math.fsum(score * weight for score, weight in parts) / math.fsum(weight for _, weight in parts)
