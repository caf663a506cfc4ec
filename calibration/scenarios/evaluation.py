# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmark is worth, by its kept runs and the dataset: does it repeat, does it see a difference, is it whole?

Takes runs and facts that others have read; makes figures with goals, and the comparisons behind them. Measures nothing.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from asa.core.decision import EEVDF
from calibration.goals import Figure, Named
from calibration.paired import LEAST_PAIRS, LEVEL, Paired, benjamini_hochberg, holm, overall, paired
from calibration.scenarios import kept as evaluate_results
from calibration.scenarios import scores as bench_scores
from calibration.scenarios.kept import Run, Trial, twins
from calibration.scoring.table import APPLICATIONS
from models.train.recorded_table import LEAST_SESSIONS, Facts, complete, whole
from scenarios.application import Tier
from scenarios.catalogue import PAIRS, PAPER
from scenarios.metric import Direction
from scenarios.runner_plan import Outcome

SIMPLE = "scx_simple"
FEWEST_SCHEDULERS = 4
_SCORE_FLOOR = 0.002  # a hundredth of the score is the least that anybody would call a difference; its fifth
_SHARE_FLOOR = 0.002  # of a metric's ratio
_OUT = "calibration/results"
_RUN = "asa lab bench run --tier {tier} --scenario all {more} --out {out}/{name}"


_SHARE = "of 28 scenarios whose score differs at 5 % (t test of pairs, Holm)"


