# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation's named figures, with goals, intervals and what is behind each, of a fleet's kept runs.

Pure: takes machines that were read, makes numbers. Figures without a goal are there to be compared with. Scenarios
that change their phases are in figures of their own; all others are over those that do not.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence

from asa.core.decision import EEVDF
from calibration.controllers.columns import AGENT, LOADER
from calibration.fleet.figures import pairs as by
from calibration.fleet.figures import sums
from calibration.fleet.figures.blocks import Block, Controlled, PlayedMachine
from calibration.fleet.figures.goals import FleetFigure
from calibration.fleet.figures.pairs import Pairs, Reference
from calibration.fleet.figures.sums import Estimate, Share
from calibration.goals import Figure, Named
from calibration.paired import LEAST_PAIRS
from calibration.switch.figures import percentile


def figures(machines: Sequence[PlayedMachine]) -> list[Figure]:
    """All of them, in the order of FleetFigure."""
    fixed, phased = steady(machines), phases(machines)
    against = by.pairs(fixed, AGENT, by.of_column(EEVDF))
    found = [*_rates(fixed, against), *_means(fixed, against), *_ranks(fixed), *_static(fixed)]
    found += [_unseen(machines), _adapt(machines), *_phased(phased), _itself(fixed), *_costs(fixed)]
    order = list[Named](FleetFigure)
    return sorted(found, key=lambda figure: order.index(figure.name))


def steady(machines: Iterable[PlayedMachine]) -> list[Block]:
    """Blocks of scenarios that stay what they are."""
    return [block for machine in machines for block in machine.blocks if not block.phased]


def phases(machines: Iterable[PlayedMachine]) -> list[Block]:
    """Blocks of scenarios that change."""
    return [block for machine in machines for block in machine.blocks if block.phased]


def nearest_static(blocks: Sequence[Block]) -> tuple[str, list[Pairs]] | None:
    """The one scheduler that the agent leads by least, of those played in half of the agent's blocks and more."""
    least = sum(AGENT in block.runs for block in blocks) / 2.0
    found = {}
    for name in sorted({name for block in blocks for name in block.statics}):
        paired = by.pairs(blocks, AGENT, by.of_column(name))
        lead = sums.gain(paired)
        if lead is not None and len(paired) >= least:
            found[name] = (lead.value, paired)
    if not found:
        return None
    name = min(found, key=lambda one: found[one][0])
    return name, found[name][1]


def controlled(blocks: Iterable[Block], column: str = AGENT) -> list[Controlled]:
    """What is kept of a controller's runs."""
    return [line for block in blocks for run in block.runs.get(column, {}).values() for line in run.controlled]


def missing(blocks: Sequence[Block], *columns: str) -> str:
    """Why a figure that needs these columns is not known, and what to do."""
    lacking = [name for name in columns if not any(name in block.runs for block in blocks)]
    if not blocks:
        return "no run of such a scenario is kept; play it by `asa lab fleet run`"
    if lacking:
        return f"no run of {' and '.join(lacking)} is kept; play it by `asa lab fleet run --scheduler`"
    return f"{' and '.join(columns) or 'nothing'} never have a score in the same machine, scenario and repeat"


def _rates(blocks: Sequence[Block], against: Sequence[Pairs]) -> list[Figure]:
    why = missing(blocks, AGENT, EEVDF)
    lost = sum(one.lost for one in against)
    failed = f"; {lost} failed, which is behind" if lost else ""
    unmatched = by.unmatched(blocks, AGENT, by.of_column(EEVDF))
    left = f"; {unmatched} beside which {EEVDF} has no score are left out" if unmatched else ""
    drawn = sums.not_worse(against, 0.0)
    exact = "" if drawn is None else f"; with no margin at all {drawn.pct:.1f} %"
    behind = sums.not_worse(against)
    loss = None if behind is None else sums.share(behind.count - behind.hits, behind.count)
    repeats = max((len(one.ours) for one in against), default=0)
    few = f"most repeats of a block that are kept: {repeats}; a test needs {LEAST_PAIRS}" if against else why
    tests = sums.judged(against)
    known = sum(adjusted is not None for *_, adjusted in tests)
    least = sums.least_effect(known, repeats)
    power = "" if least is None else f"; the first needs a mean of {least:.1f} standard deviations"
    tested = f"; {known} of {len(tests)} blocks tested, most repeats {repeats}{power}"
    return [
        _share(FleetFigure.NOT_WORSE, behind, why, f"{exact}{failed}{left}"),
        _share(FleetFigure.WIN, sums.better(against), why, left),
        _share(FleetFigure.LOSS, loss, why, f"{failed}{left}"),
        _share(FleetFigure.BETTER, sums.significant(against, 1.0), few, tested),
        _share(FleetFigure.WORSE, sums.significant(against, -1.0), few, tested),
    ]


