# SPDX-License-Identifier: GPL-2.0-only
"""What the policy takes note of between two ticks: what became of switches, what a person said, what feeds the machine.
Pure.
"""

from dataclasses import replace

from asa.core.decision import EEVDF, ExitKind, Order, OrderKind, SchedulerName, SwitchEvent, SwitchOutcome
from asa.decide import cooldown, guard, learning, orders, penalties, quarantine, told, turns
from asa.decide.books import Books
from asa.decide.check import Checks
from asa.decide.guard import GuardState
from asa.decide.policy_state import PolicySetup, PolicyState, version_of

STRANGER = "was attached by somebody else"
"""Why nothing is switched then, after the scheduler's name; until it has gone by itself."""

_STOOD_NS = 60 * 10**9  # a choice by hand that takes the helper with it sooner is not ordered again


def learn(books: Books, event: SwitchEvent, *, wall_ns: int, setup: PolicySetup) -> Books:
    """Take note of what became of a switch or of the running scheduler."""
    state = books.policy
    new, at_ns, held = event.new, event.monotonic_ns, state.held
    stood_ns = 0 if state.pending == new or state.last_switch_ns is None else at_ns - state.last_switch_ns
    by_hand = held is not None and held.scheduler == new and new in (state.pending, state.running)
    match event.outcome:
        case SwitchOutcome.CONFIRMED | SwitchOutcome.SHADOWED:
            # what takes turns in a trial was not chosen, and is nothing to go back to
            trying = state.trial is not None or state.checks.now is not None or (held is not None and held.client)
            previous = event.old if event.old != new and not trying else state.previous
            state = replace(state, pending=None, running=new, previous=previous, last_switch_ns=at_ns)
            if state.trial is None:
                state = replace(state, suspected=None)
            return replace(books, policy=replace(state, costs=cooldown.note(state.costs, event)))
        case SwitchOutcome.FOREIGN:
            state = replace(state, pending=None, running=None)
            return replace(books, policy=_held_up(state, f"{new} {STRANGER}", stranger=True))
        case SwitchOutcome.REFUSED:
            pending = None if new == state.pending else state.pending  # else it was one that should stand by
            state = replace(state, pending=pending)
        case SwitchOutcome.LOST:
            pending = None if new == state.pending else state.pending  # else the next one is on its way already
            state = replace(state, pending=pending, running=EEVDF, last_switch_ns=at_ns)
        case SwitchOutcome.FAILED:
            state = replace(state, pending=None, running=EEVDF, last_switch_ns=at_ns)
    if event.exit is not None and event.exit.kind is ExitKind.SYSRQ:
        return replace(books, policy=_held_up(state, f"{new} was taken out by SysRq-S", stranger=False))
    if held is not None and held.client and (by_hand or new == held.scheduler):
        # It counts against the scheduler. What served before is due, where that is not what has failed itself.
        state = replace(state, held=orders.ended(held) if held.back != new else None)
    elif held is not None and by_hand:
        if event.outcome is SwitchOutcome.LOST and event.withdrawn and stood_ns >= _STOOD_NS:
            return replace(books, policy=state)  # it comes back with the lease
        return replace(books, policy=replace(state, held=orders.failed(held, event)))
    bars = books.bars
    kept, off = quarantine.take_note(state.quarantine, event, setup.quarantine.backoff_s)
    if off is not None:
        bars = penalties.put_off(
            penalties.refresh(bars, wall_ns=wall_ns, versions=setup.versions),
            scheduler=off,
            version=version_of(off, setup),
            wall_ns=wall_ns,
            why=event.exit.reason if event.exit is not None else event.detail,
            count=quarantine.FAILURES,
        )
    return replace(books, policy=replace(state, quarantine=kept), bars=bars)


def obey(books: Books, order: Order, current: SchedulerName | None) -> Books:
    """Do what a person said. A stranger's scheduler is never switched away from: going on then waits for its end."""
    state, bars, lessons = books.policy, books.bars, learning.obey(books.lessons, order)
    alone = current in (EEVDF, None)
    match order.kind:
        case OrderKind.RELOAD:
            state = replace(state, quarantine=quarantine.lift(state.quarantine))
            if state.stranger and alone:
                state = released(state)
        case OrderKind.RESUME:
            reverts = () if order.scheduler is None else state.reverts
            kept = quarantine.lift(state.quarantine, order.scheduler)
            state = replace(state, quarantine=kept, reverts=reverts, held=None, go_on=bool(state.outside))
            bars = penalties.lift(bars, order.scheduler)
            books = replace(books, told=None)
        case OrderKind.HOLD | OrderKind.SWITCH if not orders.heeds(state.held, order, state.outside):
            pass
        case OrderKind.HOLD:
            state = replace(state, held=orders.hold(order, state.held))
        case OrderKind.SWITCH:
            if alone or current == state.running:
                state = replace(released(state), held=orders.choose(order, state.held, current))
        case OrderKind.LAPSE:
            state = replace(state, held=orders.lapsed(state.held, order.lease))
            books = replace(books, told=told.lapsed(books.told, order.lease))
        case OrderKind.HINT:
            books = replace(books, told=told.of_order(order))
        case OrderKind.TRY | OrderKind.UNTRY:
            state, lessons = turns.obey(state, lessons, order)
    return replace(books, policy=state, bars=bars, lessons=lessons)


def powered(state: PolicyState, saver: bool | None, on_battery: bool | None) -> PolicyState:
    """Note what feeds the machine (None: as before). What the guard saw under other power is no measure any more."""
    power = state.power.seen(saver, on_battery)
    if power == state.power:
        return state
    return replace(state, power=power, guard=GuardState(), checks=Checks())


def interrupted(state: PolicyState) -> PolicyState:
    """After a gap, of which nobody knows what was done in it: what the guard watches begins anew."""
    checks = replace(state.checks, now=None) if state.checks.now is not None else state.checks
    return replace(state, guard=guard.broken_off(state.guard), checks=checks)


def released(state: PolicyState) -> PolicyState:
    """Without what happened from outside."""
    return replace(state, outside="", stranger=False, go_on=False, alone_ns=None)


def _held_up(state: PolicyState, why: str, *, stranger: bool) -> PolicyState:
    held = orders.chose_no_more(state.held)
    return replace(state, outside=why, stranger=stranger, go_on=False, alone_ns=None, held=held)
