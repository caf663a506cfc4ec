# SPDX-License-Identifier: GPL-2.0-only
"""When the current class becomes a switch: dwell, cooldown, hold, quarantine, the guard's verdicts. Pure.

Rules are asked in the order in which they stand in `decide`; the first that applies names the reason. Whatever is
measured, switches stay bounded (`MOST_REVERTS_PER_HOUR`). What the user chose by hand comes before all of it. What is
remembered is in `asa.decide.policy_state`, what is noted between ticks in `asa.decide.policy_news`. The reasons:
docs/design.md.
"""

from collections.abc import Collection
from dataclasses import replace

from asa.core.decision import EEVDF, Reason, SchedulerName, Vote, Workload
from asa.decide import cooldown, gain, guard, learning, trying
from asa.decide import standing as standings
from asa.decide.gain import Weighed
from asa.decide.guard import Worse
from asa.decide.learning import Lessons
from asa.decide.policy_news import learn, obey, powered, released
from asa.decide.policy_state import PolicyState, Revert, Rules, Verdict, keep, version_of
from asa.decide.signals import Signals
from asa.decide.standing import Cause, Standing

__all__ = [
    "MOST_REVERTS_PER_HOUR",
    "PolicyState",
    "Revert",
    "Rules",
    "Verdict",
    "decide",
    "learn",
    "obey",
    "out_for",
    "powered",
    "serves",
]

MOST_REVERTS_PER_HOUR = 10
"""Of one class, with the shipped settings: two may follow each other, then the class rests 40, 160, 640, 2560 s.

What is only tried (`asa.decide.trying`) is not among them: that is bounded by its share of time.
"""

ALONE_NS = 5 * 10**9
"""The kernel's own scheduler is in force for so long before a stranger's has gone: who replaces one stops it first."""

_CALM_NS = 24 * 3600 * 10**9  # a day without a revert: the next one is a first one again


def decide(
    state: PolicyState,
    standing: Standing,
    vote: Vote,
    *,
    now_ns: int,
    wall_ns: int,
    current: SchedulerName | None,
    signals: Signals | None,
    rules: Rules,
    ready: Collection[SchedulerName] = (),
    lessons: Lessons = learning.NOTHING,
) -> tuple[PolicyState, Standing, Verdict]:
    """One tick: the new state, and the verdict.

    `current` is what is in force (in shadow mode: what was chosen), None where the kernel has no sched_ext. `signals`
    are None when this tick has no rates. `ready`: those that stand by. `lessons`: what was learned before this tick.
    """
    state = _up_to_date(state, standing, vote, now_ns, wall_ns, current, rules)
    if (by_hand := _by_hand(state, current, rules)) is not None:
        return replace(state, pending=by_hand.switch_to), standing, by_hand
    workload = state.workload
    if workload is None or vote.workload is None:
        return state, standing, keep(None, Reason.UNDECIDED, vote.why_none)
    first = serves(state, workload, now_ns=now_ns, out=state.out, rules=rules, lessons=lessons)
    if first is None:
        return state, standing, keep(None, Reason.NO_ENTRY, f"the mapping table has no entry for {workload}")
    state, wanted = _with_tried(state, first)
    if not rules.may_switch or current is None:
        return state, standing, keep(wanted, Reason.OBSERVING, f"observing only: {workload} would get {wanted}")
    if state.hold:
        also = "; ends when that scheduler has gone" if state.go_on else ""
        return state, standing, keep(wanted, Reason.HOLD, f"on hold: {state.hold}{also}")
    if state.pending is not None:
        return state, standing, keep(wanted, Reason.BUSY, f"switching to {state.pending}")
    expected = state.running or EEVDF
    if current not in (expected, wanted):  # died or replaced: word of that is on its way, and decides
        sentence = f"{current} is in force instead of {expected}; waiting for the reason"
        return state, standing, keep(wanted, Reason.BUSY, sentence)
    if signals is not None and current == expected and _settled(state, now_ns, rules):
        seen = guard.observe(state.guard, now_ns=now_ns, workload=workload, scheduler=current, signals=signals)
        state = replace(state, guard=seen)
        if wanted == current and (worse := _judge(state, workload, current, rules)) is not None:
            return _take_back(state, standing, worse, now_ns=now_ns, wall_ns=wall_ns, rules=rules)
    if wanted == current:
        state, verdict = _served(state, workload, current, now_ns, rules, lessons)
        return state, standing, verdict
    wait = _wait(state, workload, wanted, current, signals, now_ns, rules, stands_by=wanted in ready)
    if wait is not None:
        return state, standing, wait
    state, verdict = _switch(state, workload, wanted, current, now_ns, rules, lessons)
    return state, standing, verdict


