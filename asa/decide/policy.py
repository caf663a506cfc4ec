# SPDX-License-Identifier: GPL-2.0-only
"""When a recognised workload becomes a switch: dwell, cooldown, hold, and schedulers set aside. Pure.

The order of the rules is the order in which they are asked; the first that speaks names the reason.
"""

from dataclasses import dataclass, replace

from asa.config import PolicySettings
from asa.core.decision import (
    EEVDF,
    Reason,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Vote,
    Workload,
)
from asa.decide.table import MappingTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """What the policy remembers from tick to tick. Times are CLOCK_MONOTONIC in ns."""

    workload: Workload | None = None  # the class in force: the last winner
    since_ns: int = 0  # when it won first without a break
    last_switch_ns: int | None = None  # when a switch last ended, well or badly
    pending: SchedulerName | None = None  # ordered, not yet reported
    running: SchedulerName | None = None  # what we last brought up, with its mode
    set_aside: frozenset[SchedulerName] = frozenset()  # failed in this run
    foreign: bool = False  # somebody else's scheduler was seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the policy says in one tick."""

    wanted: SchedulerName | None
    switch_to: SchedulerName | None
    reason: Reason
    sentence: str


def learn(state: PolicyState, event: SwitchEvent) -> PolicyState:
    """Take note of what became of a switch or of the running scheduler."""
    match event.outcome:
        case SwitchOutcome.CONFIRMED:
            return replace(state, pending=None, running=event.new, last_switch_ns=event.monotonic_ns)
        case SwitchOutcome.REFUSED:
            return replace(state, pending=None, set_aside=_aside(state, event.new))
        case SwitchOutcome.FAILED | SwitchOutcome.LOST:
            aside = _aside(state, event.new)
            return replace(state, pending=None, running=EEVDF, last_switch_ns=event.monotonic_ns, set_aside=aside)
        case SwitchOutcome.FOREIGN:
            return replace(state, pending=None, running=None, foreign=True)


def decide(
    state: PolicyState,
    vote: Vote,
    *,
    now_ns: int,
    current: SchedulerName | None,
    may_switch: bool,
    table: MappingTable,
    rules: PolicySettings,
) -> tuple[PolicyState, Verdict]:
    """One tick: the new state and the verdict. `current` is None where the kernel has no sched_ext."""
    if vote.workload is not None and vote.workload != state.workload:
        state = replace(state, workload=vote.workload, since_ns=now_ns)
    workload = state.workload
    if workload is None or vote.workload is None:
        return state, _keep(None, Reason.UNDECIDED, "no class passes the voting threshold")
    wanted = table.wanted(workload, state.set_aside)
    if wanted is None:
        return state, _keep(None, Reason.NO_ENTRY, f"the table says nothing about {workload}")
    if not may_switch or current is None:
        return state, _keep(wanted, Reason.OBSERVING, f"{workload} wants {wanted}; only observing")
    if state.foreign:
        return state, _keep(wanted, Reason.HOLD, "on hold: a scheduler was attached by somebody else")
    if state.pending is not None:
        return state, _keep(wanted, Reason.BUSY, f"switching to {state.pending}")
    if wanted == current:
        return state, _keep(wanted, Reason.SERVED, f"{current} serves {workload}")
    expected = state.running or EEVDF
    if current != expected:  # it has just died, or been replaced: word of that is on its way, and decides
        return state, _keep(wanted, Reason.BUSY, f"{current} is in force where {expected} should be; finding out why")
    if now_ns - state.since_ns < rules.dwell_s * 1e9:
        return state, _keep(wanted, Reason.DWELL, f"{workload} is too new to switch for")
    if state.last_switch_ns is not None and now_ns - state.last_switch_ns < rules.cooldown_s * 1e9:
        return state, _keep(wanted, Reason.COOLDOWN, f"{workload} wants {wanted}; cooling down")
    verdict = Verdict(
        wanted=wanted,
        switch_to=wanted,
        reason=Reason.BETTER,
        sentence=f"{workload} is served better by {wanted} than by {current}",
    )
    return replace(state, pending=wanted), verdict


def _aside(state: PolicyState, name: SchedulerName) -> frozenset[SchedulerName]:
    return state.set_aside if name == EEVDF else state.set_aside | {name}


def _keep(wanted: SchedulerName | None, reason: Reason, sentence: str) -> Verdict:
    return Verdict(wanted=wanted, switch_to=None, reason=reason, sentence=sentence)
