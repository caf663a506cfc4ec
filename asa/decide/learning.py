# SPDX-License-Identifier: GPL-2.0-only
"""What is kept over restarts of trials and of use: what was asked, the account, how long uses stay.

Pure but `load`, `save`. What a trial came to says who serves a use from then on (`proved`), until the kernel or one of
the two schedulers is another one. The reasons: docs/trials.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from asa import wire
from asa.config import Learn
from asa.core.decision import Order, OrderKind, SchedulerName, Workload
from asa.core.errors import InputError
from asa.decide import kept_file, trial_budget
from asa.decide.policy_state import Now, PolicySetup, PolicyState
from asa.decide.signals import SIGNALS
from asa.decide.trial_budget import SAVED_S, Account, Asked, Limits, Stand
from asa.decide.trial_pairs import Pair

LEARNING = "learning.json"
"""The file's name in the agent's state folder."""
MOST_ASKED = 512
"""Of all uses; the one asked longest ago is forgotten."""
MOST_BEGUN = 32
"""Of these keep their pairs, some 10 kB each; of others they are made anew."""
MOST_SAID = 256
MOST_STAYS = 64
"""Classes whose stays are known; the one that has stood least often is forgotten."""
FEWEST_STAYS = 5
"""With fewer of a class the mean of all classes is taken, and with fewer of those none. A first choice."""
_STAYS_REMEMBERED = 32  # one more then counts for 1/32: habits change

_Amount = Annotated[float, msgspec.Meta(ge=0.0, le=1e12)]


class Stay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long a class stood at a time, of those times that outlasted the dwell."""

    workload: str
    count: Annotated[int, msgspec.Meta(ge=1, le=_STAYS_REMEMBERED)]
    mean_s: _Amount


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's word on a candidate for a use: yes, or no."""

    use: Workload
    candidate: SchedulerName
    yes: bool