class BenchmarkFigure(Named):
    """The figures, each with its goal."""

    REPEAT = (
        "lab_repeat_throughput_diff_pct",
        "%",
        "between two lab runs of one seed: of each metric of throughput the sum over all trials; the largest",
        "<",
        3.0,
    )
    AA = "aa_significant_share_pct", "%", f"EEVDF against itself, {_SHARE}", "<=", 0.0
    AB = "ab_simple_significant_share_pct", "%", f"EEVDF against {SIMPLE}, {_SHARE}", ">", 0.0
    REAL = "scenarios_completed_real", "scenarios", "played with real programs, both measured", ">=", 28.0
    LAB = (
        "scenarios_completed_lab",
        "scenarios",
        f"played with stand-ins under {FEWEST_SCHEDULERS} schedulers, both measured",
        ">=",
        28.0,
    )
    SESSIONS = "dataset_sessions", "sessions", "recorded, of 60 s and more", ">=", 120.0
    LABELS = "dataset_labels", "labels", f"recorded in {LEAST_SESSIONS} sessions of different seeds", ">=", 40.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A scenario under two schedulers, by pairs of one run and repeat. `adjusted` is Holm's p over all scenarios.

    `metrics` are those that differ at 5 % (Benjamini and Hochberg over all metrics of all scenarios), with the ratio
    b / a that goes with the mean of their changes. `lost` pairs lack a side: it failed, or measured too little.
    """

    label: str
    test: Paired  # of the scores
    adjusted: float | None = None
    metrics: tuple[tuple[str, float], ...] = ()
    lost: int = 0

    @property
    def significant(self) -> bool:
        """At 5 %, after correction."""
        return self.adjusted is not None and self.adjusted < LEVEL


def figures(runs: Sequence[Run], facts: Sequence[Facts] | None) -> list[Figure]:
    """All of them, in the order of BenchmarkFigure. `facts` is None without a dataset.

    Raises AsaError where runs of the lab are of several clocks or ticks.
    """
    evaluate_results.under(runs, Tier.LAB)
    lab = [run for run in runs if run.tier == Tier.LAB]
    return [
        _repeat(runs),
        _share(BenchmarkFigure.AA, compare(lab, (EEVDF, 1), (EEVDF, 2)), f"--scheduler {EEVDF},{EEVDF},{SIMPLE}"),
        _share(BenchmarkFigure.AB, compare(lab, (EEVDF, 1), (SIMPLE, 1)), f"--scheduler {EEVDF},{EEVDF},{SIMPLE}"),
        _completed(BenchmarkFigure.REAL, runs, Tier.REAL, 1, "--repeat 1 --seconds 10"),
        _completed(
            BenchmarkFigure.LAB,
            runs,
            Tier.LAB,
            FEWEST_SCHEDULERS,
            f"--scheduler {EEVDF},{SIMPLE},scx_bpfland,scx_flash --repeat 1",
        ),
        *_dataset(facts),
    ]


def compare(runs: Sequence[Run], a: tuple[str, int], b: tuple[str, int]) -> list[Compared]:
    """Each of the 28 scenarios under two schedulers, each named with its copy; those that both have played."""
    scores: dict[str, list[float]] = defaultdict(list)
    changes: dict[tuple[str, str], list[float]] = defaultdict(list)
    planned: set[tuple[str, int, int]] = set()
    seen: set[tuple[str, int, int]] = set()  # what a second run of one seed plays again is no further pair
    for run in runs:
        found, measured = bench_scores.scores(run.played), bench_scores.figures(run.played)
        for first, second in _pairs(run, a, b):
            key = (first.label, first.seed, first.cpus)
            planned.add(key)
            ends = [found.get((end.run, end.trial)) for end in (first, second)]
            one, other = (end.score if end is not None else None for end in ends)
            if key in seen or one is None or other is None:
                continue
            seen.add(key)
            scores[first.label].append(other - one)
            for metric, change in _changes(measured[first.run, first.trial], measured[second.run, second.trial]):
                changes[first.label, metric].append(change)
    lost = Counter(label for label, *_ in planned - seen)
    tests = {label: test for label, values in scores.items() if (test := paired(values, _SCORE_FLOOR))}
    marked = _differing({key: test for key, values in changes.items() if (test := paired(values, _SHARE_FLOOR))})
    tested = [label for label, test in tests.items() if test.p is not None]
    adjusted = dict(zip(tested, holm([tests[label].p or 0.0 for label in tested]), strict=True))
    order = [scenario.label for scenario in PAIRS if scenario.label in tests]
    return [
        Compared(
            label=label,
            test=tests[label],
            adjusted=adjusted.get(label),
            metrics=marked.get(label, ()),
            lost=lost[label],
        )
        for label in order
    ]


def _pairs(run: Run, a: tuple[str, int], b: tuple[str, int]) -> list[tuple[Trial, Trial]]:
    known = {(one.label, one.repeat, one.scheduler, one.copy): one for one in run.trials}
    labels, repeats = [scenario.label for scenario in PAIRS], sorted({one.repeat for one in run.trials})
    ends = [(known.get((label, repeat, *a)), known.get((label, repeat, *b))) for label in labels for repeat in repeats]
    return [(one, other) for one, other in ends if one is not None and other is not None]


def _changes(one: bench_scores.Figures, other: bench_scores.Figures) -> Iterator[tuple[str, float]]:
    """From -2 to 2, in shares of the mean of both: the same size whichever of the two is called the first.

    A ratio would be unknown where the first is 0 (no underruns), and be above 1 on average where nothing differs.
    """
    for name, known in one.items():
        for metric, figure in known.items():
            if metric in other.get(name, {}):
                a, b = figure.value, other[name][metric].value
                yield f"{name}.{metric}", 2.0 * (b - a) / (a + b) if a != b else 0.0


def _ratio(change: float) -> float:
    return (2.0 + change) / (2.0 - change) if change < 2.0 else math.inf


def _differing(tests: Mapping[tuple[str, str], Paired]) -> dict[str, tuple[tuple[str, float], ...]]:
    tested = [key for key, test in tests.items() if test.p is not None]
    adjusted = benjamini_hochberg([tests[key].p or 0.0 for key in tested])
    found: dict[str, tuple[tuple[str, float], ...]] = {}
    for (label, metric), p in zip(tested, adjusted, strict=True):
        if p < LEVEL:
            found[label] = (*found.get(label, ()), (metric, _ratio(tests[label, metric].mean)))
    return found


def _share(name: BenchmarkFigure, compared: Sequence[Compared], schedulers: str) -> Figure:
    tested = [one for one in compared if one.adjusted is not None]
    more = f"{schedulers} --repeat 4"
    if not tested:
        pairs = max((one.test.pairs for one in compared), default=0)
        return _unknown(
            name, f"{pairs} pairs of a scenario are kept, {LEAST_PAIRS} are needed", Tier.LAB, more, "pairs"
        )
    share = 100.0 * sum(one.significant for one in tested) / len(tested)
    mean = statistics.fmean(one.test.mean for one in tested)
    p = overall([one.test.mean for one in tested])
    leaning = "" if p is None else f", all together p = {p:.2g}"
    pairs = min(one.test.pairs for one in tested)
    lost = sum(one.lost for one in compared)
    lacking = f"; {lost} pairs lack a side that failed or measured too little" if lost else ""
    detail = f"{len(tested)} scenarios, {pairs} pairs and more each; the score changes by {mean:+.3f}{leaning}{lacking}"
    return Figure(name=name, value=share, detail=detail)


def _repeat(runs: Sequence[Run]) -> Figure:
    pair = twins(runs, Tier.LAB)
    if pair is None:
        return _unknown(
            BenchmarkFigure.REPEAT,
            "no two runs of one seed are kept",
            Tier.LAB,
            f"--scheduler {EEVDF} --seed 1",
            "again-1 (and -2)",
        )
    both = pd.concat([_throughputs(run) for run in pair], axis=1, join="inner")
    if both.empty:
        reason = "the two runs of one seed share no metric of throughput"
        return Figure(name=BenchmarkFigure.REPEAT, value=None, reason=reason)
    single, by_metric = _difference_pct(both), _difference_pct(both.groupby(level=-1).sum())
    worst, most = by_metric.idxmax(), single.idxmax()
    detail = (
        f"{worst}; mean of {len(by_metric)} metrics {by_metric.mean():.2f} %; of {len(single)} single figures the "
        f"median {single.median():.2f} %, the largest {single.max():.1f} % ({most[-1]} of {most[0]}); "
        f"{pair[0].name} and {pair[1].name}"
    )
    return Figure(name=BenchmarkFigure.REPEAT, value=float(by_metric.max()), detail=detail)


def _throughputs(run: Run) -> pd.Series:
    # by what a trial is found again by, and the metric's name at last
    known = {(one.run, one.trial): one for one in run.trials}
    found = {
        (*evaluate_results.key(known[key]), f"{name}.{metric.name}"): measured[metric.name].value
        for key, applications in bench_scores.figures(run.played).items()
        for name, measured in applications.items()
        for metric in APPLICATIONS[name].metrics
        if metric.direction is Direction.LARGER and metric.name in measured
    }
    return pd.Series(found, dtype=float)


def _difference_pct(both: pd.DataFrame) -> pd.Series:
    return (100.0 * (both[0] - both[1]).abs() / both.mean(axis=1)).fillna(0.0)  # of two zeros: they are equal


def _completed(name: BenchmarkFigure, runs: Sequence[Run], tier: Tier, schedulers: int, more: str) -> Figure:
    chosen = [run for run in runs if run.tier == tier]
    if not chosen:
        return _unknown(name, f"no run of the {tier} tier is kept", tier, more, f"{tier}-all")
    under: dict[str, set[str]] = defaultdict(set)
    for run in chosen:
        labels = {(one.run, one.trial): one for one in run.trials}
        for played in run.played:
            if {played.interactive, played.background} <= {key for key, known in played.samples.items() if known}:
                under[labels[played.run, played.trial].label].add(played.scheduler)
    done = [one for one in PAIRS if len(under[one.label]) >= schedulers]
    left = [one.name for one in PAIRS if one not in done]
    trials = [one for run in chosen for one in run.trials]
    failed = sum(one.outcome == Outcome.FAILED for one in trials)
    disturbed = sum(one.outcome == Outcome.DISTURBED for one in trials)
    known = sorted({scheduler for one in under.values() for scheduler in one})
    missing = f"; not {', '.join(left)}" if left else ""
    detail = f"{len(trials)} trials, {failed} failed, {disturbed} disturbed; under {', '.join(known)}{missing}"
    return Figure(name=name, value=float(len(done)), detail=detail)


def _dataset(facts: Sequence[Facts] | None) -> list[Figure]:
    if facts is None:
        reason = "no recordings are kept; run: asa lab record --scenario everything --pack FILE.journal.xz"
        return [
            Figure(name=name, value=None, reason=reason) for name in (BenchmarkFigure.SESSIONS, BenchmarkFigure.LABELS)
        ]
    good = whole(facts)
    labels = set(complete(good)) & {scenario.label for scenario in PAPER}
    by_tier = ", ".join(f"{sum(one.tier == tier for one in good)} {tier}" for tier in Tier)
    others = sum(one.tier == Tier.LAB and one.scheduler != EEVDF for one in good)
    detail = f"{by_tier}, of these {others} under other schedulers; {sum(one.rows for one in good)} rows"
    sessions = Figure(name=BenchmarkFigure.SESSIONS, value=float(len(good)), detail=detail)
    left = [scenario.label for scenario in PAPER if scenario.label not in labels]
    return [
        sessions,
        replace(
            sessions,
            name=BenchmarkFigure.LABELS,
            value=float(len(labels)),
            detail=f"not {', '.join(left)}" if left else "",
        ),
    ]


def _unknown(name: BenchmarkFigure, why: str, tier: Tier, more: str, folder: str) -> Figure:
    command = _RUN.format(tier=tier, more=more, out=_OUT, name=folder)
    return Figure(name=name, value=None, reason=f"{why}; run: {command}")
