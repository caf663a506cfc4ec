# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation of the fleet for people (Markdown, a table for a terminal) and programs (a JSON object a figure).

Takes machines that were read, makes text. Every number comes from there; it measures nothing.
"""

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from asa.core.decision import EEVDF
from calibration import goals
from calibration.controllers.columns import AGENT
from calibration.fleet.figures import pairs as by
from calibration.fleet.figures import tables
from calibration.fleet.figures.blocks import Block, PlayedMachine, named
from calibration.fleet.figures.named import controlled, figures, latencies, phases, steady
from calibration.fleet.figures.pairs import LEAST_SCORE, MARGIN
from calibration.fleet.figures.sums import Estimate, Share
from calibration.fleet.figures.tables import Line, Loss
from calibration.fleet.figures.windows import OTHERS, Window
from calibration.goals import Figure, described, markdown
from calibration.paired import LEVEL
from calibration.switch.figures import percentile
from scenarios.conditions import said, time_of_all
from scenarios.lab.machines import fleet

_SIDES = (AGENT, by.of_column(EEVDF))
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_PAPER = {
    "inference": (1.004, 1.109, 1.329, 3.445),
    "decision": (17.305, 0.083, 0.307, 376.417),
    "total": (18.309, 1.359, 2.722, 379.540),
}
"""Milliseconds: mean, P90, P95, P99, of the paper's Table 4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """By which command a page was made, when, and what lies beside it. `notes` is Markdown that people wrote."""

    command: str
    when_s: float  # since the epoch
    version: str  # of asa
    pictures: Sequence[tuple[str, str]]  # path from the page, and what it shows
    scores: str  # path from the page, of the table of all runs' scores
    notes: str = ""
    left: Sequence[Path] = ()  # folders that were left out, since their run has not ended


def as_json(figure: Figure) -> str:
    """One line; what is not known is null."""
    return goals.as_json(figure, "low", "high", "sign", "sure", "what")


HEAD = ("figure", "value", "95 %", "goal", "met", "")
"""Of `cells`."""


def cells(figure: Figure) -> tuple[str, ...]:
    """A figure as name, value, interval, goal, met, and the words beside it."""
    name, value, *others = goals.cells(figure)
    between = "" if figure.low is None or figure.high is None else f"{figure.low:.3g} to {figure.high:.3g}"
    return name, value, between, *others


def document(machines: Sequence[PlayedMachine], windows: Sequence[Window], made: Made) -> str:
    """The whole of docs/evaluation.md."""
    found, fixed, changing = figures(machines), steady(machines), phases(machines)
    losses = tables.losses([*fixed, *changing])
    aimed = [figure for figure in found if figure.goal.bound is not None]
    others = [figure for figure in found if figure.goal.bound is None]
    text = [
        *("# The evaluation", "", "Written by `asa lab evaluate fleet --page` itself; do not edit.", ""),
        *_made(machines, made),
        "",
        *said(time_of_all((one.facts.name, one.under) for one in machines)),
        *("", "## Goals", "", *markdown(HEAD, [cells(figure) for figure in aimed])),
        *("", *described(figure.name for figure in aimed)),
        *("", "## Where it loses", "", *_losses(losses, fixed, changing)),
        *(("", "## What was tried", "", made.notes) if made.notes else ()),
        *("", "## Other figures", "", *markdown(HEAD, [cells(figure) for figure in others])),
        *("", *described(figure.name for figure in others)),
    ]
    for path, shows in made.pictures:
        text += ["", f"![{path.rpartition('/')[2]}]({path})", "", shows]
    text += ["", "## Against each", "", *_lines(tables.against(fixed), "against", "no other column was played")]
    text += ["", "## Machines", "", *_machines(machines), "", *_groups(machines)]
    text += ["", "## Scenarios", "", *_scenarios(fixed)]
    text += ["", "## Scenarios that change", "", *_scenarios(changing)]
    text += ["", *_lines(tables.against(changing), "against", "no such scenario was played")]
    text += ["", "## The agent without a part", "", *_ablations(fixed, changing)]
    text += ["", "## Energy", "", *_energy(fixed)]
    text += ["", "## All runs", "", *_distribution(fixed)]
    text += ["", "## Window of the voting", "", *_windows(windows)]
    text += ["", "## What the agent takes", "", *_latencies(fixed, changing)]
    text += ["", "## How", "", *_HOW, "", "```", *(as_json(figure) for figure in found), "```"]
    return "\n".join([*text, ""])


