# SPDX-License-Identifier: GPL-2.0-only
"""From a journal to a report: one pass over its ticks, holding sums, bins and the newest events only.

The time between two ticks counts for the class and the scheduler of the earlier one; where it is no time that the
agent watched (`asa.report.latency.broken`) it counts for nothing.
"""

import time
from array import array
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil

import asa
from asa.core.decision import EEVDF, Decision, Reason, SwitchEvent, SwitchOutcome
from asa.core.sample import RawSample
from asa.decide.proof import Proof
from asa.journal import Costs, Journal, SessionHeader
from asa.journal import Session as Stored
from asa.report import figures
from asa.report.figures import (
    NO_SCHED_EXT,
    NOT_JUDGED,
    NOT_RECOGNISED,
    Event,
    Pair,
    Quantiles,
    Refused,
    Report,
    Tried,
    Verdict,
)
from asa.report.latency import After, Growth, Snapshot, Windows, broken, snapshot
from asa.report.markup import plain
from asa.report.proof import of_session
from asa.report.reading import Tick, late, ticks
from asa.report.strip import Strip

MOST_EVENTS = 300
MOST_VERDICTS = 100
MOST_TIMELINES = 20
MOST_SESSIONS = 200
_CHANGES = frozenset({SwitchOutcome.CONFIRMED, SwitchOutcome.FAILED, SwitchOutcome.LOST, SwitchOutcome.FOREIGN})
_PARTS = ("collection", "inference", "decision", "action", "journal")

_Span = tuple[str, str]  # class, scheduler


@dataclass(slots=True, kw_only=True)
class _Kept:
    """An event, to be shown when the window after it is over."""

    event: SwitchEvent
    at_ns: int
    session: int
    offset_s: float
    taken_back: bool = False
    before: figures.Window | None = None
    after: After | None = None


@dataclass(slots=True)
class _All:
    """Sums over sessions."""

    pairs: dict[_Span, Growth] = field(default_factory=dict)
    reasons_ns: Counter[str] = field(default_factory=Counter)
    regimes_ns: Counter[str] = field(default_factory=Counter)
    refused: dict[str, list[float]] = field(default_factory=dict)  # label -> its probability in each such tick
    outcomes: Counter[str] = field(default_factory=Counter)
    verdicts: int = 0
    trials: int = 0
    trials_kept: deque[Tried] = field(default_factory=lambda: deque(maxlen=MOST_VERDICTS))
    events_kept: deque[_Kept] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    verdicts_kept: deque[Verdict] = field(default_factory=lambda: deque(maxlen=MOST_VERDICTS))
    switches: dict[tuple[str, str], tuple["array[float]", "array[float]", "array[float]"]] = field(default_factory=dict)


def gather(journal: Journal, name: str, session: int | None = None, proof: Proof | None = None) -> Report:
    """The report on all sessions of a journal, or on one. Raises JournalError for one that cannot be read.

    `proof` is what is known of the machine; None: what the newest of these sessions began with.
    """
    stored = [one for one in journal.sessions() if session in (None, one.number)]
    sums, costs, found = _All(), _Costs(), deque[figures.Session](maxlen=MOST_SESSIONS)
    total_ticks = 0
    for place, one in enumerate(stored):
        passing = _Passing(one, sums, with_timeline=place >= len(stored) - MOST_TIMELINES)
        found.append(passing.run(journal))
        costs.take(journal.costs(one.number))
        total_ticks += found[-1].ticks
    workloads, schedulers = Counter[str](), Counter[str]()
    for (workload, scheduler), growth in sums.pairs.items():
        workloads[workload] += growth.time_ns
        schedulers[scheduler] += growth.time_ns
    return Report(
        journal=name,
        written_ns=time.time_ns(),
        asa_version=asa.__version__,
        session_count=len(stored),
        ticks=total_ticks,
        seconds=sum(workloads.values()) / 1e9,
        workloads=_seconds(workloads),
        schedulers=_seconds(schedulers),
        reasons=_seconds(sums.reasons_ns),
        regimes=_seconds(sums.regimes_ns),
        outcomes=dict(sums.outcomes),
        verdict_count=sums.verdicts,
        pairs=_pairs(sums),
        switch_costs=_switch_costs(sums),
        agent=costs.figures(),
        sessions=tuple(found),
        events=tuple(_event(kept) for kept in sums.events_kept),
        verdicts=tuple(sums.verdicts_kept),
        trials=tuple(sums.trials_kept),
        trial_count=sums.trials,
        refused=_refused(sums),
        proof=proof or (of_session(stored[-1].header) if stored else None),
    )


