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
    """Which schedulers are listed."""

    text: Annotated[str, Meta(max_length=64, description="only those whose name or purpose has it")] = ""
    for_class: _Class | None = None
    usable: Annotated[bool, Meta(description="only those that can be loaded here")] = True
    limit: Annotated[int, Meta(ge=1, le=50)] = 20


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scheduler."""

    id: _Policy


class Compare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two schedulers in one class of use."""

    for_class: _Class
    a: _Policy
    b: _Policy


class History(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happened lately."""

    kind: Annotated[
        Literal["switches", "trials", "guard"],
        Meta(description="guard: switches that the guard took back"),
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
