# SPDX-License-Identifier: GPL-2.0-only
"""A trial: the scheduler in force and a candidate take turns in blocks while one use stands. Pure; it switches nothing.

Two blocks are a pair, and a coin draws which of the two comes first. The first seconds of each block are left out.
`begin` and `take` are given what a tick shows; the answer is `Trial.wants`, and `Trial.outcome` when it is over. The
machine is then to have what it had. Whether a trial may begin, and with which candidate: `asa.decide.trial_budget`.
The reasons: docs/trials.md.
"""

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from random import Random

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import AsaError
from asa.decide.guard import LONGEST_GAP_S
from asa.decide.signals import Signals
from asa.decide.trial_pairs import Block, Effect, Pair, Side, Verdict, effect, spoiled, told_of, verdict
from asa.decide.trial_signs import MOST_PAIRS

SHORTEST_S, LONGEST_S = 8.0, 20.0
"""Of a block. The longer, the less the blocks of a pair differ by chance."""
SETTLE_S = 3.0
"""The first seconds of a block tell of the switch, and of what the one before left behind. A first choice."""
SWITCH_S = 10.0
"""A scheduler that is not in force so long after it was wanted has failed."""
FRESH_S = 60.0
"""After start and resume the machine is busy with itself."""
TIMES = 20
"""A block is at least so many times as long as a switch."""
STAY_PAIRS = 4
"""So many pairs are to fit into the time that the use is expected to stay."""
_JUMP_NS = 1_000_000_000  # between the clocks; NTP moves them by less
SLEPT_NS = 100_000_000
"""A suspend is longer: the two clocks are read one after the other."""


class Cause(StrEnum):
    """Why a trial is over."""

    SHOWN = "shown"  # by its pairs
    MOST = "most pairs"  # and nothing was shown
    HARM = "harm"
    USE = "change of use"
    SAVER = "battery saver"
    INHIBITED = "inhibited"
    HOLD = "hold"
    FRESH = "first minute"
    BUDGET = "budget"
    UNMEASURED = "nothing measured"
    CLOCK = "clock jump"
    SUSPEND = "suspend"
    GAP = "gap"
    DIED = "scheduler died"
    STRANGER = "another scheduler"
    SWITCH = "switch failed"
    LEASE = "lease lost"
    UNKNOWN = "scheduler unknown"

    @property
    def keeps(self) -> bool:
        """Are the whole pairs of this run good for the next one? Not where what was in force is in doubt."""
        return self not in _SPOILS


