# SPDX-License-Identifier: GPL-2.0-only
"""A check: a scheduler that looks worse than EEVDF did takes turns with it, in blocks of seconds, until that is clear.
Pure; it switches nothing.

Nobody is worse off under EEVDF, and a switch costs milliseconds. So the guard has not to wait until minutes of blocks
prove a difference: one block that lies above all that EEVDF showed is enough to ask. A load that came at the same
moment stays while the two take turns; what the scheduler makes goes and comes with it. The reasons, and what was
simulated: docs/design.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from statistics import median

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.guard import (
    BLOCK_S,
    LONGEST_GAP_S,
    MOST_PAIRS,
    REFERENCE_S,
    WORSE_BY,
    Block,
    Compared,
    GuardState,
    references,
)
from asa.decide.signals import GUARDED, MEANINGS, PLACES, Signal, Signals, Values, felt, middle, offered_more, values_of

FEWEST_REFERENCES = 4
"""Blocks under EEVDF that have to be known before a check may begin."""
LOOKS_WORSE: tuple[tuple[int, float, float], ...] = ((1, 2.0, 1.0), (2, 1.25, 0.9))
"""When it begins: so many blocks in a row lie above that share of the references, and so many times their median."""
MOST_CHECKS = 3
"""Of one scheduler for one class in `guard.REFERENCE_S`. So chance has three tries at most."""
MOST_TURNS = 5
"""Blocks under EEVDF in a check; what is not clear by then is not worse."""
MOVED_TURNS = 3
"""From so many on a load that comes and goes with the scheduler is of its making, and excuses nothing that it can make
(`signals.Offer.movable`)."""
KEPT_SHARE = 0.75
"""Of the pairs of blocks, in which the scheduler's has to be the worse one, or the suspicion is over."""
LONGEST_WAIT_S = 30.0
"""Until the one whose turn it is must be in force: it may have to be loaded first."""

_Rule = tuple[int, float, float]
# Turns, how many times as much in the median, the share of pairs of blocks in which it is worse. Four signals are no
# part of the first rule: two cannot be felt so soon, one is a share, and the timer's lateness has the widest tails.
_PLAIN: tuple[_Rule, ...] = ((3, 1.75, 1.0), (4, 1.25, 0.9), (5, 1.25, 0.88))
_SOON: tuple[_Rule, ...] = ((2, 2.5, 1.0), *_PLAIN)
_LATE: tuple[_Rule, ...] = ((4, 2.0, 0.95), (5, 2.0, 0.95))
_LATEST: tuple[_Rule, ...] = ((4, 4.0, 0.95), (5, 4.0, 0.95))
_RULES: Mapping[Signal, tuple[_Rule, ...]] = {
    Signal.RUN_QUEUE: _SOON,
    Signal.WAKEUP: _SOON,
    Signal.PRESSURE: _LATE,
    Signal.TIMER: _LATEST,
}


