# SPDX-License-Identifier: GPL-2.0-only
"""When the current class becomes a switch: dwell, cooldown, hold, quarantine, the guard's verdicts. Pure.

Rules are asked in the order in which they stand in `_verdict`; the first that applies names the reason. Whatever is
measured, switches stay bounded (`MOST_REVERTS_PER_HOUR`). What the user chose by hand comes before all of it. What is
remembered is in `asa.decide.policy_state`, what is noted between ticks in `asa.decide.policy_news`. The reasons:
docs/design.md.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

from asa.config import Learn
from asa.core.decision import EEVDF, Reason, SchedulerName, Vote, Workload, bar
from asa.decide import checking, cooldown, gain, guard, harm, learning, orders, penalties, turns
from asa.decide.books import Books
from asa.decide.check import Turned
from asa.decide.gain import Weighed
from asa.decide.guard import Regression
from asa.decide.harm import Starvation
from asa.decide.penalties import Cause
from asa.decide.policy_news import interrupted, learn, obey, powered, released
from asa.decide.policy_state import Now, PolicySetup, PolicyState, Revert, Seen, Verdict, keep, version_of
from asa.decide.signals import Signals
from asa.decide.table import MappingTable
from asa.decide.trial import Cause as Harm
from asa.decide.trial import Trial

__all__ = [
    "MOST_REVERTS_PER_HOUR",
    "PolicySetup",
    "PolicyState",
    "Revert",
    "Verdict",
    "decide",
    "first_choice",
    "interrupted",
    "learn",
    "obey",
    "out_for",
    "powered",
    "standing",
]

Worse: TypeAlias = Regression | Starvation | Turned
"""What the guard takes back."""

MOST_REVERTS_PER_HOUR = 10
"""Of one class, with the shipped settings: two may follow each other, then the class rests 40, 160, 640, 2560 s.

