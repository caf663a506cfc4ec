# SPDX-License-Identifier: GPL-2.0-only
"""What a client may ask: one struct a tool, closed and bounded. `asa.mcp.schema` makes the tools' schemas of them.

There is no argument that is a path, a command line or source text. Numbers are whole, so that none is NaN.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from asa.core.decision import SCHEDULER_PATTERN

CLASS = r"^[a-z][a-z0-9_+:-]{0,63}$"
"""Of a class of use."""

MOST_ROWS = 200

_Policy = Annotated[
    str,
    Meta(
        pattern=SCHEDULER_PATTERN,
        max_length=129,
        description="a scheduler, with or without a mode: scx_lavd:performance",
    ),
]
_Class = Annotated[str, Meta(pattern=CLASS, description="a class of use, such as web+video or cpu")]


class Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool without arguments."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much is told of the present use."""

    detail: Annotated[
        Literal["summary", "features", "processes"],
        Meta(description="features: what carried the last recognition; processes: who used the CPUs, by name"),
    ] = "summary"
    seconds: Annotated[int, Meta(ge=1, le=60, description="for how long processes are watched")] = 1


class Explain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many of the last switches are told."""

    last: Annotated[int, Meta(ge=1, le=50, description="switches, the newest last")] = 5


class Policies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which schedulers are listed; with `id` one of them, whole."""

    id: Annotated[_Policy, Meta(description="all that is known of this one; give nothing else")] | None = None
    text: Annotated[str, Meta(max_length=64, description="only those whose name or purpose has it")] = ""
    for_class: _Class | None = None
    usable: Annotated[bool, Meta(description="only those that can be loaded here")] = True
    limit: Annotated[int, Meta(ge=1, le=50)] = 20


class Compare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two schedulers in one class of use."""

    for_class: _Class
    a: _Policy
    b: _Policy


class History(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happened lately."""

    kind: Annotated[
        Literal["switches", "trials", "guard", "changes"],
        Meta(description="guard: switches that the guard took back; changes: what clients changed by this server"),
    ] = "switches"
    since_s: Annotated[int, Meta(ge=1, le=604_800, description="not older than so many seconds")] = 86_400
    limit: Annotated[int, Meta(ge=1, le=MOST_ROWS, description="rows, the newest last")] = 50


_Seconds = Annotated[int, Meta(ge=0, le=86_400)]


class Voting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in docs/settings.md."""

    method: Literal["time-weighted", "none"] | UnsetType = UNSET
    open_world: bool | UnsetType = UNSET
    window_s: Annotated[int, Meta(ge=1, le=600)] | UnsetType = UNSET


class Choosing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in docs/settings.md, `policy`."""

    cooldown_s: _Seconds | UnsetType = UNSET
    dwell_s: _Seconds | UnsetType = UNSET
    weigh_cost: bool | UnsetType = UNSET


class Guard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As in docs/settings.md."""

    enabled: bool | UnsetType = UNSET
    baseline_s: _Seconds | UnsetType = UNSET


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to try, each group as in docs/settings.md. None of them is a path."""

    voting: Voting | UnsetType = UNSET
    policy: Choosing | UnsetType = UNSET
    guard: Guard | UnsetType = UNSET


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recorded session, decided once more."""

    session: Annotated[int, Meta(ge=1, le=2**31 - 1, description="its number; without one: the newest")] | None = None
    settings: Settings | None = None
    most_ticks: Annotated[int, Meta(ge=1, le=100_000, description="from the session's beginning")] = 10_000


_Why = Annotated[str, Meta(min_length=1, max_length=200, description="why, in a sentence; it is kept in the audit log")]
_Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$", description="as `trial` answered it")]
_Flag = Annotated[str, Meta(pattern=r"^--[a-z0-9][a-z0-9-]{0,63}$")]
_Metric = Literal[
    "run_queue_p99_us",
    "wakeup_p99_us",
    "cpu_pressure",
    "timer_late_us",
    "frames_missed",
    "underruns",
    "input_ms",
    "frame_ms",
    "piece_ms",
    "completed",
]
"""Of `asa.decide.signals.Signals`; `workload` shows which of them are measured now."""


class Rail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may not grow by more under the candidate, or it goes at once."""

    metric: _Metric
    most_growth_pct: Annotated[int, Meta(ge=0, le=1000)]


class Intent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trial is to reach; frozen and hashed before the first change."""

    metric: _Metric
    direction: Annotated[Literal["lower", "higher"], Meta(description="which way is better")] = "lower"
    least_gain_pct: Annotated[int, Meta(ge=0, le=50)] = 5
    guard_rails: Annotated[tuple[Rail, ...], Meta(max_length=4)] = ()


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scheduler to be tried against the one in force."""

    policy: _Policy
    intent: Intent
    why: _Why
    seconds: Annotated[int, Meta(ge=40, le=600, description="of all four turns together")] = 120


class Job(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial or a job that was begun here."""

    id: _Id
    wait_s: Annotated[int, Meta(ge=0, le=60, description="wait so long for a change of its stage")] = 0
    cancel: Annotated[bool, Meta(description="end a job now; `revert` ends a trial")] = False


class Parameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of a template; the laboratory knows its range."""

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    value: Annotated[int, Meta(ge=-1, le=1_000_000_000)]


class Compose(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scheduler of a template's parts."""

    template: Literal["cgroup", "edf", "fifo", "ljf", "sjf", "two_level", "vtime"]
    why: _Why
    parameters: Annotated[tuple[Parameter, ...], Meta(max_length=16)] = ()


class Verify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scheduler of the portfolio, or one that was composed here: one of the two."""

    why: _Why
    policy: _Policy | None = None
    made: _Id | None = None


class Tune(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A search for a scheduler's flags in the lab's virtual machines."""

    policy: _Policy
    for_use: Annotated[
        str,
        Meta(pattern=r"^[a-z][a-z0-9_+-]{0,63}$", description="a scenario, office+kernel, or a figure, requests"),
    ]
    method: Literal["golden", "pso", "tpe", "screen"]
    why: _Why
    trials: Annotated[int, Meta(ge=2, le=200)] = 12
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 1
    flags: Annotated[tuple[_Flag, ...], Meta(max_length=8, description="these alone; without any: all numbers")] = ()
    machine: Annotated[str, Meta(pattern=r"^(vm[0-9]{3}|laptop-[a-z-]{1,32})$", description="of the lab")] = "vm120"


class Commit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep what a trial has shown to reach its intent."""

    id: _Id
    why: _Why
    seconds: Annotated[int, Meta(ge=60, le=86_400, description="how long it stays; then ASA chooses again")] = 3600


class Revert(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End a trial, or take back what was committed."""

    id: _Id
    why: _Why


class Hold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing is switched for a while."""

    why: _Why
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 600


class Resume(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End the hold of this client."""

    why: _Why


class Hint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the machine is used for now: one kind of use in front, one behind, or both."""

    why: _Why
    interactive: (
        Annotated[
            Literal["browse", "play", "sound", "write", "watch", "call"], Meta(description="what a person looks at")
        ]
        | None
    ) = None
    background: (
        Annotated[
            Literal["compress", "render", "compile", "infer", "disk", "network", "encode"],
            Meta(description="what works behind"),
        ]
        | None
    ) = None
    confidence: Literal["low", "medium", "high"] = "medium"
    seconds: Annotated[int, Meta(ge=1, le=3600, description="how long it stands, at most as long as the session")] = 600
