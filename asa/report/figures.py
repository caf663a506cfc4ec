# SPDX-License-Identifier: GPL-2.0-only
"""What a report says, as plain values: made by `asa.report.gathering`, shown by `asa.report.page`, printed as JSON.

Times are CLOCK_REALTIME ns, durations seconds of running ticks. None is unknown.
"""

import msgspec

from asa.decide.proof import Proof

NOT_RECOGNISED = "not recognised"
NOT_JUDGED = "not judged"
NO_SCHED_EXT = "no sched_ext"


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Over a stretch of time: 99th percentiles of everything that waited in it, and the share of it that tasks waited.

    Percentiles come from histograms with four slots an octave, so they are good to about a fifth.
    """

    seconds: float
    run_queue_p99_us: float | None
    wakeup_p99_us: float | None
    timer_late_p99_us: float | None
    cpu_pressure_share: float | None


class Felt(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen, heard and got done over a stretch of time."""

    frames: int | None = None  # pictures while something was drawn; None: nothing was, or nobody counted
    frames_missed_share: float | None = None  # of the pictures that were due by the usual interval
    frame_interval_mean_ms: float | None = None
    sound_underruns: int | None = None
    input_to_flip_mean_ms: float | None = None
    pieces_per_s: float | None = None  # tasks that ended and requests of disks that were completed


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The time right before or after a change, and the class that was in force for most of it."""

    workload: str
    latencies: Latencies


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a switch or of a running scheduler. `before` and `after`: when another scheduler is in force."""

    at_ns: int
    session: int
    offset_s: float  # since the session's start, suspended time included
    outcome: str
    old: str
    new: str
    way: str
    why: str
    detail: str
    ended: str  # how the failed or lost one ended; "" when that is not told
    elapsed_ms: float
    gap_ms: float | None
    load_cpu_ms: float | None
    taken_back: bool  # the guard ordered it
    before: Window | None = None
    after: Window | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A switch that the guard took back."""

    at_ns: int
    session: int
    workload: str
    back_to: str
    sentence: str


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that ended, and what it came to."""

    at_ns: int
    session: int
    workload: str
    sentence: str


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One class under one scheduler, all sessions together."""

    workload: str
    scheduler: str
    latencies: Latencies
    felt: Felt = Felt()


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of measured values, in the unit that the field's name ends with; nearest rank."""

    count: int
    p50: float
    p95: float
    max: float


class SwitchCosts(msgspec.Struct, frozen=True, kw_only=True):
    """Confirmed switches to one scheduler, made in one way."""

    scheduler: str
    way: str
    elapsed_ms: Quantiles
    gap_ms: Quantiles | None
    load_cpu_ms: Quantiles | None


class AgentCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's own, in the sessions that wrote them down."""

    ticks: int
    cpu_pct: float | None  # of one core
    resident_mb: float | None  # the largest
    parts_us: dict[str, Quantiles]  # part of a tick -> time that passed in it


class Bin(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a timeline: seconds by class and by scheduler; both empty where the agent saw nothing."""

    workloads: dict[str, float]
    schedulers: dict[str, float]
    wakeup_p99_us: float | None
    run_queue_p99_us: float | None
    timer_late_p99_us: float | None


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A session in bins of equal length, from its first tick."""

    bin_s: float
    bins: tuple[Bin, ...]


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session. `timeline` is there for the newest ones."""

    number: int
    started_ns: int
    ended_ns: int  # the last tick
    mode: str  # switching, where it could for a while at least; observing, shadow, recording; "": not known
    host: str
    kernel: str
    cpus: int
    ticks: int
    seconds: float
    workloads: dict[str, float]
    schedulers: dict[str, float]
    outcomes: dict[str, int]
    timeline: Timeline | None


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Ticks that looked like one label, though they fit no class of the model."""

    label: str
    ticks: int
    share: float  # its probability, mean


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. Of sessions, events and verdicts the newest are listed; the counts are of all."""

    journal: str
    written_ns: int
    asa_version: str
    session_count: int
    ticks: int
    seconds: float
    workloads: dict[str, float]
    schedulers: dict[str, float]
    reasons: dict[str, float]
    outcomes: dict[str, int]
    verdict_count: int
    pairs: tuple[Pair, ...]
    switch_costs: tuple[SwitchCosts, ...]
    agent: AgentCosts | None
    sessions: tuple[Session, ...]
    events: tuple[Event, ...]
    verdicts: tuple[Verdict, ...]
    trials: tuple[Tried, ...] = ()  # that ended, the newest
    trial_count: int = 0
    refused: tuple[Refused, ...] = ()  # the most frequent first
    proof: Proof | None = None  # what was found on the machine; None: nothing is known of it
    regimes: dict[str, float] = {}  # of the time in which nobody knew the use: what the machine did
