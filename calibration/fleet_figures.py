# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation's named figures, with goals, intervals and what is behind each, of a fleet's kept runs.

Pure: takes machines that were read, makes numbers. Figures without a goal are there to be compared with. Scenarios
that change their phases are in figures of their own; all others are over those that do not.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from asa.core.decision import EEVDF
from calibration import fleet_figures_pairs as by
from calibration.controllers import AGENT, LOADER
from calibration.fleet_figures_pairs import MARGIN, Estimate, Pairs, Reference, Share
from calibration.fleet_figures_read import Block, Controlled, Machine
from calibration.paired import LEAST_PAIRS
from calibration.switch_figures import percentile


class Name(StrEnum):
    """The figures, by the names that issue trackers and JSON lines use."""

    NOT_WORSE = "not_worse_pct"
    BETTER = "significantly_better_pct"
    IMPROVEMENT = "mean_improvement_pct"
    TOP1 = "top1_pct"
    TOP3 = "top3_pct"
    REGRET = "regret_pct"
    BEST_STATIC = "gain_over_best_static_pct"
    LOADER_RULE = "gain_over_loader_rule_pct"
    UNSEEN = "unseen_gap_points"
    ADAPT = "adapt_minutes"
    WIN = "win_pct"
    LOSS = "loss_pct"
    WORSE = "significantly_worse_pct"
    CHOICE = "choice_improvement_pct"
    BURDEN = "agent_burden_points"
    GEOMETRIC = "geometric_improvement_pct"
    POINTS = "mean_difference_points"
    HINDSIGHT = "regret_hindsight_pct"
    RANDOM_ROUTER = "gain_over_random_pct"
    SCORE1 = "top1_by_score_pct"
    SCORE3 = "top3_by_score_pct"
    PHASED_EEVDF = "phases_improvement_pct"
    PHASED_ORACLE = "phases_gain_over_static_oracle_pct"
    ITSELF = "eevdf_not_worse_than_itself_pct"
    CPU = "agent_cpu_pct"
    RESIDENT = "agent_resident_mb"
    TOTAL = "agent_latency_p99_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is and the bound that it has to meet; without a bound it has none."""

    unit: str
    what: str
    sign: str = ""
    bound: float | None = None


