# SPDX-License-Identifier: GPL-2.0-only
"""Is a switch worth it? What the mapping table expects it to gain, against what it is measured to cost. Pure.

    gain [score x s] = (score of the wanted - score of the one in force) x expected stay
    cost [score x s] = switch_ms / 1000 x score of the one in force  +  more overhead / 100 x expected stay

A score lies between 0 and 1 (`calibration.scoring`), so that a switch that took the whole machine for itself would
cost what the one in force is worth in that time. The agent's own overhead is paid whatever is in force: only what the
wanted one has more of counts, and nothing where one of the two is unknown. Where the table does not know one of the
scores, or not how long a switch takes, nothing is said. How long a class is expected to stay is learned:
`asa.decide.learning.stay_s`.
"""

from dataclasses import dataclass
from typing import Protocol

from asa.core.decision import SchedulerName, Workload


class Expected(Protocol):
    """The part of a table's entry that is needed here."""

    @property
    def score(self) -> float | None:
        """0..1; None: the table is a prior, measured nowhere."""
        ...


class Cost(Protocol):
    """The part of a scheduler's costs in a table that is needed here."""

    @property
    def switch_ms(self) -> float | None:
        """Processor time that a switch to it takes from the whole machine; the old one serves meanwhile."""
        ...

    @property
    def overhead_pct(self) -> float | None:
        """Processor time of the agent at work under it, of the whole machine."""
        ...


class Table(Protocol):
    """The part of `asa.decide.table.MappingTable` that is needed here."""

    def expected(self, workload: Workload, name: SchedulerName) -> Expected | None:
        """The class's entry for a scheduler, None where it has none."""
        ...

    def cost(self, name: SchedulerName) -> Cost | None:
        """What a scheduler costs, None where that was not measured."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """One switch, weighed."""

    score: float  # of the wanted one
    in_force: float  # score of the one in force
    stay_s: float
    switch_ms: float
    overhead_pct: float | None  # more than under the one in force; None: unknown, and not counted

    @property
    def gain(self) -> float:
        """Score times seconds."""
        return (self.score - self.in_force) * self.stay_s

    @property
    def cost(self) -> float:
        """Score times seconds."""
        return self.switch_ms / 1000 * self.in_force + (self.overhead_pct or 0.0) / 100 * self.stay_s

    @property
    def pays(self) -> bool:
        """Does it gain more than it costs?"""
        return self.gain > self.cost

    @property
    def words(self) -> str:
        """The figures, for a sentence."""
        overhead = "" if self.overhead_pct is None else f" and {self.overhead_pct:+.2g} % overhead"
        return (
            f"score {self.score:.3f} against {self.in_force:.3f} for an expected {_figure(self.stay_s)} s gains "
            f"{_figure(self.gain)}, {_figure(self.switch_ms)} ms of switching{overhead} cost {_figure(self.cost)}"
        )


def weigh(
    table: Table, workload: Workload, *, wanted: SchedulerName, current: SchedulerName, stay_s: float
) -> Weighed | None:
    """The switch from `current` to `wanted`; None where too little is known to weigh it."""
    score, in_force = score_of(table, workload, wanted), score_of(table, workload, current)
    cost = table.cost(wanted)
    if score is None or in_force is None or cost is None or cost.switch_ms is None:
        return None
    return Weighed(
        score=score,
        in_force=in_force,
        stay_s=stay_s,
        switch_ms=cost.switch_ms,
        overhead_pct=_more(cost, table.cost(current)),
    )


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"  # no powers of ten: hours are common


def _more(cost: Cost, than: Cost | None) -> float | None:
    if than is None or cost.overhead_pct is None or than.overhead_pct is None:
        return None
    return cost.overhead_pct - than.overhead_pct


def score_of(table: Table, workload: Workload, name: SchedulerName) -> float | None:
    """What a scheduler is expected to score in a class; None: unknown."""
    entry = table.expected(workload, name)
    return None if entry is None else entry.score
