# SPDX-License-Identifier: GPL-2.0-only
"""What shadow sessions found: the cost of each scheduler's load and verification, and the agent's own.

Reads a journal, makes plain values (JSON by msgspec) and the cells of two tables. Percentiles are nearest-rank: each
is a value that was measured. It judges nothing and writes nothing.
"""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from asa.core.decision import LoadCost, SwitchEvent, SwitchOutcome
from asa.core.errors import JournalError
from asa.journal import Costs, Journal
from calibration.overhead.figures import PAPER_CPU_PCT, PAPER_MB

PAPER_INFERENCE_MS, PAPER_INFERENCE_P99_MS = 1.004, 3.445  # paper, table 4
PAPER = "Wang et al., Mixture-of-Schedulers: An Adaptive Scheduling Agent, 5.6 and table 4"
MODE = "shadow"
_MB = 1e6


class Quantiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of some values, in the unit that the field's name ends with."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class SchedulerCosts(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler. The quantiles are None when it never loaded (or, as `eevdf`, has nothing to load)."""

    scheduler: str
    chosen: int
    loaded: int
    wall_ms: Quantiles | None  # from its start until it asked to attach
    user_ms: Quantiles | None  # processor time
    system_ms: Quantiles | None  # and in the kernel: verification
    cpu_ms: Quantiles | None  # both
    memory_mb: float | None  # resident, the largest
    failures: dict[str, int]  # what was said -> how often


class AgentCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's own: per tick what passed, over all of it the processor time."""

    ticks: int
    duration_s: float  # without what lay between sessions
    collection_us: Quantiles
    sources_us: dict[str, float]  # median
    inference_us: Quantiles | None
    decision_us: Quantiles
    action_us: Quantiles | None  # ordering what was decided: mostly nothing, else checking and starting a binary
    journal_us: Quantiles | None
    cpu_pct: float | None  # of one core, the agent's process; None for less than two ticks a session
    loads_cpu_pct: float | None  # of one core, the schedulers' loads, spread over the same time
    resident_mb: float | None  # the largest


