# SPDX-License-Identifier: GPL-2.0-only
"""An account of the policy, for people: who may serve the class in force and who not, what the guard has seen, what was
learned. Pure.

It reads what policy, quarantine, guard, bars and learning keep, and decides nothing. The agent asks each
tick, so that what has not changed is not worked out again.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from asa.config import Learn
from asa.core.decision import EEVDF, SchedulerName, SwitchEvent
from asa.decide import learning, penalties, trial_budget
from asa.decide.books import Books
from asa.decide.guard import LOOKS, GuardState
from asa.decide.learning import Lessons
from asa.decide.penalties import Cause
from asa.decide.policy import PolicySetup, PolicyState
from asa.decide.policy_state import Now
from asa.decide.signals import Signal
from asa.decide.trial_budget import Asked, Limits
from asa.decide.trial_pairs import Verdict
from asa.decide.trial_signs import MOST_PAIRS
from asa.status import Learned, Place, Showing, Switched, Tried, Trying

_LAST_RESORT = "the kernel's own: serves when no other may"
_WORDS = {Cause.REVERTED: "worse here", Cause.FAILED: "off after {count} failures"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The fields of `asa.status.Status` with these names."""

    ranking: tuple[Place, ...] = ()
    barred: tuple[str, ...] = ()
    keeps_to: str = ""
    guard: tuple[Showing, ...] = ()
    guard_blocks: int = 0
    guard_next_look: int | None = None
    learned: Learned | None = None
    trial: Trying | None = None


class Accountant:
    """Gives the account of a tick."""

    def __init__(self) -> None:
        self._ranked_for: tuple[object, ...] = ()
        self._ranking: tuple[Place, ...] = ()
        self._shown_for: tuple[object, ...] = ()
        self._showings: tuple[Showing, ...] = ()
        self._learned_for: tuple[object, ...] = ()
        self._learned: Learned | None = None

    def account(
        self,
        books: Books,
        now: Now,
        setup: PolicySetup,
    ) -> Account:
        """Of the tick at `now`."""
        state, lessons = books.policy, books.lessons
        outs = (state.set_aside, state.barred, state.quarantine, books.bars)
        ranked_for = (state.workload, state.power, setup.table, setup.policy, lessons.better, *outs)
        if not _same(ranked_for, self._ranked_for):
            self._ranked_for = ranked_for
            self._ranking = ranking(books, now, setup)
        learned_for = (state.workload, setup.policy, lessons.kept.asked)
        if self._learned is None or not _same(learned_for, self._learned_for):
            self._learned_for = learned_for
            self._learned = learned(state, lessons, now, setup)
        else:  # each tick
            self._learned = msgspec.structs.replace(self._learned, **_spent(lessons, now))
        shown_for = (state.workload, state.running, state.guard.seen)
        if not _same(shown_for, self._shown_for):
            self._shown_for = shown_for
            self._showings = showings(state)
        blocks = _trial_blocks(state)
        return Account(
            ranking=self._ranking,
            barred=tuple(sorted(state.barred)),
            keeps_to=_keeps_to(state, now.monotonic_ns, setup),
            guard=self._showings,
            guard_blocks=blocks or 0,
            guard_next_look=None if blocks is None else next((at for at, _ in LOOKS if at > blocks), None),
            learned=self._learned,
            trial=trying(state),
        )


def ranking(books: Books, now: Now, setup: PolicySetup) -> tuple[Place, ...]:
    """The table's schedulers for the class in force as they are asked now, why one is out, and what was learned.

    EEVDF, the last resort, is always there.
    """
    state, now_ns = books.policy, now.monotonic_ns
    workload = state.workload
    ranked = () if workload is None else setup.table.ranked(workload, saver=state.power.saver)
    if not ranked:
        return ()
    outs: dict[str, tuple[str, int | None]] = {}
    for one in state.quarantine.outs:
        if now_ns < one.until_ns:
            outs[one.scheduler] = (one.words, now.wall_ns + one.until_ns - now_ns)
    for mark in penalties.barring(books.bars, workload, now.wall_ns, setup.versions):
        if _longer(mark.until_ns, outs.get(mark.scheduler)):
            words = _WORDS[mark.cause].format(count=mark.count)
            outs[mark.scheduler] = (f"{words}: {mark.why}", mark.until_ns)
    reasons = dict(ranked)
    reasons.setdefault(EEVDF, _LAST_RESORT)
    places = []
    for name, proof in _moved(reasons, state, books.lessons, setup).items():
        out, until_ns = outs.get(name, ("", None))
        why = reasons.get(name, "tried by hand")
        places.append(Place(scheduler=name, why=why, learned=proof, out=out, until_ns=until_ns))
    return tuple(places)


