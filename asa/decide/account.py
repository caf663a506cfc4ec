# SPDX-License-Identifier: GPL-2.0-only
"""An account of the policy, for people: who may serve the class in force and who not, what the guard has seen, what was
learned. Pure.

It reads what policy, quarantine, guard, bars and learning keep, and decides nothing. The agent asks each
tick, so that what has not changed is not worked out again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import msgspec

from asa.core.decision import EEVDF, SchedulerName, SwitchEvent
from asa.decide import learning, penalties
from asa.decide.books import Books
from asa.decide.guard import LOOKS, GuardState
from asa.decide.learning import Learning, Lessons
from asa.decide.penalties import Cause
from asa.decide.policy import PolicySetup, PolicyState
from asa.decide.policy_state import Now
from asa.decide.signals import Signal
from asa.status import Compared, Learned, Place, Showing, Switched

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


class Accountant:
    """Gives the account of a tick."""

    def __init__(self) -> None:
        self._ranked_for: tuple[object, ...] = ()
        self._ranking: tuple[Place, ...] = ()
        self._shown_for: tuple[object, ...] = ()
        self._showings: tuple[Showing, ...] = ()
        self._learned_for: tuple[object, ...] = ()
        self._learned: Learned | None = None
        self._kept: Learning | None = None

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
        learned_for = (state.workload, setup.policy, lessons.kept.duels)
        if not _same(learned_for, self._learned_for):
            self._learned_for = learned_for
            self._learned = learned(state, lessons, setup)
        elif self._kept is not lessons.kept and self._learned is not None:  # each tick where others may be tried
            self._learned = msgspec.structs.replace(self._learned, **_spent(lessons.kept))
        self._kept = lessons.kept
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
        places.append(Place(scheduler=name, why=reasons[name], learned=proof, out=out, until_ns=until_ns))
    return tuple(places)


def learned(state: PolicyState, lessons: Lessons, setup: PolicySetup) -> Learned | None:
    """What daily use has taught, in all and about the class in force; None: it is not to teach anything."""
    if not setup.policy.learn:
        return None
    kept = lessons.kept
    return Learned(
        comparisons=sum(duel.counted + duel.alike for duel in kept.duels),
        moved=sum(bool(duel.better) for duel in kept.duels),
        here=tuple(
            Compared(one=duel.one, other=duel.other, won=duel.won, lost=duel.lost, alike=duel.alike, better=duel.better)
            for duel in kept.duels
            if duel.workload == state.workload
        ),
        allowed_share=setup.policy.explore_share,
        **_spent(kept),
    )


def _spent(kept: Learning) -> dict[str, float]:
    names = ("watched_s", "tried_s", "taken_back_s", "lost_most")
    return {name: getattr(kept, name) for name in names}


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
    """The ranking in its learned order: who proved better than one above stands right before it. Name -> the proof."""
    order, workload = dict.fromkeys(reasons, ""), state.workload
    if workload is None or not setup.policy.learn:
        return order
    for worse, betters in lessons.better.get(workload, {}).items():
        names = list(order)
        up = next((name for name in betters if name in order), None)
        if up is None or worse not in order or names.index(up) < names.index(worse):
            continue
        if not setup.table.allows(workload, up, saver=state.power.saver):
            continue
        duel = learning.comparison_of(lessons, workload, up, worse)
        assert duel is not None  # noqa: S101  # else nothing were proved
        won = duel.won if duel.one == up else duel.lost
        order[up] = f"better here than {worse} in {won} of {duel.counted} comparisons"
        names.remove(up)
        names.insert(names.index(worse), up)
        order = {name: order[name] for name in names}
    return order


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
