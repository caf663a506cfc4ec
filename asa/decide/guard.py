# SPDX-License-Identifier: GPL-2.0-only
"""The guard: has a class of use regressed under this scheduler, compared with what it showed under others? Pure.

It keeps what each class showed under each scheduler, as means over blocks of `BLOCK_S`. A trial (an unbroken stretch
of one class under one scheduler) is compared with the scheduler before it and with EEVDF, at `LOOKS`. A regression is
improbable by chance (`asa.decide.ranks`), worse by `WORSE_BY`, and large enough to be felt. What looks worse long
before that takes turns with EEVDF (`asa.decide.check`). What is harm whatever the load is in `asa.decide.harm`. It
switches nothing (`asa.decide.policy` does) and bars nobody (`asa.decide.penalties` does). The reasons: docs/design.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide.harm import Alarm
from asa.decide.ranks import larger
from asa.decide.signals import (
    GUARDED,
    MEANINGS,
    PLACES,
    Signal,
    Signals,
    Values,
    felt,
    middle,
    offered_more,
    values_of,
)

ALPHA = 0.01
"""How probable a false alarm may be in one trial, all signals and looks together. A first choice."""
WORSE_BY = 0.25
"""By what share of the reference a median must be worse. A first choice."""
SETTLE_S = 2.0
"""What is measured for so long after a switch tells of the switch, not of the scheduler. A first choice."""
BLOCK_S = 3.0
_WHOLE = 0.9  # of it is a block: ticks come a little early or late, and one that waits for the next has a tick too many
LOOKS: tuple[tuple[int, float], ...] = ((6, 0.1), (10, 0.2), (15, 0.3), (20, 0.4))
"""At how many blocks a trial is looked at, and the share of alpha that may be spent there; the shares add up to 1."""
FEWEST_BLOCKS = 6
"""On each side of a comparison; with fewer no difference could pass."""
MOST_BLOCKS = 20
"""Kept for each class and scheduler: the newest minute."""
MOST_PAIRS = 64
"""Of class and scheduler that are remembered; the one not seen for longest is forgotten."""
REFERENCE_S = 8 * 3600.0
"""For how long, of the time that the machine is awake, what was seen is a reference: a working day, a first choice.