class End(Enum):
    """How a check ended."""

    WORSE = "worse"
    CLEAR = "clear"
    VOID = "void"  # nothing is known by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned(Compared):
    """A verdict by turns of the two."""

    @property
    def sentence(self) -> str:
        """For people."""
        return self.told(" in turns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check under way, or over. EEVDF has the first turn. Bounded: some twelve blocks."""

    workload: Workload
    scheduler: SchedulerName
    places: tuple[int, ...]  # of `Values`: what looks worse
    mine: tuple[Values, ...]  # blocks under the scheduler, those that began the check among them
    last_ns: int
    asked_ns: int  # when the one whose turn it is came to be wanted
    first: bool = True  # of the scheduler in this class: chance has had no other try
    theirs: tuple[Values, ...] = ()  # blocks under EEVDF
    its_turn: bool = False
    block: Block | None = None  # None: whose turn it is, is awaited
    end: End | None = None
    worse: Turned | None = None

    @property
    def wants(self) -> SchedulerName:
        """Whose turn it is."""
        return self.scheduler if self.its_turn else EEVDF

    @property
    def words(self) -> str:
        """What it does, for people."""
        what = " and ".join(MEANINGS[signal].words for place, signal in GUARDED if place in self.places)
        return (
            f"{self.scheduler} looks worse than {EEVDF} for {self.workload} ({what}): "
            f"they take turns of {BLOCK_S:g} s, {self.wants}'s is number {1 + len(self.theirs) - self.its_turn}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """The one under way, and when the last ones began, CLOCK_MONOTONIC. Bounded: guard.MOST_PAIRS pairs."""

    now: Check | None = None
    begun_ns: Mapping[tuple[Workload, SchedulerName], tuple[int, ...]] = field(default_factory=dict)


def begun(checks: Checks, guard: GuardState, now_ns: int) -> Checks:
    """With a check that begins, where the block that has just ended looks worse; to be asked after `guard.observe`."""
    trial = guard.trial
    if trial is None or not trial.whole or trial.scheduler == EEVDF:
        return checks
    pair = trial.workload, trial.scheduler
    lately = tuple(at_ns for at_ns in checks.begun_ns.get(pair, ()) if now_ns - at_ns < REFERENCE_S * 1e9)
    if len(lately) >= MOST_CHECKS:
        return checks
    seen = guard.seen[pair][-trial.blocks :]
    for count, times, share in LOOKS_WORSE:
        mine = seen[-count:]
        if len(mine) < count:
            break
        known = references(guard.seen.get((trial.workload, EEVDF), ()), _middles(mine), movable=False)
        places = tuple(place for place, signal in GUARDED if _above(mine, known, (place, signal), times, share))
        if places:
            check = Check(
                workload=trial.workload,
                scheduler=trial.scheduler,
                places=places,
                mine=mine,
                last_ns=now_ns,
                asked_ns=now_ns,
                first=not lately,
            )
            others = {other: times_ns for other, times_ns in checks.begun_ns.items() if other != pair}
            while len(others) >= MOST_PAIRS:
                del others[next(iter(others))]
            return Checks(now=check, begun_ns=others | {pair: (*lately, now_ns)})
    return checks


def take(check: Check, *, now_ns: int, in_force: SchedulerName | None, signals: Signals | None) -> Check:
    """With one tick more. `signals` None: this tick tells nothing. What is over stays as it is."""
    if check.end is not None:
        return check
    if not 0 <= now_ns - check.last_ns <= LONGEST_GAP_S * 1e9 or in_force not in (EEVDF, check.scheduler):
        return replace(check, end=End.VOID)
    check = replace(check, last_ns=now_ns)
    block = check.block
    if block is None:
        if in_force == check.wants:  # this tick has the switch in it
            return replace(check, block=Block(since_ns=now_ns, ticks=0))
        return replace(check, end=End.VOID) if now_ns - check.asked_ns > LONGEST_WAIT_S * 1e9 else check
    if in_force != check.wants:
        return replace(check, end=End.VOID)
    if signals is not None:
        block = block.plus(values_of(signals))
    if not block.whole(now_ns):
        return replace(check, block=block)
    means = block.means()
    if check.its_turn:
        return replace(check, mine=(*check.mine, means), its_turn=False, block=None, asked_ns=now_ns)
    return _judged(replace(check, theirs=(*check.theirs, means), block=None, asked_ns=now_ns))


def _judged(check: Check) -> Check:
    """After a block under EEVDF: worse, clear, or the scheduler's turn again."""
    turns = len(check.theirs)
    excused = offered_more(_middles(check.mine), _middles(check.theirs), movable=turns < MOVED_TURNS)
    places: list[int] = []
    for place, signal in GUARDED:
        mine, theirs = _known(check.mine, place), _known(check.theirs, place)
        if place not in check.places or not mine or not theirs:
            continue
        now, before = median(mine), median(theirs)
        share = sum(one > other for one in mine for other in theirs) / (len(mine) * len(theirs))
        if share < KEPT_SHARE or not felt(signal, now, before, WORSE_BY):
            continue
        places.append(place)
        rules = (
            rule for rule in _RULES.get(signal, _PLAIN) if rule[0] == turns and (check.first or turns >= MOVED_TURNS)
        )
        if not excused and any(now >= times * before and share >= least for _, times, least in rules):
            worse = Turned(
                workload=check.workload,
                scheduler=check.scheduler,
                than=EEVDF,
                signal=signal,
                median=now,
                reference_median=before,
                blocks=len(mine),
                reference_blocks=len(theirs),
            )
            return replace(check, end=End.WORSE, worse=worse)
    if not places or turns >= MOST_TURNS or (excused and turns >= MOVED_TURNS):
        return replace(check, end=End.CLEAR)
    return replace(check, places=tuple(places), its_turn=True)


def _above(mine: Sequence[Values], known: Sequence[Values], of: tuple[int, Signal], times: float, share: float) -> bool:
    """Do blocks lie above the references, and is that felt?"""
    place, signal = of
    values, before = _known(mine, place), sorted(_known(known, place))
    if len(values) < len(mine) or len(before) < FEWEST_REFERENCES:
        return False
    usual, bound = median(before), before[min(len(before) - 1, int(share * len(before)))]
    now = median(values)
    return min(values) > bound and now >= times * usual and felt(signal, now, usual, WORSE_BY)


def _middles(blocks: Sequence[Values]) -> Values:
    return tuple(middle(tuple(blocks), place) for place in range(PLACES))


def _known(blocks: Sequence[Values], place: int) -> list[float]:
    return [value for block in blocks if (value := block[place]) is not None]
