# SPDX-License-Identifier: GPL-2.0-only
"""What the policy goes by, remembers and says: its setup, its state from tick to tick, its verdict. Data alone."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from asa.config import GuardSettings, PolicySettings, QuarantineSettings, StandbySettings
from asa.core.decision import Permit, Reason, SchedulerName, Vote, Workload
from asa.decide import cooldown
from asa.decide.check import Checks
from asa.decide.cooldown import Costs
from asa.decide.guard import GuardState
from asa.decide.orders import Held
from asa.decide.power import Power
from asa.decide.quarantine import Quarantine
from asa.decide.signals import Signals
from asa.decide.table import MappingTable
from asa.decide.trial import Trial
from asa.decide.trial_pairs import Pair

LONGEST_REST_S = 3600.0
"""The longest that a class rests after reverts: the cooldown doubles with each. A first choice."""
SHORTEST_REST_S = 10.0
"""A class rests after a revert also where the settings have no cooldown."""


class PolicySetup(Protocol):
    """The part of `asa.pipeline.Setup` that the policy and what it learns need."""

    @property
    def table(self) -> MappingTable: ...  # noqa: D102  # as there
    @property
    def policy(self) -> PolicySettings: ...  # noqa: D102
    @property
    def guard(self) -> GuardSettings: ...  # noqa: D102
    @property
    def quarantine(self) -> QuarantineSettings: ...  # noqa: D102
    @property
    def versions(self) -> Mapping[str, str]: ...  # noqa: D102
    @property
    def kernel(self) -> str: ...  # noqa: D102
    @property
    def standby(self) -> StandbySettings: ...  # noqa: D102
    @property
    def permit(self) -> Permit: ...  # noqa: D102
    @property
    def shadow(self) -> bool: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """When a tick is, by both clocks."""

    monotonic_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a trial has to know besides."""

    awake_s: float = 0.0  # since the agent's start and the last resume
    suspended_ns: int | None = None  # CLOCK_BOOTTIME less CLOCK_MONOTONIC
    inhibited: str = ""  # what must not be disturbed, for people
    light: bool = False  # the load is, and no wait is felt: nobody would feel what a trial finds
    leased: bool = True  # does the helper keep what was ordered?
    loaded: Collection[SchedulerName] = ()  # those that stand by and have come up


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a tick shows to the policy."""

    vote: Vote
    current: SchedulerName | None  # in force (in shadow mode: what was chosen); None: the kernel has no sched_ext
    signals: Signals | None = None  # None: this tick has no rates
    ready: Collection[SchedulerName] = ()  # those that stand by
    around: Around = Around()


@dataclass(frozen=True, slots=True, kw_only=True)
class Revert:
    """What the guard took back for a class."""

    workload: Workload
    back: SchedulerName  # what the class wants while it rests
    count: int  # without a calm day between them
    at_ns: int

    def rests(self, now_ns: int, setup: PolicySetup) -> bool:
        """Does the class keep to `back` still?"""
        rest_s = max(cooldown.longest_s(setup.policy.cooldown_s), SHORTEST_REST_S) * 2.0 ** min(self.count, 32)
        return now_ns - self.at_ns < min(rest_s, LONGEST_REST_S) * 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """The trial that is next, while the scheduler in force serves the use."""

    use: Workload
    in_force: SchedulerName
    candidate: SchedulerName
    block_s: float | None  # None: there can be none
    before: tuple[Pair, ...] = ()  # made in earlier runs
    by_hand: bool = False
    why_not: str = ""  # now, for people; "": it begins
    question: bool = False  # it waits for the user's yes alone
    load: bool = False  # it waits for the candidate alone, which is to be loaded for its turn


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """What the policy remembers from tick to tick. Times are CLOCK_MONOTONIC in ns."""

    workload: Workload | None = None  # the class in force: the last winner, None once nobody has won for a dwell
    since_ns: int = 0  # when it won first without a break
    nobody_ns: int | None = None  # since when nobody has won; None: somebody has
    last_switch_ns: int | None = None  # when a switch last ended, well or badly
    pending: SchedulerName | None = None  # ordered, not yet reported
    running: SchedulerName | None = None  # what we last brought up, with its mode
    previous: SchedulerName | None = None  # what ran before it
    outside: str = ""  # what happened from outside, so that nothing is switched until told to resume
    stranger: bool = False  # it was somebody else's scheduler
    go_on: bool = False  # told to resume: to be done when the stranger has gone
    alone_ns: int | None = None  # since when the kernel has its own scheduler after the stranger's
    held: Held | None = None  # the user's word
    costs: Costs = field(default_factory=Costs)
    quarantine: Quarantine = field(default_factory=Quarantine)
    set_aside: frozenset[SchedulerName] = frozenset()  # out in this tick because they failed
    barred: frozenset[SchedulerName] = frozenset()  # out for the class in force because of the guard
    guard: GuardState = field(default_factory=GuardState)
    reverts: tuple[Revert, ...] = ()  # the last one of each class
    trial: Trial | None = None  # under way; or over, and its candidate has not gone yet
    upcoming: Upcoming | None = None
    by_hand: SchedulerName | None = None  # the user wants it tried now
    suspected: SchedulerName | None = None  # the one in force may be worse than this one: a trial is to say
    checks: Checks = field(default_factory=Checks)  # those that the guard asks for
    stopped: bool = False  # the user wants the trial under way to end
    power: Power = field(default_factory=Power)

    @property
    def hold(self) -> str:
        """Why nothing is switched; "": it may be."""
        if self.held is None:
            return self.outside
        return f"{self.outside}; {self.held.words}" if self.outside else self.held.words

    def judged(self, current: SchedulerName) -> bool:
        """Is it for the guard to judge what is in force? Not what the user holds, nor what a trial is compared with."""
        held = self.held
        if held is None:
            return not self.outside
        return bool(held.client) and not held.returning and held.back != current and not self.outside

    @property
    def out(self) -> frozenset[SchedulerName]:
        """Who may not serve the class in force in this tick."""
        return self.set_aside | self.barred

    def revert_of(self, workload: Workload) -> Revert | None:
        """The last one of a class."""
        return next((one for one in self.reverts if one.workload == workload), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the policy says in one tick."""

    wanted: SchedulerName | None
    switch_to: SchedulerName | None
    reason: Reason
    sentence: str
    trial: str = ""  # what a trial came to that this tick ended


def keep(wanted: SchedulerName | None, reason: Reason, sentence: str) -> Verdict:
    """The verdict that nothing is switched."""
    return Verdict(wanted=wanted, switch_to=None, reason=reason, sentence=sentence)


def version_of(name: SchedulerName, setup: PolicySetup) -> str:
    """What the installed file of a scheduler (with or without a mode) is known by; "": unknown, or the kernel's."""
    return setup.versions.get(name.bare, "")