def _by_hand(state: PolicyState, current: SchedulerName | None, rules: Rules) -> Verdict | None:
    """The switch to order because the user asked for it; not before it is known why what should run does not."""
    expected, chosen = state.running or EEVDF, state.held.scheduler if state.held is not None else None
    if chosen is None or current != expected or chosen == current or state.pending is not None or not rules.may_switch:
        return None
    return Verdict(wanted=chosen, switch_to=chosen, reason=Reason.BY_HAND, sentence=f"the user chose {chosen}")


def serves(
    state: PolicyState,
    workload: Workload,
    *,
    now_ns: int,
    out: frozenset[SchedulerName],
    rules: Rules,
    lessons: Lessons = learning.NOTHING,
) -> SchedulerName | None:
    """The scheduler that a class would get now, without those that are `out`; None: the table has no word on it."""
    wanted = rules.table.wanted(workload, out, saver=state.power.saver)
    if wanted is None:
        return None
    revert = state.revert_of(workload)
    if revert is not None and revert.rests(now_ns, rules):
        return revert.back if _may_serve(state, workload, revert.back, out, rules) else EEVDF
    if workload not in lessons.better or not rules.policy.learn:
        return wanted
    ranked = {EEVDF, *(entry.name for entry in rules.table.ranking(workload))}
    return learning.preferred(
        lessons, workload, wanted, lambda name: name in ranked and _may_serve(state, workload, name, out, rules)
    )


def _with_tried(state: PolicyState, first: SchedulerName) -> tuple[PolicyState, SchedulerName]:
    """What is wanted in this tick: the first choice, or what is tried in its place."""
    tried = state.trying
    if tried is None or tried.over:
        gone = tried is not None and tried.scheduler == first  # it serves now by its own right
        return replace(state, trying=None) if gone else state, first
    return state, tried.scheduler


def _may_serve(
    state: PolicyState, workload: Workload, name: SchedulerName, out: frozenset[SchedulerName], rules: Rules
) -> bool:
    return name not in out and rules.table.allows(workload, name, saver=state.power.saver)


def out_for(
    state: PolicyState, standing: Standing, workload: Workload, *, wall_ns: int, rules: Rules
) -> frozenset[SchedulerName]:
    """Who may not serve a class now, whatever the cause."""
    return state.set_aside | standings.barred(standing, workload, wall_ns, rules.versions)


def _up_to_date(
    state: PolicyState,
    standing: Standing,
    vote: Vote,
    now_ns: int,
    wall_ns: int,
    current: SchedulerName | None,
    rules: Rules,
) -> PolicyState:
    """With the class in force, with who is out in this tick, and without a hold or a trial that has ended."""
    if vote.workload is not None and vote.workload != state.workload:
        state = replace(state, workload=vote.workload, since_ns=now_ns)
    if state.held is not None and state.held.over(wall_ns):
        state = replace(state, held=None)
    state = _without_stranger(state, now_ns, current)
    set_aside, barred = state.quarantine.out(now_ns), frozenset[SchedulerName]()
    if standing.marks:
        in_force = standings.barring(standing, state.workload, wall_ns, rules.versions)
        names = [(SchedulerName(mark.scheduler), mark.cause) for mark in in_force]
        set_aside |= {name for name, cause in names if cause is Cause.FAILED}
        if state.workload is not None:
            barred = frozenset(name for name, cause in names if cause is Cause.REVERTED)
    if set_aside != state.set_aside or barred != state.barred:
        state = replace(state, set_aside=set_aside, barred=barred)
    return trying.followed(state, now_ns, rules)


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


