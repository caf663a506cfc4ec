# SPDX-License-Identifier: GPL-2.0-only
"""All who choose, one beside another: tables, one scheduler always, scx_loader's rule, profiles by program, a die.

Pure: rounds in, a line for each chooser out. Most choosers need not be played, since whom they would have in force was.
Tables choose by one half of the rounds and are judged by the other; the rest know no rounds and are judged by all.
Agents and rules that were played are judged by their own rounds.

scx_loader's rule has scx_lavd in force where a CPU is above 90 % for more than 5 s (`calibration.controllers.loader`):
here in cells in which EEVDF's busiest CPU is that busy over its windows. Profiles are falcond's: its desktop profiles
say no scheduler for every game that was read, its handheld ones scx_lavd (falcond-profiles of falcond 2.0.12).
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from calibration.controllers.columns import is_controller
from calibration.oracle import choices
from calibration.oracle.choices import OWN, Cell, Estimate, Gains, Judged, Rule
from calibration.oracle.rounds import Round
from calibration.paired import LEVEL, holm, paired

LAVD = "scx_lavd"
BUSY_PCT = 90.0
"""Of scx_loader's rule."""
WORSE_POINTS = 2.0
"""A round that is behind by more, in hundredths of the score, is worse; as in docs/evaluation.md."""

_FLOOR_POINTS = 0.1  # as in choices: two rounds of a score that has reached its end are equal

Names: TypeAlias = Mapping[Cell, tuple[str | None, str | None]]
"""Who is in force in the two halves of a cell's rounds."""

Values: TypeAlias = Mapping[Cell, Sequence[float]]
"""Of each round, in points (hundredths of the score) or per cent above the kernel's own."""


TABLES: Mapping[Rule, str] = {
    Rule.ORACLE: "a table by class and machine",
    Rule.CLASS: "a table by class",
    Rule.ELSEWHERE: "a table by class, of other machines",
    Rule.FRONT: "a table by what the person looks at",
    Rule.STATIC: "the best single scheduler",
}
LOADER_RULE, PROFILES = "scx_loader's rule", "falcond's profiles of a handheld"
NOISE = "EEVDF against itself (noise)"
_OURS = (TABLES[Rule.ORACLE], TABLES[Rule.CLASS])
_MOST_LOSSES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Chooser:
    """What one takes, round by round. `cells`: in which it would have had somebody in force. `one`: the same scheduler
    in all rounds that choose alike, so that rounds can be tested."""

    who: str
    cells: int
    leads: Values  # points
    gains: Values  # per cent
    one: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A cell in which a chooser is behind the kernel's own, mean in per cent; `sure` as of `Line.worse`."""

    who: str
    cell: Cell
    pct: float
    sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How one chooser fares against the kernel's own.

    `worse` and `better` are cells in which it is so for sure (t test of rounds at 5 %, Holm over its cells), of those
    that are `judged`; None where rounds are of several schedulers. `lacking` are cells in which whom it chooses was not
    played: they count nowhere.
    """

    who: str
    cells: int
    lacking: int
    rounds: int
    behind_pct: float  # of rounds: by more than WORSE_POINTS
    judged: int | None
    worse: int | None
    better: int | None
    least: tuple[Cell, float]  # its worst cell, mean gain in per cent
    gain: Estimate | None


def points(rows: Sequence[Round]) -> Gains:
    """As `choices.gains`, in hundredths of the score."""
    found: dict[Cell, dict[str, dict[tuple[int, int], float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        lead = lead_points(row)
        if lead is not None and not row.against_itself and not row.decides:
            found[row.machine, row.label][row.scheduler][row.seed, row.round] = lead
    return found


def lead_points(row: Round) -> float | None:
    """Of one round, hundredths of the score above the kernel's own."""
    return None if row.score is None or row.own_score is None else 100.0 * (row.score - row.own_score)


def busiest(rows: Sequence[Round]) -> dict[Cell, float]:
    """How busy the busiest CPU is under the kernel's own, in per cent, where it was measured."""
    found: dict[Cell, list[float]] = defaultdict(list)
    for row in rows:
        if row.own_busiest_pct is not None:
            found[row.machine, row.label].append(row.own_busiest_pct)
    return {cell: statistics.fmean(values) for cell, values in found.items()}


def taken(found: Gains, names: Names) -> dict[Cell, list[float]]:
    """What `names` take, round by round; cells in which one of them was not played are left out."""
    values: dict[Cell, list[float]] = {}
    for cell, pair in names.items():
        known = found.get(cell, {})
        every = {key: 0.0 for each in known.values() for key in each}
        if not known or any(name != OWN and name not in known for name in pair):
            continue
        sides = [every if name == OWN else known[name or OWN] for name in pair]
        values[cell] = [each[key] for place, each in enumerate(sides) for key in sorted(choices.halves(each)[place])]
    return values


def always(found: Gains, choose: Callable[[Cell], str | None]) -> Names:
    """A chooser that knows no rounds."""
    return {cell: (choose(cell), choose(cell)) for cell in found}