def _means(blocks: Sequence[Block], against: Sequence[Pairs]) -> list[Figure]:
    why = missing(blocks, AGENT, EEVDF)
    count = f"{len(against)} blocks"
    choices = by.pairs(blocks, AGENT, by.of_column(EEVDF), by.held)
    burdens = by.pairs(blocks, AGENT, by.held)
    test = sums.overall(against)
    effect = "" if test is None or test.effect is None else f"; d {test.effect:+.2f}, p = {test.p:.2g}"
    ends = [statistics.fmean(side) for one in against if one.ours for side in (one.ours, one.theirs)]
    scores = f": {statistics.fmean(ends[::2]):.3f} against {statistics.fmean(ends[1::2]):.3f}" if ends else ""
    return [
        _estimate(FleetFigure.IMPROVEMENT, sums.gain(against), why, f"{count}{scores}{effect}"),
        _estimate(FleetFigure.CHOICE, sums.gain(choices), why, f"{len(choices)} blocks"),
        _estimate(FleetFigure.BURDEN, sums.points(burdens), why, f"{len(burdens)} blocks"),
        _estimate(
            FleetFigure.GEOMETRIC, sums.geometric(against), why, f"{count}; scores below {by.LEAST_SCORE:g} as that"
        ),
        _estimate(FleetFigure.POINTS, sums.points(against), why, count),
        _over(FleetFigure.LOADER_RULE, blocks, LOADER),
        _oracle(FleetFigure.RANDOM_ROUTER, blocks, by.drawn, sums.gain),
    ]


def _over(name: FleetFigure, blocks: Sequence[Block], column: str) -> Figure:
    found = by.pairs(blocks, AGENT, by.of_column(column))
    share = by.held_share(blocks, column, EEVDF)
    held = "" if share is None else f"; {column} held {EEVDF} for {100.0 * share:.0f} % of the time"
    return _estimate(name, sums.gain(found), missing(blocks, AGENT, column), f"{_extent(blocks, found)}{held}")


def _extent(blocks: Sequence[Block], found: Sequence[Pairs]) -> str:
    """How many blocks; and how many of the agent's runs where those are not all of them."""
    runs, paired = sum(len(block.runs.get(AGENT, {})) for block in blocks), sum(len(one.ours) for one in found)
    return f"{len(found)} blocks" if runs == paired else f"{len(found)} blocks, {paired} of the agent's {runs} runs"


def _ranks(blocks: Sequence[Block]) -> list[Figure]:
    ranks, unknown = by.chosen_ranks(blocks, AGENT)
    why = missing(blocks, AGENT)
    if any(AGENT in block.runs for block in blocks):
        why = f"of none of {unknown} runs is it known which scheduler was in force, or none was played by itself"
    strange = sum(map(math.isinf, ranks))
    missed = f"; {strange} held one that is not ranked there, which is a miss" if strange else ""
    left = f"; {unknown} whose scheduler is not known are left out" if unknown else ""
    few = missing(blocks, AGENT, EEVDF)
    count = len({name for block in blocks for name in block.statics})
    held, scored = ((FleetFigure.TOP1, 1), (FleetFigure.TOP3, 3)), ((FleetFigure.SCORE1, 1), (FleetFigure.SCORE3, 3))
    by_score = by.score_ranks(blocks, AGENT)
    return [
        *(_top(name, most, count, ranks, why, f"{missed}{left}") for name, most in held),
        *(_top(name, most, count, by_score, few, "") for name, most in scored),
    ]


def _top(name: FleetFigure, most: int, count: int, ranks: Sequence[float], why: str, more: str) -> Figure:
    """`count` schedulers, of which a die hits the best `most` by chance."""
    if ranks and count <= most:
        why = f"of {count} schedulers each is one of the best {most}"
    among = f", among {count} schedulers (a die: {100.0 * most / count:.0f} %)" if count else ""
    return _share(name, sums.among_best(ranks, most, count), why, f"{among}{more}")


def _static(blocks: Sequence[Block]) -> list[Figure]:
    nearest = nearest_static(blocks)
    lead = None if nearest is None else sums.gain(nearest[1])
    who = "" if nearest is None else f"{nearest[0]}, {_extent(blocks, nearest[1])}"
    return [
        _oracle(FleetFigure.REGRET, blocks, by.hindsight, sums.regret),
        _oracle(FleetFigure.FORESIGHT, blocks, by.foresight, sums.regret),
        _estimate(FleetFigure.BEST_STATIC, lead, missing(blocks, AGENT, EEVDF), who),
    ]


