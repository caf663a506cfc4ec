# SPDX-License-Identifier: GPL-2.0-only
"""From trials that were played to a ranking of schedulers for each class of use. Pure.

A block is one scenario in one repeat of one run: all schedulers that played it had the same parameters, so what
differs between blocks drops out. Schedulers are compared within blocks alone, by least squares over the two effects
scheduler and block; where every scheduler played every block, that is the order of the plain means. An application
that was played alone under one scheduler only is ranked by all pairs that hold it.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.table import Entry
from calibration.paired import Paired, paired
from calibration.scenarios.scores import Played, scores
from calibration.stages.columns import SHADOW, plain
from scenarios.catalogue import SCENARIOS

SCORE_FLOOR = 0.002
"""The least standard deviation of a score that means anything, as in `asa lab evaluate scenarios`."""

NOISE_FIRST = 0.05
"""Of a score within its block, while no two blocks say better. A first choice, measured on nothing."""

WIDE = 0.5
"""Standard deviation of what is expected of a scheduler that nothing is known of: scores lie between 0 and 1."""

Block: TypeAlias = tuple[str, str, int]
"""Label, run, repeat."""

Cells: TypeAlias = Mapping[Block, Mapping[SchedulerName, float]]
"""The scores of some blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A scheduler's place in a class. Scores are 0..1.

    `scores` are those of its own trials, one for each of `blocks`, which are in order. `mean` is what it would have had
    over all blocks of the class; `low` to `high` hold it with 95 % confidence, None of fewer than three runs. `gain`
    are the differences to EEVDF in the blocks that both played, `error` the standard error of its lead over EEVDF by
    `fit`: both None for EEVDF itself, and where there are no such blocks. `of` are the pairs that it was taken from,
    where the class itself was not played.
    """

    name: SchedulerName
    scores: tuple[float, ...]
    blocks: tuple[Block, ...]
    mean: float
    low: float | None
    high: float | None
    gain: Paired | None
    error: float | None = None
    of: tuple[Workload, ...] = ()

    @property
    def runs(self) -> int:
        """Trials."""
        return len(self.scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What is known of a scheduler before it is played: its score above that of the others, give or take."""

    gain: float = 0.0
    error: float = WIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a scheduler gains over the others, by cells and by what was expected. Arrays follow `names`."""

    names: tuple[SchedulerName, ...]
    gains: NDArray[np.float64]  # (schedulers,), score; their common level means nothing
    covariance: NDArray[np.float64]  # (schedulers, schedulers)

    def difference(self, one: SchedulerName, other: SchedulerName) -> tuple[float, float]:
        """`one` above `other`, and the standard error of that."""
        first, second = self.names.index(one), self.names.index(other)
        of = self.covariance
        variance = of[first, first] + of[second, second] - 2.0 * of[first, second]
        return float(self.gains[first] - self.gains[second]), math.sqrt(max(0.0, float(variance)))


def cells(played: Sequence[Played]) -> dict[Workload, dict[Block, dict[SchedulerName, float]]]:
    """Label -> block -> scheduler -> score. What has no score is left out, as are second copies and shadows."""
    found: dict[Workload, dict[Block, dict[SchedulerName, float]]] = defaultdict(lambda: defaultdict(dict))
    known = scores(played)
    for one in sorted(played, key=lambda trial: (trial.run, trial.repeat)):
        score = known[one.run, one.trial].score
        label = "+".join(filter(None, (one.interactive, one.background)))
        if score is None or one.copy != 1 or one.scheduler.startswith(SHADOW):
            continue
        found[Workload(label)][label, one.run, one.repeat][plain(one.scheduler)] = score
    return {label: dict(blocks) for label, blocks in found.items()}


def rank(played: Sequence[Played]) -> Mapping[Workload, tuple[Ranked, ...]]:
    """For each class that two schedulers played, and each application in one of them: its schedulers, best first."""
    by_label = {label: blocks for label, blocks in cells(played).items() if _rivals(blocks) > 1}
    noise, wide = spread(by_label.values()), wider(by_label.values())
    found = {label: ranking(blocks, noise, wide) for label, blocks in by_label.items()}
    for part, pairs in _holding(by_label).items():
        if part not in found:
            together = {block: row for pair in pairs for block, row in by_label[pair].items()}
            found[part] = ranking(together, noise, wide, of=pairs)
    return found


def ranking(blocks: Cells, noise: float, wide: float = 1.0, of: tuple[Workload, ...] = ()) -> tuple[Ranked, ...]:
    """One class; of two that are equal EEVDF comes first, then the first by name. `wide`: see `wider`."""
    names = tuple(sorted({name for row in blocks.values() for name in row}, key=lambda name: (name != EEVDF, name)))
    found = fit(blocks, names, noise)
    level = statistics.fmean(
        value - float(found.gains[names.index(name)]) for row in blocks.values() for name, value in row.items()
    )
    ranked = [_ranked(name, blocks, level, found, wide, of) for name in names]
    return tuple(sorted(ranked, key=lambda one: -round(one.mean, 9)))


def fit(
    blocks: Cells,
    names: Sequence[SchedulerName],
    noise: float,
    expected: Mapping[SchedulerName, Expected] | None = None,
) -> Fit:
    """Weigh what was played against what was `expected` (of the others: nothing, see WIDE). `noise`: of a cell.

    Normal errors; a block's own level is unknown, so that a block with one cell says nothing.
    """
    place = {name: number for number, name in enumerate(names)}
    before = [(expected or {}).get(name, Expected()) for name in names]
    precision = np.diag([1.0 / one.error**2 for one in before])
    pull = np.array([one.gain / one.error**2 for one in before])
    for row in blocks.values():
        chosen = [place[name] for name in row if name in place]
        if len(chosen) < 2:
            continue
        values = np.array([value for name, value in row.items() if name in place])
        centred = np.eye(len(chosen)) - 1.0 / len(chosen)
        precision[np.ix_(chosen, chosen)] += centred / noise**2
        pull[chosen] += (values - values.mean()) / noise**2
    covariance = np.linalg.inv(precision)
    return Fit(names=tuple(names), gains=covariance @ pull, covariance=covariance)


def spread(classes: Iterable[Cells]) -> float:
    """Standard deviation of a score within its block, pooled; at least SCORE_FLOOR, NOISE_FIRST of too few cells."""
    squares, freedom = _squares(classes)
    return max(SCORE_FLOOR, math.sqrt(squares / freedom)) if freedom > 0 else NOISE_FIRST


def wider(classes: Iterable[Cells]) -> float:
    """By how much errors by `spread` are too small for 95 %: two quiet blocks are not known to be quiet (t)."""
    _, freedom = _squares(classes)
    return float(stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975)) if freedom > 0 else 1.0


def _squares(classes: Iterable[Cells]) -> tuple[float, int]:
    """The sum of squares within blocks, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for blocks in classes:
        names = sorted({name for row in blocks.values() for name in row})
        gains = dict(zip(names, fit(blocks, names, NOISE_FIRST).gains, strict=True))
        for row in blocks.values():
            rest = [value - float(gains[name]) for name, value in row.items()]
            middle = statistics.fmean(rest)
            squares += math.fsum((value - middle) ** 2 for value in rest)
        freedom += sum(len(row) for row in blocks.values()) - len(blocks) - len(names) + 1
    return squares, freedom


