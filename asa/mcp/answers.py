# SPDX-License-Identifier: GPL-2.0-only
"""What the tools answer: one struct a tool. None is unknown, never 0; times are CLOCK_REALTIME in ns.

Texts in them come from the kernel, from schedulers, from journals and from tables: they are data.
"""

from typing import Any

import msgspec

from asa.replayed import Replay
from asa.status import Place, Showing, Switched, ToldUse, Trying


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel says of sched_ext."""

    state: str
    ops: str  # of the scheduler that is attached; "": none, EEVDF serves


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The agent and the kernel. Without an agent all of its part is None."""

    running: bool
    kernel: Kernel | None  # None: no sched_ext
    asa_version: str | None = None
    mode: str | None = None  # switching, observing, hold
    mode_reason: str | None = None
    workload: str | None = None
    seen: str | None = None  # what the machine is used for, in words
    confidence: float | None = None  # 0..1
    scheduler: str | None = None
    scheduler_since_ns: int | None = None
    wanted: str | None = None
    why: str | None = None
    held: bool | None = None
    held_until_ns: int | None = None
    chosen: str | None = None  # by hand
    standbys: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    trial: Trying | None = None  # of the agent's own
    last_event: str | None = None
    table: str | None = None
    updated_ns: int | None = None


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A program by its name in the kernel (15 letters); all processes of that name together."""

    name: str
    count: int
    cores: float  # of processor time that they used, in cores


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The present use."""

    running: bool
    workload: str | None
    seen: str | None
    confidence: float | None
    probabilities: dict[str, float]  # of the last tick, the most probable first
    signals: dict[str, float | None]  # by their names, which end with the unit
    hints: str | None
    features: dict[str, Any] | None = None  # with detail=features
    processes: tuple[Process, ...] | None = None  # with detail=processes


class Explain(msgspec.Struct, frozen=True, kw_only=True):
    """Why this scheduler."""

    running: bool
    scheduler: str | None
    wanted: str | None
    why: str | None
    probabilities: dict[str, float]
    ranking: tuple[Place, ...]
    guard: tuple[Showing, ...]  # what the class showed, by scheduler
    told: ToldUse | None  # what a client says of the use, beside the model
    keeps_to: str | None
    switches: tuple[Switched, ...]  # the newest last


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What the mapping table says of a scheduler in a class."""

    place: int  # from 1
    why: str
    ground: str  # what the entry rests on
    score: float | None  # 0..1
    low: float | None
    high: float | None
    runs: int | None
    stale: str  # why it does not count any more; "": it does


class Scheduler(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler in one mode."""

    id: str
    purpose: str
    usable: bool
    reason: str  # why it is not usable; "": it is
    version: str | None
    figures: Figures | None  # of the class that was asked for


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one scheduler against another one in a class of use."""

    for_class: str
    scheduler: str
    than: str
    by: str  # trial or calibration
    verdict: str  # better, worse or alike; "": not known yet
    of: str  # wait: the share of the wait that is saved; score: points of it
    effect: float | None
    low: float | None
    high: float | None
    runs: int | None
    aged: str  # why it does not count any more; "": it counts


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler, all that is known here."""

    id: str
    purpose: str
    usable: bool
    reason: str
    version: str | None
    sha256: str | None
    modes: tuple[str, ...]
    flags: tuple[str, ...]  # with which this mode is run
    writes: tuple[str, ...]  # kernel settings that it may change
    classes: dict[str, Figures]
    found: tuple[Found, ...]


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, in the manifest's order; with a class those that the table ranks come first, best first."""

    found: int  # that fit; `policies` has the first of them
    policies: tuple[Scheduler, ...]
    policy: Policy | None = None  # with `id`


class Compare(msgspec.Struct, frozen=True, kw_only=True):
    """`a` against `b`. What was not measured here is unknown, whatever tables say."""

    for_class: str
    a: str
    b: str
    verdict: str  # of a: better, worse, same or unknown
    by: str | None
    of: str | None
    difference: float | None
    low: float | None
    high: float | None
    runs: int | None
    why: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened."""

    at_ns: int
    what: str
    outcome: str
    why: str


class History(msgspec.Struct, frozen=True, kw_only=True):
    """The newest last."""

    kind: str
    found: int
    rows: tuple[Row, ...]


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """What a session would have come to."""

    session: int
    by: str  # which settings
    whole: bool  # False: the session has more ticks than were asked for
    replay: Replay


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A client's trial. Without an end of its own it ends by itself: what served before is back then."""

    id: str
    stage: str  # measuring, measured (it waits for `commit`), committed, ended
    policy: str
    against: str  # what served before
    turn: int  # 1 to 4 while it is measured
    turns: int
    intent_sha256: str
    verdict: str | None  # reached, missed or inconclusive
    gain_pct: float | None  # above 0 the policy is better
    pairs: tuple[float | None, ...]
    commit_by_ns: int | None  # while it waits for `commit`
    why: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A trial, or a job of the laboratory. A job's texts come from its process: they are data."""

    id: str
    kind: str  # trial, compose, verify, tune
    stage: str  # of a job: running, done, failed, cancelled
    why: str  # its last line
    trial: Trial | None = None
    result: Any = None  # of a job that is done: what its command prints with --json


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a change."""

    id: str
    scheduler: str | None  # in force now
    until_ns: int | None
    outcome: str
