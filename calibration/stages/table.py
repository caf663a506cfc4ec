# SPDX-License-Identifier: GPL-2.0-only
"""What the stages write: a machine's mapping table out of rankings and costs, and what was known before. Pure.

A table is of one machine. What an older one of the same says stays where nothing new was measured, without the figures
of another kernel or scheduler; of any other machine's only the order of belief is used (`beliefs`).
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from asa import wire
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import fingerprint
from asa.decide.regime import MIXED
from asa.decide.table import Cost, Entry, Evidence, Machine, MappingTable, Measured, TableFile
from calibration.scenarios.scores import Played, scores
from calibration.stages.agent import SHADOWED, Shadowed
from calibration.stages.best_arm import Verdict
from calibration.stages.campaign import Belief
from calibration.stages.columns import SHADOW
from calibration.stages.merge import NORMAL_95, gains, merged
from calibration.stages.ranking import Ranked, cells, rank, spread, to_classes, wider
from scenarios.catalogue import IDLE
from scenarios.conditions import Conditions, of_old
from scenarios.runner_plan import CONTROLLER, Outcome, Result

TRANSFER = 0.05
"""How far a gain measured on another machine, kernel or scheduler is taken to be from this one's.

A standard deviation of score; a first choice, measured on nothing."""
_SAVER = "for battery saver, not played: "
_ELSEWHERE = "not played here: "
_AGED = "of another kernel or version: "
_EARLIER = " Before that: "
_MOST_EARLIER = 3  # campaigns that are still named


class Felt(msgspec.Struct, frozen=True, kw_only=True):
    """How much score the agent costs by what was felt: with the agent less without, in blocks that both played."""

    scheduler: str  # its shadow
    blocks: int
    mean: float


def kept(before: TableFile | None, machine: Machine, measured: Measured) -> TableFile | None:
    """`before`, if it is of the same machine, tier and clock of guests: what of it may stand beside new figures.

    What was measured with another series of kernels, or another version of the scheduler, has lost its figures, not its
    place.
    """
    if before is None or before.measured is None or not fingerprint.comparable(before.machine, machine):
        return None
    then, now = before.measured, measured
    if fingerprint.differences(before.machine, machine) or then.tier != now.tier or _timed(then) != _timed(now):
        return None
    same = fingerprint.series(then.kernel) == fingerprint.series(now.kernel)
    shared = then.schedulers.keys() & now.schedulers.keys()
    changed = {name for name in shared if then.schedulers[name] != now.schedulers[name]}
    if same and not changed:
        return before

    def aged(name: str) -> bool:
        return not same or name in changed

    return msgspec.structs.replace(
        before,
        costs={name: cost for name, cost in before.costs.items() if not aged(SchedulerName(name).bare)},
        classes={
            label: [
                _without_figures(entry, _AGED) if entry.score is not None and aged(entry.scheduler) else entry
                for entry in ranking
            ]
            for label, ranking in before.classes.items()
        },
    )


def _timed(measured: Measured) -> Conditions | None:
    """The clock and the tick of guests; None of a machine."""
    if measured.tier == "real":
        return None
    return of_old(lab=True) if measured.clock is None else Conditions(clock=measured.clock, tick_hz=measured.tick_hz)


def loses(before: TableFile | None, file: TableFile, counted: TableFile | None = None) -> bool:
    """Would anything of `before` be gone when `file` takes its place: a ranking, a cost, or all of a prior?

    Rankings of `counted` are not lost where `file` ranks the class: their figures count in its own (`refined`).
    """
    if before is None:
        return False
    if before.measured is None:  # nothing of it is copied, and somebody may have written it by hand
        return True
    ours = {} if counted is None else counted.classes
    for label, ranking in before.classes.items():
        now = file.classes.get(label)
        if ranking != now and (now is None or ranking != ours.get(label)):
            return True
    return any(file.costs.get(name) != cost for name, cost in before.costs.items())


def first(
    played: Sequence[Played], before: TableFile | None, prior: MappingTable, machine: Machine, measured: Measured
) -> TableFile:
    """Stage 1's table. Raises nothing; without any class that two schedulers played it ranks none."""
    frugal = _frugal(prior)
    ranked = {label: own for label, own in rank(played).items() if not _of_one_pair(label, own, prior)}
    classes = to_classes(ranked, frugal)
    for label, entries in classes.items():
        classes[label] = [*entries, *_carried(prior, label, entries)]
    return _file(classes, before, machine, measured, light=light(played))