def to_classes(rankings: Mapping[Workload, Sequence[Ranked]], efficient: Iterable[str] = ()) -> dict[str, list[Entry]]:
    """As a table's classes; EEVDF is always among them, played or not. `efficient` are for battery saver, too."""
    frugal = set(efficient)
    found = {}
    for label, ranked in rankings.items():
        entries = [_entry(one, one.name in frugal) for one in ranked]
        if not any(one.name == EEVDF for one in ranked):
            entries.append(Entry(scheduler=EEVDF, why="when none of the others is to be had; not played"))
        found[str(label)] = entries
    return found


def words(one: Ranked) -> str:
    """Why it stands where it stands."""
    between = "" if one.low is None else f" ({one.low:.3f} to {one.high:.3f})"
    text = f"score {one.mean:.3f}{between} in {one.runs} run{'s' if one.runs != 1 else ''}"
    if one.gain is not None:
        between = "" if one.gain.low is None else f" ({one.gain.low:+.3f} to {one.gain.high:+.3f})"
        text = f"{text}, {one.gain.mean:+.3f}{between} against {EEVDF}"
    return f"{text}; taken from {', '.join(one.of)}" if one.of else text


def _entry(one: Ranked, frugal: bool) -> Entry:
    return Entry(
        scheduler=one.name.bare,
        mode=one.name.mode,
        why=words(one),
        efficient=frugal,
        score=rounded(one.mean),
        low=rounded(one.low),
        high=rounded(one.high),
        error=None if one.error is None else round(one.error, 5),
        runs=one.runs,
    )


def rounded(value: float | None) -> float | None:
    """As a table has it. An interval of a score ends where scores end."""
    return None if value is None else round(min(1.0, max(0.0, value)), 4)


def _ranked(
    name: SchedulerName, blocks: Cells, level: float, found: Fit, wide: float, of: tuple[Workload, ...]
) -> Ranked:
    mean = level + float(found.gains[found.names.index(name)])
    own = {block: row[name] for block, row in blocks.items() if name in row}
    test = paired(list(own.values()), SCORE_FLOOR)
    half = None if test is None or test.low is None else test.mean - test.low
    beside = [row[name] - row[EEVDF] for row in blocks.values() if name in row and EEVDF in row and name != EEVDF]
    return Ranked(
        name=name,
        scores=tuple(own.values()),
        blocks=tuple(own),
        mean=mean,
        low=None if half is None else mean - half,
        high=None if half is None else mean + half,
        gain=paired(beside, SCORE_FLOOR),
        error=wide * found.difference(name, EEVDF)[1] if beside else None,
        of=of,
    )


def _rivals(blocks: Cells) -> int:
    return len({name for row in blocks.values() for name in row})


def _holding(labels: Iterable[Workload]) -> dict[Workload, tuple[Workload, ...]]:
    """Application -> the pairs among `labels` with it."""
    found: dict[Workload, list[Workload]] = defaultdict(list)
    known = {one.label: one for one in SCENARIOS}
    for label in labels:
        scenario = known[label]
        if scenario.interactive and scenario.background:
            for part in (scenario.interactive, scenario.background):
                found[Workload(part)].append(label)
    return {part: tuple(pairs) for part, pairs in found.items()}
