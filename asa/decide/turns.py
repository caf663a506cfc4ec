# SPDX-License-Identifier: GPL-2.0-only
"""Trials at work: which one is next, why it has not begun, what it wants in force, what follows when it is over. Pure.

It stands between the policy and `asa.decide.trial`, which plays the turns. While a trial is under way the policy does
what `wanted` says. When it is over and its candidate is still in force, what served before comes back first, whatever
is done by then. What it came to is kept in `asa.decide.learning`, and a candidate that is worse is barred as the guard
bars. Whom to try is the table's word (`asa.decide.table`), in the order of `asa.decide.trial_budget`.
"""

from collections.abc import Collection
from dataclasses import replace
from statistics import median

from asa.config import Learn
from asa.core.decision import EEVDF, Order, OrderKind, SchedulerName, Workload
from asa.decide import learning, penalties, trial_budget
from asa.decide.books import Books
from asa.decide.learning import Lessons, Said
from asa.decide.policy_state import Now, PolicySetup, PolicyState, Seen, Upcoming, version_of
from asa.decide.signals import SIGNALS, Signals, values_of
from asa.decide.trial import FRESH_S, LONGEST_S, TIMES, Plan, Trial, TrialTick, begin, block_s, take
from asa.decide.trial_budget import Asked, Choice, Limits, Stand
from asa.decide.trial_pairs import Verdict
from asa.decide.trial_signs import MOST_PAIRS

STOPPED = "stopped by the user"
_FIRST_SWITCH_S = LONGEST_S / TIMES  # to one that stands by and was never switched to: the longest that is allowed


def obey(state: PolicyState, lessons: Lessons, order: Order) -> tuple[PolicyState, Lessons]:
    """The user wants a candidate tried for what is done now, or not; without a name, the one that is next."""
    trial, upcoming = state.trial, state.upcoming
    under_way = trial is not None and trial.outcome is None
    candidate = order.scheduler
    if candidate is None and trial is not None and under_way:
        candidate = trial.plan.candidate
    elif candidate is None and upcoming is not None:
        candidate = upcoming.candidate
    use = trial.plan.use if trial is not None and under_way else state.workload
    if candidate is None or use is None:
        return state, lessons
    yes = order.kind is OrderKind.TRY
    lessons = learning.say(lessons, Said(use=use, candidate=candidate, yes=yes))
    if yes and order.scheduler is not None:
        return (state if under_way else replace(state, by_hand=candidate)), lessons
    return replace(state, by_hand=None, stopped=under_way) if not yes else state, lessons


def wanted(state: PolicyState, setup: PolicySetup) -> SchedulerName | None:
    """Who is to be in force for a trial: whose turn it is, or who has to come back; None: there is no trial."""
    trial = state.trial
    if trial is None:
        return None
    back = trial.wants
    if trial.outcome is None or back == EEVDF:
        return back
    out = back in state.out or not setup.table.allows(trial.plan.use, back, saver=state.power.saver)
    return EEVDF if out else back


def partner(state: PolicyState) -> SchedulerName | None:
    """Who has to be loaded for the next turn; None: nobody, or the kernel's own."""
    trial, upcoming, check = state.trial, state.upcoming, state.checks.now
    if check is not None:
        return check.scheduler if check.its_turn and check.block is None else None
    if trial is not None:
        plan = trial.plan
        name = plan.in_force if trial.last.in_force == plan.candidate else plan.candidate
        return None if name == EEVDF or (trial.outcome is not None and name == plan.candidate) else name
    return upcoming.candidate if upcoming is not None and upcoming.load and upcoming.candidate != EEVDF else None


def follow(books: Books, seen: Seen, now: Now, setup: PolicySetup, harm: str) -> tuple[Books, str]:
    """With the trial under way as this tick leaves it, and what it came to, for people, where this tick ended it.

    `harm`: the guard's word on what is in force, "" for none.
    """
    trial, came_to = books.policy.trial, ""
    if trial is None:
        return books, came_to
    if trial.outcome is None:
        trial = take(trial, replace(_tick(books, seen, now, setup), harm=harm))
        if trial.outcome is None:
            return replace(books, policy=replace(books.policy, trial=trial)), came_to
        books, came_to = _concluded(books, trial, now, setup), trial.outcome.sentence
    state, outcome, candidate = books.policy, trial.outcome, trial.plan.candidate
    goes = candidate in (seen.current, state.pending) and outcome.serves != candidate
    return replace(books, policy=replace(state, trial=trial if goes else None)), came_to


