# SPDX-License-Identifier: GPL-2.0-only
"""What the switch benchmark records in a guest and hands to the host: one JSON file of these.

Types and their file alone; nothing is measured or judged here. Times are ns of the guest's CLOCK_MONOTONIC.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

from asa import wire
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError

ROTA = tuple(SchedulerName(f"scx_{name}") for name in ("bpfland", "flash", "p2dq", "rusty", "simple"))
"""The schedulers between which it switches, in a ring: the budget's."""


class Kind(StrEnum):
    """How a switch was made, or what a lateness was measured beside."""

    PLAIN = "plain"  # stop, then start
    GATED = "gated"  # loaded beside the old one
    STANDBY = "standby"  # loaded before it was ordered
    QUIET = "quiet"  # no switch at all


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a switch, since the order."""

    name: str
    at_ns: int


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """One switch that was confirmed."""

    kind: Kind
    old: str
    new: str
    took_ns: int  # from just before the order until it was confirmed
    told_ns: int  # until the loop had the event that says so: the switcher puts things back in between
    gap_ns: int | None  # as the switcher tells it
    load_ns: int | None  # from the process's start until it asked to attach
    steps: tuple[Step, ...] = ()
    witnessed: bool = False  # the probes ran beside it, so that it is none of those that are timed
    seen_gap_ns: int | None = None  # by the program that reads sysfs each millisecond, when it ran


class Swap(msgspec.Struct, frozen=True, kw_only=True):
    """The kernel's own part: link of `old` detached, waiting map of `new` attached, since it began."""

    old: str
    new: str
    detached_ns: int
    attached_ns: int
    confirmed_ns: int


class Parked(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler that waits at its attach, left alone for `idle_ns`."""

    scheduler: str
    load_ns: int
    rss_bytes: int
    pss_bytes: int
    cpu_ns: int  # by its process's own clock
    idle_ns: int


class Lateness(msgspec.Struct, frozen=True, kw_only=True):
    """Wakeups of the 1 ms probe beside one switch, or beside none."""

    kind: Kind
    window_ns: int
    wakeups: int
    worst_ns: int


class External(msgspec.Struct, frozen=True, kw_only=True):
    """A change made by others, and when it was seen, in ms after it."""

    change: str
    event_ms: float  # by the kernel's event: the agent's own way
    poll_ms: float  # by a look at sysfs each 50 ms


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one guest. `troubles` tells what did not go as meant."""

    kernel: str
    cpus: int
    rounds: int
    rota: tuple[str, ...]
    switches: tuple[Switch, ...]
    floor: tuple[Swap, ...]  # scx_simple with scx_simple
    kernels: tuple[Swap, ...]  # the rota's own pairs
    parked: tuple[Parked, ...]
    lateness: tuple[Lateness, ...]
    external: tuple[External, ...]
    troubles: tuple[str, ...]


def write(found: Found, path: Path) -> None:
    """One file, whole."""
    path.write_bytes(wire.json_bytes(found))


def read(path: Path) -> Found:
    """What `write` wrote. Raises AsaError."""
    try:
        return wire.from_json(path.read_bytes(), Found)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: no samples of the switch benchmark: {error}") from error
