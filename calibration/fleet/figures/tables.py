# SPDX-License-Identifier: GPL-2.0-only
"""What the evaluation's page shows beside the named figures: columns, machines and ablations in lines, and the losses.

Pure: takes blocks, makes values. It knows nothing of how they are shown.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from asa.core.decision import EEVDF
from asa.core.kinds import names_of
from calibration.controllers.columns import AGENT
from calibration.fleet.figures import pairs as by
from calibration.fleet.figures import sums
from calibration.fleet.figures.blocks import ABLATION, Block, PlayedMachine, Run, is_static
from calibration.fleet.figures.named import steady
from calibration.fleet.figures.pairs import FLOOR, MARGIN, Pairs
from calibration.fleet.figures.sums import Estimate, Share
from calibration.paired import Paired, holm


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison. `adjusted` is Holm's p over the lines of its table; what is None is not known."""

    name: str
    blocks: int
    runs: int
    not_worse: Share | None
    better: Share | None
    gain: Estimate | None
    geometric: Estimate | None
    points: Estimate | None
    test: Paired | None
    adjusted: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Some machines' blocks: the agent against EEVDF, and its choice of schedulers."""

    line: Line
    top1: Share | None
    top3: Share | None
    regret: Estimate | None
    significant: Share | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A block in which the agent is behind by more than the margin, or failed. Means of scores."""

    block: Block
    ours: float | None
    eevdf: float | None
    best: tuple[str, float] | None  # in hindsight
    chosen: str  # the scheduler that most runs held longest; "" unknown
    lost: int
    why: str

    @property
    def behind(self) -> float:
        """Behind the better one of the two; infinite when no run has a score."""
        others = [score for score in (self.eevdf, None if self.best is None else self.best[1]) if score is not None]
        return float("inf") if self.ours is None else max(others, default=self.ours) - self.ours


def columns(blocks: Sequence[Block]) -> list[str]:
    """All that were played: schedulers first, then controllers, ablations and copies last."""
    names = {name for block in blocks for name in block.runs}
    return sorted(names, key=lambda name: (not is_static(name), name.startswith(ABLATION), name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What a machine draws under a column, beside what it draws under EEVDF in the same repeats; each block once."""

    column: str
    blocks: int
    watts: float
    eevdf: float

    @property
    def more_pct(self) -> float:
        """Than under EEVDF."""
        return 100.0 * (self.watts / self.eevdf - 1.0)


def draws(blocks: Sequence[Block]) -> list[Draw]:
    """Of each column whose watts are known beside EEVDF's."""
    found = []
    for column in columns(blocks):
        pairs = [pair for block in blocks if (pair := _drawn(block, column)) is not None]
        if pairs:
            watts, eevdf = (statistics.fmean(side) for side in zip(*pairs, strict=True))
            found.append(Draw(column=column, blocks=len(pairs), watts=watts, eevdf=eevdf))
    return found


def _drawn(block: Block, column: str) -> tuple[float, float] | None:
    ours, eevdf = block.runs.get(column, {}), block.runs.get(EEVDF, {})
    both = [(ours[repeat].watts, eevdf[repeat].watts) for repeat in ours.keys() & eevdf.keys()]
    known = [(one, other) for one, other in both if one is not None and other is not None]
    if not known:
        return None
    return statistics.fmean(one for one, _ in known), statistics.fmean(other for _, other in known)


def against(blocks: Sequence[Block]) -> list[Line]:
    """The agent beside each scheduler and each other controller."""
    others = [name for name in columns(blocks) if name != AGENT and not name.startswith(ABLATION)]
    others = [name for name in others if not name.endswith(")")]
    return lines([(name, by.pairs(blocks, AGENT, by.of_column(name))) for name in others])


def ablations(blocks: Sequence[Block]) -> list[Line]:
    """Each agent that lacks a part beside the whole one."""
    names = [name for name in columns(blocks) if name.startswith(ABLATION)]
    return lines([(name, by.pairs(blocks, name, by.of_column(AGENT))) for name in names])


def margins(blocks: Sequence[Block]) -> list[tuple[float, Share | None, Share | None]]:
    """Margin, share of the agent's runs that are not worse than EEVDF's by it, and the same of EEVDF's second copy."""
    agent, itself = (by.pairs(blocks, name, by.of_column(EEVDF)) for name in (AGENT, f"{EEVDF} (2)"))
    return [
        (margin, sums.not_worse(agent, margin), sums.not_worse(itself, margin)) for margin in (0.0, 0.01, MARGIN, 0.05)
    ]


def groups(machines: Sequence[PlayedMachine]) -> list[Group]:
    """All machines, prototypes, unseen ones, and each alone; those without a run of the agent are left out."""
    chosen: list[tuple[str, list[PlayedMachine]]] = [("all", list(machines))]
    for title, prototype in (("prototypes", True), ("unseen", False)):
        chosen.append((title, [one for one in machines if one.facts.prototype is prototype]))
    chosen += [(one.facts.name, [one]) for one in machines]
    found = [(title, steady(some)) for title, some in chosen]
    made = lines([(title, by.pairs(blocks, AGENT, by.of_column(EEVDF))) for title, blocks in found])
    blocks_of = dict(found)
    return [_group(line, blocks_of[line.name]) for line in made]


def lines(named: Sequence[tuple[str, Sequence[Pairs]]]) -> list[Line]:
    """Those without a pair are left out."""
    known = [(name, found) for name, found in named if found]
    tests = [sums.overall(found) for _, found in known]
    places = [place for place, test in enumerate(tests) if test is not None and test.p is not None]
    adjusted = dict(zip(places, holm([_p(tests[place]) for place in places]), strict=True))
    return [
        Line(
            name=name,
            blocks=len(found),
            runs=sum(len(one.ours) + one.lost for one in found),
            not_worse=sums.not_worse(found),
            better=sums.better(found),
            gain=sums.gain(found),
            geometric=sums.geometric(found),
            points=sums.points(found),
            test=test,
            adjusted=adjusted.get(place),
        )
        for place, ((name, found), test) in enumerate(zip(known, tests, strict=True))
    ]