def next_up(books: Books, use: Workload, seen: Seen, now: Now, setup: PolicySetup) -> Upcoming | None:
    """The trial that is next for a use that is served, and why it does not begin in this tick; None: there is none."""
    state, current = books.policy, seen.current
    if current is None or setup.shadow or not setup.guard.enabled or not setup.permit.switch:
        return None
    by_hand = state.by_hand
    if setup.policy.learn is Learn.OFF and by_hand is None:
        return None
    choice = _choice(books, use, current, setup)
    if choice is None:
        return None
    stay_s = _stay_s(books, use, now, setup)
    upcoming = Upcoming(
        use=use,
        in_force=current,
        candidate=choice.candidate,
        block_s=block_s(_switch_s(state, (choice.candidate, current), setup), stay_s),
        before=choice.before,
        by_hand=choice.candidate == by_hand,
    )
    if (why_not := _why_not(upcoming, books, seen, now, setup)) != "":
        return replace(upcoming, why_not=why_not)
    if _asks(upcoming, books, setup):
        words = "it waits for your word: `asa trial yes`, or `asa trial no`"
        return replace(upcoming, why_not=words, question=True)
    if stands_by(setup) and choice.candidate not in (EEVDF, *seen.around.loaded):
        return replace(upcoming, why_not=f"{choice.candidate} is loaded for its turn", load=True)
    return replace(upcoming, load=True)