What a class shows under any scheduler moves with heat, updates and what lies in the background; an older reference
would let the guard blame the scheduler for that. A class then counts as met first again (`guard.baseline_s`).
"""
LONGEST_GAP_S = 10.0
"""Without a tick for longer a trial ends: the machine slept, or nobody could say what it did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A verdict by blocks: `scheduler` serves `workload` worse than `than`. Values as in `Signals`."""

    workload: Workload
    scheduler: SchedulerName
    than: SchedulerName
    signal: Signal
    median: float
    reference_median: float
    blocks: int  # of BLOCK_S each: the evidence
    reference_blocks: int

    def told(self, how: str) -> str:
        """For people; `how` they were compared follows the blocks."""
        meaning = MEANINGS[self.signal]
        now, before = self.median * meaning.scale, self.reference_median * meaning.scale
        return (
            f"{self.workload} regressed under {self.scheduler} compared with {self.than}: {meaning.words} "
            f"{now:.1f}{meaning.unit} against {before:.1f}{meaning.unit} (medians of {self.blocks} and "
            f"{self.reference_blocks} blocks of {BLOCK_S:g} s{how})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression(Compared):
    """A verdict by matching what is seen with what was seen before."""

    p: float
    level: float  # p had to be at most this

    @property
    def sentence(self) -> str:
        """For people."""
        return self.told(f", p = {self.p:.2g}, limit {self.level:.2g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block that is being filled: sums and counts of what was known."""

    since_ns: int
    ticks: int
    sums: tuple[float, ...] = (0.0,) * PLACES
    known: tuple[int, ...] = (0,) * PLACES

    def plus(self, values: Values) -> "Block":
        """With one tick more."""
        return Block(
            since_ns=self.since_ns,
            ticks=self.ticks + 1,
            sums=tuple(
                total if value is None else total + value for total, value in zip(self.sums, values, strict=True)
            ),
            known=tuple(count + (value is not None) for count, value in zip(self.known, values, strict=True)),
        )

    def whole(self, now_ns: int) -> bool:
        """Does it end with a tick at this time?"""
        return now_ns - self.since_ns >= _WHOLE * BLOCK_S * 1e9

    def means(self) -> Values:
        """Of signals known in at least half of the ticks."""
        return tuple(
            total / count if count and 2 * count >= self.ticks else None
            for total, count in zip(self.sums, self.known, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """An unbroken stretch of one class under one scheduler."""

    workload: Workload
    scheduler: SchedulerName
    last_ns: int
    block: Block
    blocks: int = 0  # whole ones since it began
    whole: bool = False  # a block has ended with this very tick
    share: float = 0.0  # of alpha, to be spent in a look at it


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardState:
    """What the guard remembers. Bounded: MOST_PAIRS times MOST_BLOCKS times fifteen numbers."""

    trial: Watched | None = None
    seen: Mapping[tuple[Workload, SchedulerName], tuple[Values, ...]] = field(default_factory=dict)
    """Class and scheduler -> means of blocks, newest last; the pair seen last is last."""
    seen_ns: Mapping[tuple[Workload, SchedulerName], tuple[int, ...]] = field(default_factory=dict)
    """When each of them ended, CLOCK_MONOTONIC."""
    alarm: Alarm = field(default_factory=Alarm)


def observe(
    state: GuardState, *, now_ns: int, workload: Workload, scheduler: SchedulerName, signals: Signals
) -> GuardState:
    """Take in one tick of a class under a scheduler that is settled: no switch under way or just done.

    Another class or scheduler, or a gap, ends the trial and begins the next one.
    """
    values = values_of(signals)
    trial = state.trial
    if trial is None or _ends(trial, now_ns, workload, scheduler):
        state = _young(_closed(state), now_ns)
        block = Block(since_ns=now_ns, ticks=0).plus(values)
        return replace(state, trial=Watched(workload=workload, scheduler=scheduler, last_ns=now_ns, block=block))
    if not trial.block.whole(now_ns):
        following = replace(trial, last_ns=now_ns, block=trial.block.plus(values), whole=False, share=0.0)
        return replace(state, trial=following)
    blocks = trial.blocks + 1
    share = next((share for at, share in LOOKS if at == blocks), 0.0)
    fresh = Block(since_ns=now_ns, ticks=0).plus(values)
    following = replace(trial, last_ns=now_ns, block=fresh, blocks=blocks, whole=True, share=share)
    return replace(remember(state, trial.workload, trial.scheduler, trial.block.means(), now_ns), trial=following)


def broken_off(state: GuardState) -> GuardState:
    """The trial has ended: the machine slept, say, which CLOCK_MONOTONIC does not tell."""
    return state if state.trial is None else replace(_closed(state), trial=None)


def judge(
    state: GuardState,
    *,
    workload: Workload,
    scheduler: SchedulerName,
    previous: SchedulerName | None,
) -> Regression | None:
    """The verdict of a look, if this tick is one; to be asked once after each `observe`.

    `previous` ran before `scheduler`; None: unknown, or not to be compared with. EEVDF itself is never judged: it is
    what is left when all else is worse. Of several signals that are worse the least probable one is named.
    """
    return _judged(state, workload, scheduler, previous, movable=True)


def near(
    state: GuardState,
    *,
    workload: Workload,
    scheduler: SchedulerName,
    previous: SchedulerName | None,
) -> Regression | None:
    """As `judge`, where that says nothing: a verdict but for an excuse that the scheduler can have made itself.

    Matching cannot tell then: a pair of blocks, one under each of the two, does (`asa.decide.trial`).
    """
    if judge(state, workload=workload, scheduler=scheduler, previous=previous) is not None:
        return None
    return _judged(state, workload, scheduler, previous, movable=False)


def _judged(
    state: GuardState, workload: Workload, scheduler: SchedulerName, previous: SchedulerName | None, *, movable: bool
) -> Regression | None:
    trial = state.trial
    if trial is None or not trial.share or (trial.workload, trial.scheduler) != (workload, scheduler):
        return None
    if scheduler == EEVDF:
        return None
    mine = state.seen[workload, scheduler][-trial.blocks :]
    load = tuple(middle(mine, place) for place in range(PLACES))
    mine = tuple(block for block in mine if not offered_more(block, load, movable=movable))
    comparisons = [
        (signal, than, values, reference)
        for than in dict.fromkeys((EEVDF, previous))
        if than is not None and than != scheduler
        for others in (references(state.seen.get((workload, than), ()), load, movable=movable),)
        for place, signal in GUARDED
        if (values := _known(mine, place)) and (reference := _known(others, place))
    ]
    level = ALPHA * trial.share / max(1, len(comparisons))
    found = [
        Regression(
            workload=workload,
            scheduler=scheduler,
            than=than,
            signal=signal,
            median=median(values),
            reference_median=median(reference),
            blocks=len(values),
            reference_blocks=len(reference),
            p=larger(values, reference),
            level=level,
        )
        for signal, than, values, reference in comparisons
        if felt(signal, median(values), median(reference), WORSE_BY)
    ]
    return min((worse for worse in found if worse.p <= level), key=lambda worse: worse.p, default=None)


def lacking(state: GuardState, *, workload: Workload, scheduler: SchedulerName = EEVDF) -> int:
    """How many blocks of `workload` under `scheduler` are missing before it can be a reference; 0: it can."""
    known = state.seen.get((workload, scheduler), ())
    best = max((len(_known(known, place, fewest=1)) for place, _ in GUARDED), default=0)
    return max(0, FEWEST_BLOCKS - best)


def _ends(trial: Watched, now_ns: int, workload: Workload, scheduler: SchedulerName) -> bool:
    other = (trial.workload, trial.scheduler) != (workload, scheduler)
    return other or not 0 <= now_ns - trial.last_ns <= LONGEST_GAP_S * 1e9


def _closed(state: GuardState) -> GuardState:
    # what a short visit left: two ticks are enough, one alone would be the noisiest of all blocks
    trial = state.trial
    if trial is None or trial.block.ticks < 2:
        return state
    return remember(state, trial.workload, trial.scheduler, trial.block.means(), trial.last_ns)


def _young(state: GuardState, now_ns: int) -> GuardState:
    """Without what is too old to be a reference."""
    first_ns = now_ns - int(REFERENCE_S * 1e9)
    if not any(times and times[0] < first_ns for times in state.seen_ns.values()):
        return state
    old = {pair: sum(at_ns < first_ns for at_ns in times) for pair, times in state.seen_ns.items()}
    seen = {pair: blocks[old.get(pair, 0) :] for pair, blocks in state.seen.items()}
    return replace(
        state,
        seen={pair: blocks for pair, blocks in seen.items() if blocks},
        seen_ns={pair: times[old[pair] :] for pair, times in state.seen_ns.items() if seen.get(pair)},
    )


def remember(state: GuardState, workload: Workload, scheduler: SchedulerName, block: Values, at_ns: int) -> GuardState:
    """With one block more, which ended then: the means of what it measured."""
    pair = (workload, scheduler)
    others = {other: blocks for other, blocks in state.seen.items() if other != pair}
    while len(others) >= MOST_PAIRS:
        del others[next(iter(others))]
    blocks = (*state.seen.get(pair, ()), block)[-MOST_BLOCKS:]
    times = {other: state.seen_ns[other] for other in others if other in state.seen_ns}
    ends_ns = (*state.seen_ns.get(pair, ()), at_ns)[-MOST_BLOCKS:]
    return replace(state, seen=others | {pair: blocks}, seen_ns=times | {pair: ends_ns})


def references(blocks: tuple[Values, ...], load: Values, *, movable: bool) -> tuple[Values, ...]:
    """Those in which not far less was asked for."""
    return tuple(block for block in blocks if not offered_more(load, block, movable=movable))


def _known(blocks: tuple[Values, ...], place: int, fewest: int = FEWEST_BLOCKS) -> list[float]:
    known = [value for block in blocks if (value := block[place]) is not None]
    return known if len(known) >= fewest else []