_HOW = (
    "- A run is a scenario played once on a machine under one column: a scheduler, or a controller that changes",
    "  schedulers while it plays (`agent`, `agent:no-...` that lacks a part, `loader-auto`, `random`). A block is a",
    "  scenario on a machine with all its repeats. Columns of one repeat play the same parameters, in random order,",
    "  those that were added to a kept run by themselves. scx_lavd waits loaded for its first start by `loader-auto`,",
    "  since its load takes a guest longer than a trial; the agent loads what it chooses.",
    "- Scores are from 0 to 1 (docs/scoring.md), from what all columns of that repeat have measured.",
    f"- A run is not worse while it is behind by no more than {MARGIN:g} (the constant and its reason:",
    "  `calibration/fleet/figures/pairs.py`). A run of the agent that failed counts as behind, and as not among the",
    "  best by its score; means leave it out. Failed is also what measured too little. A run beside which the other",
    "  column has no score is in no comparison with it: `not_worse_pct` names the number of those beside EEVDF.",
    "- Means count each block once. Improvement, gain and regret are ratios of mean scores, so that no score near zero",
    f"  counts for more; geometric means take scores below {LEAST_SCORE:g} as that.",
    "- Intervals hold 95 %. Those of shares are Wilson's and take runs for independent, which repeats of one block and",
    "  machines that play the same are not: they are too narrow. Those of means take scenarios for independent, and",
    "  machines not, since all play a scenario with the same parameters; where there is one scenario, they take the",
    "  draws of its parameters for it. They are the jackknife's with t quantiles, from three such ones on.",
    "- Tests are t tests of differences within pairs, corrected by Holm over all tests of their table; d is Cohen's d",
    "  of pairs (mean in standard deviations). A table's line is tested by its scenarios, or by the draws of the one",
    "  that it has, a block by its repeats.",
    "- Static-Oracle is the scheduler with the best mean over all repeats of a block, as in the paper: it is chosen by",
    "  the runs that it is judged in, and profits from their noise. `regret_foresight_pct` chooses it by the others.",
    "  Schedulers with fewer than half of the block's runs are not ranked; the others by the repeats that all have.",
    "- Scenarios that change are in figures and tables of their own. The score of such a run is the mean of its",
    "  phases', and a phase after the first has no warm-up: how long somebody takes to follow is in its score.",
    "- Met is judged by the value; not sure says that its interval reaches across the goal.",
    "- The agent's choice in a run is the scheduler that was in force the longest in the measured window. Schedulers",
    f"  whose means differ by no more than {by.FLOOR:g} rank the same. A choice that is not ranked in the block is not",
    "  among the best; runs of which it is not known are left out.",
)


def _made(machines: Sequence[PlayedMachine], made: Made) -> Iterator[str]:
    began = [machine.began_ns for machine in machines if machine.began_ns is not None]
    yield f"- this page: `{made.command}`, {_day(made.when_s)}, asa {made.version}"
    for command in dict.fromkeys(command for machine in machines for command in machine.commands):
        yield f"- recorded by: `{command}`"
    if began:
        hours = sum(machine.took_s for machine in machines) / 3600.0
        yield f"- recorded: {_day(min(began) / 1e9)} and later, {hours:.1f} hours of trials"
    for title, values in (
        ("seed", sorted({str(seed) for machine in machines for seed in machine.seeds})),
        ("tier", _distinct(machine.tiers for machine in machines)),
        ("kernel", _distinct(machine.kernels for machine in machines)),
        ("asa", _distinct(machine.versions for machine in machines)),
        ("programs", _distinct(one.programs for one in machines)),
    ):
        if values:
            yield f"- {title}: {', '.join(values)}"
    folders = sorted({f"`{path.parent}`" for machine in machines for path in machine.folders})
    yield f"- raw data: {', '.join(folders)}, a folder a machine"
    for path in made.left:
        yield f"- left out, since its run has not ended: `{path}`"
    if made.scores:
        yield f"- every run's score: [{made.scores}]({made.scores})"
    yield "- every figure here comes from these data by the first command, but for the window of the voting, which says"
    yield "  where it is from; the curves of the scores: docs/scoring.svg"


def _losses(losses: Sequence[Loss], fixed: Sequence[Block], changing: Sequence[Block]) -> Iterator[str]:
    played = sum(AGENT in block.runs for block in (*fixed, *changing))
    yield "Blocks in which the agent's mean is behind EEVDF's or the best scheduler's (in hindsight) by more than"
    yield f"{MARGIN:g}, or a run of it failed: {len(losses)} of {played}."
    if not losses:
        return
    yield ""
    head = ("machine", "scenario", "agent", "EEVDF", "best", "held", "why")
    yield from markdown(head, [_loss(one) for one in losses])