_SPOILS = frozenset(
    {Cause.CLOCK, Cause.SUSPEND, Cause.GAP, Cause.DIED, Cause.STRANGER, Cause.SWITCH, Cause.LEASE, Cause.UNKNOWN}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked. Raises AsaError for what cannot be tried."""

    use: Workload  # a class or a regime
    in_force: SchedulerName
    candidate: SchedulerName
    block_s: float
    seed: int  # of the orders: another one for each run, or they are no coins
    before: tuple[Pair, ...] = ()  # of earlier runs of the same two in this use

    def __post_init__(self) -> None:
        if self.in_force == self.candidate:
            raise AsaError(f"trial of {self.candidate}: it is in force; try another one")
        if not SHORTEST_S <= self.block_s <= LONGEST_S:
            allowed = f"{SHORTEST_S:g} to {LONGEST_S:g} s"
            raise AsaError(f"trial of {self.candidate}: blocks of {self.block_s!r} s; allowed: {allowed}")
        if len(self.before) >= MOST_PAIRS:
            raise AsaError(f"trial of {self.candidate}: {len(self.before)} pairs are made; it is settled")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTick:
    """What a tick shows to a trial."""

    now_ns: int  # CLOCK_MONOTONIC
    wall_ns: int  # CLOCK_REALTIME
    suspended_ns: int | None  # CLOCK_BOOTTIME less CLOCK_MONOTONIC
    awake_s: float  # since the agent's start and the last resume
    use: Workload | None
    in_force: SchedulerName | None  # read back from the kernel
    signals: Signals | None
    harm: str = ""  # what was done to the machine, by the guard's word
    saver: bool = False
    inhibited: str = ""  # what must not be disturbed: a call, a game in full screen, a recording
    hold: str = ""  # the user's word, or a stranger's scheduler
    leased: bool = True  # does the helper still keep what we ordered?
    go_on: bool = True  # does the budget allow another pair? Asked between pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a trial came to. Keep `pairs` for the next run, if it is void; that goes on from there."""

    plan: Plan
    verdict: Verdict
    cause: Cause
    words: str  # for people, what the cause has to say besides
    pairs: tuple[Pair, ...]
    effect: Effect | None
    seconds: float  # of this run
    tried_s: float  # of these under the candidate
    switches: int  # the last one back included

    @property
    def serves(self) -> SchedulerName:
        """Who is to serve the use from now on. Of two that are alike the cheaper one: the kernel's own."""
        plan = self.plan
        if self.verdict is Verdict.BETTER or (self.verdict is Verdict.ALIKE and plan.candidate == EEVDF):
            return plan.candidate
        return plan.in_force

    @property
    def sentence(self) -> str:
        """For people."""
        plan, also = self.plan, f" ({self.words})" if self.words else ""
        asked = f"{plan.candidate} against {plan.in_force} for {plan.use}"
        if self.verdict is Verdict.VOID:
            return f"{asked}: void by {self.cause}{also}; {len(self.pairs)} pairs are kept"
        told = self.effect
        if told is None:
            return f"{asked}: {self.verdict} by {self.cause}{also}"
        return f"{asked}: {self.verdict} by {self.cause}{also}; it {told_of(told)}, {len(self.pairs)} pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial under way, or over. Bounded: MOST_PAIRS pairs."""

    plan: Plan
    last: TrialTick
    started_ns: int
    asked_ns: int  # when the one that is wanted came to be wanted
    number: int = 0  # pairs of this run
    first: Side | None = None  # what the first block of this pair measured
    since_ns: int | None = None  # when this block's scheduler was first seen in force; None: it is awaited
    block: Block = field(default_factory=Block)
    pairs: tuple[Pair, ...] = ()  # those of before are among them
    candidate_ns: int | None = None  # when the candidate was last in force
    tried_ns: int = 0
    switches: int = 0
    outcome: Outcome | None = None

    @property
    def wants(self) -> SchedulerName:
        """Who is to be in force now; when it is over, who was before it."""
        plan = self.plan
        if self.outcome is not None:
            return plan.in_force
        turn = candidate_first(plan.seed, self.number) == (self.first is None)
        return plan.candidate if turn else plan.in_force


def block_s(switch_s: float | None, stay_s: float) -> float | None:
    """How long blocks are to be, by what a switch takes and how long the use is expected to stay.

    None: a switch takes too long, or nobody knows how long; then there is no trial.
    """
    if switch_s is None or not 0.0 <= switch_s * TIMES <= LONGEST_S or math.isnan(stay_s):
        return None
    return min(LONGEST_S, max(SHORTEST_S, switch_s * TIMES, stay_s / (2 * STAY_PAIRS)))


@lru_cache(maxsize=64)
def candidate_first(seed: int, number: int) -> bool:
    """Has the candidate the first block of a pair? A coin, and the same one in a replay."""
    return Random(f"{seed} {number}").random() < 0.5  # noqa: S311  # nothing secret


def begin(plan: Plan, tick: TrialTick) -> Trial:
    """A trial that begins with this tick; it is void at once where one must not begin."""
    now_ns = tick.now_ns
    switches = int(candidate_first(plan.seed, 0))
    trial = Trial(plan=plan, last=tick, started_ns=now_ns, asked_ns=now_ns, pairs=plan.before, switches=switches)
    against = _lost(trial, tick) or _stop(plan, tick)
    if against is None and tick.in_force != plan.in_force:
        against = Cause.STRANGER, _shown(tick)
    if against is None and tick.harm:
        against = Cause.HARM, tick.harm
    if against is not None:
        return replace(_over(trial, tick, Verdict.VOID, *against), switches=0)
    return _goes_on(trial, tick)


def take(trial: Trial, tick: TrialTick) -> Trial:
    """With one tick more. What is over stays as it is."""
    if trial.outcome is not None:
        return trial
    plan = trial.plan
    if (jump := _jump(trial.last, tick)) is not None:
        return _over(trial, tick, Verdict.VOID, *jump)
    if tick.in_force == plan.candidate:
        tried_ns = trial.tried_ns + tick.now_ns - trial.last.now_ns
        trial = replace(trial, candidate_ns=tick.now_ns, tried_ns=tried_ns)
    if tick.harm:  # of the first seconds under the one in force the candidate is the cause
        lately = trial.candidate_ns is not None and tick.now_ns - trial.candidate_ns <= SETTLE_S * 1e9
        return _over(trial, tick, Verdict.WORSE if lately else Verdict.VOID, Cause.HARM, tick.harm)
    if (against := _lost(trial, tick) or _stop(plan, tick)) is not None:
        return _over(trial, tick, Verdict.VOID, *against)
    return replace(_goes_on(trial, tick), last=tick)


def _stop(plan: Plan, tick: TrialTick) -> tuple[Cause, str] | None:
    """What ends a trial at once without a doubt about what it measured before."""
    if tick.use != plan.use:
        return Cause.USE, f"to {tick.use}" if tick.use is not None else "to an unknown one"
    if tick.saver:
        return Cause.SAVER, ""
    if tick.inhibited:
        return Cause.INHIBITED, tick.inhibited
    if tick.hold:
        return Cause.HOLD, tick.hold
    if tick.awake_s < FRESH_S:
        return Cause.FRESH, f"{tick.awake_s:.0f} s after start or resume"
    return None


def _jump(last: TrialTick, tick: TrialTick) -> tuple[Cause, str] | None:
    """What the clocks say against the time between two ticks."""
    if last.suspended_ns is not None and tick.suspended_ns is not None:
        slept_ns = tick.suspended_ns - last.suspended_ns
        if slept_ns > SLEPT_NS:
            return Cause.SUSPEND, f"for {slept_ns / 1e9:.1f} s"
    elapsed_ns = tick.now_ns - last.now_ns
    jump_ns = tick.wall_ns - last.wall_ns - elapsed_ns
    if elapsed_ns < 0 or abs(jump_ns) > _JUMP_NS:
        return Cause.CLOCK, f"by {(elapsed_ns if elapsed_ns < 0 else jump_ns) / 1e9:+.1f} s"
    return None


def _lost(trial: Trial, tick: TrialTick) -> tuple[Cause, str] | None:
    """What puts in doubt what was in force since the last tick."""
    gap_ns = tick.now_ns - trial.last.now_ns
    if gap_ns > LONGEST_GAP_S * 1e9:
        return Cause.GAP, f"no tick for {gap_ns / 1e9:.1f} s"
    if not tick.leased:
        return Cause.LEASE, ""
    return (Cause.UNKNOWN, "") if tick.in_force is None else None


def _goes_on(trial: Trial, tick: TrialTick) -> Trial:
    wanted, now_ns, since_ns = trial.wants, tick.now_ns, trial.since_ns
    if since_ns is None:
        if tick.in_force == wanted:
            return replace(trial, since_ns=now_ns, block=Block())
        if tick.in_force not in (trial.plan.in_force, trial.plan.candidate, EEVDF):
            return _over(trial, tick, Verdict.VOID, Cause.STRANGER, _shown(tick))
        if now_ns - trial.asked_ns > SWITCH_S * 1e9:
            return _over(trial, tick, Verdict.VOID, Cause.SWITCH, f"to {wanted}")
        return trial
    if tick.in_force != wanted:
        gone = (Cause.DIED, wanted) if tick.in_force == EEVDF else (Cause.STRANGER, _shown(tick))
        return _over(trial, tick, Verdict.VOID, *gone)
    if tick.signals is not None and trial.last.now_ns - since_ns >= SETTLE_S * 1e9:  # all of the tick lies in it
        trial = replace(trial, block=trial.block.plus(tick.signals))
    whole = now_ns - since_ns >= trial.plan.block_s * 1e9
    return _block_over(trial, tick) if whole else trial


def _block_over(trial: Trial, tick: TrialTick) -> Trial:
    side, first = trial.block.side, trial.first
    if first is None:
        return _turn(replace(trial, first=side), tick)
    candidate_was_first = candidate_first(trial.plan.seed, trial.number)
    one, other = (side, first) if candidate_was_first else (first, side)
    pair = Pair(in_force=one, candidate=other)
    if pair.gain is None:
        return _over(trial, tick, Verdict.VOID, Cause.UNMEASURED, "")
    pairs = (*trial.pairs, pair)
    trial = replace(trial, pairs=pairs, first=None, number=trial.number + 1)
    if (found := verdict(pairs)) is not None:
        most = found is Verdict.ALIKE and len(pairs) >= MOST_PAIRS
        worse_in = spoiled(pairs) if found is Verdict.ALIKE else None
        words = "" if worse_in is None else f"worse in {worse_in}"
        return _over(trial, tick, found, Cause.MOST if most else Cause.SHOWN, words)
    if not tick.go_on:
        return _over(trial, tick, Verdict.VOID, Cause.BUDGET, "")
    return _turn(trial, tick)


def _turn(trial: Trial, tick: TrialTick) -> Trial:
    """The next block: with the same scheduler it begins now, else when the other one is in force."""
    now_ns = tick.now_ns
    same = trial.wants == tick.in_force
    switches = trial.switches + (not same)
    return replace(trial, asked_ns=now_ns, since_ns=now_ns if same else None, block=Block(), switches=switches)


def _over(trial: Trial, tick: TrialTick, found: Verdict, cause: Cause, words: str) -> Trial:
    pairs = trial.pairs if cause.keeps else trial.plan.before
    candidate = trial.plan.candidate
    away = tick.in_force == candidate or (trial.since_ns is None and trial.wants == candidate)
    outcome = Outcome(
        plan=trial.plan,
        verdict=found,
        cause=cause,
        words=words,
        pairs=pairs,
        effect=effect(pairs),
        seconds=max(0, tick.now_ns - trial.started_ns) / 1e9,
        tried_s=trial.tried_ns / 1e9,
        switches=trial.switches + away,
    )
    return replace(trial, outcome=outcome, last=tick)


def _shown(tick: TrialTick) -> str:
    return f"{tick.in_force} is in force"