def with_costs(costs: Mapping[str, Cost], before: TableFile | None, machine: Machine, measured: Measured) -> TableFile:
    """Stage 2's: what is there, with these costs."""
    file = _file({}, before, machine, measured)
    return msgspec.structs.replace(file, costs={**file.costs, **costs})


def refined(
    played: Sequence[Played],
    before: TableFile | None,
    prior: MappingTable,
    machine: Machine,
    measured: Measured,
    *,
    begun: TableFile | None,
    carries: bool = False,
) -> TableFile:
    """Stage 3's: each class that was played ranked by that and by what was expected; the others as they were.

    `begun` is the table when the campaign began: its figures count beside the new runs. Those of `before`, the one that
    is to be replaced, do not: it may have been made of the same runs; a class for which it has more runs stays as it is
    there. With `carries` the first table of `prior` is gone afterwards: its order of what was not played stays, without
    figures, which are of another machine.
    """
    known, ranked = cells(played), rank(played)
    noise = spread(known.values()) * wider(known.values())
    frugal, same = _frugal(prior), kept(begun, machine, measured)
    now = kept(before, machine, measured)
    there = {} if now is None else now.classes
    classes = {}
    for label, own in ranked.items():
        if _of_one_pair(label, own, prior):
            continue
        (fresh,) = to_classes({label: own}, frugal).values()
        old = [] if same is None else same.classes.get(str(label), [])
        blocks = {block: row for name in own[0].of or (label,) for block, row in known[name].items()}
        found = merged(fresh, own, old, blocks, noise)
        if _runs(there.get(str(label), ())) <= _runs(found):
            classes[str(label)] = [*found, *_carried(prior, label, found)]
    ours = classes.keys() | there.keys() | (set() if same is None else same.classes.keys())
    file = {**(_elsewhere(prior, ours) if carries else {}), **classes}
    return _file(file, before, machine, measured, light=light(played, same))


def beliefs(labels: Iterable[str], prior: MappingTable, schedulers: Sequence[str]) -> dict[str, Belief]:
    """For stage 3: of each class who comes into question, in which order, and what is expected.

    First those that the table in force ranks, and EEVDF; then the others of `schedulers`, who alone may be played.
    """
    found = {}
    for label in labels:
        source, listed, ranking = prior.source(Workload(label))
        ranked = [str(entry.name) for entry in ranking if entry.name in schedulers]
        order = dict.fromkeys((*ranked[:1], str(EEVDF), *ranked, *schedulers))
        own = listed == label and not source.elsewhere
        entries = ranking if listed == label else ()
        expected = gains(entries, 0.0 if own else TRANSFER)
        aged = {entry.name for entry in entries if source.aged(entry)}
        found[label] = Belief(
            names=tuple(order),
            gains={
                str(name): (one.gain, math.hypot(one.error, TRANSFER) if name in aged else one.error)
                for name, one in expected.items()
                if name in order
            },
        )
    return found