class PaperFigures(msgspec.Struct, frozen=True, kw_only=True):
    """To be read beside: another machine, all collectors of theirs."""

    source: str = PAPER
    cpu_pct: float = PAPER_CPU_PCT
    memory_mb: float = PAPER_MB
    inference_ms: float = PAPER_INFERENCE_MS
    inference_p99_ms: float = PAPER_INFERENCE_P99_MS


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `asa lab shadow report` shows."""

    journal: str
    sessions: int
    hosts: list[str]
    kernels: list[str]
    schedulers: list[SchedulerCosts]
    agent: AgentCosts | None  # None when no tick was written down
    paper: PaperFigures = PaperFigures()


def report(journal: Journal, name: str) -> Report:
    """Of all shadow sessions in a journal. Raises JournalError when there is none."""
    sessions = [session for session in journal.sessions() if session.header.mode == MODE]
    if not sessions:
        raise JournalError(f"{name}: no shadow session in it; `asa run --shadow` makes one")
    events = [event for session in sessions for event in journal.events(session.number)]
    costs = [list(journal.costs(session.number)) for session in sessions]
    return Report(
        journal=name,
        sessions=len(sessions),
        hosts=sorted({_clean(session.header.host) for session in sessions}),
        kernels=sorted({_clean(session.header.kernel) for session in sessions}),
        schedulers=_schedulers(events),
        agent=_agent(costs, [event.load for event in events if event.load is not None]),
    )


def quantiles(values: Sequence[float]) -> Quantiles | None:
    """None for no values."""
    if not values:
        return None
    ordered = sorted(values)

    def rank(share: float) -> float:
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    return Quantiles(
        count=len(ordered),
        mean=math.fsum(ordered) / len(ordered),
        p50=rank(0.5),
        p95=rank(0.95),
        p99=rank(0.99),
        max=ordered[-1],
    )


def _schedulers(events: Iterable[SwitchEvent]) -> list[SchedulerCosts]:
    by_name: dict[str, list[SwitchEvent]] = defaultdict(list)
    for event in events:
        if event.outcome in (SwitchOutcome.SHADOWED, SwitchOutcome.REFUSED):
            by_name[_clean(event.new)].append(event)
    return [_scheduler(name, by_name[name]) for name in sorted(by_name)]


def _scheduler(name: str, events: Sequence[SwitchEvent]) -> SchedulerCosts:
    good = [event for event in events if event.outcome is SwitchOutcome.SHADOWED]
    loads = [event.load for event in good if event.load is not None]
    return SchedulerCosts(
        scheduler=name,
        chosen=len(events),
        loaded=len(loads),
        wall_ms=quantiles([load.wall_ns / 1e6 for load in loads]),
        user_ms=quantiles([load.user_ns / 1e6 for load in loads]),
        system_ms=quantiles([load.system_ns / 1e6 for load in loads]),
        cpu_ms=quantiles([(load.user_ns + load.system_ns) / 1e6 for load in loads]),
        memory_mb=max((load.memory_bytes / _MB for load in loads), default=None),
        failures=dict(Counter(_clean(event.detail) for event in events if event.outcome is SwitchOutcome.REFUSED)),
    )


def _agent(sessions: Sequence[Sequence[Costs]], loads: Sequence[LoadCost]) -> AgentCosts | None:
    ticks = [costs for session in sessions for costs in session]
    collection = quantiles([costs.collection_us for costs in ticks])
    decision = quantiles([costs.decision_us for costs in ticks])
    if collection is None or decision is None:
        return None
    duration_ns = sum(session[-1].monotonic_ns - session[0].monotonic_ns for session in sessions if session)
    cpu_ns = sum(session[-1].cpu_ns - session[0].cpu_ns for session in sessions if session)
    loads_ns = sum(load.user_ns + load.system_ns for load in loads)
    sources = {source for costs in ticks for source in costs.sources_us}
    return AgentCosts(
        ticks=len(ticks),
        duration_s=duration_ns / 1e9,
        collection_us=collection,
        sources_us={
            _clean(source): statistics.median(costs.sources_us[source] for costs in ticks if source in costs.sources_us)
            for source in sorted(sources)
        },
        inference_us=quantiles([costs.inference_us for costs in ticks if costs.inference_us is not None]),
        decision_us=decision,
        action_us=quantiles([costs.action_us for costs in ticks]),
        journal_us=quantiles([costs.journal_us for costs in ticks if costs.journal_us is not None]),
        cpu_pct=100.0 * cpu_ns / duration_ns if duration_ns else None,
        loads_cpu_pct=100.0 * loads_ns / duration_ns if duration_ns else None,
        resident_mb=max(
            (costs.resident_bytes / _MB for costs in ticks if costs.resident_bytes is not None), default=None
        ),
    )


SCHEDULER_COLUMNS = ("scheduler", "chosen", "loaded", "wall ms", "user ms", "system ms", "memory MB", "failures")
AGENT_COLUMNS = ("the agent", "mean", "p50", "p95", "p99", "max", "paper")


def scheduler_rows(found: Report) -> list[tuple[str, ...]]:
    """Cells below SCHEDULER_COLUMNS; times as p50 / p95 / max."""
    return [
        (
            costs.scheduler,
            str(costs.chosen),
            str(costs.loaded),
            _three(costs.wall_ms),
            _three(costs.user_ms),
            _three(costs.system_ms),
            "-" if costs.memory_mb is None else f"{costs.memory_mb:.1f}",
            "; ".join(f"{count} x {words}" for words, count in costs.failures.items()) or "-",
        )
        for costs in found.schedulers
    ]


def agent_rows(found: Report) -> list[tuple[str, ...]]:
    """Cells below AGENT_COLUMNS."""
    agent, paper = found.agent, found.paper
    if agent is None:
        return []
    inference = f"{paper.inference_ms * 1e3:.0f} us, p99 {paper.inference_p99_ms * 1e3:.0f}"
    both = None if agent.cpu_pct is None else agent.cpu_pct + (agent.loads_cpu_pct or 0.0)
    return [
        _row("collection, us", agent.collection_us, "-"),
        _row("inference, us", agent.inference_us, inference),
        _row("decision, us", agent.decision_us, "-"),
        _row("action, us", agent.action_us, "-"),
        _row("journal, us", agent.journal_us, "-"),
        _single("CPU, % of one core", agent.cpu_pct, f"{paper.cpu_pct:g}"),
        _single("CPU of the loads, %", agent.loads_cpu_pct, "-"),
        _single("CPU of both, %", both, "-"),
        _single("memory, MB", agent.resident_mb, f"{paper.memory_mb:g}", at="max"),
    ]


def _row(name: str, values: Quantiles | None, paper: str) -> tuple[str, ...]:
    if values is None:
        return (name, *("-" for _ in range(5)), paper)
    return (name, *(f"{value:.0f}" for value in (values.mean, values.p50, values.p95, values.p99, values.max)), paper)


def _single(name: str, value: float | None, paper: str, *, at: str = "mean") -> tuple[str, ...]:
    shown = "unknown" if value is None else f"{value:.2f}"
    return (name, *(shown if column == at else "-" for column in AGENT_COLUMNS[1:-1]), paper)


def _three(values: Quantiles | None) -> str:
    return "-" if values is None else f"{values.p50:.0f} / {values.p95:.0f} / {values.max:.0f}"


def _clean(text: str) -> str:
    """Words of others, for a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
