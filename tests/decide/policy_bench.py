# SPDX-License-Identifier: GPL-2.0-only
"""One tick, one event or one order for the policy, with a setup and a table of its own."""

from dataclasses import dataclass, field, replace

from asa.config import GuardSettings, PolicySettings, QuarantineSettings, StandbySettings
from asa.core.decision import (
    EEVDF,
    Order,
    Permit,
    SchedulerExit,
    SchedulerName,
    SwitchEvent,
    Vote,
    Way,
    Workload,
)
from asa.decide import learning, policy
from asa.decide.books import Books
from asa.decide.penalties import Bars
from asa.decide.policy import PolicyState
from asa.decide.policy_state import Around, Now, Seen
from asa.decide.signals import Signals
from asa.decide.table import Entry, MappingTable
from scenarios.planted import evidence

S = 1_000_000_000
CPU, DISK, IDLE = Workload("cpu"), Workload("disk"), Workload("idle")
RUSTY, FLASH, SIMPLE = SchedulerName("scx_rusty"), SchedulerName("scx_flash"), SchedulerName("scx_simple")
TABLE = MappingTable(
    path="t.yaml",
    machine="test",
    provenance="test",
    rankings={
        IDLE: (Entry(scheduler="eevdf", why="."),),
        CPU: (
            Entry(scheduler="scx_rusty", why=".", evidence=evidence()),
            Entry(scheduler="scx_flash", why=".", evidence=evidence()),
        ),
        DISK: (Entry(scheduler="scx_simple", why=".", evidence=evidence()),),
    },
)


@dataclass(frozen=True, kw_only=True)
class Setup:
    table: MappingTable = TABLE
    policy: PolicySettings = field(default_factory=lambda: PolicySettings(cooldown_s=10.0, dwell_s=2.0))
    guard: GuardSettings = field(default_factory=GuardSettings)
    quarantine: QuarantineSettings = field(default_factory=QuarantineSettings)
    versions: dict = field(default_factory=dict)
    kernel: str = ""
    standby: StandbySettings = field(default_factory=StandbySettings)
    permit: Permit = field(default_factory=lambda: Permit(switch=True))
    shadow: bool = False


SETUP = Setup()
NO_MARKS = Bars()
CALM, BAD = Signals(cpu_pressure=0.1), Signals(cpu_pressure=0.6)
WALL_NS = 10**18  # at second 0


def decided(
    state, bars, vote, now_s, current, *, lessons=learning.NOTHING, setup=SETUP, signals=None, ready=(), light=False
):
    """One tick: the state, the bars and the verdict. `vote`: a class that won, None, or a whole vote."""
    vote = vote if isinstance(vote, Vote) else Vote(workload=vote, confidence=0.9 if vote else 0.0)
    books, verdict = policy.decide(
        Books(policy=state, bars=bars, lessons=lessons),
        Seen(vote=vote, current=current, signals=signals, ready=ready, around=Around(light=light)),
        now(now_s),
        setup,
    )
    assert books.lessons is lessons
    return books.policy, books.bars, verdict


def now(now_s):
    return Now(monotonic_ns=int(now_s * S), wall_ns=WALL_NS + int(now_s * S))


def heard(state, bars, event, *, wall_ns, setup=SETUP):
    """The state and the bars after an event."""
    books = policy.learn(Books(policy=state, bars=bars), event, wall_ns=wall_ns, setup=setup)
    return books.policy, books.bars


def obeyed(state, bars, order, current):
    books = policy.obey(Books(policy=state, bars=bars), order, current)
    return books.policy, books.bars


def ask(state, workload, now_s, current=EEVDF, may_switch=True, signals=None, bars=NO_MARKS, setup=SETUP, ready=()):
    """One tick where the bars do not change."""
    setup = replace(setup, permit=Permit(switch=may_switch))
    state, after, verdict = decided(state, bars, workload, now_s, current, signals=signals, setup=setup, ready=ready)
    assert after is bars
    return state, verdict


def learn(state, event):
    """One event that does not change the bars."""
    state, bars = heard(state, Bars(), event, wall_ns=WALL_NS + event.monotonic_ns)
    assert bars == Bars()
    return state


def obey(state, kind, current=EEVDF, scheduler=None, until_s=None):
    until_ns, until = (None, "") if until_s is None else (WALL_NS + int(until_s * S), f"second {until_s}")
    order = Order(kind=kind, scheduler=scheduler, until_ns=until_ns, until=until)
    return obeyed(state, Bars(), order, current)[0]


def event(outcome, new, at_s, old=EEVDF, kind=None, elapsed_s=1.0, way=Way.PLAIN):
    end = None if kind is None else SchedulerExit(kind=kind, reason="it ended", source="the scheduler")
    return SwitchEvent(
        monotonic_ns=int(at_s * S),
        outcome=outcome,
        old=old,
        new=new,
        elapsed_ns=int(elapsed_s * S),
        detail="",
        undo="",
        exit=end,
        way=way,
    )


def settled(workload=CPU):
    state, _ = ask(PolicyState(), workload, 0)
    return state