def _loss(one: Loss) -> tuple[str, ...]:
    best = "" if one.best is None else f"{one.best[0]} {one.best[1]:.3f}"
    scenario = named(one.block.scenario, one.block.label)
    return one.block.machine, scenario, _score(one.ours), _score(one.eevdf), best, one.chosen, one.why


def _lines(lines: Sequence[Line], first: str, none: str) -> Iterator[str]:
    if not lines:
        yield f"Not known: {none}."
        return
    head = (first, "blocks", "runs", "ahead, %", "not worse, %", "gain, %", "geometric, %", "points", "d", "p (Holm)")
    yield from markdown(head, [_line(line) for line in lines])


def _line(line: Line) -> tuple[str, ...]:
    effect = "" if line.test is None or line.test.effect is None else f"{line.test.effect:+.2f}"
    p = "" if line.adjusted is None else f"{line.adjusted:.2g}{' *' if line.adjusted < LEVEL else ''}"
    shares = (_share(line.better), _share(line.not_worse))
    means = (_estimate(line.gain), _estimate(line.geometric), _estimate(line.points))
    return (line.name, str(line.blocks), str(line.runs), *shares, *means, effect, p)


def _machines(machines: Sequence[PlayedMachine]) -> Iterator[str]:
    head = ("machine", "", "CPUs", "cores", "memory, MB", "trials", "failed", "disturbed", "note")
    rows = []
    for machine in machines:
        facts = machine.facts
        shape = [facts.sockets, facts.cores, facts.threads]
        of = f" of {machine.planned}" if machine.planned is not None else ""
        rows.append(
            (
                *(facts.name, "prototype" if facts.prototype else "unseen", str(facts.cpus)),
                facts.shape or ("" if None in shape else " x ".join(map(str, shape))),
                "" if facts.memory_mb is None else str(facts.memory_mb),
                *(f"{machine.trials}{of}", str(machine.failed), str(machine.disturbed), facts.note),
            )
        )
    yield from markdown(head, rows)
    again, ours = (sum(counts) for counts in zip(*(machine.again for machine in machines), strict=True))
    if again:
        yield ""
        yield "Played more than once, since they had failed, were disturbed, or lost their guest:"
        yield f"{again} trials, {ours} of them the agent's. What counts is the last attempt."
    known = {machine.facts.name for machine in machines}
    lacking = [one.name for one in fleet() if one.name not in known]
    if lacking:
        yield ""
        yield f"Of the fleet's {len(fleet())} machines no run is kept on {', '.join(lacking)}."


def _groups(machines: Sequence[PlayedMachine]) -> Iterator[str]:
    found = tables.groups(machines)
    yield from _lines([group.line for group in found], "against EEVDF", "the agent and EEVDF were not both played")
    if found:
        yield ""
        head = ("machine", "top-1, %", "top-3, %", "regret, %", "significantly better, %")
        rows = [
            (one.line.name, _share(one.top1), _share(one.top3), _estimate(one.regret), _share(one.significant))
            for one in found
        ]
        yield from markdown(head, rows)


def _scenarios(blocks: Sequence[Block]) -> Iterator[str]:
    names = list(dict.fromkeys((block.scenario, block.label) for block in blocks if AGENT in block.runs))
    if not names:
        yield "Not known: the agent played none."
        return
    columns = tables.columns(blocks)
    rows = []
    for scenario, label in names:
        same = [block for block in blocks if (block.scenario, block.label) == (scenario, label)]
        rows.append((named(scenario, label), *(_column(same, column) for column in columns)))
    found = [
        (named(*name), by.pairs([block for block in blocks if (block.scenario, block.label) == name], *_SIDES))
        for name in names
    ]
    yield from _lines(tables.lines(found), "against EEVDF", "the agent and EEVDF were not both played")
    yield ""
    yield "Mean scores over all machines and repeats that a column has a score of; with a star where it lacks one of"
    yield "the agent's repeats, so that it is another mean, and to be compared by pairs alone:"
    yield ""
    yield from markdown(("scenario", *columns), rows)


def _column(blocks: Sequence[Block], column: str) -> str:
    """Its mean score where it has one wherever the agent has; else with a star, since its runs are others."""
    known = [run.score for block in blocks for run in block.runs.get(column, {}).values() if run.score is not None]
    wanted = [(block, repeat) for block in blocks for repeat in block.runs.get(AGENT, {})]
    whole = all(block.score(column, repeat) is not None for block, repeat in wanted)
    return f"{statistics.fmean(known):.3f}{'' if whole else '*'}" if known else ""