def loader_rule(busy: Mapping[Cell, float]) -> Callable[[Cell], str | None]:
    """scx_loader's; None where it is not known how busy the CPUs are."""

    def choose(cell: Cell) -> str | None:
        return None if cell not in busy else LAVD if busy[cell] > BUSY_PCT else OWN

    return choose


def profile(cell: Cell) -> str:
    """falcond's on a handheld: scx_lavd for games. On a desktop it is the kernel's own everywhere."""
    return LAVD if cell[1].partition("+")[0] == "game" else OWN


def choosers(rows: Sequence[Round]) -> list[Chooser]:
    """All of whom something is known: who was played, tables, rivals, each scheduler, a die, and the noise."""
    gains, leads = choices.gains(rows), points(rows)
    fixed: list[tuple[str, Names]] = [(words, choices.chosen(gains, rule)) for rule, words in TABLES.items()]
    fixed += [(LOADER_RULE, always(gains, loader_rule(busiest(rows)))), (PROFILES, always(gains, profile))]
    schedulers = sorted({name for known in gains.values() for name in known})
    fixed += [(f"always {name}", always(gains, _this(name))) for name in schedulers]
    found = [played(rows, name) for name in sorted({row.scheduler for row in rows if row.decides})]
    found += [
        Chooser(who=who, cells=len(gains), leads=taken(leads, names), gains=taken(gains, names)) for who, names in fixed
    ]
    found.append(Chooser(who="a die", cells=len(gains), leads=_die(leads), gains=_die(gains), one=False))
    found.append(played(rows, OWN))
    return [one for one in found if one.leads]


def line(one: Chooser, judged: Judged) -> Line:
    """How it fares."""
    means = {cell: statistics.fmean(each) for cell, each in one.gains.items()}
    least = min(means, key=lambda cell: means[cell])
    told = signs(one.leads, judged) if one.one else None
    return Line(
        who=one.who,
        cells=len(one.leads),
        lacking=one.cells - len(one.leads),
        rounds=sum(len(each) for each in one.leads.values()),
        behind_pct=behind_pct(one.leads),
        judged=None if told is None else len(told),
        worse=None if told is None else sum(sign < 0 for sign in told.values()),
        better=None if told is None else sum(sign > 0 for sign in told.values()),
        least=(least, means[least]),
        gain=choices.over_scenarios(means),
    )


def losses(found: Sequence[Chooser], judged: Judged, most: int = _MOST_LOSSES) -> list[Loss]:
    """Where choosing loses most: of agents that were played, and of the tables by class."""
    ours = [one for one in found if one.who in _OURS or is_controller(one.who)]
    told = {one.who: signs(one.leads, judged) for one in ours}
    every = [
        Loss(who=one.who, cell=cell, pct=mean, sure=told[one.who].get(cell) == -1)
        for one in ours
        for cell, each in one.gains.items()
        if (mean := statistics.fmean(each)) < 0.0
    ]
    return sorted(every, key=lambda loss: (not loss.sure, loss.pct))[:most]


def _this(name: str) -> Callable[[Cell], str | None]:
    return lambda _cell: name


def played(rows: Sequence[Round], name: str) -> Chooser:
    """Who was played itself; the kernel's own is its block between the two that all are compared with."""
    leads: dict[Cell, list[float]] = defaultdict(list)
    gained: dict[Cell, list[float]] = defaultdict(list)
    for row in rows:
        lead, gain = lead_points(row), choices.gain(row, choices.Measure.SCORE)
        if row.scheduler == name and lead is not None and gain is not None:
            leads[row.machine, row.label].append(lead)
            gained[row.machine, row.label].append(gain)
    who = NOISE if name == OWN else name
    return Chooser(who=who, cells=len(leads), leads=dict(leads), gains=dict(gained))


def signs(values: Values, judged: Judged) -> dict[Cell, int]:
    """1 of a cell that is better for sure, -1 of one that is worse, 0 of others; cells with too few rounds lack."""
    enough = {cell: each for cell, each in values.items() if judged(cell[1], len(each))}
    tests = {cell: test for cell, each in enough.items() if (test := paired(each, _FLOOR_POINTS)) is not None}
    known = {cell: test for cell, test in tests.items() if test.p is not None}
    adjusted = holm([test.p or 0.0 for test in known.values()])
    return {
        cell: (1 if test.mean > 0.0 else -1) if p < LEVEL else 0
        for (cell, test), p in zip(known.items(), adjusted, strict=True)
    }


def behind_pct(values: Values) -> float:
    """Of rounds, in points: those that are behind by more than WORSE_POINTS, per cent."""
    every = [value for each in values.values() for value in each]
    return 100.0 * sum(value < -WORSE_POINTS for value in every) / len(every)


def _die(found: Gains) -> dict[Cell, list[float]]:
    """A scheduler drawn for each round: the rounds of all, and as many of the kernel's own as a scheduler has."""
    values = {}
    for cell, known in found.items():
        every = [value for each in known.values() for value in each.values()]
        values[cell] = every + [0.0] * round(len(every) / len(known)) if known else []
    return {cell: each for cell, each in values.items() if each}