def _settled(state: PolicyState, now_ns: int, rules: Rules) -> bool:
    """Does this tick tell of the class under its scheduler, and is anybody to learn from it?"""
    if not rules.guard.enabled or rules.shadow or now_ns - state.since_ns < rules.policy.dwell_s * 1e9:
        return False
    return state.last_switch_ns is None or now_ns - state.last_switch_ns >= guard.SETTLE_S * 1e9


def _judge(state: PolicyState, workload: Workload, current: SchedulerName, rules: Rules) -> Worse | None:
    previous = state.previous
    if previous is not None and not _may_serve(state, workload, previous, state.out, rules):
        previous = None  # it may not serve again, so nothing is gained by knowing that it was better
    return guard.judge(state.guard, workload=workload, scheduler=current, previous=previous)


def _take_back(
    state: PolicyState, standing: Standing, worse: Worse, *, now_ns: int, wall_ns: int, rules: Rules
) -> tuple[PolicyState, Standing, Verdict]:
    standing = standings.lower(
        standings.refresh(standing, wall_ns=wall_ns, versions=rules.versions),
        workload=worse.workload,
        scheduler=worse.scheduler,
        version=version_of(worse.scheduler, rules),
        wall_ns=wall_ns,
        why=worse.sentence,
    )
    barred, tried = state.barred | {worse.scheduler}, state.trying
    last = state.revert_of(worse.workload)
    if tried is not None:  # the first choice has done nothing wrong: the class does not rest
        may = _may_serve(state, worse.workload, tried.instead_of, state.out, rules)
        back, reverts = tried.instead_of if may else worse.than, state.reverts
        state = replace(state, trying=replace(tried, over=True))
    else:
        # the second within one rest: no third scheduler is tried, EEVDF serves
        back = EEVDF if last is not None and last.rests(now_ns, rules) else worse.than
        count = 1 if last is None or now_ns - last.at_ns >= _CALM_NS else last.count + 1
        others = tuple(one for one in state.reverts if one.workload != worse.workload)
        reverts = (*others, Revert(workload=worse.workload, back=back, count=count, at_ns=now_ns))
    state = replace(state, pending=back, reverts=reverts, barred=barred)
    sentence = f"{worse.sentence}: back to {back}"
    verdict = Verdict(wanted=back, switch_to=back, reason=Reason.REVERTED, sentence=sentence, worse=worse)
    return state, standing, verdict


def _served(
    state: PolicyState, workload: Workload, current: SchedulerName, now_ns: int, rules: Rules, lessons: Lessons
) -> tuple[PolicyState, Verdict]:
    """The wanted one is in force: it stays, but for a trial that the user allows."""
    if state.trying is not None:
        return state, keep(current, Reason.TRYING, trying.words(state.trying, rules))
    if rules.policy.explore_share > 0.0:
        begun = trying.next_one(state, lessons, workload, current, now_ns=now_ns, rules=rules)
        if begun is not None:
            name, sentence = begun.scheduler, trying.words(begun, rules)
            verdict = Verdict(wanted=name, switch_to=name, reason=Reason.TRYING, sentence=sentence)
            return replace(state, pending=name, trying=begun), verdict
    return state, keep(current, Reason.SERVED, f"{current} is in force, as wanted for {workload}{state.power.words}")


