# SPDX-License-Identifier: GPL-2.0-only
"""What the loop sees, tries and learns, as values, and the file of what it learnt. Plays nothing.

A gain is in per cent, more is better. None is unknown.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from asa import files, wire
from asa.act.knobs import Value, arguments
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError

MOST_LEARNT = 2_000
"""Lines of the file; the oldest go first."""


class Waits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one class of use waited for, by the journal: two quantiles of a signal over its ticks."""

    use: str
    share: float  # of all ticks, 0..1
    signal: str  # its name ends with the unit
    median: float
    p95: float


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A use on a machine, as it was observed before anything was tried."""

    machine: str
    cpus: int
    mixed: bool  # cores of several speeds
    use: str  # a scenario, a figure of the scale benchmark, or a class
    workload: str  # the class by which the router chooses; "": none that it knows
    objective: str  # what is to be made better, in words
    router: str  # who serves without the loop
    reference: str  # whom gains are against
    shares: Mapping[str, float] = {}  # classes -> share of the last ticks
    waits: tuple[Waits, ...] = ()
    busy: Mapping[str, float] = {}  # programs by name -> cores

    def far(self, other: "Profile") -> float:
        """How unlike two profiles are: 0 the same use and size. The weights are a choice."""
        use = 0.0 if self.use == other.use else 1.0 if self.workload and self.workload == other.workload else 3.0
        return use + abs(math.log2(self.cpus / other.cpus)) + (self.mixed != other.mixed)


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A policy of the repository, or a scheduler with flags of its own."""

    scheduler: str  # a SchedulerName
    flags: Mapping[str, Value] = {}

    def __str__(self) -> str:
        """For people: with the arguments of its flags."""
        return " ".join((self.scheduler, *arguments(self.flags)))

    @property
    def bare(self) -> SchedulerName:
        """Without its mode."""
        return SchedulerName(self.scheduler).bare


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one trial came to: over the reference (the kernel's own in the lab), and over the router's choice."""

    gain_pct: float | None
    over_router_pct: float | None = None
    trouble: str = ""  # why there is no gain


class Play(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One trial. `by`: who asked for it and why."""

    candidate: Candidate
    seed: int
    by: str
    outcome: Outcome


class Learnt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a candidate for a profile. `verdict`: better, worse, neither, failed."""

    day: str  # ISO 8601
    profile: Profile
    candidate: Candidate
    verdict: str
    gain_pct: float | None
    trials: int
    why: str


def read(path: Path) -> list[Learnt]:
    """What earlier loops learnt, the oldest first; nothing where there is no file. Raises AsaError for another file."""
    try:
        return [wire.from_json(line, Learnt) for line in path.read_bytes().splitlines()]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: holds nothing that the loop learnt: {error}; name another by --repository") from error


def write(path: Path, found: Sequence[Learnt]) -> None:
    """The whole file. Raises AsaError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        body = b"".join(wire.json_bytes(one) + b"\n" for one in found[-MOST_LEARNT:])
        files.replace(path, body, durable=True)
    except OSError as error:
        words = f"{path}: cannot be written: {error.strerror}; free some space: what was learnt is in the report alone"
        raise AsaError(words) from error
