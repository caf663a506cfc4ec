# SPDX-License-Identifier: GPL-2.0-only
"""Planted harm: what is played, what came of it, and where that is kept. Types and arithmetic; nothing is played here.

A plant gives a new agent a table in which a scheduler stands first for the use that is played, as measured here. It is
known to be bad: the worst of the lab's scale benchmark, or one of the lab's own that starves. The seconds are the
guest's in which it is in force (or, where it starves, from when there is somebody to starve) until it is gone for good:
while EEVDF has a turn in a check it may come back.
"""

import statistics
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from asa import files, wire
from asa.core.errors import AsaError, ModelError

KEPT = Path(__file__).parents[1] / "results" / "plants.json"
LOADS = (
    "web+archive",
    "game+blender",
    "office+kernel",
    "audio+llm",
    "web+disk",
    "game+network",
    "office+video",
    "audio+blender",
)
"""Each of the four interactive applications twice, each of the seven loads at least once."""
EACH = 5
CPUS = (4, 8)
STARVER = "scx_starver"
VICTIM = "victim"
"""The name of the task that is starved."""
MISSED_S = 120.0
"""Of the guest's time: what is not gone by then was missed. All looks of the guard lie in the first 65 s."""
STARVER_WAITS_S = (0.0, 5.0, 10.0, 20.0)
"""Seconds from when the scheduler that starves is in force to when there is somebody to starve."""


class Sort(StrEnum):
    """What is planted."""

    BAD = "bad"
    STARVER = "starver"


class Plant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One to play."""

    sort: Sort
    load: str  # of `LOADS`, "" for nothing that plays
    number: int
    cpus: int  # of the machine `alike-N`
    scheduler: str
    waits_s: float = 0.0  # of a starver

    @property
    def id(self) -> str:
        """Of all that is kept."""
        return f"{self.sort}-{self.cpus}-{self.load or 'alone'}-{self.number}"


class Played(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came of one. `seconds`: until it had gone for good; None: it was missed."""

    plant: Plant
    seconds: float | None
    under_s: float | None = (
        None  # of these, in which it was in force: turns of a check are under EEVDF; None: of before
    )
    before_s: float  # under EEVDF, from the agent's first tick to when it was in force
    said: str  # why the agent took it back, in its own words; "" where it did not
    longest_tick_s: float | None  # between two ticks of the agent in that time; None: fewer than two
    medians: dict[str, dict[str, float | None]] = {}  # scheduler -> signal -> what the guard saw of it
    kernel: str = ""
    asa_version: str = ""
    host_s: float = 0.0  # that it took, without the guest's boot


def bad(worst: dict[int, str], cpus: Sequence[int] = CPUS) -> list[Plant]:
    """All, each load's first ones before the second ones; `worst`: the scheduler by CPUs. Half on each machine."""
    return [
        Plant(sort=Sort.BAD, load=load, number=number, cpus=cpus[(place + number) % len(cpus)], scheduler=scheduler)
        for number in range(EACH)
        for place, load in enumerate(LOADS)
        for scheduler in (worst[cpus[(place + number) % len(cpus)]],)
    ]


def starving(cpus: Sequence[int] = CPUS) -> list[Plant]:
    """With the scheduler that starves: alone on the machine, and beside each of two loads."""
    return [
        Plant(
            sort=Sort.STARVER,
            load=load,
            number=number,
            cpus=count,
            scheduler=f"{STARVER}:starving",
            waits_s=waits_s,
        )
        for load in ("", "web+archive")
        for count in cpus
        for number, waits_s in enumerate(STARVER_WAITS_S)
    ]


def read(path: Path = KEPT) -> list[Played]:
    """What is kept; nothing where there is no file. Raises AsaError for one that is damaged."""
    try:
        return wire.from_json(path.read_bytes(), list[Played])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: no plays of planted harm: {error}; move it away to begin anew") from error


def keep(played: Played, path: Path = KEPT) -> None:
    """Add one, in place of an earlier one of the same plant."""
    others = [one for one in read(path) if one.plant.id != played.plant.id]
    ordered = sorted([*others, played], key=lambda one: one.plant.id)
    files.replace(path, msgspec.json.format(wire.json_bytes(ordered), indent=1) + b"\n")


def left(plants: Iterable[Plant], kept: Iterable[Played]) -> list[Plant]:
    """Those that are not played yet."""
    done = {one.plant.id for one in kept}
    return [one for one in plants if one.id not in done]


def median_s(kept: Sequence[Played], sort: Sort, of: int) -> tuple[float, str]:
    """Seconds, what was missed as `MISSED_S`; and words. `of`: how many there are to play. Raises ModelError."""
    gone = statistics.median(MISSED_S if one.seconds is None else one.seconds for one in _of(kept, sort))
    return statistics.median(
        _seconds(kept, sort)
    ), f"{_words(kept, sort, of)}; gone for good after {gone:.1f} s (median)"


def most_s(kept: Sequence[Played], sort: Sort, of: int) -> tuple[float, str]:
    """As `median_s`, the longest; and which it was."""
    found = _of(kept, sort)
    worst = max(found, key=_served_s)
    tick = "" if worst.longest_tick_s is None else f", ticks up to {worst.longest_tick_s:.1f} s apart"
    return max(_seconds(kept, sort)), f"{_words(kept, sort, of)}; {worst.plant.id}{tick}"


def missed(kept: Sequence[Played], sort: Sort, of: int) -> tuple[float, str]:
    """How many were not gone after `MISSED_S`; and which."""
    found = [one.plant.id for one in _of(kept, sort) if one.seconds is None]
    return float(len(found)), f"{_words(kept, sort, of)}{': ' + ', '.join(found) if found else ''}"


def _of(kept: Sequence[Played], sort: Sort) -> list[Played]:
    found = [one for one in kept if one.plant.sort is sort]
    if not found:
        raise ModelError(f"no plant of {sort} is kept; run `python -m calibration.harmless --measure`")
    return found


def _seconds(kept: Sequence[Played], sort: Sort) -> list[float]:
    return [_served_s(one) for one in _of(kept, sort)]


def _served_s(one: Played) -> float:
    """How long it was in force, what was missed as `MISSED_S`."""
    if one.seconds is None:
        return MISSED_S
    return one.seconds if one.under_s is None else one.under_s


def _words(kept: Sequence[Played], sort: Sort, of: int) -> str:
    found = _of(kept, sort)
    cpus = sorted({one.plant.cpus for one in found})
    loads = len({one.plant.load for one in found})
    names = ", ".join(sorted({one.plant.scheduler for one in found}))
    machines = " and ".join(map(str, cpus))
    return f"{len(found)} of {of} plants, {loads} loads, {machines} CPUs, {names}"
