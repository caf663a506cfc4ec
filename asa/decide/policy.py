# SPDX-License-Identifier: GPL-2.0-only
"""When a recognised workload becomes a switch: dwell, cooldown, hold, what failed, and what made things worse. Pure.

The order of the rules is the order in which they are asked; the first that speaks names the reason.

Switches stay bounded whatever is measured. Those for another class lie a cooldown apart (`asa.decide.cooldown`). A
revert (the guard's) does not wait, but it bars the scheduler from the class (`asa.decide.standing`), and the class
then wants what it was reverted to, or EEVDF after a second one, for a time that doubles with each revert: in an hour a
class is reverted `MOST_REVERTS_PER_HOUR` times at most, and a scheduler that fails is tried as often as
`quarantine.failures`.

While the battery is to be saved a class wants what the table names for that: at once, but for the cooldown.

What the user chooses by hand comes before all of it, also when it is set aside or barred, and is on the user's account:
the guard does not judge it, and its failures do not count against it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from asa.config import GuardSettings, PolicySettings, QuarantineSettings, StandingSettings
from asa.core.decision import (
    EEVDF,
    ExitKind,
    Order,
    OrderKind,
    Reason,
    SchedulerName,
    SwitchEvent,
    SwitchOutcome,
    Vote,
    Workload,
)
from asa.decide import cooldown, guard, orders, quarantine
from asa.decide import standing as standings
from asa.decide.cooldown import Costs
from asa.decide.guard import GuardState, Signals, Worse
from asa.decide.orders import Held
from asa.decide.power import Power
from asa.decide.quarantine import Quarantine
from asa.decide.standing import Cause, Standing
from asa.decide.table import MappingTable

MOST_REVERTS_PER_HOUR = 10
"""Of one class, with the shipped settings: two may follow each other, then the class rests 40, 160, 640, 2560 s."""

_SHORTEST_REST_S = 10.0  # a class rests after a revert also where the settings have no cooldown
_CALM_NS = 24 * 3600 * 10**9  # a day without a revert: the next one is a first one again


class Rules(Protocol):
    """The part of `asa.pipeline.Rules` that is needed here."""

    @property
    def table(self) -> MappingTable: ...  # noqa: D102  # as there
    @property
    def policy(self) -> PolicySettings: ...  # noqa: D102
    @property
    def guard(self) -> GuardSettings: ...  # noqa: D102
    @property
    def quarantine(self) -> QuarantineSettings: ...  # noqa: D102
    @property
    def standing(self) -> StandingSettings: ...  # noqa: D102
    @property
    def versions(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def may_switch(self) -> bool: ...  # noqa: D102
    @property
    def shadow(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Revert:
    """What the guard took back for a class."""

    workload: Workload
    back: SchedulerName  # what the class wants while it rests
    count: int  # without a calm day between them
    at_ns: int

    def rests(self, now_ns: int, rules: Rules) -> bool:
        """Does the class keep to `back` still?"""
        rest_s = max(cooldown.longest_s(rules.policy.cooldown_s), _SHORTEST_REST_S) * 2.0 ** min(self.count, 32)
        return now_ns - self.at_ns < min(rest_s, rules.guard.longest_cooldown_s) * 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """What the policy remembers from tick to tick. Times are CLOCK_MONOTONIC in ns."""

    workload: Workload | None = None  # the class in force: the last winner
    since_ns: int = 0  # when it won first without a break
    last_switch_ns: int | None = None  # when a switch last ended, well or badly
    pending: SchedulerName | None = None  # ordered, not yet reported
    running: SchedulerName | None = None  # what we last brought up, with its mode
    previous: SchedulerName | None = None  # what ran before it
    outside: str = ""  # what happened from outside, so that nothing is switched until told to resume
    stranger: bool = False  # it was somebody else's scheduler
    go_on: bool = False  # told to resume: to be done when the stranger has gone
    held: Held | None = None  # the user's word
    costs: Costs = field(default_factory=Costs)
    quarantine: Quarantine = field(default_factory=Quarantine)
    set_aside: frozenset[SchedulerName] = frozenset()  # out in this tick because they failed
    barred: frozenset[SchedulerName] = frozenset()  # out for the class in force because of the guard
    guard: GuardState = field(default_factory=GuardState)
    reverts: tuple[Revert, ...] = ()  # the last one of each class
    power: Power = field(default_factory=Power)

    @property
    def hold(self) -> str:
        """Why nothing is switched; "": it may be."""
        if self.held is None:
            return self.outside
        return f"{self.outside}; {self.held.words}" if self.outside else self.held.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the policy says in one tick."""

    wanted: SchedulerName | None
    switch_to: SchedulerName | None
    reason: Reason
    sentence: str