def learned(state: PolicyState, lessons: Lessons, now: Now, setup: PolicySetup) -> Learned:
    """What trials have taught, in all and about the class in force."""
    asked = lessons.kept.asked
    counts = Counter(one.verdict for one in asked)
    return Learned(
        learn=setup.policy.learn,
        asked=len(asked),
        better=counts[Verdict.BETTER],
        worse=counts[Verdict.WORSE],
        alike=counts[Verdict.ALIKE],
        here=tuple(_tried(one) for one in asked if one.use == state.workload),
        most_switches=Limits().switches,
        **_spent(lessons, now),
    )


def trying(state: PolicyState) -> Trying | None:
    """The trial under way, else the one that is next; None: there is none."""
    trial, upcoming = state.trial, state.upcoming
    if trial is not None:
        plan = trial.plan
        return Trying(
            use=plan.use,
            candidate=plan.candidate,
            in_force=plan.in_force,
            under_way=True,
            pairs=len(trial.pairs),
            most_pairs=MOST_PAIRS,
            block_s=plan.block_s,
        )
    if upcoming is None:
        return None
    return Trying(
        use=upcoming.use,
        candidate=upcoming.candidate,
        in_force=upcoming.in_force,
        under_way=False,
        pairs=len(upcoming.before),
        most_pairs=MOST_PAIRS,
        block_s=upcoming.block_s,
        why_not=upcoming.why_not,
        question=upcoming.question,
    )


def _tried(one: Asked) -> Tried:
    effect = one.effect
    return Tried(
        candidate=one.candidate,
        in_force=one.in_force,
        verdict=one.verdict or "",
        pairs=one.count,
        share=None if effect is None else effect.share,
        low=None if effect is None else effect.low,
        high=None if effect is None else effect.high,
        words=one.words,
        at_ns=one.at_ns,
    )


def _spent(lessons: Lessons, now: Now) -> dict[str, Any]:
    account = lessons.kept.account
    return {
        "watched_s": account.watched_s,
        "tried_s": account.tried_s,
        "switches": len(trial_budget.lately(account, now.wall_ns)),
    }


def showings(state: PolicyState) -> tuple[Showing, ...]:
    """What the guard remembers of the class in force, by scheduler; the one in force last."""
    found = [
        _showing(scheduler, blocks)
        for (workload, scheduler), blocks in state.guard.seen.items()
        if workload == state.workload
    ]
    return tuple(sorted(found, key=lambda showing: showing.scheduler == (state.running or EEVDF)))


def switched(events: Iterable[tuple[int, SwitchEvent]]) -> tuple[Switched, ...]:
    """Events as they are shown, each given with when it was (CLOCK_REALTIME)."""
    return tuple(
        Switched(
            at_ns=at_ns,
            outcome=event.outcome,
            old=event.old,
            new=event.new,
            way=event.way,
            why=event.why,
            detail=event.detail,
            elapsed_ns=event.elapsed_ns,
            gap_ns=event.gap_ns,
            ended="" if event.exit is None else f"{event.exit.kind}: {event.exit.reason} (by {event.exit.source})",
        )
        for at_ns, event in events
    )


def _showing(scheduler: str, blocks: tuple[tuple[float | None, ...], ...]) -> Showing:
    medians: dict[str, float | None] = {}
    for place, signal in enumerate(Signal):
        known = [value for block in blocks if (value := block[place]) is not None]
        medians[str(signal)] = median(known) if known else None
    return Showing(scheduler=scheduler, blocks=len(blocks), medians=medians)


def _trial_blocks(state: PolicyState) -> int | None:
    guard: GuardState = state.guard
    trial, running = guard.trial, state.running or EEVDF
    if trial is None or (trial.workload, trial.scheduler) != (state.workload, running) or running == EEVDF:
        return None
    return trial.blocks


def _moved(
    reasons: dict[SchedulerName, str], state: PolicyState, lessons: Lessons, setup: PolicySetup
) -> dict[SchedulerName, str]:
    """The ranking in its learned order. Name -> the proof."""
    workload = state.workload
    if workload is None or setup.policy.learn is Learn.OFF:
        return dict.fromkeys(reasons, "")

    def may(name: SchedulerName) -> bool:
        return setup.table.allows(workload, name, saver=state.power.saver)

    order = learning.order(lessons, workload, tuple(reasons), may)
    return {name: "" if asked is None else asked.measured for name, asked in order.items()}


def _keeps_to(state: PolicyState, now_ns: int, setup: PolicySetup) -> str:
    for revert in state.reverts:
        if revert.workload == state.workload and revert.rests(now_ns, setup):
            return revert.back
    return ""


def _longer(until_ns: int | None, earlier: tuple[str, int | None] | None) -> bool:
    if earlier is None or until_ns is None:
        return True
    return earlier[1] is not None and until_ns > earlier[1]


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(left is right for left, right in zip(one, other, strict=True))
