# SPDX-License-Identifier: GPL-2.0-only
"""What is there to gain by choosing a scheduler, and by which rule of choice? Pure: rounds in, estimates out.

A gain is of one round: 2 (b - a) / (a + b) in per cent, turned so that more is better. A rule that chooses by rounds
and is judged by the same profits from their noise. So rounds are in two halves; a rule chooses by one and is judged by
the other, and then the other way round. Halves are of seeds, where a scenario has several, else of rounds. The kernel's
own is one of those that are chosen from; its gain is 0. Intervals are Student's t: of one machine and scenario over
rounds, of many over scenarios, since all machines play a scenario with the same draw.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from scipy import special

from asa.core.decision import EEVDF
from calibration.oracle.rounds import Round
from calibration.switchback.figures import change_pct

OWN = str(EEVDF)
PAYS_PCT = 3.0
"""A gain that is worth a switch; the issue of this measurement sets it."""

_LEVEL = 0.05
_FEWEST = 3


class Measure(StrEnum):
    """What a gain is of: columns of rounds."""

    SCORE = "score"
    WAIT = "wait"
    RATE = "rate"
    POWER = "power_w"


_SMALLER = (Measure.WAIT, Measure.POWER)


class Rule(StrEnum):
    """How schedulers are chosen."""

    HINDSIGHT = "hindsight"  # the best of each machine and scenario by the rounds that it is judged by
    ORACLE = "oracle"  # the same by the other half: a table by class and machine
    CLASS = "class"  # one for a scenario, whatever the machine
    ELSEWHERE = "elsewhere"  # the same by other machines alone
    FRONT = "front"  # one for an interactive application, whatever else
    STATIC = "static"  # one for all


Cell: TypeAlias = tuple[str, str]
"""Machine and label."""

Judged: TypeAlias = Callable[[str, int], bool]
"""Can so many rounds of a scenario be judged? `calibration.oracle.enough`."""

Gains: TypeAlias = Mapping[Cell, Mapping[str, Mapping[tuple[int, int], float]]]
"""Cell -> scheduler -> (seed, round) -> gain in per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """In per cent. `low` and `high` are None of fewer than three values."""

    value: float
    low: float | None
    high: float | None
    count: int

    @property
    def words(self) -> str:
        """`+3.1 (1.0 to 5.2)`."""
        between = "" if self.low is None else f" ({self.low:+.1f} to {self.high:+.1f})"
        return f"{self.value:+.1f}{between}"


def estimate(values: Sequence[float]) -> Estimate | None:
    """Mean and interval; None of nothing."""
    if not values:
        return None
    mean = statistics.fmean(values)
    if len(values) < _FEWEST:
        return Estimate(value=mean, low=None, high=None, count=len(values))
    t = float(special.stdtrit(len(values) - 1, 1.0 - _LEVEL / 2.0))
    half = t * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(value=mean, low=mean - half, high=mean + half, count=len(values))


def gain(row: Round, measure: Measure) -> float | None:
    """Of one round."""
    value, own = getattr(row, measure), getattr(row, f"own_{measure}")
    if value is None or own is None:
        return None
    change = change_pct(own, value)
    return -change if measure in _SMALLER else change


