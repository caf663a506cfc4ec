# SPDX-License-Identifier: GPL-2.0-only
"""What the stages write: a machine's mapping table out of rankings and costs, and what was known before. Pure.

A table is of one machine, one kernel and one set of schedulers. What an older table of the same says stays where
nothing new was measured; of any other machine's only the order of belief is used (`beliefs`).
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import fingerprint
from asa.decide.table import Cost, Entry, Machine, MappingTable, Measured, TableFile
from calibration.bench_scores import Played, scores
from calibration.best_arm import Verdict
from calibration.ranking import NOISE_FIRST, SHADOW, Expected, Ranked, cells, fit, rank, spread, to_classes
from calibration.stages import Belief
from calibration.stages_agent import SHADOWED, Shadowed
from scenarios.catalogue import IDLE
from scenarios.runner_plan import CONTROLLER, Outcome, Result

TRANSFER = 0.05
"""How far a gain measured on another machine, kernel or scheduler is taken to be from this one's.

A standard deviation of score; a first choice, measured on nothing."""
_SAVER = "for battery saver, not played: "
_ELSEWHERE = "not played here: "
_Z = 1.96  # standard errors from the middle of a 95 % interval to its end


class Felt(msgspec.Struct, frozen=True, kw_only=True):
    """How much score the agent costs by what was felt: with the agent less without, in blocks that both played."""

    scheduler: str  # its shadow
    blocks: int
    mean: float


def kept(before: TableFile | None, machine: Machine, measured: Measured) -> TableFile | None:
    """`before`, if its figures may stand beside new ones: same machine, series of kernels, tier and schedulers."""
    if before is None or before.measured is None or not fingerprint.comparable(before.machine, machine):
        return None
    if fingerprint.differences(before.machine, machine):
        return None
    then, now = before.measured, measured
    shared = then.schedulers.keys() & now.schedulers.keys()
    same = fingerprint.series(then.kernel) == fingerprint.series(now.kernel) and then.tier == now.tier
    return before if same and all(then.schedulers[name] == now.schedulers[name] for name in shared) else None


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
    classes = to_classes(rank(played), frugal)
    for label, entries in classes.items():
        classes[label] = [*entries, *_carried(prior, label, entries)]
    return _file(classes, before, machine, measured)


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
    is to be replaced, do not: it may have been made of the same runs. With `carries` the first table of `prior` is gone
    afterwards: its order of what was not played stays, without figures, which are of another machine.
    """
    known, ranked = cells(played), rank(played)
    noise = spread(known.values())
    frugal, same = _frugal(prior), kept(begun, machine, measured)
    classes = {}
    for label, own in ranked.items():
        if len(own[0].of) == 1 and prior.ranking(label):
            continue  # what one pair shows is as much of the other application in it
        (fresh,) = to_classes({label: own}, frugal).values()
        old = [] if same is None else same.classes.get(str(label), [])
        blocks = {block: row for name in own[0].of or (label,) for block, row in known[name].items()}
        classes[str(label)] = _merged(fresh, own, old, blocks, noise)
        classes[str(label)] += _carried(prior, label, classes[str(label)])
    ours = classes.keys() | (set() if same is None else same.classes.keys())
    return _file({**(_elsewhere(prior, ours) if carries else {}), **classes}, before, machine, measured)


def gains(entries: Sequence[Entry], more: float) -> dict[SchedulerName, Expected]:
    """What a ranking makes expect of its schedulers, above EEVDF; nothing of those without a score.

    `more` is the standard deviation by which a gain there may differ from the one here.
    """
    known = {entry.name: entry.score for entry in entries if entry.score is not None}
    if EEVDF not in known:
        return {}
    return {
        entry.name: Expected(gain=entry.score - known[EEVDF], error=math.hypot(_error(entry), more))
        for entry in entries
        if entry.score is not None and entry.name != EEVDF
    }


def beliefs(labels: Iterable[str], prior: MappingTable, schedulers: Sequence[str]) -> dict[str, Belief]:
    """For stage 3: of each class who comes into question, in which order, and what is expected.

    First those that the table in force ranks, and EEVDF; then the others of `schedulers`, who alone may be played.
    """
    found = {}
    for label in labels:
        source, listed, ranking = prior.source(Workload(label))
        ranked = [str(entry.name) for entry in ranking if entry.name in schedulers]
        order = dict.fromkeys((*ranked[:1], str(EEVDF), *ranked, *schedulers))
        own = listed == label and not source.prior
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
            by_name.setdefault(name, []).append(msgspec.convert(told, Shadowed))
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
    classes: Mapping[str, list[Entry]], before: TableFile | None, machine: Machine, measured: Measured
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
            "`runs` trials; low to high: 95 % t interval of that mean. Classes of one application are taken from the "
            "pairs with it where `why` says so."
        ),
        costs={} if old is None else dict(old.costs),
        classes=merged,
    )


def _merged(
    fresh: Sequence[Entry],
    own: Sequence[Ranked],
    old: Sequence[Entry],
    blocks: Mapping[tuple[str, str, int], Mapping[SchedulerName, float]],
    noise: float,
) -> list[Entry]:
    """New entries and the old ones of who was not played again, by what both together make of them."""
    expected = gains(old, 0.0)
    if expected:
        expected[EEVDF] = Expected(gain=0.0, error=1e-3)
    played = {one.name for one in own}
    stays = [entry for entry in old if entry.name not in played and entry.score is not None]
    entries = [*fresh, *stays]
    names = tuple(entry.name for entry in entries)
    found = fit(blocks, names, noise, expected)
    place = dict(zip(names, found.gains, strict=True))
    unknown = [entry for entry in fresh if entry.name not in played]  # EEVDF that was not played
    ranked = sorted(
        (entry for entry in entries if entry not in unknown), key=lambda one: -round(float(place[one.name]), 9)
    )
    before = {entry.name: entry.runs or 0 for entry in old}
    told = [
        msgspec.structs.replace(entry, why=f"{entry.why}; {before[entry.name]} runs before these count too")
        if entry.name in played and before.get(entry.name)
        else entry
        for entry in ranked
    ]
    return [*told, *(entry for entry in unknown if entry.name not in {one.name for one in stays})]


def _carried(prior: MappingTable, label: str, there: Sequence[Entry]) -> list[Entry]:
    """Who is for battery saver by the table in force, and was not played: stays after all others, without figures."""
    names = {entry.name for entry in there}
    return [
        Entry(
            scheduler=entry.scheduler,
            mode=entry.mode,
            why=f"{_SAVER}{entry.why.removeprefix(_SAVER)}",
            efficient=True,
        )
        for entry in prior.ranking(Workload(label))
        if entry.efficient and entry.name not in names
    ]


def _elsewhere(prior: MappingTable, known: Collection[str]) -> dict[str, list[Entry]]:
    """The order of the first table's other classes."""
    return {
        str(label): [
            Entry(
                scheduler=entry.scheduler,
                mode=entry.mode,
                why=f"{_ELSEWHERE}{entry.why.removeprefix(_ELSEWHERE)}",
                efficient=entry.efficient,
            )
            for entry in ranking
        ]
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


def _error(entry: Entry) -> float:
    if entry.low is not None and entry.high is not None:
        return max(1e-3, (entry.high - entry.low) / 2.0 / _Z)
    return NOISE_FIRST / math.sqrt(entry.runs or 1)


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
