# SPDX-License-Identifier: GPL-2.0-only
"""The summary of a run: a row for each scenario under each scheduler, with score, figures, versions and failures.

Pure; the run's folder gets it as summary.json, the command prints it as lines or as a table.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from calibration.scenarios.scores import Figures, Score, figures, mean, played, scores
from calibration.scoring.table import APPLICATIONS
from scenarios.conditions import Conditions
from scenarios.runner_plan import Asked, Outcome, Plan, Result


class MetricLine(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the repeats; `alone` is what a relative metric is compared with. None is unknown."""

    value: float | None
    unit: str
    sigma: float | None
    alone: float | None
    score: float | None
    samples: int  # in all repeats


class ApplicationLine(msgspec.Struct, frozen=True, kw_only=True):
    """`missing` are metrics that no repeat has measured; a relative one without a figure alone is one of them."""

    score: float | None
    metrics: dict[str, MetricLine]
    missing: list[str]
    versions: dict[str, str]


class FailureLine(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that failed, or was disturbed each time, in its own words."""

    trial: str
    outcome: Outcome
    failure: str
    application: str
    reason: str
    last_words: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario under a scheduler."""

    scenario: str
    label: str
    scheduler: str
    copy: int
    scheduler_version: str
    planned: int
    played: int  # disturbed ones too
    score: float | None
    scores: list[float | None]  # of each that was played, by repeat
    joules: float | None  # of the measured window, mean over the repeats; not scored
    watts: float | None
    applications: dict[str, ApplicationLine]
    troubles: list[FailureLine]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A run."""

    run: str
    asked: Asked
    under: Conditions
    hosts: list[str]
    kernels: list[str]
    asa_versions: list[str]
    trials: int
    done: int
    disturbed: int
    failed: int
    left: int  # not played yet
    took_s: float
    rows: list[Row]


def summary(plan: Plan, results: Mapping[str, Result]) -> Summary:
    """Of what has been played so far."""
    known = [results[trial.id] for trial in plan.trials if trial.id in results]
    trials = played(plan.run, known)
    found, scored = figures(trials), scores(trials)
    groups: dict[tuple[str, str, str, int], list[str]] = defaultdict(list)
    for trial in sorted(plan.trials, key=lambda one: one.repeat):
        groups[trial.scenario, trial.label, trial.scheduler, trial.copy].append(trial.id)
    outcomes = [result.outcome for result in known]
    return Summary(
        run=plan.run,
        asked=plan.asked,
        under=next((one.under for one in known if one.under is not None), plan.asked.under),
        hosts=sorted({result.host for result in known} - {""}),
        kernels=sorted({result.kernel for result in known} - {""}),
        asa_versions=sorted({result.asa_version for result in known} - {""}),
        trials=len(plan.trials),
        done=outcomes.count(Outcome.DONE),
        disturbed=outcomes.count(Outcome.DISTURBED),
        failed=outcomes.count(Outcome.FAILED),
        left=len(plan.trials) - len(known),
        took_s=round(sum(result.took_s for result in known), 1),
        rows=[
            _row(key, len(ids), [results[one] for one in ids if one in results], plan.run, found, scored)
            for key, ids in sorted(groups.items(), key=lambda item: _place(item[0], plan.asked))
        ],
    )


def _place(key: tuple[str, str, str, int], asked: Asked) -> tuple[bool, int, str, int, int]:
    name, label, scheduler, copy = key
    number = int(name[1:]) if name[1:].isdigit() else 0  # S16; a phase of a trial, P1/2, comes after all of these
    order = asked.schedulers.index(scheduler) if scheduler in asked.schedulers else -1
    return not number, number, label, order, copy


def _row(
    key: tuple[str, str, str, int],
    planned: int,
    results: Sequence[Result],
    run: str,
    found: Mapping[tuple[str, str], Figures],
    scored: Mapping[tuple[str, str], Score],
) -> Row:
    scenario, label, scheduler, copy = key
    good = [result for result in results if result.outcome is not Outcome.FAILED]
    all_scores = [scored[run, result.trial.id].score for result in good]
    names = [name for name in label.split("+") if name in APPLICATIONS]
    energies = [one for result in good for one in result.energy]  # of the one phase that `split` left
    return Row(
        scenario=scenario,
        label=label,
        scheduler=scheduler,
        copy=copy,
        scheduler_version=next((result.scheduler_version for result in good), ""),
        planned=planned,
        played=len(good),
        score=mean(all_scores),
        scores=all_scores,
        joules=mean([one.joules for one in energies]),
        watts=mean([one.watts for one in energies]),
        applications={name: _application(name, good, run, found, scored) for name in names},
        troubles=[
            FailureLine(
                trial=result.trial.id,
                outcome=result.outcome,
                failure=result.failure,
                application=result.application,
                reason=result.reason,
                last_words=result.last_words,
            )
            for result in results
            if result.outcome is not Outcome.DONE
        ],
    )


def _application(
    name: str,
    results: Sequence[Result],
    run: str,
    found: Mapping[tuple[str, str], Figures],
    scored: Mapping[tuple[str, str], Score],
) -> ApplicationLine:
    parts = [scored[run, result.trial.id].applications[name] for result in results]
    counts: dict[str, int] = defaultdict(int)
    for result in results:
        for series in result.series:
            if series.application == name:
                counts[series.metric] += len(series.values)
    lines = {}
    for metric in APPLICATIONS[name].metrics:
        given = [found[run, result.trial.id].get(name, {}).get(metric.name) for result in results]
        known = [figure for figure in given if figure is not None]
        marks = [one.score for part in parts for one in part.metrics if one.name == metric.name]
        if known:
            lines[metric.name] = MetricLine(
                value=mean([figure.value for figure in known]),
                unit=metric.unit,
                sigma=mean([figure.sigma for figure in known]),
                alone=mean([figure.alone for figure in known]),
                score=mean(marks),
                samples=counts[metric.name],
            )
    return ApplicationLine(
        score=mean([part.score for part in parts]),
        metrics=lines,
        missing=[metric.name for metric in APPLICATIONS[name].metrics if metric.name not in lines],
        versions=next((result.versions[name] for result in results if name in result.versions), {}),
    )


def cells(row: Row) -> tuple[str, ...]:
    """For a table: scenario, applications, scheduler, score, energy, and the figures or what went wrong."""
    copy = f" ({row.copy})" if row.copy > 1 else ""
    score = "-" if row.score is None else f"{row.score:.3f}"
    energy = (_number(row.joules), _number(row.watts))
    words = [_words(name, line) for name, line in row.applications.items() if row.played]
    words += [_trouble(one) for one in row.troubles]
    return (
        row.scenario,
        row.label,
        f"{row.scheduler}{copy}",
        score,
        *energy,
        f"{row.played}/{row.planned}",
        "\n".join(words),
    )


HEAD = ("scenario", "plays", "scheduler", "score", "J", "W", "trials", "")
"""Of `cells`."""


def _words(name: str, line: ApplicationLine) -> str:
    score = "-" if line.score is None else f"{line.score:.3f}"
    figures = [f"{metric} {_number(one.value)}" for metric, one in line.metrics.items()]
    versions = ", ".join(f"{program} {version}" for program, version in line.versions.items())
    missing = f"; not measured: {', '.join(line.missing)}" if line.missing else ""
    return f"{name} {score}: {', '.join(figures)}{missing} [{versions}]"


def _trouble(one: FailureLine) -> str:
    who = f"{one.application}: " if one.application else ""
    said = f"; it said: {one.last_words}" if one.last_words else ""
    return f"{one.outcome} {one.trial}: {who}{one.reason}{said}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