def gains(rows: Sequence[Round], measure: Measure = Measure.SCORE) -> Gains:
    """Of all schedulers but the kernel's own; agents and rules are none that can be chosen."""
    found: dict[Cell, dict[str, dict[tuple[int, int], float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        value = gain(row, measure)
        if value is not None and not row.against_itself and not row.decides:
            found[row.machine, row.label][row.scheduler][row.seed, row.round] = value
    return found


def halves(rounds: Collection[tuple[int, int]]) -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
    """Of one scheduler's (seed, round): every other seed, where there are several, else every other round."""
    seeds = sorted({seed for seed, _ in rounds})
    first = frozenset(
        one for one in rounds if (seeds.index(one[0]) if len(seeds) > 1 else sorted(rounds).index(one)) % 2 == 0
    )
    return first, frozenset(rounds) - first


Half: TypeAlias = Mapping[str, float]
"""Scheduler -> its mean gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """A cell in two halves, each scheduler's rounds by itself; who has no round in one of them is in neither."""

    cell: Cell
    sides: tuple[Half, Half]
    whole: Half


def _split(cell: Cell, known: Mapping[str, Mapping[tuple[int, int], float]]) -> _Split:
    sides: tuple[dict[str, float], dict[str, float]] = {}, {}
    for name, values in known.items():
        parts = [[values[key] for key in half] for half in halves(values)]
        if all(parts):
            for side, part in zip(sides, parts, strict=True):
                side[name] = statistics.fmean(part)
    means = {name: statistics.fmean(values.values()) for name, values in known.items() if name in sides[0]}
    return _Split(cell=cell, sides=sides, whole=means)


def best(means: Mapping[str, float]) -> str:
    """The one with the largest gain; the kernel's own where none is above 0."""
    return max(sorted(means), key=lambda name: means[name], default=OWN) if max(means.values(), default=0) > 0 else OWN


def _of(means: Half, name: str) -> float:
    return 0.0 if name == OWN else means[name]


def _shared(group: Sequence[Half]) -> dict[str, float]:
    """Mean gains over cells of who played in all of them."""
    names = set.intersection(*(set(one) for one in group)) if group else set()
    return {name: statistics.fmean(one[name] for one in group) for name in names}


_GROUPS: Mapping[Rule, Callable[[Cell], object]] = {
    Rule.ORACLE: lambda cell: cell,
    Rule.CLASS: lambda cell: cell[1],
    Rule.FRONT: lambda cell: cell[1].partition("+")[0],
    Rule.STATIC: lambda _cell: None,
}


def judged(chosen_by: Gains, judged_by: Gains, rule: Rule) -> dict[Cell, float]:
    """What a rule gains in each cell. It chooses by the one and is judged by the other: the same, or another measure.

    Cells that no rule can choose for, or whose choice was not measured, are left out.
    """
    by = {cell: _split(cell, known) for cell, known in chosen_by.items()}
    of = {cell: _split(cell, known) for cell, known in judged_by.items()}
    cells = [cell for cell in by if cell in of and by[cell].sides[0]]
    if rule is Rule.HINDSIGHT:
        names = {cell: best(by[cell].whole) for cell in cells}
        return {cell: _of(of[cell].whole, name) for cell, name in names.items() if name in {OWN, *of[cell].whole}}
    found: dict[Cell, list[float]] = defaultdict(list)
    for choosing, judging in ((0, 1), (1, 0)):
        for cell in cells:
            name = _choice(rule, cell, {other: by[other].sides[choosing] for other in cells})
            if name is not None and name in {OWN, *of[cell].sides[judging]}:
                found[cell].append(_of(of[cell].sides[judging], name))
    return {cell: statistics.fmean(values) for cell, values in found.items()}


def _choice(rule: Rule, cell: Cell, means: Mapping[Cell, Half]) -> str | None:
    if rule is Rule.ELSEWHERE:
        group = [one for other, one in means.items() if other[1] == cell[1] and other[0] != cell[0]]
    else:
        key = _GROUPS[rule]
        group = [one for other, one in means.items() if key(other) == key(cell)]
    return best(_shared(group)) if group else None


def chosen(found: Gains, rule: Rule) -> dict[Cell, tuple[str | None, str | None]]:
    """Who a rule has in force in the first and in the second half of each cell's rounds; None where it has nobody.

    Of hindsight both are the best of all rounds.
    """
    by = {cell: _split(cell, known) for cell, known in found.items()}
    cells = [cell for cell in by if by[cell].sides[0]]
    if rule is Rule.HINDSIGHT:
        return {cell: (best(by[cell].whole), best(by[cell].whole)) for cell in cells}
    first, second = (
        {cell: _choice(rule, cell, {other: by[other].sides[choosing] for other in cells}) for cell in cells}
        for choosing in (1, 0)
    )
    return {cell: (first[cell], second[cell]) for cell in cells}


def over_scenarios(found: Mapping[Cell, float]) -> Estimate | None:
    """The mean over all cells, its interval over scenarios: what machines play is the same draw."""
    by_label: dict[str, list[float]] = defaultdict(list)
    for (_, label), value in found.items():
        by_label[label].append(value)
    return estimate([statistics.fmean(values) for values in by_label.values()])


def difference(one: Mapping[Cell, float], other: Mapping[Cell, float]) -> dict[Cell, float]:
    """In the cells that both have."""
    return {cell: value - other[cell] for cell, value in one.items() if cell in other}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Of one scheduler over all cells. `better` and `worse`: of the cells `judged`, Holm over all and schedulers."""

    scheduler: str
    cells: int
    judged: int
    best: int  # in hindsight
    better: int
    worse: int
    mean: Estimate | None
    least: tuple[Cell, float]


def standings(found: Gains, judged: Judged) -> list[Standing]:
    """The one that is best in the most cells first. Cells with too few rounds are no test."""
    from calibration.paired import holm, paired

    firsts = Counter(
        best({name: statistics.fmean(values.values()) for name, values in known.items()}) for known in found.values()
    )
    tests = [
        (name, cell, test)
        for cell, known in found.items()
        for name, values in known.items()
        if judged(cell[1], len(values))
        if (test := paired(list(values.values()), _FLOOR_PCT)) is not None and test.p is not None
    ]
    tested = Counter(name for name, *_ in tests)
    adjusted = holm([test.p or 0.0 for *_, test in tests])
    signs: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (name, _, test), p in zip(tests, adjusted, strict=True):
        if p < _LEVEL:
            signs[name][test.mean < 0.0] += 1
    rows = []
    for name in sorted({name for known in found.values() for name in known}):
        means = {cell: statistics.fmean(known[name].values()) for cell, known in found.items() if name in known}
        least = min(means, key=lambda cell: means[cell])
        rows.append(
            Standing(
                scheduler=name,
                cells=len(means),
                judged=tested[name],
                best=firsts[name],
                better=signs[name][0],
                worse=signs[name][1],
                mean=over_scenarios(means),
                least=(least, means[least]),
            )
        )
    return sorted(rows, key=lambda one: (-one.best, one.scheduler))


_FLOOR_PCT = 0.1  # two rounds of a score that has reached its end are equal


def cell_gain(known: Mapping[str, Mapping[tuple[int, int], float]]) -> tuple[str, Estimate] | None:
    """Who is chosen most in a cell, and what the choice gains, over rounds; None where nothing can be judged.

    Each round is judged with the scheduler that the other half chooses.
    """
    split = _split(("", ""), known)
    if not split.sides[0]:
        return None
    every = {one: 0.0 for values in known.values() for one in values}
    values: list[float] = []
    for place in (0, 1):
        judged_by = known.get(best(split.sides[1 - place]), every)
        values += [judged_by[key] for key in halves(judged_by)[place]]
    found = estimate(values)
    return None if found is None else (best(split.whole), found)


def hopeless(found: Gains, judged: Judged) -> list[str]:
    """Labels in which no scheduler can be better than the kernel's own by PAYS_PCT: the whole interval of each one's
    mean over machines and rounds is below it. Pairs with too few rounds are not told."""
    by_label: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (_, label), known in found.items():
        for name, values in known.items():
            by_label[label][name] += values.values()
    told = []
    for label, known_names in by_label.items():
        estimates = [estimate(values) for values in known_names.values() if judged(label, len(values))]
        if len(estimates) == len(known_names) and all(
            one is not None and one.high is not None and one.high < PAYS_PCT for one in estimates
        ):
            told.append(label)
    return sorted(told)