def _energy(blocks: Sequence[Block]) -> Iterator[str]:
    found = tables.draws(blocks)
    if not found:
        yield "Not known: these runs were kept before it was measured."
        return
    yield "Watts of the machine in the measured window, by a model (docs/scoring.md); scores do not count them."
    yield ""
    head = ("column", "blocks", "W", "W under EEVDF", "more, %")
    rows = [
        (one.column, str(one.blocks), f"{one.watts:.2f}", f"{one.eevdf:.2f}", f"{one.more_pct:+.2f}") for one in found
    ]
    yield from markdown(head, rows)


def _ablations(fixed: Sequence[Block], changing: Sequence[Block]) -> Iterator[str]:
    yield "Each beside the whole agent: what is below zero is what the part is worth. `no-guard` tells noise unless"
    yield "`--settings` gives the agent a baseline (docs/fleet.md): without one the guard has nothing to compare with."
    yield "And `no-cost`, the agent without stage 2, tells nothing of machines whose table has no costs (`asa adapt`)."
    for which, blocks in (("stay what they are", fixed), ("change", changing)):
        yield from ("", f"In scenarios that {which}:", "")
        yield from _lines(tables.ablations(blocks), "agent", "no ablation was played")


def _distribution(blocks: Sequence[Block]) -> Iterator[str]:
    found = tables.quantiles(blocks, _QUANTILES)
    if found is None:
        yield "Not known: the agent and EEVDF were not both played."
        return
    yield "Of all runs, the agent less EEVDF, each column in its own order:"
    yield ""
    rows = [(f"{share:.0%}", f"{points:+.1f}", f"{ratio:+.1f}") for share, points, ratio in found]
    yield from markdown(("quantile", "points", "%"), rows)
    yield ""
    rows = [(f"{margin:g}", _share(ours), _share(itself)) for margin, ours, itself in tables.margins(blocks)]
    yield from markdown(("margin", "agent not worse, %", "EEVDF's second copy not worse, %"), rows)


def _windows(windows: Sequence[Window]) -> Iterator[str]:
    if not windows:
        yield "Not known: `asa lab evaluate voting --all --json` is not kept beside the machines as voting.jsonl."
        return
    others = ", ".join(f"{name} {value:g}" for name, value in OTHERS.items())
    yield f"The other parameters as shipped ({others}). Not of the fleet: of recorded sequences of real programs, and"
    yield "the shipped model, by `asa lab evaluate voting --all --json`; docs/voting.md names both, and what the"
    yield "sweep of all three parameters would choose."
    yield ""
    rows = [
        (
            f"{one.window_s:g}{' (shipped)' if one.shipped else ''}",
            *("" if value is None else f"{value:.3g}" for value in (one.median_s, one.p95_s, one.error_pct)),
        )
        for one in windows
    ]
    yield from markdown(("W, s", "median delay, s", "P95 delay, s", "error, %"), rows)


def _latencies(fixed: Sequence[Block], changing: Sequence[Block]) -> Iterator[str]:
    yield "Milliseconds of each tick in the measured windows: inference is the model, decision what follows from it"
    yield "(features, voting, policy). They passed by the clock of the lab's guests, in which an instruction takes 4 ns"
    yield "(docs/fleet.md). The last column is the paper's Table 4, on its machines."
    for which, blocks in (("stay what they are", fixed), ("change", changing)):
        kept = controlled(blocks)
        cpu = [one.cpu_pct for one in kept if one.cpu_pct is not None]
        if not cpu:
            continue
        yield from ("", f"In scenarios that {which} ({statistics.fmean(cpu):.1f} % of one CPU):", "")
        rows = []
        for name, values in latencies(kept).items():
            found = [f"{statistics.fmean(values):.3f}"] if values else [""]
            found += [f"{percentile(values, part):.3f}" for part in (0.9, 0.95, 0.99)] if values else [""] * 3
            rows.append((name, str(len(values)), *found, " / ".join(f"{value:g}" for value in _PAPER[name])))
        yield from markdown(("", "decisions", "mean", "P90", "P95", "P99", "the paper's: mean / P90 / P95 / P99"), rows)


def _share(found: Share | None) -> str:
    return "" if found is None else f"{found.pct:.1f} ({found.low:.1f} to {found.high:.1f})"


def _estimate(found: Estimate | None) -> str:
    if found is None:
        return ""
    between = "" if found.low is None or found.high is None else f" ({found.low:+.1f} to {found.high:+.1f})"
    return f"{found.value:+.1f}{between}"


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _distinct(values: Iterable[Sequence[str]]) -> list[str]:
    return sorted({value for some in values for value in some})


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
