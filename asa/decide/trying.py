# SPDX-License-Identifier: GPL-2.0-only
"""Trying others than the first choice, in the share of time that the user allows for it (none by default). Pure.

Each watched second earns `policy.explore_share` of a second, up to one trial of `learning.TRIAL_S`, and a trial begins
when a whole one has been earned, and is paid for then. So the time spent on trying is never more than the share of the
time watched, but for what the last switch back took longer than planned, which is earned again before the next trial.
Where the user wants a cooldown that is longer than a trial nothing is tried: it could not end in time. A trial begins
in a class that is served, settled and measured, and ends when the guard's minute is full; the guard judges it as any
other, and what it takes back goes to the first choice at once. Nothing is tried on battery saver, on hold, in a class
that rests after a revert, or where nothing is measured. Who is tried next is not left to chance: the one of the table's
ranking that was compared with the first choice least often, so that a replay tries the same.
"""

from dataclasses import replace

from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import cooldown, learning
from asa.decide.books import Books
from asa.decide.guard import MOST_BLOCKS
from asa.decide.learning import MOST_COUNTED, TRIAL_S
from asa.decide.policy_state import PolicySetup, PolicyState, Trying
from asa.decide.signals import SIGNALS


def followed(state: PolicyState, now_ns: int, setup: PolicySetup) -> PolicyState:
    """With what is tried as it is in this tick: over, or gone, when it is that."""
    trying = state.trying
    if trying is None:
        return state
    if trying.scheduler not in (state.running, state.pending) or state.hold:
        return replace(state, trying=None)
    trial = state.guard.trial
    measured = (
        trial is not None
        and (trial.workload, trial.scheduler) == (trying.workload, trying.scheduler)
        and trial.blocks >= MOST_BLOCKS
    )
    over = (
        measured
        or now_ns >= trying.until_ns
        or state.workload != trying.workload
        or trying.scheduler in state.out
        or state.power.saver
        or not _allowed(setup)
    )
    return replace(state, trying=replace(trying, over=True)) if over and not trying.over else state


def next_one(
    books: Books, workload: Workload, current: SchedulerName, *, now_ns: int, setup: PolicySetup
) -> Trying | None:
    """The trial to begin in this tick, in which `current`, the first choice, serves; None: none."""
    state, lessons = books.policy, books.lessons
    if lessons.kept.credit_s < TRIAL_S or not _allowed(setup) or setup.shadow or state.power.saver:
        return None
    cooldown_s = cooldown.longest_s(setup.policy.cooldown_s)
    last_ns = state.last_switch_ns
    if cooldown_s > TRIAL_S or (last_ns is not None and now_ns - last_ns < cooldown_s * 1e9):
        return None
    trial = state.guard.trial
    if trial is None or (trial.workload, trial.scheduler) != (workload, current) or trial.blocks < MOST_BLOCKS:
        return None
    if not any(value is not None for block in state.guard.seen[workload, current] for value in block[: len(SIGNALS)]):
        return None
    revert = state.revert_of(workload)
    if revert is not None and revert.rests(now_ns, setup):
        return None
    ranked = [entry.name for entry in setup.table.ranking(workload)]
    best: tuple[int, SchedulerName] | None = None
    for name in dict.fromkeys((*ranked, EEVDF)):
        duel = learning.comparison_of(lessons, workload, current, name)
        settled = duel is not None and (duel.better or duel.counted >= MOST_COUNTED)
        if name == current or name in state.out or settled or not setup.table.allows(workload, name, saver=False):
            continue
        times = 0 if duel is None else duel.counted + duel.alike
        if best is None or times < best[0]:
            best = (times, name)
    if best is None:
        return None
    until_ns = now_ns + int(TRIAL_S * 1e9)
    return Trying(workload=workload, scheduler=best[1], instead_of=current, until_ns=until_ns)


def words(trying: Trying, setup: PolicySetup) -> str:
    """For people: what is done and by whose leave."""
    return (
        f"{trying.scheduler} is tried for {trying.workload} instead of {trying.instead_of}, for {TRIAL_S:g} s at most: "
        f"policy.explore_share allows {setup.policy.explore_share:.1%} of the time"
    )


def _allowed(setup: PolicySetup) -> bool:
    return setup.policy.explore_share > 0.0 and setup.policy.learn and setup.guard.enabled