def begun(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> Books | None:
    """With the next trial begun; None: it may not begin."""
    state, upcoming = books.policy, books.policy.upcoming
    if upcoming is None or upcoming.why_not or upcoming.block_s is None:
        return None
    plan = Plan(
        use=upcoming.use,
        in_force=upcoming.in_force,
        candidate=upcoming.candidate,
        block_s=upcoming.block_s,
        seed=now.wall_ns,  # of the sample, so that a replay draws the same
        before=upcoming.before,
    )
    trial = begin(plan, _tick(books, seen, now, setup))
    if trial.outcome is not None:
        return None
    lessons = books.lessons
    known = learning.asked_of(lessons, plan.use, plan.in_force, plan.candidate)
    old = _asked(plan, setup) if known is None else known
    broken = min(trial_budget.MOST_BROKEN, old.broken + 1)  # until its end is seen
    light = seen.around.light or (False if known is None else known.light)
    lessons = learning.settle(lessons, replace(old, broken=broken, at_ns=now.wall_ns, light=light))
    return replace(books, policy=replace(state, trial=trial, upcoming=None), lessons=lessons)


def ordered(books: Books, now: Now) -> Books:
    """With a switch of a trial more, the one back too."""
    account = trial_budget.switched(books.lessons.kept.account, now.wall_ns)
    return replace(books, lessons=learning.charge(books.lessons, account))


def ended(books: Books) -> Books:
    """The agent ends in order: the trial under way, if any, has not taken it down."""
    trial = books.policy.trial
    if trial is None or trial.outcome is not None:
        return books
    plan = trial.plan
    old = learning.asked_of(books.lessons, plan.use, plan.in_force, plan.candidate)
    return books if old is None else replace(books, lessons=learning.settle(books.lessons, replace(old, broken=0)))


def words(trial: Trial) -> str:
    """What a trial does, for people."""
    plan = trial.plan
    return (
        f"{plan.candidate} is tried for {plan.use} against {plan.in_force}, in turns of {plan.block_s:.0f} s: "
        f"pair {len(trial.pairs) + 1} of {MOST_PAIRS} at most"
    )


def measured(signals: Signals | None) -> bool:
    """Is there anything to compare? The load alone is not."""
    return signals is not None and any(value is not None for value in values_of(signals)[: len(SIGNALS)])


def _tick(books: Books, seen: Seen, now: Now, setup: PolicySetup) -> TrialTick:
    state, around = books.policy, seen.around
    loading = (name := partner(state)) is not None and name in seen.ready and name not in around.loaded
    return TrialTick(
        now_ns=now.monotonic_ns,
        wall_ns=now.wall_ns,
        suspended_ns=around.suspended_ns,
        awake_s=around.awake_s,
        use=None if seen.vote.workload is None and seen.vote.unknown else state.workload,
        in_force=seen.current,
        signals=None if loading else seen.signals,  # that takes processor time, and in the blocks of one side alone
        saver=state.power.saver,
        inhibited=around.inhibited,
        hold=state.hold or _forbidden(state, setup),
        leased=around.leased and setup.permit.switch,
        go_on=_may_go_on(books, now, setup),
    )


def _forbidden(state: PolicyState, setup: PolicySetup) -> str:
    if state.stopped:
        return STOPPED
    if (trial := state.trial) is not None:
        dies = trial.wants if trial.since_ns is not None else None  # of one in its block the trial sees that itself
        for name in (trial.plan.candidate, trial.plan.in_force):
            failed = name in state.out and name != dies
            if failed or not setup.table.allows(trial.plan.use, name, saver=False):
                return f"{name} may not serve any more"
    if setup.policy.learn is Learn.OFF and state.by_hand is None:
        return "policy.learn is off"
    return "" if setup.guard.enabled else "the guard is off"


def _may_go_on(books: Books, now: Now, setup: PolicySetup) -> bool:
    trial, by_hand = books.policy.trial, books.policy.by_hand
    if trial is None or trial.plan.candidate == by_hand:
        return True
    return not _refused(books, now, setup, trial.plan.block_s)


def _refused(books: Books, now: Now, setup: PolicySetup, block_s: float) -> str:
    account, limits = books.lessons.kept.account, Limits(learn=setup.policy.learn)
    return trial_budget.refused(account, limits, now_ns=now.wall_ns, block_s=block_s, agreed=True)


def _choice(books: Books, use: Workload, current: SchedulerName, setup: PolicySetup) -> Choice | None:
    """Whom to try, and the pairs that are made already."""
    state, lessons, table = books.policy, books.lessons, setup.table
    by_hand = state.by_hand
    if by_hand is not None:
        if by_hand == current or by_hand in state.out or not table.allows(use, by_hand, saver=False):
            return None
        known = learning.asked_of(lessons, use, current, by_hand)
        return Choice(candidate=by_hand, before=() if known is None else known.pairs)
    near = state.suspected
    if near is not None and near not in (current, *state.out) and learning.said(lessons, use, near) is not False:
        known = learning.asked_of(lessons, use, current, near)
        if (known is None or known.open) and table.allows(use, near, saver=False):
            return Choice(candidate=near, before=() if known is None else known.pairs)
    offers = [
        offer
        for offer in table.offers(use, state.out)
        if _is_here(offer.name, setup) and learning.said(lessons, use, offer.name) is not False
    ]
    beaten = [loser for loser in lessons.better.get(use, ()) if current in learning.proved(lessons, use, loser)]
    asked = (*lessons.kept.asked, *(_lost(use, current, loser, setup) for loser in beaten))
    choice = trial_budget.following(use, current, offers, asked, Stand(kernel=setup.kernel, versions=setup.versions))
    refused = choice is not None and learning.said(lessons, use, choice.candidate) is False  # the kernel's own
    return None if refused else choice


def _is_here(name: SchedulerName, setup: PolicySetup) -> bool:
    return not setup.versions or name == EEVDF or name.bare in setup.versions


def _lost(use: Workload, current: SchedulerName, loser: SchedulerName, setup: PolicySetup) -> Asked:
    # who was worse than one that was worse than this one is not asked
    plan = Plan(use=use, in_force=current, candidate=loser, block_s=LONGEST_S, seed=0)
    return replace(_asked(plan, setup), verdict=Verdict.WORSE)


def _why_not(upcoming: Upcoming, books: Books, seen: Seen, now: Now, setup: PolicySetup) -> str:
    """What else speaks against its begin now, for people; "": nothing."""
    state, around = books.policy, seen.around
    if upcoming.block_s is None:
        return f"a switch takes longer than {_FIRST_SWITCH_S:g} s here, or nobody knows how long"
    revert, use = state.revert_of(upcoming.use), upcoming.use
    light = around.light and not upcoming.by_hand and upcoming.candidate != state.suspected
    short = not upcoming.by_hand and _stay_s(books, use, now, setup) < 2.0 * upcoming.block_s
    checks = (
        (state.power.saver, "battery saver is on"),
        (bool(around.inhibited), around.inhibited),
        (around.awake_s < FRESH_S, f"the first {FRESH_S:.0f} s after start or resume are not over"),
        (revert is not None and revert.rests(now.monotonic_ns, setup), "a switch was taken back lately"),
        (now.monotonic_ns - state.since_ns < setup.policy.dwell_s * 1e9, f"{use} has only begun"),
        (short, f"{use} is not expected to stay for a pair of turns"),
        (not measured(seen.signals), "nothing is measured here"),
        (light, "the load is light, and no wait is felt"),
    )
    if (why := next((words for applies, words in checks if applies), "")) or upcoming.by_hand:
        return why
    return _refused(books, now, setup, upcoming.block_s)


def _stay_s(books: Books, use: Workload, now: Now, setup: PolicySetup) -> float:
    age_s = (now.monotonic_ns - books.policy.since_ns) / 1e9
    return learning.stay_s(books.lessons, use, age_s=age_s, dwell_s=setup.policy.dwell_s)


def _asks(upcoming: Upcoming, books: Books, setup: PolicySetup) -> bool:
    if setup.policy.learn is not Learn.ASK or upcoming.by_hand:
        return False
    return learning.said(books.lessons, upcoming.use, upcoming.candidate) is not True


def are_short(state: PolicyState, name: SchedulerName, setup: PolicySetup) -> bool:
    """Are switches between this one and EEVDF so short that the two can take turns?"""
    switch_s = _switch_s(state, (name, EEVDF), setup)
    return switch_s is not None and switch_s <= _FIRST_SWITCH_S


def stands_by(setup: PolicySetup) -> bool:
    """Are schedulers loaded for their turn here?"""
    return setup.permit.stand_by and setup.standby.count > 0


def _switch_s(state: PolicyState, names: Collection[SchedulerName], setup: PolicySetup) -> float | None:
    """The longest that a switch to one of these takes; None: unknown."""
    longest_s, loaded = 0.0, stands_by(setup)
    for name in names:
        taken_ns = state.costs.taken_ns.get((name, loaded and name != EEVDF))
        if taken_ns:
            longest_s = max(longest_s, median(taken_ns) / 1e9)
        elif name != EEVDF:
            if not loaded:
                return None
            longest_s = max(longest_s, _FIRST_SWITCH_S)
    return longest_s


def _asked(plan: Plan, setup: PolicySetup) -> Asked:
    return Asked(
        use=plan.use,
        in_force=plan.in_force,
        candidate=plan.candidate,
        verdict=None,
        pairs=plan.before,
        kernel=setup.kernel,
        versions=(version_of(plan.in_force, setup), version_of(plan.candidate, setup)),
    )


def _concluded(books: Books, trial: Trial, now: Now, setup: PolicySetup) -> Books:
    """What a trial came to is kept; who is worse is barred."""
    outcome, plan, state = trial.outcome, trial.plan, books.policy
    assert outcome is not None  # noqa: S101  # it is over
    void = outcome.verdict is Verdict.VOID
    old = learning.asked_of(books.lessons, plan.use, plan.in_force, plan.candidate) or _asked(plan, setup)
    new = replace(
        _asked(plan, setup),
        verdict=None if void else outcome.verdict,
        pairs=outcome.pairs if void else (),
        effect=outcome.effect,
        count=len(outcome.pairs),
        tried_s=old.tried_s + outcome.tried_s,
        switches=old.switches + outcome.switches,
        words=outcome.sentence,
        at_ns=now.wall_ns,
        light=old.light,
    )
    suspected = None if not void and plan.candidate == state.suspected else state.suspected
    state, bars = replace(state, by_hand=None, stopped=False, suspected=suspected), books.bars
    if outcome.verdict is Verdict.WORSE and plan.candidate != EEVDF:
        state = replace(state, barred=state.barred | {plan.candidate})
        bars = penalties.lower(
            penalties.refresh(bars, wall_ns=now.wall_ns, versions=setup.versions),
            workload=plan.use,
            scheduler=plan.candidate,
            version=version_of(plan.candidate, setup),
            wall_ns=now.wall_ns,
            why=outcome.sentence,
        )
    return replace(books, policy=state, bars=bars, lessons=learning.settle(books.lessons, new))
