# SPDX-License-Identifier: GPL-2.0-only
"""Checks at work: when one may begin, what ends it besides, what is waited for. Pure.

It stands between the policy and `asa.decide.check`, which plays the turns. They do not wait for `policy.learn`: a check
takes nothing from anybody, and is the guard's.
"""

from dataclasses import replace

from asa.core.decision import EEVDF, SchedulerName
from asa.decide import check, guard, turns
from asa.decide.books import Books
from asa.decide.check import End, Turned
from asa.decide.policy_state import Now, PolicySetup, Seen


def begun(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> Books:
    """With a check that begins in this tick, where what is in force looks worse and a switch is short."""
    state, current = books.policy, seen.current
    if current in (None, EEVDF) or state.trial is not None or state.held is not None:
        return books
    if state.power.saver:  # nothing is loaded for its turn then
        return books
    checks = check.begun(state.checks, state.guard, now.monotonic_ns)
    if checks is state.checks or not turns.are_short(state, current, setup):
        return books
    return replace(books, policy=replace(state, checks=checks, guard=guard.broken_off(state.guard)))


def follow(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> tuple[Books, Turned | None]:
    """With the check under way, if any, as this tick leaves it; and its verdict, if it is worse."""
    state = books.policy
    one = state.checks.now
    if one is None:
        return books, None
    if _stopped(books, one.scheduler, setup) or state.workload != one.workload:
        return replace(books, policy=replace(state, checks=replace(state.checks, now=None))), None
    signals = None if seen.vote.workload is None else seen.signals
    if state.pending is None:
        one = check.take(one, now_ns=now.monotonic_ns, in_force=seen.current, signals=signals)
    if one.end is None:
        return replace(books, policy=replace(state, checks=replace(state.checks, now=one))), None
    kept = state.guard
    for block in one.theirs:
        kept = guard.remember(kept, one.workload, EEVDF, block, now.monotonic_ns)
    state = replace(state, guard=kept, checks=replace(state.checks, now=None))
    return replace(books, policy=state), one.worse if one.end is End.WORSE else None


def loading(books: Books, seen: Seen, setup: PolicySetup) -> bool:
    """Is the one whose turn it is to be loaded first?"""
    name = turns.partner(books.policy)
    return name is not None and turns.stands_by(setup) and name not in seen.around.loaded


def _stopped(books: Books, scheduler: SchedulerName, setup: PolicySetup) -> bool:
    state = books.policy
    table, use = setup.table, state.workload
    if state.trial is not None or state.hold or not setup.permit.switch or not setup.guard.enabled or setup.shadow:
        return True
    return use is None or scheduler in state.out or not table.allows(use, scheduler, saver=state.power.saver)
