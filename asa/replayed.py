# SPDX-License-Identifier: GPL-2.0-only
"""What comes out when recorded ticks are decided once more (`asa.replay`). Data alone, for who only reads it."""

import msgspec


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A decision, as it is compared."""

    workload: str | None
    wanted: str | None
    current: str | None
    switch_to: str | None
    reason: str
    standbys: tuple[str, ...]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One tick that was decided differently."""

    at_ns: int  # CLOCK_REALTIME
    fields: tuple[str, ...]
    recorded: Brief
    replayed: Brief


class Ordered(msgspec.Struct, frozen=True, kw_only=True):
    """A switch that only one of the two ordered, or that the replay ordered `moved_s` later."""

    at_ns: int  # CLOCK_REALTIME
    scheduler: str
    moved_s: float = 0.0


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What came out. `schedulers`: seconds in force, recorded and replayed."""

    ticks: int
    compared: int  # ticks with a recorded decision
    differing: int
    by_field: dict[str, int]
    first: tuple[Difference, ...]  # at most `asa.replay.MOST_LISTED`
    recorded_switches: int
    replayed_switches: int
    same_switches: int
    moved: tuple[Ordered, ...]
    saved: tuple[Ordered, ...]
    added: tuple[Ordered, ...]
    schedulers: dict[str, tuple[float, float]]
    assumed_ticks: int  # in which the machine was assumed, because the replay had gone another way