class _Passing:
    """One session passing through."""

    def __init__(self, stored: Stored, sums: _All, *, with_timeline: bool) -> None:
        self._number, self._header, self._sums = stored.number, stored.header, sums
        self._windows = Windows()
        self._strip = Strip() if with_timeline else None
        self._origin: Snapshot | None = None
        self._span: _Span = ("", "")
        self._from: Snapshot | None = None  # where the span began
        self._last: Snapshot | None = None
        self._reason = self._regime = ""
        self._times_ns: Counter[_Span] = Counter()
        self._outcomes: Counter[str] = Counter()
        self._ticks = 0
        self._mode = stored.header.mode or ("recording" if stored.header.label else "")
        self._taking_back = ""  # to which scheduler a switch is under way that the guard has ordered

    def run(self, journal: Journal) -> figures.Session:
        last: RawSample | None = None
        for tick in ticks(journal, self._number):
            self._tick(tick)
            last = tick.sample
        self._close()
        if last is not None:
            self._hear(late(journal, self._number, last.monotonic_ns), last)
        workloads, schedulers = Counter[str](), Counter[str]()
        for (workload, scheduler), time_ns in self._times_ns.items():
            workloads[workload] += time_ns
            schedulers[scheduler] += time_ns
        header = self._header
        return figures.Session(
            number=self._number,
            started_ns=header.started_ns,
            ended_ns=header.started_ns if last is None else last.wall_ns,
            mode=plain(self._mode),
            host=plain(header.host),
            kernel=plain(header.kernel),
            cpus=header.cpus,
            ticks=self._ticks,
            seconds=sum(workloads.values()) / 1e9,
            workloads=_seconds(workloads),
            schedulers=_seconds(schedulers),
            outcomes=dict(self._outcomes),
            timeline=None if self._strip is None else self._strip.timeline(),
        )

    def _tick(self, tick: Tick) -> None:
        self._ticks += 1
        if self._mode == "observing" and tick.renewed is not None and tick.renewed.may_switch:
            self._mode = "switching"  # the daemon observes until the helper has answered
        snap, last = snapshot(tick.sample), self._last
        if self._origin is None:
            self._origin = snap
        if last is not None and broken(last, snap):
            self._close()
            self._windows.broke()
            if self._strip is not None:
                self._strip.broke()
        elif last is not None:
            self._credit(last, snap)
        self._last = snap
        span = _span(tick, self._header)
        if span != self._span or self._from is None:
            self._close()
            self._span, self._from = span, snap
        self._hear(tick.news, tick.sample)
        self._windows.seen(snap, span[0])
        if tick.decision is not None:
            self._decided(tick.decision, tick.sample)

    def _credit(self, last: Snapshot, snap: Snapshot) -> None:
        elapsed_ns = snap.at_ns - last.at_ns
        self._times_ns[self._span] += elapsed_ns
        self._sums.reasons_ns[self._reason] += elapsed_ns
        self._sums.regimes_ns[self._regime] += elapsed_ns
        if self._strip is not None:
            self._strip.add(self._offset_ns(last.at_ns, last), *self._span, last, snap)

    def _offset_ns(self, at_ns: int, near: Snapshot) -> int:
        """Since the session's first tick, the time the machine was suspended included."""
        origin = self._origin
        if origin is None:
            return 0
        suspended_ns = 0
        if origin.suspended_ns is not None and near.suspended_ns is not None:
            suspended_ns = near.suspended_ns - origin.suspended_ns
        return max(0, at_ns - origin.at_ns + suspended_ns)

    def _close(self) -> None:
        """The stretch of one class under one scheduler is over."""
        if self._from is not None and self._last is not None and self._last.at_ns > self._from.at_ns:
            self._sums.pairs.setdefault(self._span, Growth()).add(self._from, self._last)
        self._from = None

    def _decided(self, decision: Decision, sample: RawSample) -> None:
        self._reason, self._regime = decision.reason, plain(decision.vote.regime or "")
        if decision.refused and decision.probabilities is not None:
            label = decision.probabilities.likeliest
            self._sums.refused.setdefault(plain(label), []).append(decision.probabilities.of(label))
        if decision.trial:
            self._sums.trials += 1
            ended = Tried(
                at_ns=sample.wall_ns,
                session=self._number,
                workload=plain(decision.workload or NOT_RECOGNISED),
                sentence=plain(decision.trial),
            )
            self._sums.trials_kept.append(ended)
        if decision.reason is Reason.REVERTED:
            self._sums.verdicts += 1
            verdict = Verdict(
                at_ns=sample.wall_ns,
                session=self._number,
                workload=plain(decision.workload or NOT_RECOGNISED),
                back_to=plain(decision.switch_to or decision.wanted or ""),
                sentence=plain(decision.sentence),
            )
            self._sums.verdicts_kept.append(verdict)
        if decision.switch_to is None:  # after a check what serves then is in force already
            return
        self._windows.ordered()
        self._taking_back = decision.switch_to if decision.reason is Reason.REVERTED else ""

    def _hear(self, news: Iterable[SwitchEvent], sample: RawSample) -> None:
        near = snapshot(sample)
        for event in news:
            self._outcomes[event.outcome] += 1
            self._sums.outcomes[event.outcome] += 1
            kept = _Kept(
                event=event,
                at_ns=sample.wall_ns + event.monotonic_ns - sample.monotonic_ns,
                session=self._number,
                offset_s=self._offset_ns(event.monotonic_ns, near) / 1e9,
                taken_back=bool(self._taking_back) and event.new == self._taking_back,
            )
            self._taking_back = ""
            if event.outcome in _CHANGES:
                kept.before, kept.after = self._windows.changed(event.monotonic_ns)
            else:
                self._windows.stayed()
            if event.outcome is SwitchOutcome.CONFIRMED:
                _count_costs(self._sums, event)
            self._sums.events_kept.append(kept)