def learn(
    state: PolicyState, standing: Standing, event: SwitchEvent, *, wall_ns: int, rules: Rules
) -> tuple[PolicyState, Standing]:
    """Take note of what became of a switch or of the running scheduler."""
    new, at_ns, held = event.new, event.monotonic_ns, state.held
    by_hand = held is not None and held.scheduler == new and new in (state.pending, state.running)
    match event.outcome:
        case SwitchOutcome.CONFIRMED | SwitchOutcome.SHADOWED:
            previous = event.old if event.old != new else state.previous
            state = replace(state, pending=None, running=new, previous=previous, last_switch_ns=at_ns)
            return replace(state, costs=cooldown.note(state.costs, event)), standing
        case SwitchOutcome.FOREIGN:
            state = replace(state, pending=None, running=None)
            return _held_up(state, f"{new} was attached by somebody else", stranger=True), standing
        case SwitchOutcome.REFUSED:
            pending = None if new == state.pending else state.pending  # else it was one that should stand by
            state = replace(state, pending=pending)
        case SwitchOutcome.LOST:
            pending = None if new == state.pending else state.pending  # else the next one is on its way already
            state = replace(state, pending=pending, running=EEVDF, last_switch_ns=at_ns)
        case SwitchOutcome.FAILED:
            state = replace(state, pending=None, running=EEVDF, last_switch_ns=at_ns)
    if event.exit is not None and event.exit.kind is ExitKind.SYSRQ:
        return _held_up(state, f"{new} was taken out by SysRq-S", stranger=False), standing
    if held is not None and by_hand:
        return replace(state, held=orders.failed(held, event)), standing
    kept, off = quarantine.take_note(state.quarantine, event, rules.quarantine)
    if off is not None:
        standing = standings.put_off(
            standings.refresh(standing, wall_ns=wall_ns, versions=rules.versions, rules=rules.standing),
            scheduler=off,
            version=_version(off, rules),
            wall_ns=wall_ns,
            why=event.exit.reason if event.exit is not None else event.detail,
            count=rules.quarantine.failures,
        )
    return replace(state, quarantine=kept), standing


def obey(
    state: PolicyState, standing: Standing, order: Order, current: SchedulerName | None
) -> tuple[PolicyState, Standing]:
    """Do what a person said. A stranger's scheduler is never switched away from: going on then waits for its end."""
    alone = current in (EEVDF, None)
    match order.kind:
        case OrderKind.RELOAD:
            state = replace(state, quarantine=quarantine.lift(state.quarantine))
            if state.stranger and alone:
                state = _released(state)
        case OrderKind.RESUME:
            reverts = () if order.scheduler is None else state.reverts
            kept = quarantine.lift(state.quarantine, order.scheduler)
            state = replace(state, quarantine=kept, reverts=reverts, held=None, go_on=bool(state.outside))
            standing = standings.lift(standing, order.scheduler)
        case OrderKind.HOLD:
            state = replace(state, held=orders.hold(order, state.held))
        case OrderKind.SWITCH:
            if alone or current == state.running:
                state = replace(_released(state), held=orders.choose(order))
    return state, standing