def costs(results: Iterable[Result]) -> tuple[dict[str, Cost], dict[str, str]]:
    """Of stage 2's trials: each scheduler's costs, and why others have none.

    `switch_ms` is the processor time that a switch takes from the whole machine, the deciding tick and a load with its
    verification, divided by the number of CPUs; `overhead_pct` the agent's at work, likewise.
    """
    by_name: dict[str, list[Shadowed]] = {}
    for result in results:
        told = result.parameters.get(CONTROLLER, {}).get(SHADOWED)
        if result.trial.scheduler.startswith(SHADOW) and result.outcome is not Outcome.FAILED and told is not None:
            name = result.trial.scheduler.removeprefix(SHADOW)
            by_name.setdefault(name, []).append(wire.shaped(told, Shadowed))
    found, lacking = {}, {}
    for name, trials in sorted(by_name.items()):
        cost = _cost(name, trials)
        if cost is None:
            reasons = [reason for one in trials for reason in one.refused]
            lacking[name] = reasons[-1] if reasons else "no load of it came to its end"
        else:
            found[name] = cost
    return found, lacking


def felt(played: Sequence[Played]) -> list[Felt]:
    """What stage 2's trials say of the agent's cost in score: less precise than `costs`, and shown beside them."""
    known = scores(played)
    without = {_block(one): known[one.run, one.trial].score for one in played if one.scheduler == EEVDF}
    found: dict[str, list[float]] = defaultdict(list)
    for one in played:
        base, score = without.get(_block(one)), known[one.run, one.trial].score
        if one.scheduler.startswith(SHADOW) and base is not None and score is not None:
            found[one.scheduler.removeprefix(SHADOW)].append(score - base)
    return [Felt(scheduler=name, blocks=len(all_), mean=statistics.fmean(all_)) for name, all_ in sorted(found.items())]


def light(played: Iterable[Played], same: TableFile | None = None) -> dict[str, bool]:
    """By class, and by each application in it: was the load light in a trial of it? Without those of unknown loads.

    `same` has the figures that count beside these.
    """
    found: dict[str, bool] = {}
    for one in played:
        if one.used is not None:
            parts = [name for name in (one.interactive, one.background) if name]
            for label in {"+".join(parts), *parts}:
                found[label] = found.get(label, False) or one.used < MIXED.enter
    older = {} if same is None else same.classes
    for label in found.keys() & older.keys():
        before = {one.evidence.light for one in older[label] if one.evidence is not None}
        found[label] = found[label] or True in before
        if not found[label] and None in before:
            del found[label]
    return found


def evident(ranking: Sequence[Entry], light: bool | None = None) -> list[Entry]:
    """With what each figure is evidence of: the lead over EEVDF, and its 95 % interval. Without one, an opinion.

    `light`: what `light` says of the class, None: what the entry itself says stays.
    """
    base = next((entry.score for entry in ranking if entry.name == EEVDF), None)

    def told(entry: Entry) -> Entry:
        if entry.name == EEVDF or base is None or entry.score is None or entry.error is None:
            return msgspec.structs.replace(entry, evidence=None)
        lead, half = entry.score - base, NORMAL_95 * entry.error
        found = Evidence(
            ground="measured",
            effect=round(lead, 4),
            low=round(lead - half, 4),
            high=round(min(1.0, lead + half), 4),
            runs=entry.runs,
            light=light if light is not None or entry.evidence is None else entry.evidence.light,
        )
        return msgspec.structs.replace(entry, evidence=found)

    return [told(entry) for entry in ranking]


def unlearnt(verdicts: Mapping[Workload, Verdict], unplayed: Iterable[Workload]) -> list[str]:
    """What stage 3 did not have the time to learn, a line each."""
    lines = [
        f"{label}: {one.leader} leads after {one.blocks} block{'s' if one.blocks != 1 else ''}; may be better: "
        f"{', '.join(one.open)}"
        for label, one in sorted(verdicts.items())
        if not one.settled
    ]
    left = sorted(unplayed)
    return [*lines, *([f"not played: {', '.join(left)}"] if left else [])]