def quantiles(blocks: Sequence[Block], shares: Sequence[float]) -> list[tuple[float, float, float]] | None:
    """Share, and of all runs the difference to EEVDF in hundredths and in % of EEVDF's score; None without a run."""
    found = by.pairs(blocks, AGENT, by.of_column(EEVDF))
    points = sorted(100.0 * difference for one in found for difference in one.differences)
    ratios = sorted(improvements(found))
    if not points:
        return None
    places = [round(share * (len(points) - 1)) for share in shares]
    return [(share, points[place], ratios[place]) for share, place in zip(shares, places, strict=True)]


def improvements(found: Iterable[Pairs]) -> list[float]:
    """Of each run, % of the other's score; scores below LEAST_SCORE count as that."""
    ends = [(ours, theirs) for one in found for ours, theirs in zip(one.ours, one.theirs, strict=True)]
    return [100.0 * (max(ours, by.LEAST_SCORE) / max(theirs, by.LEAST_SCORE) - 1.0) for ours, theirs in ends]


def losses(blocks: Sequence[Block]) -> list[Loss]:
    """Where the agent loses to EEVDF or to the best scheduler in hindsight, the worst first."""
    found = [_loss(block) for block in blocks if AGENT in block.runs]
    lost = [one for one in found if one.behind > MARGIN + 1e-9 or one.lost]  # as of `not_worse`
    return sorted(lost, key=lambda one: (-one.behind, one.block.machine, one.block.scenario))


def confusion(blocks: Sequence[Block]) -> dict[str, Counter[str]]:
    """Label that was played -> class that the agent decided on -> ticks, of scenarios that do not change."""
    table: dict[str, Counter[str]] = {}
    for block in blocks:
        for run in block.runs.get(AGENT, {}).values():
            for one in run.controlled:
                if one.classes:
                    table.setdefault(block.label, Counter()).update(one.classes)
    return table


def _group(line: Line, blocks: Sequence[Block]) -> Group:
    ranks, _ = by.chosen_ranks(blocks, AGENT)
    count = len({name for block in blocks for name in block.statics})
    return Group(
        line=line,
        top1=sums.among_best(ranks, 1, count),
        top3=sums.among_best(ranks, 3, count),
        regret=sums.regret(by.pairs(blocks, AGENT, by.hindsight)),
        significant=sums.significant(by.pairs(blocks, AGENT, by.of_column(EEVDF)), 1.0),
    )


def _loss(block: Block) -> Loss:
    runs = list(block.runs[AGENT].values())
    repeats = [repeat for repeat in block.runs[AGENT] if block.score(AGENT, repeat) is not None]
    order = by.ranking(block, repeats) if repeats else by.ranking(block)
    names = Counter(name for run in runs if (name := run.chosen()) is not None)
    chosen = names.most_common(1)[0][0] if names else ""
    scores = dict(order)
    return Loss(
        block=block,
        ours=_mean(block.score(AGENT, repeat) for repeat in by.shared(block, repeats)),
        eevdf=scores.get(EEVDF),
        best=order[0] if order else None,
        chosen=chosen,
        lost=sum(run.score is None for run in runs),
        why=_why(block, runs, chosen, scores),
    )


def _why(block: Block, runs: Sequence[Run], chosen: str, scores: dict[str, float]) -> str:
    troubles = Counter(run.trouble for run in runs if run.trouble)
    words = [f"{count} runs: {trouble}" for trouble, count in troubles.items()]
    if all(run.score is None for run in runs):
        return "; ".join(words)
    if block.phased:
        return "; ".join([*words, _phases(runs)])
    best = max(scores.values(), default=None)
    if not chosen:
        words.append("which scheduler was in force is not kept")
    elif chosen not in scores:
        words.append(f"{chosen} was not played by itself here")
    elif best is not None and scores[chosen] < best - FLOOR:
        words.append(f"{chosen} alone is behind the best by {best - scores[chosen]:.3f}; {_recognised(block, runs)}")
    else:
        words.append(f"{chosen} is the best or its equal: what is lost is the agent's own work, switches and noise")
    return "; ".join(words)


def _phases(runs: Sequence[Run]) -> str:
    """What it held and took each phase for, most of the time; of the first run that tells."""
    told = next((run.controlled for run in runs if any(one.held_s for one in run.controlled)), ())
    if not told:
        return "what was in force, and what was recognised, is not kept"
    words = []
    for one in told:
        held = max(sorted(one.held_s), key=one.held_s.__getitem__) if one.held_s else "unknown"
        taken = max(sorted(one.classes), key=one.classes.__getitem__) if one.classes else "unknown"
        words.append(f"{held} (as {taken})")
    return f"by phases it held {', then '.join(words)}"


def _recognised(block: Block, runs: Sequence[Run]) -> str:
    ticks: Counter[str] = Counter()
    for run in runs:
        for one in run.controlled:
            ticks.update(one.classes)
    if not ticks:
        return "what was recognised is not kept"
    name, count = ticks.most_common(1)[0]
    share = f"{100.0 * count / ticks.total():.0f} % of the ticks"
    if name not in names_of(block.label):
        return f"recognised as {name} ({share})"
    return f"recognised ({share}), so the table's order or the policy is at fault"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _p(test: Paired | None) -> float:
    return 1.0 if test is None or test.p is None else test.p