def powered(state: PolicyState, saver: bool | None, on_battery: bool | None) -> PolicyState:
    """Note what feeds the machine (None: as before). What the guard saw under other power is no measure any more."""
    power = state.power.seen(saver, on_battery)
    return state if power == state.power else replace(state, power=power, guard=GuardState())


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
) -> tuple[PolicyState, Standing, Verdict]:
    """One tick: the new state, and the verdict.

    `current` is what is in force (in shadow mode: what was chosen), None where the kernel has no sched_ext. `signals`
    are None when this tick has no rates. `ready`: those that stand by.
    """
    state = _up_to_date(state, standing, vote, now_ns, wall_ns, current, rules)
    if (by_hand := _by_hand(state, current, rules)) is not None:
        return replace(state, pending=by_hand.switch_to), standing, by_hand
    workload = state.workload
    if workload is None or vote.workload is None:
        return state, standing, _keep(None, Reason.UNDECIDED, vote.why_none)
    wanted = serves(state, workload, now_ns=now_ns, out=state.set_aside | state.barred, rules=rules)
    if wanted is None:
        return state, standing, _keep(None, Reason.NO_ENTRY, f"the table says nothing about {workload}")
    if not rules.may_switch or current is None:
        return state, standing, _keep(wanted, Reason.OBSERVING, f"{workload} wants {wanted}; only observing")
    if state.hold:
        also = "; going on when it has ended" if state.go_on else ""
        return state, standing, _keep(wanted, Reason.HOLD, f"on hold: {state.hold}{also}")
    if state.pending is not None:
        return state, standing, _keep(wanted, Reason.BUSY, f"switching to {state.pending}")
    expected = state.running or EEVDF
    if current not in (expected, wanted):  # died or replaced: word of that is on its way, and decides
        sentence = f"{current} is in force where {expected} should be; finding out why"
        return state, standing, _keep(wanted, Reason.BUSY, sentence)
    if signals is not None and current == expected and _settled(state, now_ns, rules):
        seen = guard.observe(state.guard, now_ns=now_ns, workload=workload, scheduler=current, signals=signals)
        state = replace(state, guard=seen)
        if wanted == current and (worse := _judge(state, workload, current, rules)) is not None:
            return _take_back(state, standing, worse, now_ns=now_ns, wall_ns=wall_ns, rules=rules)
    if wanted == current:
        return state, standing, _keep(wanted, Reason.SERVED, f"{current} serves {workload}{state.power.words}")
    wait = _wait(state, workload, wanted, current, signals, now_ns, rules, stands_by=wanted in ready)
    if wait is not None:
        return state, standing, wait
    sentence = f"{workload} is served better by {wanted} than by {current}{state.power.words}"
    verdict = Verdict(wanted=wanted, switch_to=wanted, reason=Reason.BETTER, sentence=sentence)
    return replace(state, pending=wanted), standing, verdict


def _by_hand(state: PolicyState, current: SchedulerName | None, rules: Rules) -> Verdict | None:
    """The switch to order because the user asked for it; not before it is known why what should run does not."""
    expected, chosen = state.running or EEVDF, state.held.scheduler if state.held is not None else None
    if chosen is None or current != expected or chosen == current or state.pending is not None or not rules.may_switch:
        return None
    return Verdict(wanted=chosen, switch_to=chosen, reason=Reason.BY_HAND, sentence=f"the user chose {chosen}")


def serves(
    state: PolicyState, workload: Workload, *, now_ns: int, out: frozenset[SchedulerName], rules: Rules
) -> SchedulerName | None:
    """The scheduler that a class would get now, without those that are `out`; None: the table has no word on it."""
    wanted = rules.table.wanted(workload, out, saver=state.power.saver)
    revert = None if wanted is None else _revert_of(state, workload)
    if revert is None or not revert.rests(now_ns, rules):
        return wanted
    return revert.back if _may_serve(state, workload, revert.back, out, rules) else EEVDF


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
    """With the class in force, with who is out in this tick, and without a hold that has ended."""
    if vote.workload is not None and vote.workload != state.workload:
        state = replace(state, workload=vote.workload, since_ns=now_ns)
    if state.held is not None and state.held.over(wall_ns):
        state = replace(state, held=None)
    if state.go_on and (not state.stranger or current in (EEVDF, None)):
        state = _released(state)
    set_aside, barred = state.quarantine.out(now_ns), frozenset[SchedulerName]()
    if standing.marks:
        in_force = standings.barring(standing, state.workload, wall_ns, rules.versions)
        names = [(SchedulerName(mark.scheduler), mark.cause) for mark in in_force]
        set_aside |= {name for name, cause in names if cause is Cause.FAILED}
        if state.workload is not None:
            barred = frozenset(name for name, cause in names if cause is Cause.REVERTED)
    if set_aside == state.set_aside and barred == state.barred:
        return state
    return replace(state, set_aside=set_aside, barred=barred)