def _span(tick: Tick, header: SessionHeader) -> _Span:
    decision = tick.decision
    if decision is not None:
        scheduler = NO_SCHED_EXT if decision.current is None else plain(decision.current)
        return plain(decision.workload or NOT_RECOGNISED), scheduler
    state = tick.sample.sched_ext
    if state is None:
        scheduler = NO_SCHED_EXT
    else:
        scheduler = plain(state.ops) if state.state == "enabled" and state.ops else str(EEVDF)
    return plain(header.label) or NOT_JUDGED, scheduler


def _refused(sums: _All) -> tuple[Refused, ...]:
    found = [
        Refused(label=label, ticks=len(shares), share=sum(shares) / len(shares))
        for label, shares in sums.refused.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.ticks))


def _count_costs(sums: _All, event: SwitchEvent) -> None:
    key = (plain(event.new), str(event.way))
    elapsed, gaps, loads = sums.switches.setdefault(key, (array("d"), array("d"), array("d")))
    elapsed.append(event.elapsed_ns / 1e6)
    if event.gap_ns is not None:
        gaps.append(event.gap_ns / 1e6)
    if event.load is not None:
        loads.append((event.load.user_ns + event.load.system_ns) / 1e6)


class _Costs:
    """The agent's own costs over all sessions."""

    def __init__(self) -> None:
        self._parts = {name: array("d") for name in _PARTS}
        self._ticks = self._cpu_ns = self._time_ns = self._resident_bytes = 0

    def take(self, rows: Iterable[Costs]) -> None:
        first: Costs | None = None
        last: Costs | None = None
        for row in rows:
            self._ticks += 1
            first, last = first or row, row
            self._resident_bytes = max(self._resident_bytes, row.resident_bytes or 0)
            values = (row.collection_us, row.inference_us, row.decision_us, row.action_us, row.journal_us)
            for name, value in zip(_PARTS, values, strict=True):
                if value is not None:
                    self._parts[name].append(value)
        if first is not None and last is not None:
            self._cpu_ns += last.cpu_ns - first.cpu_ns
            self._time_ns += last.monotonic_ns - first.monotonic_ns

    def figures(self) -> figures.AgentCosts | None:
        if not self._ticks:
            return None
        parts = {name: quantiles(values) for name, values in self._parts.items()}
        return figures.AgentCosts(
            ticks=self._ticks,
            cpu_pct=100.0 * self._cpu_ns / self._time_ns if self._time_ns > 0 else None,
            resident_mb=self._resident_bytes / 1e6 if self._resident_bytes else None,
            parts_us={name: values for name, values in parts.items() if values is not None},
        )


def quantiles(values: "array[float]") -> Quantiles | None:
    """None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    p50, p95 = (ordered[max(0, ceil(share * len(ordered)) - 1)] for share in (0.5, 0.95))
    return Quantiles(count=len(ordered), p50=p50, p95=p95, max=ordered[-1])


def _seconds(times_ns: Counter[str]) -> dict[str, float]:
    return {name: time_ns / 1e9 for name, time_ns in times_ns.most_common() if name}


def _pairs(sums: _All) -> tuple[Pair, ...]:
    return tuple(
        Pair(workload=workload, scheduler=scheduler, latencies=growth.latencies(), felt=growth.felt())
        for (workload, scheduler), growth in sorted(sums.pairs.items(), key=lambda item: -item[1].time_ns)
    )


def _switch_costs(sums: _All) -> tuple[figures.SwitchCosts, ...]:
    found = []
    for (scheduler, way), (elapsed, gaps, loads) in sorted(sums.switches.items()):
        taken = quantiles(elapsed)
        if taken is not None:
            costs = figures.SwitchCosts(
                scheduler=scheduler, way=way, elapsed_ms=taken, gap_ms=quantiles(gaps), load_cpu_ms=quantiles(loads)
            )
            found.append(costs)
    return tuple(found)


def _event(kept: _Kept) -> Event:
    event = kept.event
    ended, load = event.exit, event.load
    return Event(
        at_ns=kept.at_ns,
        session=kept.session,
        offset_s=kept.offset_s,
        outcome=str(event.outcome),
        old=plain(event.old),
        new=plain(event.new),
        way=str(event.way),
        why=plain(event.why),
        detail=plain(event.detail),
        ended="" if ended is None else plain(f"{ended.kind}: {ended.reason} (by {ended.source})"),
        elapsed_ms=event.elapsed_ns / 1e6,
        gap_ms=None if event.gap_ns is None else event.gap_ns / 1e6,
        load_cpu_ms=None if load is None else (load.user_ns + load.system_ns) / 1e6,
        taken_back=kept.taken_back,
        before=kept.before,
        after=None if kept.after is None else kept.after.window(),
    )