def _wait(
    state: PolicyState,
    workload: Workload,
    wanted: SchedulerName,
    current: SchedulerName,
    signals: Signals | None,
    now_ns: int,
    rules: Rules,
    *,
    stands_by: bool,
) -> Verdict | None:
    """Why a switch that is wanted has to wait, None when it has not."""
    age_s = (now_ns - state.since_ns) / 1e9
    if age_s < rules.policy.dwell_s:
        return keep(
            wanted, Reason.DWELL, f"{workload} seen for {age_s:.1f} s, waiting for {rules.policy.dwell_s:g} s (dwell)"
        )
    cooldown_s = cooldown.cooldown_s(state.costs, wanted, stands_by=stands_by, setting=rules.policy.cooldown_s)
    if state.last_switch_ns is not None and now_ns - state.last_switch_ns < cooldown_s * 1e9:
        since_s = (now_ns - state.last_switch_ns) / 1e9
        sentence = f"last switch {since_s:.1f} s ago, waiting for {cooldown_s:.3g} s (cooldown) before {wanted}"
        return keep(wanted, Reason.COOLDOWN, sentence)
    if age_s < rules.policy.dwell_s + rules.guard.baseline_s and _met_first(
        state, workload, wanted, current, signals, rules
    ):
        return keep(
            wanted, Reason.BASELINE, f"measuring {workload} under {current} before a switch to {wanted} (baseline)"
        )
    return None


def _met_first(
    state: PolicyState,
    workload: Workload,
    wanted: SchedulerName,
    current: SchedulerName,
    signals: Signals | None,
    rules: Rules,
) -> bool:
    """Would the guard have nothing to compare the next scheduler with, and can it be measured under this one?

    Not for EEVDF, which is never judged, nor for one that the class has had for as long before.
    """
    if signals is None or not _measured(signals) or not rules.guard.enabled or rules.shadow:
        return False
    if wanted == EEVDF or state.trying is not None or not _may_serve(state, workload, current, state.out, rules):
        return False
    return all(guard.lacking(state.guard, workload=workload, scheduler=name) for name in (EEVDF, current, wanted))


def _switch(
    state: PolicyState,
    workload: Workload,
    wanted: SchedulerName,
    current: SchedulerName,
    now_ns: int,
    rules: Rules,
    lessons: Lessons,
) -> tuple[PolicyState, Verdict]:
    """The order, or that it is not worth its cost."""
    weighed = _weighed(state, workload, wanted, current, now_ns, rules, lessons)
    if weighed is not None and not weighed.pays:
        sentence = f"{wanted} would gain less than the switch costs ({weighed.words})"
        return state, keep(wanted, Reason.COST, sentence)
    figures = "" if weighed is None else f": {weighed.words}"
    sentence = f"{wanted} suits {workload} better than {current}{state.power.words}{figures}"
    if state.trying is not None and current == state.trying.scheduler:  # which may have done as well
        sentence = f"the trial of {current} for {state.trying.workload} is over: {wanted} for {workload}"
    verdict = Verdict(wanted=wanted, switch_to=wanted, reason=Reason.BETTER, sentence=sentence)
    return replace(state, pending=wanted), verdict


def _weighed(
    state: PolicyState,
    workload: Workload,
    wanted: SchedulerName,
    current: SchedulerName,
    now_ns: int,
    rules: Rules,
    lessons: Lessons,
) -> Weighed | None:
    """What the table expects of a switch that is made by its scores; None: it is made for another reason."""
    table = rules.table
    if not rules.policy.weigh_cost or state.power.saver or state.trying is not None:
        return None
    if not _may_serve(state, workload, current, state.out, rules):
        return None
    if table.wanted(workload, state.out, saver=False) != wanted:  # learned, or kept to after a revert
        return None
    age_s = (now_ns - state.since_ns) / 1e9
    stay_s = learning.stay_s(lessons, workload, age_s=age_s, dwell_s=rules.policy.dwell_s)
    return gain.weigh(table, workload, wanted=wanted, current=current, stay_s=stay_s)


def _measured(signals: Signals) -> bool:
    """Is there anything to compare later? The load alone is not."""
    known = (signals.run_queue_p99_us, signals.wakeup_p99_us, signals.cpu_pressure, signals.timer_late_us)
    return any(value is not None for value in known)