_RUNS = "of the agent's runs against EEVDF's of the same machine, scenario and repeat"
GOALS: Mapping[Name, Goal] = {
    Name.NOT_WORSE: Goal(
        unit="%", what=f"{_RUNS}: behind by no more than {MARGIN:g} of the score", sign=">=", bound=95.0
    ),
    Name.BETTER: Goal(
        unit="%",
        what="of the agent's runs: in blocks that are ahead of EEVDF at 5 % (t test of pairs, Holm over all blocks)",
        sign=">=",
        bound=60.0,
    ),
    Name.IMPROVEMENT: Goal(
        unit="%", what="the agent's mean score above EEVDF's, every block counted once", sign=">=", bound=10.0
    ),
    Name.TOP1: Goal(
        unit="%",
        what="of the agent's runs: it held the best scheduler of the block, in hindsight",
        sign=">=",
        bound=60.0,
    ),
    Name.TOP3: Goal(unit="%", what="the same: one of the best three", sign=">=", bound=95.0),
    Name.REGRET: Goal(
        unit="%",
        what="mean score below Static-Oracle's, the scheduler that is best in the block's other repeats",
        sign="<=",
        bound=2.0,
    ),
    Name.BEST_STATIC: Goal(
        unit="%", what="mean score above that of the one scheduler that comes nearest to it", sign=">", bound=0.0
    ),
    Name.LOADER_RULE: Goal(
        unit="%",
        what="mean score above that of scx_loader's --auto rule (scx_lavd above 90 % CPU)",
        sign=">",
        bound=0.0,
    ),
    Name.UNSEEN: Goal(
        unit="points", what="improvement (%) on prototypes less that on unseen machines", sign="<=", bound=3.0
    ),
    Name.ADAPT: Goal(
        unit="min", what="machine time of `asa adapt`, the longest of the unseen machines", sign="<=", bound=30.0
    ),
    Name.WIN: Goal(unit="%", what=f"{_RUNS}: ahead by more than {MARGIN:g}"),
    Name.LOSS: Goal(unit="%", what=f"{_RUNS}: behind by more than {MARGIN:g}, or failed"),
    Name.WORSE: Goal(unit="%", what="of the agent's runs: in blocks that are behind EEVDF at 5 %"),
    Name.CHOICE: Goal(
        unit="%", what="the scheduler that the agent held, played without it, above EEVDF: what choosing is worth"
    ),
    Name.BURDEN: Goal(
        unit="points", what="the agent less that scheduler, hundredths: what its work and its switches cost"
    ),
    Name.GEOMETRIC: Goal(unit="%", what="geometric mean of the blocks' ratios agent to EEVDF, above 1"),
    Name.POINTS: Goal(unit="points", what="the agent's score less EEVDF's, mean, hundredths"),
    Name.HINDSIGHT: Goal(
        unit="%", what="mean score below Static-Oracle's as the paper has it: best by the very runs it is judged by"
    ),
    Name.RANDOM_ROUTER: Goal(unit="%", what="mean score above what a scheduler drawn for each run is expected to have"),
    Name.SCORE1: Goal(
        unit="%", what="of the agent's runs: no scheduler scored more in that repeat (the paper's Top-1)"
    ),
    Name.SCORE3: Goal(unit="%", what="the same: at most two did (the paper's Top-3)"),
    Name.PHASED_EEVDF: Goal(unit="%", what="changing phases: the agent's mean score above EEVDF's"),
    Name.PHASED_ORACLE: Goal(unit="%", what="changing phases: mean score above Static-Oracle's (other repeats)"),
    Name.ITSELF: Goal(
        unit="%", what="EEVDF's second copy against its first: what noise alone leaves of the first figure"
    ),
    Name.CPU: Goal(unit="%", what="of one CPU that the agent used, mean of its runs"),
    Name.RESIDENT: Goal(unit="MB", what="the agent's resident memory, mean of its runs"),
    Name.TOTAL: Goal(unit="ms", what="inference and decision together, 99th percentile"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number; `low` to `high` hold it with 95 % confidence. `value` is None when not known, `reason` says why."""

    name: Name
    value: float | None
    low: float | None = None
    high: float | None = None
    detail: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool | None:
        """Does it meet its goal? None where it has none."""
        goal = GOALS[self.name]
        if goal.bound is None or self.value is None:
            return None if goal.bound is None else False
        met = {"<=": self.value <= goal.bound, ">=": self.value >= goal.bound, ">": self.value > goal.bound}
        return met[goal.sign]


def figures(machines: Sequence[Machine]) -> list[Figure]:
    """All of them, in the order of Name."""
    fixed, phased = steady(machines), phases(machines)
    against = by.pairs(fixed, AGENT, by.of_column(EEVDF))
    found = [*_rates(fixed, against), *_means(fixed, against), *_ranks(fixed), *_static(fixed)]
    found += [_unseen(machines), _adapt(machines), *_phased(phased), _itself(fixed), *_costs(machines)]
    order = list(Name)
    return sorted(found, key=lambda figure: order.index(figure.name))


def steady(machines: Iterable[Machine]) -> list[Block]:
    """Blocks of scenarios that stay what they are."""
    return [block for machine in machines for block in machine.blocks if not block.phased]


def phases(machines: Iterable[Machine]) -> list[Block]:
    """Blocks of scenarios that change."""
    return [block for machine in machines for block in machine.blocks if block.phased]


def nearest_static(blocks: Sequence[Block]) -> tuple[str, list[Pairs]] | None:
    """The one scheduler that the agent leads by least, of those played in half of the agent's blocks and more."""
    least = sum(AGENT in block.runs for block in blocks) / 2.0
    found = {}
    for name in sorted({name for block in blocks for name in block.statics}):
        paired = by.pairs(blocks, AGENT, by.of_column(name))
        lead = by.gain(paired)
        if lead is not None and len(paired) >= least:
            found[name] = (lead.value, paired)
    if not found:
        return None
    name = min(found, key=lambda one: found[one][0])
    return name, found[name][1]


def controlled(machines: Iterable[Machine], column: str = AGENT) -> list[Controlled]:
    """What is kept of a controller's runs, all machines and scenarios."""
    blocks = (block for machine in machines for block in machine.blocks)
    return [line for block in blocks for run in block.runs.get(column, {}).values() for line in run.controlled]


def missing(blocks: Sequence[Block], *columns: str) -> str:
    """Why a figure that needs these columns is not known, and what to do."""
    lacking = [name for name in columns if not any(name in block.runs for block in blocks)]
    if not blocks:
        return "no run of such a scenario is kept; play it by `asa fleet run`"
    if lacking:
        return f"no run of {' and '.join(lacking)} is kept; play it by `asa fleet run --scheduler`"
    return f"{' and '.join(columns) or 'nothing'} never have a score in the same machine, scenario and repeat"


def _rates(blocks: Sequence[Block], against: Sequence[Pairs]) -> list[Figure]:
    why = missing(blocks, AGENT, EEVDF)
    lost = sum(one.lost for one in against)
    failed = f"; {lost} failed, which is behind" if lost else ""
    unmatched = by.unmatched(blocks, AGENT, by.of_column(EEVDF))
    left = f"; {unmatched} beside which {EEVDF} has no score are left out" if unmatched else ""
    drawn = by.not_worse(against, 0.0)
    exact = "" if drawn is None else f"; with no margin at all {drawn.pct:.1f} %"
    behind = by.not_worse(against)
    loss = None if behind is None else by.share(behind.count - behind.hits, behind.count)
    tests = by.judged(against)
    repeats = max((len(one.ours) for one in against), default=0)
    needed = f"a test needs {LEAST_PAIRS}, or 2 on two machines"
    few = f"most repeats of a block that are kept: {repeats}; {needed}" if against else why
    known = sum(adjusted is not None for *_, adjusted in tests)
    own = [by.significant(against, sign, pooled=False) for sign in (1.0, -1.0)]
    alone = [f"; {'unknown' if one is None else f'{one.pct:.1f} %'} with each block's own deviation" for one in own]
    blocks_of = f"{known} of {len(tests)} blocks tested, most repeats {repeats}"
    return [
        _share(Name.NOT_WORSE, behind, why, f"{exact}{failed}{left}"),
        _share(Name.WIN, by.better(against), why, left),
        _share(Name.LOSS, loss, why, f"{failed}{left}"),
        _share(Name.BETTER, by.significant(against, 1.0), few, f"; {blocks_of}{alone[0]}"),
        _share(Name.WORSE, by.significant(against, -1.0), few, f"; {blocks_of}{alone[1]}"),
    ]


def _means(blocks: Sequence[Block], against: Sequence[Pairs]) -> list[Figure]:
    why = missing(blocks, AGENT, EEVDF)
    count = f"{len(against)} blocks"
    choices = by.pairs(blocks, AGENT, by.of_column(EEVDF), by.held)
    burdens = by.pairs(blocks, AGENT, by.held)
    test = by.over_blocks(against)
    effect = "" if test is None or test.effect is None else f"; d of pairs {test.effect:+.2f}, p = {test.p:.2g}"
    ends = [statistics.fmean(side) for one in against if one.ours for side in (one.ours, one.theirs)]
    scores = f": {statistics.fmean(ends[::2]):.3f} against {statistics.fmean(ends[1::2]):.3f}" if ends else ""
    return [
        _estimate(Name.IMPROVEMENT, by.gain(against), why, f"{count}{scores}{effect}"),
        _estimate(Name.CHOICE, by.gain(choices), why, f"{len(choices)} blocks"),
        _estimate(Name.BURDEN, by.points(burdens), why, f"{len(burdens)} blocks"),
        _estimate(Name.GEOMETRIC, by.geometric(against), why, f"{count}; scores below {by.LEAST_SCORE:g} as that"),
        _estimate(Name.POINTS, by.points(against), why, count),
        _over(Name.LOADER_RULE, blocks, LOADER),
        _oracle(Name.RANDOM_ROUTER, blocks, by.drawn, by.gain, ""),
    ]


def _over(name: Name, blocks: Sequence[Block], column: str) -> Figure:
    found = by.pairs(blocks, AGENT, by.of_column(column))
    share = by.held_share(blocks, column, EEVDF)
    held = "" if share is None else f"; {column} held {EEVDF} for {100.0 * share:.0f} % of the time"
    return _estimate(name, by.gain(found), missing(blocks, AGENT, column), f"{len(found)} blocks{held}")


def _ranks(blocks: Sequence[Block]) -> list[Figure]:
    ranks, unknown = by.chosen_ranks(blocks, AGENT)
    why = missing(blocks, AGENT)
    if any(AGENT in block.runs for block in blocks):
        why = f"of none of {unknown} runs is it known which scheduler was in force, or none was played by itself"
    schedulers = {name for block in blocks for name in block.statics}
    among = f", among {len(schedulers)} schedulers"
    strange = sum(map(math.isinf, ranks))
    missed = f"; {strange} held one that is not ranked there, which is a miss" if strange else ""
    left = f"; {unknown} whose scheduler is not known are left out" if unknown else ""
    scored = by.score_ranks(blocks, AGENT)
    few = missing(blocks, AGENT, EEVDF)
    return [
        *(_top(name, ranks, most, why, f"{among}{missed}{left}") for name, most in ((Name.TOP1, 1), (Name.TOP3, 3))),
        *(_top(name, scored, most, few, among) for name, most in ((Name.SCORE1, 1), (Name.SCORE3, 3))),
    ]


def _top(name: Name, ranks: Sequence[float], most: int, why: str, more: str) -> Figure:
    return _share(name, by.share(sum(one <= most for one in ranks), len(ranks)), why, more)


def _static(blocks: Sequence[Block]) -> list[Figure]:
    nearest = nearest_static(blocks)
    lead = None if nearest is None else by.gain(nearest[1])
    who = "" if nearest is None else f"{nearest[0]}, {len(nearest[1])} blocks"
    alone = "Static-Oracle needs a second repeat of a block: it is chosen by the others"
    return [
        _oracle(Name.REGRET, blocks, by.foresight, by.regret, alone),
        _oracle(Name.HINDSIGHT, blocks, by.hindsight, by.regret, ""),
        _estimate(Name.BEST_STATIC, lead, missing(blocks, AGENT, EEVDF), who),
    ]


def _oracle(
    name: Name,
    blocks: Sequence[Block],
    reference: Reference,
    statistic: Callable[[Sequence[Pairs]], Estimate | None],
    alone: str,
) -> Figure:
    found = by.pairs(blocks, AGENT, reference)
    why = missing(blocks, AGENT, EEVDF)
    if alone and all(len(block.repeats) < 2 for block in blocks) and any(AGENT in block.runs for block in blocks):
        why = alone
    schedulers = {name for block in blocks for name in block.statics}
    return _estimate(name, statistic(found), why, f"{len(found)} blocks, {len(schedulers)} schedulers")


def _unseen(machines: Sequence[Machine]) -> Figure:
    sides = [[one for one in machines if one.facts.prototype is prototype] for prototype in (True, False)]
    found = [by.pairs(steady(side), AGENT, by.of_column(EEVDF)) for side in sides]
    words = [
        f"{title}: {len(side)} machines, {'unknown' if (one := by.gain(pairs)) is None else f'{one.value:+.1f} %'}"
        for title, side, pairs in zip(("prototypes", "unseen"), sides, found, strict=True)
    ]
    lacking = [title for title, side in zip(("a prototype", "an unseen machine"), sides, strict=True) if not side]
    why = f"no run on {' and on '.join(lacking)} is kept" if lacking else "; ".join(words)
    return _estimate(Name.UNSEEN, by.gap(*found), why, "; ".join(words))


def _adapt(machines: Sequence[Machine]) -> Figure:
    unseen = [one for one in machines if not one.facts.prototype]
    known = {one.facts.name: took for one in unseen if (took := one.facts.adapt_minutes) is not None}
    if not known:
        reason = f"of none of {len(unseen)} unseen machines is it kept what `asa adapt` took (machine.json)"
        return Figure(name=Name.ADAPT, value=None, reason=reason)
    longest = max(known, key=known.__getitem__)
    return Figure(name=Name.ADAPT, value=known[longest], detail=f"{longest}; known of {len(known)} of {len(unseen)}")


def _phased(blocks: Sequence[Block]) -> list[Figure]:
    found = by.pairs(blocks, AGENT, by.of_column(EEVDF))
    why = missing(blocks, AGENT, EEVDF)
    alone = "Static-Oracle needs a second repeat of a block: it is chosen by the others"
    return [
        _estimate(Name.PHASED_EEVDF, by.gain(found), why, f"{len(found)} blocks"),
        _oracle(Name.PHASED_ORACLE, blocks, by.foresight, by.gain, alone),
    ]


def _itself(blocks: Sequence[Block]) -> Figure:
    found = by.pairs(blocks, f"{EEVDF} (2)", by.of_column(EEVDF))
    why = f"EEVDF is not kept twice; play it by `asa fleet run --scheduler {EEVDF},{EEVDF}`"
    return _share(Name.ITSELF, by.not_worse(found), why)


def _costs(machines: Sequence[Machine]) -> list[Figure]:
    kept = controlled(machines)
    cpu = [one.cpu_pct for one in kept if one.cpu_pct is not None]
    resident = [one.resident_mb for one in kept if one.resident_mb is not None]
    totals = latencies(kept)["total"]
    why = "no run of the agent keeps it"
    rows: tuple[tuple[Name, list[float], Callable[[Sequence[float]], float]], ...] = (
        (Name.CPU, cpu, statistics.fmean),
        (Name.RESIDENT, resident, statistics.fmean),
        (Name.TOTAL, totals, _p99),
    )
    return [
        Figure(name=name, value=tell(values), detail=f"{len(values)} values; the largest {max(values):.3g}")
        if values
        else Figure(name=name, value=None, reason=why)
        for name, values, tell in rows
    ]


def latencies(kept: Iterable[Controlled]) -> dict[str, list[float]]:
    """Milliseconds of every decision, as the paper's Table 4: inference, decision, and total where both are known."""
    found: dict[str, list[float]] = {"inference": [], "decision": [], "total": []}
    for one in kept:
        found["inference"] += one.inference_ms
        found["decision"] += one.decision_ms
        if len(one.inference_ms) == len(one.decision_ms):
            found["total"] += [a + b for a, b in zip(one.inference_ms, one.decision_ms, strict=True)]
    return found


def _p99(values: Sequence[float]) -> float:
    return percentile(values, 0.99)


def _share(name: Name, found: Share | None, why: str, more: str = "") -> Figure:
    if found is None:
        return Figure(name=name, value=None, reason=why)
    detail = f"{found.hits} of {found.count} runs{more}"
    return Figure(name=name, value=found.pct, low=found.low, high=found.high, detail=detail)


def _estimate(name: Name, found: Estimate | None, why: str, detail: str) -> Figure:
    if found is None:
        return Figure(name=name, value=None, reason=why)
    return Figure(name=name, value=found.value, low=found.low, high=found.high, detail=detail)