def _file(
    classes: Mapping[str, list[Entry]],
    before: TableFile | None,
    machine: Machine,
    measured: Measured,
    *,
    light: Mapping[str, bool] = MappingProxyType({}),
) -> TableFile:
    old = kept(before, machine, measured)
    schedulers = measured.schedulers
    idle = {IDLE: [Entry(scheduler=EEVDF, why="nothing competes for the CPU, so nothing has to be loaded")]}
    merged = {**(idle if classes else {}), **({} if old is None else old.classes), **classes}
    if old is not None and old.measured is not None:
        schedulers = {**old.measured.schedulers, **schedulers}
    return TableFile(
        version=2,
        machine=machine,
        measured=msgspec.structs.replace(measured, schedulers=schedulers),
        provenance=(
            "Measured on this machine by `asa calibrate` or `asa adapt`. score: mean of the scenario's scores in "
            "`runs` trials, on one level for a class; low to high: 95 % t interval of that mean; error: standard error "
            "of its lead over eevdf in the blocks of both. Classes of one application are taken from the pairs with it "
            "where `why` says so." + ("" if old is None else _earlier(old, measured))
        ),
        costs={} if old is None else dict(old.costs),
        classes={label: evident(ranking, light.get(label)) for label, ranking in merged.items()},
    )


def _earlier(old: TableFile, measured: Measured) -> str:
    """Which campaigns what was not measured now is of, the latest first."""
    _, *told = old.provenance.split(_EARLIER)
    last = [] if old.measured is None else [f"{old.measured.date}, `{old.measured.command}`"]
    others = dict.fromkeys(one for one in (*last, *told) if one != f"{measured.date}, `{measured.command}`")
    return "".join(f"{_EARLIER}{one}" for one in tuple(others)[:_MOST_EARLIER])


def _carried(prior: MappingTable, label: str, there: Sequence[Entry]) -> list[Entry]:
    """Who is for battery saver by the table in force, and was not played: stays after all others, without figures."""
    names = {entry.name for entry in there}
    return [
        _without_figures(entry, _SAVER)
        for entry in prior.ranking(Workload(label))
        if entry.efficient and entry.name not in names
    ]


def _without_figures(entry: Entry, why: str) -> Entry:
    """Its place alone, and why it has no more."""
    return Entry(
        scheduler=entry.scheduler,
        mode=entry.mode,
        why=f"{why}{entry.why.removeprefix(why)}",
        efficient=entry.efficient,
    )


def _of_one_pair(label: Workload, own: Sequence[Ranked], prior: MappingTable) -> bool:
    """Is it an application that one pair alone tells of, as of the other one, and that a table ranks already?"""
    return len(own[0].of) == 1 and bool(prior.ranking(label))


def _runs(ranking: Iterable[Entry]) -> int:
    # EEVDF's figures outlive an update of the others, and say nothing without theirs
    return sum(entry.runs or 0 for entry in ranking if entry.name != EEVDF)


def _elsewhere(prior: MappingTable, known: Collection[str]) -> dict[str, list[Entry]]:
    """The order of the first table's other classes."""
    return {
        str(label): [_without_figures(entry, _ELSEWHERE) for entry in ranking]
        for label, ranking in prior.rankings.items()
        if label != IDLE and label not in known
    }


def _frugal(prior: MappingTable) -> set[str]:
    found: set[str] = set()
    table: MappingTable | None = prior
    while table is not None:
        found |= {entry.name for ranking in table.rankings.values() for entry in ranking if entry.efficient}
        table = table.rest
    return found


def _cost(name: str, trials: Sequence[Shadowed]) -> Cost | None:
    cpus = trials[0].cpus
    loads = [value for one in trials for value in one.loads_ms]
    ticks = [one.tick_ms for one in trials if one.tick_ms is not None]
    shares = [one.agent_pct for one in trials if one.agent_pct is not None]
    if not ticks or not (loads or name == EEVDF):
        return None
    load_ms = statistics.fmean(loads) if loads else 0.0
    return Cost(
        switch_ms=round((load_ms + statistics.fmean(ticks)) / cpus, 3),
        overhead_pct=round(statistics.fmean(shares) / cpus, 4) if shares else None,
        runs=len(loads) if name != EEVDF else len(trials),
    )


def _block(one: Played) -> tuple[str, int, str, str]:
    return one.run, one.repeat, one.interactive, one.background
