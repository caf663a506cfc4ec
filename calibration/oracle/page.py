# SPDX-License-Identifier: GPL-2.0-only
"""docs/oracle.md: how much is there to gain by choosing schedulers? Takes rounds, makes Markdown; writes nothing."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from asa.core.errors import ModelError
from calibration.goals import markdown
from calibration.oracle import choices, mapping, rivals, shapes
from calibration.oracle.choices import OWN, PAYS_PCT, Cell, Estimate, Gains, Measure, Rule
from calibration.oracle.enough import Enough, enough, rounds_of
from calibration.oracle.rivals import Chooser, Line
from calibration.oracle.rounds import Round
from calibration.switchback.intensity import HIGH, LOW, tells

_CELLS = ("cells", "lacking")

RULES: Mapping[Rule, str] = {
    Rule.HINDSIGHT: "the best of each machine and scenario, judged by the rounds that it was chosen by (too good)",
    Rule.ORACLE: "Static-Oracle: the same, judged by the other half; a table by class and shape can take this",
    Rule.CLASS: "a table by class, for all machines",
    Rule.ELSEWHERE: "a table by class, made on other machines alone",
    Rule.FRONT: "a table by what the person looks at",
    Rule.STATIC: "one scheduler for all",
}
MEASURES: Mapping[Measure, str] = {
    Measure.SCORE: "score",
    Measure.WAIT: "wait",
    Measure.RATE: "throughput of the load",
    Measure.POWER: "power",
}


_HOW = """\
## How