The turns of a trial (`asa.decide.turns`) and of a check (`asa.decide.check`) are not among them: they have bounds of
their own.
"""

ALONE_NS = 5 * 10**9
"""The kernel's own scheduler is in force for so long before a stranger's has gone: who replaces one stops it first."""

_CALM_NS = 24 * 3600 * 10**9  # a day without a revert: the next one is a first one again


def decide(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> tuple[Books, Verdict]:
    """One tick: the new books, and the verdict."""
    seen = replace(seen, vote=standing(seen.vote, setup.table))
    books = _with(books, _up_to_date(books, seen, now, setup))
    before = books.policy.trial
    books, starved = _starved(books, seen, now, setup)
    books, checked = checking.follow(books, seen, now, setup)
    books, regressed = _observed(books, seen, now, setup)
    worse = starved or checked or regressed
    books, came_to = turns.follow(books, seen, now, setup, "" if worse is None else worse.sentence)
    by_trial = worse is not None and _by_the_candidate(worse, before, books.policy)
    books, verdict = _verdict(books, seen, now, setup, None if by_trial else worse)
    return books, replace(verdict, trial=came_to) if came_to else verdict


def _verdict(books: Books, seen: Seen, now: Now, setup: PolicySetup, worse: Worse | None) -> tuple[Books, Verdict]:
    """By the rules in their order. `worse`: what the guard takes back."""
    state, current = books.policy, seen.current
    if worse is None and (by_hand := _by_hand(state, current, setup)) is not None:
        return _with(books, replace(state, pending=by_hand.switch_to)), by_hand
    if worse is not None:
        return _take_back(books, worse, seen, now, setup)
    if (turn := _turn(books, seen, now, setup)) is not None:
        return turn
    if (checks := _checks(books, seen, setup)) is not None:
        return checks
    workload = state.workload
    if workload is None or seen.vote.workload is None:
        return _for_nobody(books, seen, now, setup, keep(None, Reason.UNDECIDED, seen.vote.why_none))
    wanted = first_choice(books, workload, now, setup, out=state.out)
    if wanted is None:
        verdict = keep(None, Reason.NO_ENTRY, f"the mapping table has no entry for {workload}")
        return _for_nobody(books, seen, now, setup, verdict)
    if not setup.permit.switch or current is None:
        return books, keep(wanted, Reason.OBSERVING, f"observing only: {workload} would get {wanted}")
    if state.hold:
        also = "; ends when that scheduler has gone" if state.go_on else ""
        return books, keep(wanted, Reason.HOLD, f"on hold: {state.hold}{also}")
    if (busy := _busy(state, wanted, current)) is not None:
        return books, busy
    wish = _Wish(workload=workload, wanted=wanted, current=current)
    if wanted == current:
        return _served(books, wish, seen, now, setup)
    wait = _wait(books, wish, seen, now, setup)
    return (books, wait) if wait is not None else _switch(books, wish, now, setup)


def standing(vote: Vote, table: MappingTable) -> Vote:
    """The vote as it counts here: what is unknown wins by its regime where the table knows what serves that.

    The shipped tables rank no regime: nothing is done without evidence, and EEVDF comes back.
    """
    regime = vote.regime
    return vote if regime is None or not table.ranking(regime) else replace(vote, workload=regime)


def _for_nobody(books: Books, seen: Seen, now: Now, setup: PolicySetup, verdict: Verdict) -> tuple[Books, Verdict]:
    """Nothing speaks for what is in force: after a dwell EEVDF comes back. A wrong scheduler costs more than none."""
    state, current = books.policy, seen.current
    since_ns = state.since_ns if state.nobody_ns is None else state.nobody_ns
    age_ns = now.monotonic_ns - since_ns
    stands = not age_ns or age_ns < setup.policy.dwell_s * 1e9  # one tick without rates says nothing
    if stands or current in (EEVDF, None) or not setup.permit.switch or state.hold:
        return books, verdict
    if (busy := _busy(state, EEVDF, current)) is not None:
        return books, busy
    if (wait := _cooling(state, EEVDF, seen, now, setup)) is not None:
        return books, wait
    verdict = replace(verdict, wanted=EEVDF, switch_to=EEVDF, sentence=f"{verdict.sentence}, back to {EEVDF}")
    return _with(books, replace(state, pending=EEVDF)), verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What a class would get, and what it has."""

    workload: Workload
    wanted: SchedulerName
    current: SchedulerName


def _with(books: Books, state: PolicyState) -> Books:
    return books if state is books.policy else replace(books, policy=state)


def _by_hand(state: PolicyState, current: SchedulerName | None, setup: PolicySetup) -> Verdict | None:
    """The switch to order because the user asked for it; not before it is known why what should run does not."""
    expected, held = state.running or EEVDF, state.held
    chosen = held.scheduler if held is not None else None
    if held is None or chosen is None or chosen == current or current != expected:
        return None
    if state.pending is not None or not setup.permit.switch:
        return None
    return Verdict(wanted=chosen, switch_to=chosen, reason=Reason.BY_HAND, sentence=held.choice)


def first_choice(
    books: Books, workload: Workload, now: Now, setup: PolicySetup, *, out: frozenset[SchedulerName]
) -> SchedulerName | None:
    """The scheduler that a class would get now, without those that are `out`; None: the table has no word on it."""
    state = books.policy
    wanted = setup.table.wanted(workload, out, saver=state.power.saver)
    if wanted is None:
        return None
    revert = state.revert_of(workload)
    if revert is not None and revert.rests(now.monotonic_ns, setup):
        return revert.back if _may_serve(state, workload, revert.back, out, setup) else EEVDF
    proved = learning.proved(books.lessons, workload, wanted) if setup.policy.learn is not Learn.OFF else ()
    return setup.table.wanted(workload, out, saver=state.power.saver, proved=proved) if proved else wanted


def _may_serve(
    state: PolicyState, workload: Workload, name: SchedulerName, out: frozenset[SchedulerName], setup: PolicySetup
) -> bool:
    return name not in out and setup.table.allows(workload, name, saver=state.power.saver)