def _settled(state: PolicyState, now_ns: int, rules: Rules) -> bool:
    """Does this tick tell of the class under its scheduler, and is anybody to learn from it?"""
    if not rules.guard.enabled or rules.shadow or now_ns - state.since_ns < rules.policy.dwell_s * 1e9:
        return False
    return state.last_switch_ns is None or now_ns - state.last_switch_ns >= rules.guard.settle_s * 1e9


def _judge(state: PolicyState, workload: Workload, current: SchedulerName, rules: Rules) -> Worse | None:
    previous = state.previous
    if previous is not None and not _may_serve(state, workload, previous, state.set_aside | state.barred, rules):
        previous = None  # it may not serve again, so nothing is gained by knowing that it was better
    return guard.judge(state.guard, workload=workload, scheduler=current, previous=previous, rules=rules.guard)


def _take_back(
    state: PolicyState, standing: Standing, worse: Worse, *, now_ns: int, wall_ns: int, rules: Rules
) -> tuple[PolicyState, Standing, Verdict]:
    last = _revert_of(state, worse.workload)
    calm = last is None or now_ns - last.at_ns >= _CALM_NS
    # the second within one rest: no third scheduler is tried, EEVDF serves
    back = EEVDF if last is not None and last.rests(now_ns, rules) else worse.than
    count = 1 if last is None or calm else last.count + 1
    revert = Revert(workload=worse.workload, back=back, count=count, at_ns=now_ns)
    standing = standings.lower(
        standings.refresh(standing, wall_ns=wall_ns, versions=rules.versions, rules=rules.standing),
        workload=worse.workload,
        scheduler=worse.scheduler,
        version=_version(worse.scheduler, rules),
        wall_ns=wall_ns,
        why=worse.sentence,
        rules=rules.standing,
    )
    others = tuple(one for one in state.reverts if one.workload != worse.workload)
    state = replace(state, pending=back, reverts=(*others, revert), barred=state.barred | {worse.scheduler})
    sentence = f"{worse.sentence}: back to {back}"
    return state, standing, Verdict(wanted=back, switch_to=back, reason=Reason.REVERTED, sentence=sentence)


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
        return _keep(wanted, Reason.DWELL, f"{workload} is too new to switch for")
    cooldown_s = cooldown.cooldown_s(state.costs, wanted, stands_by=stands_by, setting=rules.policy.cooldown_s)
    if state.last_switch_ns is not None and now_ns - state.last_switch_ns < cooldown_s * 1e9:
        return _keep(wanted, Reason.COOLDOWN, f"{workload} wants {wanted}; cooling down")
    if (
        current == EEVDF
        and signals is not None
        and _measured(signals)
        and rules.guard.enabled
        and not rules.shadow
        and age_s < rules.policy.dwell_s + rules.guard.baseline_s
        and guard.lacking(state.guard, workload=workload)
    ):
        return _keep(wanted, Reason.BASELINE, f"{workload} wants {wanted}; measuring it under {EEVDF} first")
    return None


def _measured(signals: Signals) -> bool:
    """Is there anything to compare later? The load alone is not."""
    known = (signals.run_queue_p99_us, signals.wakeup_p99_us, signals.cpu_pressure, signals.timer_late_us)
    return any(value is not None for value in known)


def _revert_of(state: PolicyState, workload: Workload) -> Revert | None:
    return next((one for one in state.reverts if one.workload == workload), None)


def _held_up(state: PolicyState, why: str, *, stranger: bool) -> PolicyState:
    return replace(state, outside=why, stranger=stranger, go_on=False, held=orders.chose_no_more(state.held))


def _released(state: PolicyState) -> PolicyState:
    return replace(state, outside="", stranger=False, go_on=False)


def _version(name: SchedulerName, rules: Rules) -> str:
    return rules.versions.get(name.partition(":")[0], "")


def _keep(wanted: SchedulerName | None, reason: Reason, sentence: str) -> Verdict:
    return Verdict(wanted=wanted, switch_to=None, reason=reason, sentence=sentence)