def _oracle(
    name: FleetFigure,
    blocks: Sequence[Block],
    reference: Reference,
    statistic: Callable[[Sequence[Pairs]], Estimate | None],
) -> Figure:
    found = by.pairs(blocks, AGENT, reference)
    why = missing(blocks, AGENT, EEVDF)
    played = [len(block.repeats) for block in blocks if AGENT in block.runs]
    if reference is by.foresight and played and max(played) <= by.LEAST_OTHERS:
        why = f"most repeats of a block that are kept: {max(played)}; it is chosen by {by.LEAST_OTHERS} others and more"
    schedulers = {name for block in blocks for name in block.statics}
    return _estimate(name, statistic(found), why, f"{_extent(blocks, found)}, {len(schedulers)} schedulers")


def _unseen(machines: Sequence[PlayedMachine]) -> Figure:
    sides = [[one for one in machines if one.facts.prototype is prototype] for prototype in (True, False)]
    found = [by.pairs(steady(side), AGENT, by.of_column(EEVDF)) for side in sides]
    words = [
        f"{title}: {len(side)} machines, {'unknown' if (one := sums.gain(pairs)) is None else f'{one.value:+.1f} %'}"
        for title, side, pairs in zip(("prototypes", "unseen"), sides, found, strict=True)
    ]
    lacking = [title for title, side in zip(("a prototype", "an unseen machine"), sides, strict=True) if not side]
    why = f"no run on {' and on '.join(lacking)} is kept" if lacking else "; ".join(words)
    return _estimate(FleetFigure.UNSEEN, sums.gap(*found), why, "; ".join(words))


def _adapt(machines: Sequence[PlayedMachine]) -> Figure:
    unseen = [one for one in machines if not one.facts.prototype]
    known = {one.facts.name: took for one in unseen if (took := one.facts.adapt_minutes) is not None}
    if not known:
        reason = f"of none of {len(unseen)} unseen machines is it kept what `asa adapt` took (machine.json)"
        return Figure(name=FleetFigure.ADAPT, value=None, reason=reason)
    longest = max(known, key=known.__getitem__)
    return Figure(
        name=FleetFigure.ADAPT, value=known[longest], detail=f"{longest}; known of {len(known)} of {len(unseen)}"
    )


def _phased(blocks: Sequence[Block]) -> list[Figure]:
    found = by.pairs(blocks, AGENT, by.of_column(EEVDF))
    why = missing(blocks, AGENT, EEVDF)
    return [
        _estimate(FleetFigure.PHASED_EEVDF, sums.gain(found), why, f"{len(found)} blocks"),
        _oracle(FleetFigure.PHASED_ORACLE, blocks, by.hindsight, sums.gain),
    ]


def _itself(blocks: Sequence[Block]) -> Figure:
    found = by.pairs(blocks, f"{EEVDF} (2)", by.of_column(EEVDF))
    why = f"EEVDF is not kept twice; play it by `asa lab fleet run --scheduler {EEVDF},{EEVDF}`"
    return _share(FleetFigure.ITSELF, sums.not_worse(found), why)


def _costs(blocks: Sequence[Block]) -> list[Figure]:
    kept = controlled(blocks)
    cpu = [one.cpu_pct for one in kept if one.cpu_pct is not None]
    resident = [one.resident_mb for one in kept if one.resident_mb is not None]
    totals = latencies(kept)["total"]
    why = "no run of the agent keeps it"
    rows: tuple[tuple[FleetFigure, list[float], Callable[[Sequence[float]], float]], ...] = (
        (FleetFigure.CPU, cpu, statistics.fmean),
        (FleetFigure.RESIDENT, resident, statistics.fmean),
        (FleetFigure.TOTAL, totals, _p99),
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


def _share(name: FleetFigure, found: Share | None, why: str, more: str = "") -> Figure:
    if found is None:
        return Figure(name=name, value=None, reason=why)
    detail = f"{found.hits} of {found.count} runs{more}"
    return Figure(name=name, value=found.pct, low=found.low, high=found.high, detail=detail)


def _estimate(name: FleetFigure, found: Estimate | None, why: str, detail: str) -> Figure:
    if found is None:
        return Figure(name=name, value=None, reason=why)
    return Figure(name=name, value=found.value, low=found.low, high=found.high, detail=detail)
