# SPDX-License-Identifier: GPL-2.0-only
"""What ASA thinks and what it decides: probabilities, votes, decisions, and what became of a switch."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

Workload = NewType("Workload", str)
"""A class of use, as the model names it: `idle`, `disk`, `cpu+disk`. The set belongs to the model artefact."""

SchedulerName = NewType("SchedulerName", str)
"""A scheduler as the manifest names it: `scx_bpfland`, or `eevdf` for the kernel's own."""

EEVDF = SchedulerName("eevdf")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureFrame:
    """One tick as the model sees it: finite numbers or None, in the order of `models.features` schema `schema`."""

    schema: int
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probabilities:
    """A distribution over workload classes: same length, values in 0..1 that sum to 1."""

    classes: tuple[Workload, ...]
    values: tuple[float, ...]

    def of(self, workload: Workload) -> float:
        """Probability of one class, 0.0 for a class the model does not know."""
        return self.values[self.classes.index(workload)] if workload in self.classes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Outcome of the voting window: the winner (None when nothing passed the threshold) and its share, 0..1."""

    workload: Workload | None
    confidence: float


class Reason(StrEnum):
    """Why a decision came out as it did. The sentence beside it is for people, this is for programs."""

    NO_RATES = "no-rates"  # first sample, or a gap: nothing to judge by
    UNDECIDED = "undecided"  # no class passed the voting threshold
    NO_ENTRY = "no-entry"  # the table has nothing usable for the class
    SERVED = "served"  # the wanted scheduler already runs
    DWELL = "dwell"  # the class has not won for long enough yet
    COOLDOWN = "cooldown"  # the last switch is too recent
    BUSY = "busy"  # a switch is under way
    HOLD = "hold"  # somebody else changed the scheduler: they win
    OBSERVING = "observing"  # ASA may not switch here
    BETTER = "better"  # the table ranks another scheduler first: switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One tick's outcome. `switch_to` is set only when something is to be done."""

    monotonic_ns: int
    probabilities: Probabilities | None
    vote: Vote
    workload: Workload | None  # the class in force: the last winner
    wanted: SchedulerName | None  # what the table names for it, after setting failed ones aside
    current: SchedulerName | None  # what sysfs reported, None where there is no sched_ext
    switch_to: SchedulerName | None
    reason: Reason
    sentence: str


class SwitchOutcome(StrEnum):
    """How a switch, or a running scheduler, ended up."""

    CONFIRMED = "confirmed"  # sysfs shows the wanted scheduler
    REFUSED = "refused"  # it could not be started at all; nothing has changed
    FAILED = "failed"  # it did not come up; the kernel is on EEVDF
    LOST = "lost"  # it ran, and ended by itself; the kernel is on EEVDF
    FOREIGN = "foreign"  # somebody else's scheduler is attached


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchEvent:
    """What the switcher reports. `old -> new` and `undo` make it possible to tell the story backwards."""

    monotonic_ns: int
    outcome: SwitchOutcome
    old: SchedulerName
    new: SchedulerName
    elapsed_ns: int  # from the order to this outcome
    detail: str  # one line; for failures the scheduler's own last words
    undo: str  # what puts the old state back
