# SPDX-License-Identifier: GPL-2.0-only
"""What a guest hands to the host: one JSON file. Types only; nothing is measured or judged here."""

from pathlib import Path

import msgspec

from asa import wire
from asa.core.errors import AsaError
from calibration.scale.samples import Mode


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """Of one mode of machine.c that takes samples, ns."""

    samples: int
    p50_ns: int
    p99_ns: int
    worst_ns: int


class Clocks(msgspec.Struct, frozen=True, kw_only=True):
    """How far time went back: on one CPU, from one CPU to another, and for a thread that changes its CPU."""

    looks: int
    back_ns: int
    tsc_back: int  # ticks of the time-stamp counter, on one CPU
    across_ns: int
    hops: int
    hop_ns: int


class Hurry(msgspec.Struct, frozen=True, kw_only=True):
    """Rounds of a loop: as it is, after its program was given so many per cent of its CPU's speed, and in a child."""

    given_pct: int
    before: int
    after: int
    child: int


class Hotplug(msgspec.Struct, frozen=True, kw_only=True):
    """A CPU was taken offline and online again: errno of each, and CPUs online before, meanwhile and after."""

    offline_errno: int
    online_errno: int
    before: int
    meanwhile: int
    after: int


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler came into force, and left. Seconds are the guest's."""

    attach_s: float
    hogs: dict[str, int]  # rounds by CPU, all at the same time, under it


class Checks(msgspec.Struct, frozen=True, kw_only=True):
    """What machine.c measured."""

    clocksource: str
    hogs: dict[str, dict[str, int]]  # rounds by CPU, by the CPUs that were busy together ("0 2")
    clocks: Clocks
    timer: Late  # on an idle machine
    timer_beside: Late  # all other CPUs busy
    ipi: Late
    wake: Late
    pause: Late  # of a hundred in a row
    hotplug: Hotplug
    hurry: Hurry


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one guest."""

    kernel: str
    cpus: int
    checks: Checks | None = None
    readings: tuple[dict[Mode, dict[str, int]], ...] = ()  # of scale.c, under the kernel's own scheduler
    loads: dict[str, Load] = {}
    troubles: dict[str, str] = {}  # by scheduler: why it did not load, stay or leave


def write(found: Found, path: Path) -> None:
    """One file, whole."""
    path.write_bytes(wire.json_bytes(found))


def read(path: Path) -> Found:
    """What `write` wrote. Raises AsaError."""
    try:
        return wire.from_json(path.read_bytes(), Found)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: no samples of the lab's guest: {error}") from error