- Each run is one guest with one scenario, started once; schedulers take turns in it ([switchback.md](switchback.md)).
- A gain is of one round: 2 (b - a) / (a + b) in per cent. a is the mean of EEVDF's first and last block of that round.
- The wait is the interactive application's main metric: typing, frames, or the time of a block of sound.
- A rule chooses by one half of the rounds and is judged by the other, then the other way round.
- The halves are seeds, where a scheduler has several; else they are rounds of one seed.
- So a scheduler that was only lucky gains nothing. With few rounds the choice is poor, and the true oracle is higher.
- Intervals hold 95 %: of a cell over its rounds, else over scenarios.
- Power is a model's, not a measurement ([scoring.md](scoring.md#energy)).
- A guest has no caches that are slower or faster, and its loads are stand-ins ([lab.md](lab.md)).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How the page came about. `played`: step, what it tells, runs that are kept, runs of the plan."""

    command: str
    version: str
    when_s: float
    played: Sequence[tuple[str, str, int, int]]
    pictures: Sequence[tuple[str, str]]  # file, what it shows


def scored_by(rows: Sequence[Round]) -> dict[Measure, Gains]:
    """The gains of all measures."""
    return {measure: choices.gains(rows, measure) for measure in Measure}


def rules(found: Mapping[Measure, Gains]) -> list[tuple[Rule, dict[str, Estimate | None]]]:
    """What each rule gains in each measure; all choose by the score."""
    return [
        (
            rule,
            {
                words: choices.over_scenarios(choices.judged(found[Measure.SCORE], found[measure], rule))
                for measure, words in MEASURES.items()
            },
        )
        for rule in Rule
    ]


def document(rows: Sequence[Round], made: Made) -> str:
    """The page."""
    found = scored_by(rows)
    lines = ["# How much is there to gain?", "", f"Written by `{made.command}`; do not edit.", ""]
    lines += _head(rows, made)
    if rows:
        lines += [f"![{what}]({file})\n" for file, what in made.pictures]
        choosers, needed = rivals.choosers(rows), enough(rows)
        lines += [*_losses(choosers, needed), *_needed(rows, needed), *_answer(rows, found, needed)]
        lines += [*_beside(choosers, needed), *_rules(found), *_by_its_own(found), *_schedulers(found, needed)]
        lines += [*_hopeless(found, needed), *_cells(rows, found, needed), *_safest(rows)]
    return "\n".join([*lines, _HOW])


def _head(rows: Sequence[Round], made: Made) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made.when_s))
    machines = sorted({row.machine for row in rows})
    shaped = "; ".join(f"{name}: {shapes.words(shapes.machine(name))}" for name in machines)
    clocks = ", ".join(sorted({f"{row.clock}, {row.tick_hz} Hz" for row in rows}))
    yield f"- when: {when}, asa {made.version}"
    yield f"- runs: {len({row.run for row in rows})}; blocks of schedulers beside EEVDF's: {len(rows)}"
    if rows:
        yield f"- machines: {shaped}"
        yield f"- clock: {clocks}"
    yield ""
    yield "## What is played"
    yield ""
    yield "The plan is `asa lab bench matrix --plan`. What is not played says nothing below."
    yield ""
    yield from markdown(("step", "what it tells", "runs kept", "runs planned"), made.played)
    yield ""


def _needed(rows: Sequence[Round], needed: Enough) -> Iterator[str]:
    yield "## How many rounds tell"
    yield ""
    yield f"{needed.words} {rounds_of(rows)} rounds are kept, of all machines and scenarios."
    yield "A scenario on one machine needs the rounds of its own scatter. What has fewer is in no verdict of this page."
    yield "It is neither better nor worse for sure, has no best, and is in no mapping table."
    yield ""


def _losses(found: Sequence[Chooser], needed: Enough) -> Iterator[str]:
    yield "## Where choosing loses"
    yield ""
    yield "The worst cells of agents that were played, and of tables by class. Those that are sure come first."
    yield ""
    told = [
        (one.who, *one.cell, f"{one.pct:+.1f}", "yes" if one.sure else "") for one in rivals.losses(found, needed.cell)
    ]
    if told:
        yield from markdown(("who chooses", "machine", "scenario", "above EEVDF, %", "sure"), told)
    else:
        yield "In no cell is one behind EEVDF."
    yield ""


def _beside(found: Sequence[Chooser], needed: Enough) -> Iterator[str]:
    yield "## Who chooses best"
    yield ""
    yield "All against EEVDF in the same rounds. Agents were played themselves; of others, whom they choose."
    yield f"Behind is a round whose score is lower by more than {rivals.WORSE_POINTS:g} points. EEVDF's row is noise."
    yield "A cell is judged where its rounds are enough, and worse or better where that is sure."
    yield "Cells lack in which whom it chooses was not played."
    yield ""
    head = ("who chooses", "rounds behind, %", "judged", "worse", "its worst cell", "better", "mean gain, %", *_CELLS)
    yield from markdown(head, [_fares(rivals.line(one, needed.cell)) for one in found])
    yield ""
    yield "scx_loader's rule: scx_lavd where a CPU is above 90 %, by EEVDF's windows. falcond on a desktop is EEVDF."
    yield ""


def _answer(rows: Sequence[Round], found: Mapping[Measure, Gains], needed: Enough) -> Iterator[str]:
    score = found[Measure.SCORE]
    oracle, static = (choices.judged(score, score, rule) for rule in (Rule.ORACLE, Rule.STATIC))
    over = choices.over_scenarios(oracle)
    beyond = choices.over_scenarios(choices.difference(oracle, static))
    yield "## The answer"
    yield ""
    try:
        needed.check(rounds_of(rows))
    except ModelError as error:
        yield f"Not judged: {error}."
        yield ""
        return
    if over is None or beyond is None:
        yield "Not known: no machine and scenario has two rounds of a scheduler."
    else:
        yield f"- Static-Oracle's score is above EEVDF's by {over.words} %."
        yield f"- It is above that of the best single scheduler by {beyond.words} points of per cent."
        yield f"- Both are of {len(oracle)} pairs of machine and scenario, their intervals over {over.count} scenarios."
    yield ""


def _rules(found: Mapping[Measure, Gains]) -> Iterator[str]:
    yield "## What each rule of choice takes"
    yield ""
    yield "Per cent above EEVDF. More is better in each column: a shorter wait, a higher rate, less power."
    yield "All rules choose by the score."
    yield ""
    made = rules(found)
    head = ("rule", *MEASURES.values())
    yield from markdown(head, [(RULES[rule], *(_words(told[one]) for one in MEASURES.values())) for rule, told in made])
    yield ""


def _by_its_own(found: Mapping[Measure, Gains]) -> Iterator[str]:
    yield "What Static-Oracle takes where it chooses by the measure itself:"
    yield ""
    told = [
        (words, _words(choices.over_scenarios(choices.judged(found[one], found[one], Rule.ORACLE))))
        for one, words in MEASURES.items()
    ]
    yield from markdown(("chosen and judged by", "above EEVDF, %"), told)
    yield ""


def _schedulers(found: Mapping[Measure, Gains], needed: Enough) -> Iterator[str]:
    yield "## Which schedulers are ever best"
    yield ""
    yield "A cell is a machine and a scenario."
    yield "Better and worse are for sure: a t test of rounds at 5 %, Holm's correction over all cells and schedulers."
    yield ""
    head = ("scheduler", "cells", "best in hindsight", "judged", "better", "worse", "mean gain, %", "its worst cell")
    yield from markdown(
        head,
        [
            (one.scheduler, one.cells, one.best, one.judged, one.better, one.worse, _words(one.mean), _least(one.least))
            for one in choices.standings(found[Measure.SCORE], needed.cell)
        ],
    )
    yield ""


def _hopeless(found: Mapping[Measure, Gains], needed: Enough) -> Iterator[str]:
    labels = choices.hopeless(found[Measure.SCORE], needed.cell)
    yield f"## Where routing cannot pay by {PAYS_PCT:g} %"
    yield ""
    yield f"In these scenarios no scheduler's score is above EEVDF's by {PAYS_PCT:g} %: each interval is below that."
    yield ""
    yield ", ".join(labels) if labels else "None is sure."
    yield ""


def _cells(rows: Sequence[Round], found: Mapping[Measure, Gains], needed: Enough) -> Iterator[str]:
    own: dict[Cell, list[float]] = defaultdict(list)
    for row in rows:
        if row.own_score is not None:
            own[row.machine, row.label].append(row.own_score)
    yield "## Each machine and scenario"
    yield ""
    yield f"EEVDF tells nobody apart where it scores less than {LOW:g} or more than {HIGH:g}; such are marked by *."
    yield ""
    told = []
    for cell in sorted(own):
        score = statistics.fmean(own[cell])
        mark = "" if tells(score) else " *"
        counts = [len(values) for values in found[Measure.SCORE].get(cell, {}).values()]
        of = f"{min(counts, default=0)} of {needed.of(cell[1]) or 'unknown'}"
        told.append(
            (*cell, f"{score:.3f}{mark}", of, *_cell(cell, found, needed.cell(cell[1], min(counts, default=0))))
        )
    head = ("machine", "scenario", "EEVDF's score", "rounds", "best in hindsight", "oracle: score, %", "wait, %")
    yield from markdown((*head, "throughput, %"), told)
    yield ""
    yield "Each column's oracle chooses by its own measure. Rounds are those of the scheduler with the fewest, of those"
    yield "that a difference needs. Where they are fewer no best is named."
    yield ""


def _cell(cell: Cell, found: Mapping[Measure, Gains], judged: bool) -> Iterator[str]:
    """Who is best, where that can be judged, and what choosing takes in each measure."""
    each = [choices.cell_gain(found[one].get(cell, {})) for one in (Measure.SCORE, Measure.WAIT, Measure.RATE)]
    yield each[0][0] if each[0] and judged else ""
    yield from (_words(one[1]) if one else "" for one in each)


def _safest(rows: Sequence[Round]) -> Iterator[str]:
    chosen = mapping.default_classes(mapping.leads(rows))
    yield "## The safest default"
    yield ""
    yield "Who is worse for sure on no machine, and whose smallest lead over machines is the largest."
    yield ""
    told = [(label, name, f"{100.0 * lead:+.1f}") for label, (name, lead) in chosen.items() if name != OWN]
    if told:
        yield from markdown(("scenario", "scheduler", "its smallest lead, points"), told)
        yield ""
    others = sum(name == OWN for name, _ in chosen.values())
    yield f"In {others} scenarios that is EEVDF."
    yield ""


def _least(one: tuple[Cell, float]) -> str:
    (machine, label), value = one
    return f"{label} on {machine}: {value:+.1f} %"


def _fares(one: Line) -> tuple[object, ...]:
    sure = _count(one.judged), _count(one.worse), _least(one.least), _count(one.better)
    return one.who, f"{one.behind_pct:.0f}", *sure, _words(one.gain), one.cells, one.lacking


def _count(one: int | None) -> str:
    return "" if one is None else str(one)


def _words(one: Estimate | None) -> str:
    return "" if one is None else one.words
