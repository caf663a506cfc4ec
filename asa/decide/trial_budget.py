# SPDX-License-Identifier: GPL-2.0-only
"""May a pair of a trial begin now, and which candidate is next? What the user allows, and what was asked already. Pure.

Each watched second earns a share of a second for the candidate, and a pair is paid for before it begins. So the time
under candidates is never more than that share, but for what a switch back takes longer. Switches are counted by the
hour. What was asked is asked again when the kernel or one of the two schedulers is another one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from msgspec import Meta

from asa.config import Learn
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import AsaError
from asa.decide import grounds
from asa.decide.grounds import ORDER, Evidence, Ground
from asa.decide.trial_pairs import Effect, Pair, Verdict
from asa.decide.trial_signs import MOST_PAIRS

HOUR_NS = 3600 * 1_000_000_000
MOST_SHARE = 0.05
MOST_SWITCHES = 12
SAVED_S = 160.0
"""The most that is saved up: eight blocks of 20 s."""
PAIR_SWITCHES = 3
"""The most that a pair takes: to its first block, to its second one, and back."""
HASH_SHOWN = 12
"""Digits of a file's hash, with which a version begins, by which people know it."""
MOST_BROKEN = 2
"""After so many a candidate is not tried again: it may take the machine with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may be tried. Raises AsaError for what is out of range."""

    learn: Learn = Learn.ON
    share: float = MOST_SHARE
    switches: int = MOST_SWITCHES  # an hour

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= MOST_SHARE:
            raise AsaError(f"share of time for trials: {self.share!r}; allowed: 0 to {MOST_SHARE:g}")
        if not 0 <= self.switches <= MOST_SWITCHES:
            raise AsaError(f"switches of trials an hour: {self.switches!r}; allowed: 0 to {MOST_SWITCHES}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What was watched and tried. Bounded: the switches of an hour."""

    watched_s: float = 0.0
    tried_s: float = 0.0  # of these, under a candidate
    credit_s: float = 0.0
    switched_ns: tuple[int, ...] = ()  # CLOCK_REALTIME, of the last hour: it outlives the agent
    since_ns: int | None = None  # CLOCK_REALTIME, of the first watched second; None: of before, or of a file of before


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is known of a candidate against another one in a use. `verdict` None: pairs were made and are not enough."""

    use: Workload
    in_force: SchedulerName
    candidate: SchedulerName
    verdict: Verdict | None
    pairs: Annotated[tuple[Pair, ...], Meta(max_length=MOST_PAIRS)]
    kernel: str
    versions: tuple[str, str]  # of the one in force and of the candidate; "": unknown, or the kernel's own
    effect: Effect | None = None  # of all pairs that were made
    count: Annotated[int, Meta(ge=0, le=MOST_PAIRS)] = 0  # of them; `pairs` are kept while they are not enough
    tried_s: Annotated[float, Meta(ge=0.0, le=1e12)] = 0.0  # under the candidate, in all runs
    switches: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    words: str = ""  # for people, what the last run came to
    at_ns: int = 0  # CLOCK_REALTIME, of that
    light: bool | None = None  # one began in a light load in which no wait was felt; None: of before, unknown
    broken: Annotated[int, Meta(ge=0, le=MOST_BROKEN)] = 0
    """Runs that began, one after the other, and of which the agent saw no end: it, or the machine, went down."""

    @property
    def open(self) -> bool:
        """May pairs be made still?"""
        return self.verdict is None and self.broken < MOST_BROKEN

    @property
    def serves(self) -> SchedulerName | None:
        """Who serves the use by it in place of the one in force; None: nobody."""
        alike_own = self.verdict is Verdict.ALIKE and self.candidate == EEVDF
        return self.candidate if self.verdict is Verdict.BETTER or alike_own else None

    def holds(self, stand: "Stand") -> bool:
        """Is it of the kernel and the files that are there now?"""
        return not self.aged(stand)

    def aged(self, stand: "Stand") -> str:
        """Why it is of another time or machine, for people; "": it is not. What is unknown is no other one."""
        if _other(self.kernel, stand.kernel):
            return f"found on kernel {self.kernel}, this is {stand.kernel}"
        for name, then in zip((self.in_force, self.candidate), self.versions, strict=True):
            if _other(then, stand.version(name)):
                return f"found with another file of {name.bare}, or on another machine"
        return ""

    @property
    def evidence(self) -> Evidence | None:
        """As a table has it: measured here, of the wait. None: no pair knows anything."""
        found = self.effect
        if found is None:
            return None
        return Evidence(
            ground="measured",
            effect=found.share,
            low=found.low,
            high=found.high,
            of="wait",
            than=str(self.in_force),
            runs=self.count,
            source="asa trial",
            kernel=self.kernel or None,
            version=self.versions[1][:HASH_SHOWN] or None,
            light=self.light,
        )

    @property
    def measured(self) -> str:
        """What was found, on what ground, for people."""
        return f"{grounds.words(self.evidence, Ground.HERE)}, {self.verdict or 'not known yet'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """What is installed."""

    kernel: str
    versions: Mapping[str, str]  # scheduler without a mode -> version

    def version(self, name: SchedulerName) -> str:
        """Of the scheduler's file; "": unknown, or the kernel's own."""
        return self.versions.get(name.bare, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A candidate as a table names it."""

    name: SchedulerName
    ground: Ground = Ground.OPINION  # what speaks for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Whom to try next, and the pairs that are made already."""

    candidate: SchedulerName
    before: tuple[Pair, ...] = ()


def watched(account: Account, limits: Limits, elapsed_s: float, *, tried: bool) -> Account:
    """With one tick more, in which the machine could have been switched; `tried`: under a candidate.

    After a gap nobody knows what was in force: give nothing. A time below 0 is none.
    """
    if not elapsed_s > 0.0 or limits.learn is Learn.OFF:
        return account
    spent_s = elapsed_s if tried else 0.0
    return replace(
        account,
        watched_s=account.watched_s + elapsed_s,
        tried_s=account.tried_s + spent_s,
        credit_s=min(SAVED_S, account.credit_s + limits.share * elapsed_s - spent_s),
    )


def switched(account: Account, now_ns: int) -> Account:
    """With a switch of a trial more, the one back too."""
    return replace(account, switched_ns=(*lately(account, now_ns), now_ns))


def refused(account: Account, limits: Limits, *, now_ns: int, block_s: float, agreed: bool = False) -> str:
    """Why no pair may begin now, for people; "": it may. Ask before a trial, and for its `go_on`.

    `agreed`: the user said yes to this candidate; while its trial is under way that is so.
    """
    if limits.learn is Learn.OFF:
        return "learning is off"
    if limits.learn is Learn.ASK and not agreed:
        return "the user has not been asked"
    if account.credit_s < block_s:
        return f"{limits.share:.0%} of the time is used up: {account.credit_s:.0f} s are left of {block_s:.0f} s"
    made = len(lately(account, now_ns))
    if made + PAIR_SWITCHES > limits.switches:
        return f"{made} switches in the last hour, of {limits.switches}"
    return ""


def following(
    use: Workload,
    in_force: SchedulerName,
    offers: Iterable[Offer],
    asked: Sequence[Asked],
    stand: Stand,
) -> Choice | None:
    """Whom to try next against the one in force; None: all that is offered is settled. Offer nobody who is barred.

    What was begun is ended first. Else the surest ground comes first (`grounds.ORDER`), each in the table's order, and
    the kernel's own scheduler comes last, if another one is in force.
    """
    ranked = sorted((offer for offer in offers if offer.name != EEVDF), key=lambda offer: ORDER.index(offer.ground))
    names = [name for name in dict.fromkeys((*(offer.name for offer in ranked), EEVDF)) if name != in_force]
    known = {one.candidate: one for one in asked if (one.use, one.in_force) == (use, in_force) and one.holds(stand)}
    open_ = [name for name in names if name not in known or known[name].open]
    if not open_:
        return None
    begun = [known[name].pairs if name in known else () for name in open_]
    at = max(range(len(open_)), key=lambda place: len(begun[place]))  # of equal ones the first
    return Choice(candidate=open_[at], before=begun[at])


def lately(account: Account, now_ns: int) -> tuple[int, ...]:
    """Those of the last hour. What lies ahead was made while the clock was wrong."""
    return tuple(at_ns for at_ns in account.switched_ns if 0 <= now_ns - at_ns < HOUR_NS)


def _other(then: str, now: str) -> bool:
    return bool(then) and bool(now) and then != now