def out_for(books: Books, workload: Workload, *, wall_ns: int, setup: PolicySetup) -> frozenset[SchedulerName]:
    """Who may not serve a class now, whatever the cause."""
    return books.policy.set_aside | penalties.barred(books.bars, workload, wall_ns, setup.versions)


def _up_to_date(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> PolicyState:
    """With the class in force, with who is out in this tick, and without a hold that has ended."""
    state, vote = books.policy, seen.vote
    state = _without_winner(state, now.monotonic_ns, setup) if vote.workload is None else _with_winner(state)
    if vote.workload is not None and vote.workload != state.workload:
        state = replace(state, workload=vote.workload, since_ns=now.monotonic_ns, by_hand=None, suspected=None)
    state = _held_still(state, now.wall_ns, seen.current, setup)
    state = _without_stranger(state, now.monotonic_ns, seen.current)
    set_aside, barred = state.quarantine.out(now.monotonic_ns), frozenset[SchedulerName]()
    if books.bars.marks:
        in_force = penalties.barring(books.bars, state.workload, now.wall_ns, setup.versions)
        names = [(SchedulerName(mark.scheduler), mark.cause) for mark in in_force]
        set_aside |= {name for name, cause in names if cause is Cause.FAILED}
        if state.workload is not None:
            barred = frozenset(name for name, cause in names if cause is Cause.REVERTED)
    if set_aside != state.set_aside or barred != state.barred:
        state = replace(state, set_aside=set_aside, barred=barred)
    return state if state.upcoming is None else replace(state, upcoming=None)  # `_served` says it anew


def _with_winner(state: PolicyState) -> PolicyState:
    return state if state.nobody_ns is None else replace(state, nobody_ns=None)


def _without_winner(state: PolicyState, now_ns: int, setup: PolicySetup) -> PolicyState:
    """Nobody has won: the class in force ends after a dwell, as another one would take its place."""
    if state.nobody_ns is None:
        return replace(state, nobody_ns=now_ns)
    if state.workload is None or now_ns - state.nobody_ns < setup.policy.dwell_s * 1e9:
        return state
    return replace(state, workload=None, since_ns=now_ns, by_hand=None, suspected=None)


def _held_still(state: PolicyState, wall_ns: int, current: SchedulerName | None, setup: PolicySetup) -> PolicyState:
    """Without the word whose time is over, whose scheduler the settings bar, or which has come to its end."""
    held = state.held
    if held is None:
        return state
    barred = held.scheduler is not None and bool(bar(held.scheduler, setup.table.never))
    back = held.returning and state.pending is None and current == held.scheduler
    return replace(state, held=orders.ended(held)) if barred or back or held.over(wall_ns) else state


def _without_stranger(state: PolicyState, now_ns: int, current: SchedulerName | None) -> PolicyState:
    """Without the hold for somebody else's scheduler, once that has gone by itself, or as soon as told to go on."""
    alone = current in (EEVDF, None)
    if state.go_on and (not state.stranger or alone):
        return released(state)
    if not state.stranger:
        return state
    if not alone:
        return state if state.alone_ns is None else replace(state, alone_ns=None)
    if state.alone_ns is None:
        return replace(state, alone_ns=now_ns)
    return released(state) if now_ns - state.alone_ns >= ALONE_NS else state


def _starved(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> tuple[Books, Starvation | None]:
    """With this tick, and what is to be taken back at once, whatever the use of the machine is at the moment."""
    state, current, signals = books.policy, seen.current, seen.signals
    if signals is None or current is None or state.workload is None or current != (state.running or EEVDF):
        return books, None
    if not setup.permit.switch or not state.judged(current) or state.pending is not None:
        return books, None
    if not _judges(setup) or not _stands(state, now.monotonic_ns):
        return books, None
    alarm, found = harm.feel(
        state.guard.alarm, now_ns=now.monotonic_ns, workload=state.workload, scheduler=current, signals=signals
    )
    return _with(books, replace(state, guard=replace(state.guard, alarm=alarm))), found


def _judges(setup: PolicySetup) -> bool:
    return setup.guard.enabled and not setup.shadow


def _stands(state: PolicyState, now_ns: int) -> bool:
    """Does what is measured tell of the scheduler, and not of the switch to it?"""
    return state.last_switch_ns is None or now_ns - state.last_switch_ns >= guard.SETTLE_S * 1e9


def _settled(state: PolicyState, now_ns: int, setup: PolicySetup) -> bool:
    """Does this tick tell of the class under its scheduler, and is anybody to learn from it?"""
    if not _judges(setup) or now_ns - state.since_ns < setup.policy.dwell_s * 1e9:
        return False
    return _stands(state, now_ns)


def _observed(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> tuple[Books, Regression | None]:
    """With what the guard sees in this tick, and its verdict on what is in force."""
    state, current, signals, workload = books.policy, seen.current, seen.signals, books.policy.workload
    if signals is None or current is None or workload is None or seen.vote.workload is None:
        return books, None
    if not setup.permit.switch or not state.judged(current) or state.pending is not None:
        return books, None
    if current != (state.running or EEVDF) or state.checks.now is not None:
        return books, None
    if not _settled(state, now.monotonic_ns, setup):
        return books, None
    seen_now = guard.observe(
        state.guard, now_ns=now.monotonic_ns, workload=workload, scheduler=current, signals=signals
    )
    state = replace(state, guard=seen_now)
    books = _with(books, state)
    if (
        state.trial is None
        and state.held is None
        and current != first_choice(books, workload, now, setup, out=state.out)
    ):
        return books, None  # it goes anyway
    previous = state.previous if state.held is None else state.held.back
    if previous is not None and not _may_serve(state, workload, previous, state.out, setup):
        previous = None  # it may not serve again, so nothing is gained by knowing that it was better
    worse = guard.judge(seen_now, workload=workload, scheduler=current, previous=previous)
    if worse is not None or state.trial is not None or state.held is not None:
        return books, worse
    books = checking.begun(books, seen, now, setup)
    if books.policy.checks.now is not None:
        return books, None
    near = guard.near(seen_now, workload=workload, scheduler=current, previous=previous)
    return books if near is None else _with(books, replace(state, suspected=near.than)), None


def _by_the_candidate(worse: Worse, before: Trial | None, state: PolicyState) -> bool:
    """Has the trial answered for it? It goes back by itself then, and the candidate is barred."""
    return before is not None and (worse.scheduler == before.plan.candidate or before.plan.candidate in state.barred)


def _turn(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> tuple[Books, Verdict] | None:
    """What a trial orders or says in this tick; None: there is none, or nothing to be done for it."""
    state, current, trial = books.policy, seen.current, books.policy.trial
    wanted = turns.wanted(state, setup)
    if trial is None or wanted is None or current is None or not setup.permit.switch or state.outside:
        return None
    if (busy := _busy(state, wanted, current)) is not None:
        return books, busy
    outcome = trial.outcome
    if wanted == current:
        return None if outcome is not None else (books, keep(current, Reason.TRYING, turns.words(trial)))
    harmed = outcome is not None and outcome.cause is Harm.HARM
    sentence = turns.words(trial) if outcome is None else f"{outcome.sentence}: back to {wanted}"
    books = _with(turns.ordered(books, now), replace(state, pending=wanted))
    reason = Reason.REVERTED if harmed else Reason.TRYING
    return books, Verdict(wanted=wanted, switch_to=wanted, reason=reason, sentence=sentence)


def _checks(books: Books, seen: Seen, setup: PolicySetup) -> tuple[Books, Verdict] | None:
    """What a check orders or says in this tick; None: there is none."""
    state, current, check = books.policy, seen.current, books.policy.checks.now
    if check is None or current is None:
        return None
    if (busy := _busy(state, check.wants, current)) is not None:
        return books, busy
    if check.wants == current:
        return books, keep(current, Reason.CHECKING, check.words)
    if checking.loading(books, seen, setup):
        return books, keep(check.wants, Reason.CHECKING, f"{check.words}; it is loaded for its turn")
    books = _with(books, replace(state, pending=check.wants))
    return books, Verdict(wanted=check.wants, switch_to=check.wants, reason=Reason.CHECKING, sentence=check.words)


def _busy(state: PolicyState, wanted: SchedulerName, current: SchedulerName) -> Verdict | None:
    """Why nothing can be ordered now."""
    if state.pending is not None:
        return keep(wanted, Reason.BUSY, f"switching to {state.pending}")
    expected = state.running or EEVDF
    if current not in (expected, wanted):  # died or replaced: word of that is on its way, and decides
        sentence = f"{current} is in force instead of {expected}; waiting for the reason"
        return keep(wanted, Reason.BUSY, sentence)
    return None


def _take_back(books: Books, worse: Worse, seen: Seen, now: Now, setup: PolicySetup) -> tuple[Books, Verdict]:
    state = books.policy
    bars = penalties.lower(
        penalties.refresh(books.bars, wall_ns=now.wall_ns, versions=setup.versions),
        workload=worse.workload,
        scheduler=worse.scheduler,
        version=version_of(worse.scheduler, setup),
        wall_ns=now.wall_ns,
        why=worse.sentence,
    )
    last = state.revert_of(worse.workload)
    # the second within one rest: no third scheduler is tried, EEVDF serves
    back = EEVDF if last is not None and last.rests(now.monotonic_ns, setup) else worse.than
    count = 1 if last is None or now.monotonic_ns - last.at_ns >= _CALM_NS else last.count + 1
    others = tuple(one for one in state.reverts if one.workload != worse.workload)
    reverts = (*others, Revert(workload=worse.workload, back=back, count=count, at_ns=now.monotonic_ns))
    order = back if back != seen.current else None  # after a check it is in force
    state = replace(state, pending=order, reverts=reverts, barred=state.barred | {worse.scheduler})
    checks = replace(state.checks, now=None)
    state = replace(state, trial=None, checks=checks, suspected=None, held=None)  # a client's: the user's is not judged
    sentence = f"{worse.sentence}: back to {back}"
    verdict = Verdict(wanted=back, switch_to=order, reason=Reason.REVERTED, sentence=sentence)
    return replace(books, policy=state, bars=bars), verdict


def _served(books: Books, wish: _Wish, seen: Seen, now: Now, setup: PolicySetup) -> tuple[Books, Verdict]:
    """The wanted one is in force: it stays, but for a trial."""
    upcoming = turns.next_up(books, wish.workload, seen, now, setup)
    books = _with(books, replace(books.policy, upcoming=upcoming))
    if (trying := turns.begun(books, seen, now, setup)) is not None:
        turn = _turn(trying, seen, now, setup)
        if turn is not None:
            return turn
    state, current = books.policy, wish.current
    sentence = f"{current} is in force, as wanted for {wish.workload}{state.power.words}"
    return books, keep(current, Reason.SERVED, sentence)


def _wait(books: Books, wish: _Wish, seen: Seen, now: Now, setup: PolicySetup) -> Verdict | None:
    """Why a switch that is wanted has to wait, None when it has not."""
    state = books.policy
    wanted, dwell_s = wish.wanted, setup.policy.dwell_s
    age_s = (now.monotonic_ns - state.since_ns) / 1e9
    if age_s < dwell_s:
        sentence = f"{wish.workload} seen for {age_s:.1f} s, waiting for {dwell_s:g} s (dwell)"
        return keep(wanted, Reason.DWELL, sentence)
    if seen.around.light and _of_more(books, wish, setup):
        sentence = f"the load is light, no wait is felt, and {wanted} was measured under more load alone"
        return keep(wanted, Reason.LIGHT, sentence)
    if (cooling := _cooling(state, wanted, seen, now, setup)) is not None:
        return cooling
    if age_s < dwell_s + setup.guard.baseline_s and _met_first(state, wish, seen.signals, setup):
        sentence = f"measuring {wish.workload} under {wish.current} before a switch to {wanted} (baseline)"
        return keep(wanted, Reason.BASELINE, sentence)
    return None


def _cooling(state: PolicyState, wanted: SchedulerName, seen: Seen, now: Now, setup: PolicySetup) -> Verdict | None:
    """That a switch comes too soon after the last one, None when it does not."""
    if state.last_switch_ns is None:
        return None
    setting = setup.policy.cooldown_s
    cooldown_s = cooldown.cooldown_s(state.costs, wanted, stands_by=wanted in seen.ready, setting=setting)
    since_s = (now.monotonic_ns - state.last_switch_ns) / 1e9
    if since_s >= cooldown_s:
        return None
    sentence = f"last switch {since_s:.1f} s ago, waiting for {cooldown_s:.3g} s (cooldown) before {wanted}"
    return keep(wanted, Reason.COOLDOWN, sentence)


def _of_more(books: Books, wish: _Wish, setup: PolicySetup) -> bool:
    """Does what speaks for a wanted scheduler say that no light load was among what was measured?

    On battery saver something else speaks for it, and what may not serve goes in any load.
    """
    state, saver = books.policy, books.policy.power.saver
    if saver or wish.wanted == EEVDF or not _may_serve(state, wish.workload, wish.current, state.out, setup):
        return False
    asked = learning.proof(books.lessons, wish.workload, wish.wanted)
    found = setup.table.evidence(wish.workload, wish.wanted) if asked is None else asked.evidence
    return found is not None and found.light is False


def _met_first(state: PolicyState, wish: _Wish, signals: Signals | None, setup: PolicySetup) -> bool:
    """Would the guard have nothing to compare the next scheduler with, and can it be measured under this one?

    Not for EEVDF, which is never judged, nor for one that the class has had for as long before.
    """
    if not turns.measured(signals) or not setup.guard.enabled or setup.shadow:
        return False
    if wish.wanted == EEVDF or not _may_serve(state, wish.workload, wish.current, state.out, setup):
        return False
    names = (EEVDF, wish.current, wish.wanted)
    return all(guard.lacking(state.guard, workload=wish.workload, scheduler=name) for name in names)


def _switch(books: Books, wish: _Wish, now: Now, setup: PolicySetup) -> tuple[Books, Verdict]:
    """The order, or that it is not worth its cost."""
    state, wanted, current = books.policy, wish.wanted, wish.current
    weighed = _weighed(books, wish, now, setup)
    if weighed is not None and not weighed.pays:
        sentence = f"{wanted} would gain less than the switch costs ({weighed.words})"
        return books, keep(wanted, Reason.COST, sentence)
    figures = "" if weighed is None else f": {weighed.words}"
    sentence = f"{wanted} suits {wish.workload} better than {current}{state.power.words}{figures}"
    verdict = Verdict(wanted=wanted, switch_to=wanted, reason=Reason.BETTER, sentence=sentence)
    return _with(books, replace(state, pending=wanted)), verdict


def _weighed(books: Books, wish: _Wish, now: Now, setup: PolicySetup) -> Weighed | None:
    """What the table expects of a switch that is made by its scores; None: it is made for another reason."""
    state, table, workload = books.policy, setup.table, wish.workload
    if not setup.policy.weigh_cost or state.power.saver:
        return None
    if not _may_serve(state, workload, wish.current, state.out, setup):
        return None
    if table.wanted(workload, state.out, saver=False) != wish.wanted:  # learned, or kept to after a revert
        return None
    age_s = (now.monotonic_ns - state.since_ns) / 1e9
    stay_s = learning.stay_s(books.lessons, workload, age_s=age_s, dwell_s=setup.policy.dwell_s)
    return gain.weigh(table, workload, wanted=wish.wanted, current=wish.current, stay_s=stay_s)
