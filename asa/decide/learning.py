# SPDX-License-Identifier: GPL-2.0-only
"""What daily use teaches: which scheduler was better for a class, how long classes stay. Pure but `load`, `save`.

What the guard measured under two schedulers within `PAIR_S` at comparable load is one comparison: won, lost or alike.
A sequential sign test (`ALIKE`, `ALPHA`) moves a scheduler before another one in a class; its error rate holds however
long one goes on looking. The derivation: docs/design.md; tests/decide/test_learning.py simulates it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import comb
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from asa.core.decision import Order, OrderKind, SchedulerName, Workload
from asa.decide import gain, guard, kept_file, windows
from asa.decide.guard import MOST_BLOCKS, Regression
from asa.decide.policy_state import Now, PolicySetup, PolicyState, Trying, version_of
from asa.decide.windows import SampleWindow

LEARNING = "learning.json"
"""The file's name in the agent's state folder."""
ALIKE, ALPHA = 0.6, 0.01
MOST_COUNTED = 200
"""Comparisons that were not alike, of a pair; what they have not settled is not worth more of them."""
MOST_DUELS = 256
"""Pairs of schedulers, in all classes; the one not compared for longest is forgotten."""
PAIR_S = 1800.0
"""Between the ends of two windows that are compared: later the machine is used in another way. A first choice."""
MOST_OPEN = 64
"""Stretches that wait for another one to be compared with."""
TRIAL_S = 90.0
"""The longest that a scheduler is tried at a time: it comes up, settles, and is measured for the guard's minute."""
MOST_STAYS = 64
"""Classes whose stays are known; the one that has stood least often is forgotten."""
FEWEST_STAYS = 5
"""With fewer of a class the mean of all classes is taken, and with fewer of those none. A first choice."""
_STAYS_REMEMBERED = 32  # one more then counts for 1/32: habits change
_MOST_ALIKE = 1_000_000

Counted = Annotated[int, msgspec.Meta(ge=0, le=MOST_COUNTED)]  # `evidence` has no figures for more
Alike = Annotated[int, msgspec.Meta(ge=0, le=_MOST_ALIKE)]
Amount = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]