class Learning(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept over restarts. Bounded."""

    version: Literal[2] = 2  # of the file's format
    asked: Annotated[tuple[Asked, ...], msgspec.Meta(max_length=MOST_ASKED)] = ()  # the newest last
    said: Annotated[tuple[Said, ...], msgspec.Meta(max_length=MOST_SAID)] = ()
    stays: Annotated[tuple[Stay, ...], msgspec.Meta(max_length=MOST_STAYS)] = ()
    account: Account = Account()


class _Before(msgspec.Struct, frozen=True, kw_only=True):
    """Version 1: of its comparisons by load nothing is taken."""

    version: Literal[1]
    stays: Annotated[tuple[Stay, ...], msgspec.Meta(max_length=MOST_STAYS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons:
    """What was learned, as it is used in a tick; `kept` is another object only when it changed."""

    kept: Learning = field(default_factory=Learning)
    stand: Stand = field(default_factory=lambda: Stand(kernel="", versions={}))  # what it is of
    better: Mapping[Workload, Mapping[SchedulerName, SchedulerName]] = field(default_factory=dict)
    """Use -> scheduler -> who serves in its place."""


NOTHING = Lessons()


def begin(kept: Learning, stand: Stand) -> Lessons:
    """What of `kept` holds for what is installed. Pairs of other signals than today's are made anew."""
    asked = tuple(_sound(one) for one in kept.asked if one.holds(stand))
    if asked != kept.asked or kept.account.credit_s > SAVED_S:
        account = replace(kept.account, credit_s=min(SAVED_S, kept.account.credit_s))
        kept = msgspec.structs.replace(kept, asked=asked, account=account)
    return Lessons(kept=kept, stand=stand, better=_better(kept.asked))


def asked_of(lessons: Lessons, use: Workload, in_force: SchedulerName, candidate: SchedulerName) -> Asked | None:
    """What is known of a candidate against another one in a use, None: nothing."""
    key = (use, in_force, candidate)
    return next((one for one in lessons.kept.asked if (one.use, one.in_force, one.candidate) == key), None)


def settle(lessons: Lessons, new: Asked) -> Lessons:
    """With what was asked once more, in place of what was known of the same."""
    old = asked_of(lessons, new.use, new.in_force, new.candidate)
    asked = (*(one for one in lessons.kept.asked if one is not old), new)[-MOST_ASKED:]
    begun = [place for place, one in enumerate(asked) if one.pairs]
    forgotten = frozenset(begun[: max(0, len(begun) - MOST_BEGUN)])
    if forgotten:
        asked = tuple(replace(one, pairs=()) if place in forgotten else one for place, one in enumerate(asked))
    return replace(lessons, kept=msgspec.structs.replace(lessons.kept, asked=asked), better=_better(asked))


def charge(lessons: Lessons, account: Account) -> Lessons:
    """With another account."""
    return replace(lessons, kept=msgspec.structs.replace(lessons.kept, account=account))


def said(lessons: Lessons, use: Workload, candidate: SchedulerName) -> bool | None:
    """The user's word on a candidate for a use; None: none yet."""
    return next((one.yes for one in lessons.kept.said if (one.use, one.candidate) == (use, candidate)), None)


def say(lessons: Lessons, word: Said) -> Lessons:
    """With the user's word."""
    others = (one for one in lessons.kept.said if (one.use, one.candidate) != (word.use, word.candidate))
    return replace(lessons, kept=msgspec.structs.replace(lessons.kept, said=(*others, word)[-MOST_SAID:]))


def proved(lessons: Lessons, use: Workload, first: SchedulerName) -> tuple[SchedulerName, ...]:
    """Who was better here than `first`, or than one that was, the last proved first; empty: nobody."""
    beaten = lessons.better.get(use)
    if not beaten:  # nearly always, and this is asked every tick
        return ()
    found: list[SchedulerName] = []
    following = beaten.get(first)
    while following is not None and following != first and following not in found:
        found.append(following)
        following = beaten.get(following)
    return tuple(reversed(found))


def proof(lessons: Lessons, use: Workload, name: SchedulerName) -> Asked | None:
    """The last trial that says that it serves the use; None: none does."""
    return next((one for one in reversed(lessons.kept.asked) if (one.use, one.serves) == (use, name)), None)


def order(
    lessons: Lessons, use: Workload, names: Iterable[SchedulerName], may: Callable[[SchedulerName], bool]
) -> dict[SchedulerName, Asked | None]:
    """Schedulers of a use, as a table ranks them, in the order of what was found here: who was better stands before.

    Each with what says so, None of those that stand where the table has them. `may`: one that may serve the use.
    """
    found: dict[SchedulerName, Asked | None] = dict.fromkeys(names)
    for worse, up in lessons.better.get(use, {}).items():
        if worse not in found or (up in found and list(found).index(up) < list(found).index(worse)) or not may(up):
            continue
        found[up] = asked_of(lessons, use, worse, up)
        ordered = [name for name in found if name != up]
        ordered.insert(ordered.index(worse), up)
        found = {name: found[name] for name in ordered}
    return found


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
    """What one tick changed: the policy's states before and after it. `elapsed_s` 0: unknown."""

    before: PolicyState
    after: PolicyState
    elapsed_s: float
    now: Now


def note(lessons: Lessons, tick: Tick, setup: PolicySetup) -> Lessons:
    """Learn from one tick: how long a use stood, and what it earned for trials or spent on one."""
    before, after = tick.before, tick.after
    if lessons.stand.versions is not setup.versions or lessons.stand.kernel != setup.kernel:
        stand = Stand(kernel=setup.kernel, versions=setup.versions)
        lessons = begin(lessons.kept, stand) if stand != lessons.stand else replace(lessons, stand=stand)
    if setup.policy.learn is not Learn.OFF and before.workload is not None and before.workload != after.workload:
        stood_s = (tick.now.monotonic_ns - before.since_ns) / 1e9
        lessons = _stood(lessons, before.workload, stood_s, setup.policy.dwell_s)
    if not setup.permit.switch or setup.shadow or after.workload is None or (after.hold and before.trial is None):
        return lessons
    trial = before.trial
    tried = trial is not None and trial.last.in_force == trial.plan.candidate
    old = lessons.kept.account
    account = trial_budget.watched(old, Limits(learn=setup.policy.learn), tick.elapsed_s, tried=tried)
    if account is old:
        return lessons
    return charge(lessons, account if old.watched_s else replace(account, since_ns=tick.now.wall_ns))


def obey(lessons: Lessons, order: Order) -> Lessons:
    """The user trusts a scheduler again: what trials said of it, in all its modes if none is named, is forgotten."""
    name = order.scheduler
    if order.kind is not OrderKind.RESUME or name is None:
        return lessons
    kept = lessons.kept
    asked = tuple(one for one in kept.asked if not any(a.answers_to(name) for a in (one.in_force, one.candidate)))
    said = tuple(one for one in kept.said if not one.candidate.answers_to(name))
    if (len(asked), len(said)) == (len(kept.asked), len(kept.said)):
        return lessons
    return replace(lessons, kept=msgspec.structs.replace(kept, asked=asked, said=said), better=_better(asked))


def of_text(text: bytes | str) -> Learning:
    """What was kept, of this version or of the one before. Raises msgspec.DecodeError."""
    try:
        return wire.from_json(text, Learning)
    except msgspec.ValidationError:
        return Learning(stays=wire.from_json(text, _Before).stays)


def load(path: Path) -> Learning:
    """What `save` wrote; a missing file is nothing learned. Raises InputError for a damaged or unreadable one."""
    try:
        return kept_file.load(path, Learning, "a record of learning")
    except InputError as error:
        try:
            before = kept_file.load(path, _Before, "a record of learning")
        except InputError:
            raise error from None
        return Learning(stays=before.stays)


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


def _better(asked: Sequence[Asked]) -> dict[Workload, dict[SchedulerName, SchedulerName]]:
    found: dict[Workload, dict[SchedulerName, SchedulerName]] = {}
    for one in asked:
        serves = one.serves
        if serves is not None:
            found.setdefault(one.use, {})[one.in_force] = serves  # of several the one that was shown last
    return found


def _sound(one: Asked) -> Asked:
    return one if all(_of_today(pair) for pair in one.pairs) else replace(one, pairs=())


def _of_today(pair: Pair) -> bool:
    sides = (pair.in_force, pair.candidate)
    return all(len(values) == len(SIGNALS) for side in sides for values in (side.logs, side.means))