class Comparison(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Comparisons of two schedulers, with their modes, in one class; `one` comes first in the alphabet."""

    workload: str
    one: str
    other: str
    one_version: str  # of the scheduler's file, "" for unknown and for the kernel's own
    other_version: str
    won: Counted = 0  # in which `one` was better
    lost: Counted = 0
    alike: Alike = 0
    at_ns: int  # CLOCK_REALTIME, of the last one

    @property
    def counted(self) -> int:
        """Those that were not alike."""
        return self.won + self.lost

    @property
    def better(self) -> str:
        """The one that won with enough evidence; "": neither."""
        if evidence(self.won, self.lost) * ALPHA >= 1.0:
            return self.one
        return self.other if evidence(self.lost, self.won) * ALPHA >= 1.0 else ""


class Stay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a class stood at a time, of those times that outlasted the dwell."""

    workload: str
    count: Annotated[int, msgspec.Meta(ge=1, le=_STAYS_REMEMBERED)]
    mean_s: Amount


class Learning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept over restarts. Bounded."""

    version: Literal[1] = 1  # of the file's format
    duels: Annotated[tuple[Comparison, ...], msgspec.Meta(max_length=MOST_DUELS)] = ()
    stays: Annotated[tuple[Stay, ...], msgspec.Meta(max_length=MOST_STAYS)] = ()
    watched_s: Amount = 0.0  # in which others might have been tried: `policy.explore_share` was above 0
    tried_s: Amount = 0.0  # of these: in which they were
    credit_s: Annotated[float, msgspec.Meta(ge=-1e12, le=TRIAL_S)] = 0.0  # for trials to come
    taken_back_s: Amount = 0.0  # under schedulers of the table's that the guard then took back
    lost_most: Amount = 0.0  # score x s: what both can have cost at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """What was learned, as it is used in a tick; `kept` is another object only when it changed."""

    kept: Learning = field(default_factory=Learning)
    versions: Mapping[str, str] = field(default_factory=dict)  # of the schedulers that it is of
    better: Mapping[Workload, Mapping[SchedulerName, tuple[SchedulerName, ...]]] = field(default_factory=dict)
    """Class -> scheduler -> those that are better in it, by enough evidence; the surest first."""
    open: tuple[SampleWindow, ...] = ()  # not compared yet, the newest last
    judged: tuple[Workload, SchedulerName] | None = None  # whose present trial was compared before it ended


NOTHING = Lessons()


@lru_cache(maxsize=1024)
def evidence(won: int, lost: int) -> float:
    """That the one who won is the better one: see above. 1 at the start; at most MOST_COUNTED comparisons."""
    count = won + lost + 1
    tail = sum(comb(count, k) * ALIKE**k * (1.0 - ALIKE) ** (count - k) for k in range(won + 1))
    beta = 1.0 / (count * comb(count - 1, won))
    return beta * tail / ((1.0 - ALIKE) * ALIKE**won * (1.0 - ALIKE) ** lost)


def begin(kept: Learning, versions: Mapping[str, str]) -> Lessons:
    """What of `kept` holds for the installed `versions` (name without a mode -> version; not in it: any)."""
    duels = tuple(duel for duel in kept.duels if _holds(duel, versions))
    if len(duels) != len(kept.duels):
        kept = msgspec.structs.replace(kept, duels=duels)
    return Lessons(kept=kept, versions=versions, better=_better(duels))


def preferred(
    lessons: Lessons, workload: Workload, first: SchedulerName, may_serve: Callable[[SchedulerName], bool]
) -> SchedulerName:
    """`first`, the table's choice for a class, or who was better than it here, or better than that one."""
    beaten = lessons.better.get(workload)
    if not beaten:  # nearly always, and this is asked every tick
        return first
    seen = {first}
    while True:
        following = next((name for name in beaten.get(first, ()) if name not in seen and may_serve(name)), None)
        if following is None:
            return first
        seen.add(following)
        first = following


def comparison_of(lessons: Lessons, workload: Workload, one: SchedulerName, other: SchedulerName) -> Comparison | None:
    """The comparisons of two schedulers in a class, None: there are none."""
    pair = (workload, *sorted((str(one), str(other))))
    return next((duel for duel in lessons.kept.duels if (duel.workload, duel.one, duel.other) == pair), None)


def stay_s(lessons: Lessons, workload: Workload, *, age_s: float, dwell_s: float) -> float:
    """How long a class that has stood for `age_s` is expected to stay, in s.

    The running mean of how long it stood before, or of how long any class did; at least the dwell. What has stood for
    longer than that is expected to stay as long again, so that a mean of short stays does not speak for ever against a
    switch in one that lasts.
    """
    stays = lessons.kept.stays
    own = next((stay for stay in stays if stay.workload == workload), None)
    if own is not None and own.count >= FEWEST_STAYS:
        return max(dwell_s, age_s, own.mean_s)
    count = sum(stay.count for stay in stays)
    mean_s = sum(stay.count * stay.mean_s for stay in stays) / count if count >= FEWEST_STAYS else 0.0
    return max(dwell_s, age_s, mean_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one tick changed: the policy's states before and after it, and what it took back. `elapsed_s` 0: unknown."""

    before: PolicyState
    after: PolicyState
    worse: Regression | None
    elapsed_s: float
    now: Now


def note(lessons: Lessons, tick: Tick, setup: PolicySetup) -> Lessons:
    """Learn from one tick."""
    before, after, now_ns = tick.before, tick.after, tick.now.monotonic_ns
    if not setup.policy.learn:
        return lessons
    if lessons.versions is not setup.versions:
        new = lessons.versions != setup.versions
        lessons = begin(lessons.kept, setup.versions) if new else replace(lessons, versions=setup.versions)
    if before.workload is not None and before.workload != after.workload:
        lessons = _stood(lessons, before.workload, (now_ns - before.since_ns) / 1e9, setup.policy.dwell_s)
    if before.power != after.power:  # what was measured under other power is no measure any more
        if lessons.open or lessons.judged is not None:
            lessons = replace(lessons, open=(), judged=None)
    elif before.guard is not after.guard:
        lessons = _measured(lessons, tick, setup)
    if not tick.elapsed_s and lessons.open:  # a suspend, or a gap: how long ago they were nobody knows
        lessons = replace(lessons, open=())
    if tick.worse is not None or setup.policy.explore_share > 0.0 or before.trying is not None:
        lessons = _accounted(lessons, tick, setup)
    return lessons


def obey(lessons: Lessons, order: Order) -> Lessons:
    """The user trusts a scheduler again: what was learned of it, in all its modes if none is named, is forgotten."""
    asked = order.scheduler
    if order.kind is not OrderKind.RESUME or asked is None:
        return lessons
    duels = tuple(
        duel
        for duel in lessons.kept.duels
        if not any(SchedulerName(one).answers_to(asked) for one in (duel.one, duel.other))
    )
    waiting = tuple(one for one in lessons.open if not one.scheduler.answers_to(asked))
    if len(waiting) != len(lessons.open):
        lessons = replace(lessons, open=waiting)
    if len(duels) == len(lessons.kept.duels):
        return lessons
    return replace(lessons, kept=msgspec.structs.replace(lessons.kept, duels=duels), better=_better(duels))


def load(path: Path) -> Learning:
    """What `save` wrote; a missing file is nothing learned. Raises InputError for a damaged or unreadable one."""
    return kept_file.load(path, Learning, "a record of learning")


def save(path: Path, learning: Learning) -> None:
    """Replace the file as a whole, on the disk when this returns. Raises AsaError; the old file is then untouched."""
    kept_file.save(path, learning, "what was learned of schedulers")


def _stood(lessons: Lessons, workload: Workload, stood_s: float, dwell_s: float) -> Lessons:
    if stood_s < dwell_s:  # too short for a switch: no stay that a switch could be weighed by
        return lessons
    stays = lessons.kept.stays
    old = next((stay for stay in stays if stay.workload == workload), None)
    count = 1 if old is None else min(old.count + 1, _STAYS_REMEMBERED)
    mean_s = stood_s if old is None else old.mean_s + (stood_s - old.mean_s) / count
    others = [stay for stay in stays if stay is not old]
    if len(others) >= MOST_STAYS:
        others.remove(min(others, key=lambda stay: stay.count))
    new = Stay(workload=workload, count=count, mean_s=mean_s)
    return replace(lessons, kept=msgspec.structs.replace(lessons.kept, stays=(*others, new)))


def _measured(lessons: Lessons, tick: Tick, setup: PolicySetup) -> Lessons:
    """The comparison that this tick's measurement makes possible, if any."""
    after, worse, now_ns = tick.after, tick.worse, tick.now.monotonic_ns
    if worse is not None:
        trial = after.guard.trial
        pair = (worse.workload, worse.scheduler)
        goes_on = trial is not None and trial.blocks < MOST_BLOCKS
        waiting = tuple(one for one in lessons.open if (one.workload, one.scheduler) != (worse.workload, worse.than))
        lessons = replace(lessons, open=waiting, judged=pair if goes_on else None)
        sides = _Sides(workload=worse.workload, scheduler=worse.scheduler, than=worse.than)
        return _counted(lessons, sides, -1, tick.now.wall_ns, setup)
    window = windows.taken(tick.before.guard, after.guard, now_ns)
    if window is None:
        return lessons
    if (window.workload, window.scheduler) == lessons.judged:
        return replace(lessons, judged=None)
    waiting = tuple(one for one in lessons.open if now_ns - one.at_ns <= PAIR_S * 1e9)
    for other in reversed(waiting):
        if other.workload != window.workload or other.scheduler == window.scheduler:
            continue
        outcome = windows.compare(window, other, guard.WORSE_BY)
        if outcome is not None:
            lessons = replace(lessons, open=tuple(one for one in waiting if one is not other))
            sides = _Sides(workload=window.workload, scheduler=window.scheduler, than=other.scheduler)
            return _counted(lessons, sides, outcome, tick.now.wall_ns, setup)
    return replace(lessons, open=(*waiting, window)[-MOST_OPEN:])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    workload: Workload
    scheduler: SchedulerName
    than: SchedulerName


def _counted(lessons: Lessons, sides: _Sides, outcome: int, wall_ns: int, setup: PolicySetup) -> Lessons:
    """With one comparison more, in which `scheduler` was better (1) than `than`, worse (-1) or alike (0)."""
    workload = sides.workload
    one, other = sorted((sides.scheduler, sides.than))
    outcome = outcome if one == sides.scheduler else -outcome
    old = comparison_of(lessons, workload, one, other)
    duel = old or Comparison(
        workload=workload,
        one=one,
        other=other,
        one_version=version_of(one, setup),
        other_version=version_of(other, setup),
        at_ns=wall_ns,
    )
    if not outcome:
        duel = msgspec.structs.replace(duel, alike=min(duel.alike + 1, _MOST_ALIKE), at_ns=wall_ns)
    elif duel.counted < MOST_COUNTED:
        duel = msgspec.structs.replace(
            duel, won=duel.won + (outcome > 0), lost=duel.lost + (outcome < 0), at_ns=wall_ns
        )
    duels = (*(kept for kept in lessons.kept.duels if kept is not old), duel)[-MOST_DUELS:]
    return replace(lessons, kept=msgspec.structs.replace(lessons.kept, duels=duels), better=_better(duels))


def _accounted(lessons: Lessons, tick: Tick, setup: PolicySetup) -> Lessons:
    """With the time of this tick, and what it can have cost at most: all that the better one would have scored."""
    after, worse, elapsed_s, now_ns = tick.after, tick.worse, tick.elapsed_s, tick.now.monotonic_ns
    kept, share, trying = lessons.kept, setup.policy.explore_share, tick.before.trying
    watched_s, tried_s, credit_s = kept.watched_s, kept.tried_s, kept.credit_s
    taken_back_s, lost = kept.taken_back_s, kept.lost_most
    if trying is not None:
        tried_s += elapsed_s
        lost += elapsed_s * _most(setup, trying.workload, trying.instead_of)
    elif worse is not None and after.last_switch_ns is not None:
        under_s = (now_ns - max(after.last_switch_ns, after.since_ns)) / 1e9
        taken_back_s += under_s
        lost += under_s * _most(setup, worse.workload, worse.than)
    if share > 0.0 and setup.permit.switch and not setup.shadow and not after.hold and after.workload is not None:
        watched_s += elapsed_s
        credit_s += share * elapsed_s
    credit_s = _charged(min(credit_s, TRIAL_S), trying, after.trying, elapsed_s, now_ns)
    changed = msgspec.structs.replace(
        kept,
        watched_s=watched_s,
        tried_s=tried_s,
        credit_s=credit_s,
        taken_back_s=taken_back_s,
        lost_most=lost,
    )
    return lessons if changed == kept else replace(lessons, kept=changed)


def _charged(credit_s: float, before: Trying | None, after: Trying | None, elapsed_s: float, now_ns: int) -> float:
    # A trial is paid for when it begins and gets back what it did not take, so that one with which the machine comes
    # down is not tried again at once: the daemon writes this before the switch.
    if before is not None:
        over_s = (now_ns - before.until_ns) / 1e9
        credit_s -= min(max(0.0, over_s), elapsed_s)
        if after is None or after.until_ns != before.until_ns:
            credit_s += max(0.0, -over_s)
    if after is not None and (before is None or after.until_ns != before.until_ns):
        credit_s -= TRIAL_S
    return min(credit_s, TRIAL_S)


def _most(setup: PolicySetup, workload: Workload, name: SchedulerName) -> float:
    score = gain.score_of(setup.table, workload, name)
    return 1.0 if score is None else score  # no score is larger


def _better(duels: tuple[Comparison, ...]) -> dict[Workload, dict[SchedulerName, tuple[SchedulerName, ...]]]:
    found: dict[Workload, dict[SchedulerName, list[tuple[float, SchedulerName]]]] = {}
    for duel in duels:
        if better := duel.better:
            worse = duel.other if better == duel.one else duel.one
            sure = evidence(max(duel.won, duel.lost), min(duel.won, duel.lost))
            of_class = found.setdefault(Workload(duel.workload), {})
            of_class.setdefault(SchedulerName(worse), []).append((-sure, SchedulerName(better)))
    return {
        workload: {worse: tuple(name for _, name in sorted(better)) for worse, better in of_class.items()}
        for workload, of_class in found.items()
    }


def _holds(duel: Comparison, versions: Mapping[str, str]) -> bool:
    sides = ((duel.one, duel.one_version), (duel.other, duel.other_version))
    now = [(versions.get(SchedulerName(name).bare, ""), then) for name, then in sides]
    return all(not installed or not then or installed == then for installed, then in now)
