# SPDX-License-Identifier: GPL-2.0-only
"""Recorded ticks decided once more, and what comes out differently. Pure.

As long as the replay orders what the recording ordered, it is shown what was recorded. Where it orders something else
the machine is assumed: a scheduler ordered comes up after the time it mostly took, and stays until the recording lost
the same one. What the machine would have measured under another scheduler nobody knows: the rates stay as recorded.
The two come together again when the same scheduler is in force in both.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from statistics import median

from asa.core.decision import EEVDF, Decision, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.sample import RawSample, SchedExtState
from asa.decide.policy import PolicyState
from asa.journal import Told
from asa.pipeline import Setup, State, step
from asa.replayed import Brief, Difference, Ordered, Replay
from asa.report.reading import Tick
from collectors.rates import LONGEST_GAP_S

MOST_LISTED = 50
MOVED_S = 60.0
"""An order for the same scheduler within this time is the same order, moved."""
_USUAL_NS = 1_000_000_000  # a switch of which the recording knows no time
_CLOSE = 1e-6  # probabilities: another processor's arithmetic is no other decision
_FIELDS = ("workload", "wanted", "current", "switch_to", "reason", "standbys")
_ASSUMED = "="  # before a scheduler's name in place of its name in sysfs, which never begins so (bpf_obj_name_cpy)
_UP = frozenset({SwitchOutcome.CONFIRMED, SwitchOutcome.SHADOWED})
_DOWN = frozenset({SwitchOutcome.FAILED, SwitchOutcome.LOST})


def replay(
    ticks: Iterable[Tick],
    setup: Setup,
    state: State,
    delays_ns: Mapping[SchedulerName, int],
    renew: Callable[[Setup, Told], Setup] = lambda setup, _: setup,
) -> Replay:
    """Decide `ticks` once more, beginning with `state`.

    `delays_ns`: what a switch to a scheduler takes. `renew` gives the setup after settings were read again.
    """
    machine, tally = _Machine(shadow=setup.shadow, delays_ns=delays_ns), _Tally()
    shown = _with_assumed(setup)
    for tick in ticks:
        if state.sample is None:
            state = _as_found(state, tick)
        if tick.renewed is not None:
            setup = renew(setup, tick.renewed)
            shown = _with_assumed(setup)
        sample, news = machine.present(tick)
        state = step(shown, state, sample, news, tick.orders, tick.sizes)
        decision = state.decision
        assert decision is not None  # noqa: S101  # step always decides
        machine.decided(tick, decision)
        tally.take(tick, decision, assumed=not machine.following)
    return tally.outcome()


def usual_delays(events: Iterable[SwitchEvent]) -> dict[SchedulerName, int]:
    """Scheduler -> what a switch to it mostly took, in ns."""
    found: dict[SchedulerName, list[int]] = {}
    for event in events:
        if event.outcome in _UP:
            found.setdefault(event.new, []).append(event.elapsed_ns)
    return {name: round(median(taken)) for name, taken in found.items()}


def _with_assumed(setup: Setup) -> Setup:
    def name_of(ops: str) -> SchedulerName | None:
        return SchedulerName(ops.removeprefix(_ASSUMED)) if ops.startswith(_ASSUMED) else setup.name_of_ops(ops)

    return replace(setup, name_of_ops=name_of)


def _as_found(state: State, tick: Tick) -> State:
    # a bounded journal has lost the session's first ticks: what was in force then had been brought up by the agent
    current = None if tick.decision is None else tick.decision.current
    if tick.decision is None or current in (None, EEVDF) or tick.decision.reason == "no-rates":
        return state
    return replace(state, books=replace(state.books, policy=PolicyState(running=current)))


class _Machine:
    """What the replay is shown of the machine."""

    def __init__(self, *, shadow: bool, delays_ns: Mapping[SchedulerName, int]) -> None:
        self.following = True
        self._shadow, self._delays_ns = shadow, delays_ns
        self._recorded: SchedulerName = EEVDF  # in force, and under way
        self._recorded_pending: SchedulerName | None = None
        self._assumed: SchedulerName = EEVDF
        self._pending: tuple[SchedulerName, int] | None = None  # and when it was ordered

    def present(self, tick: Tick) -> tuple[RawSample, tuple[SwitchEvent, ...]]:
        """The sample and the news of this tick."""
        for event in tick.news:
            self._record(event)
        if self.following:
            return tick.sample, tick.news
        news = [self._take(event) for event in tick.news if self._concerns(event)]
        due = self._due(tick.sample.monotonic_ns)
        if due is not None:
            news.append(due)
        if any(event.outcome is SwitchOutcome.FOREIGN for event in news):
            self.following, self._pending = True, None
        elif self._pending is None and self._recorded_pending is None and self._assumed == self._recorded:
            self.following = True
        return (tick.sample if self.following else self._shown(tick.sample)), tuple(news)

    def decided(self, tick: Tick, decision: Decision) -> None:
        """Take note of what both ordered."""
        recorded = None if tick.decision is None else tick.decision.switch_to
        if recorded is not None:
            self._recorded_pending = recorded
        if self.following and recorded != decision.switch_to:
            self.following = False
            self._assumed, self._pending = self._recorded, None
        if not self.following and decision.switch_to is not None:
            self._pending = (decision.switch_to, tick.sample.monotonic_ns)

    def _record(self, event: SwitchEvent) -> None:
        if event.new == self._recorded_pending or event.outcome is SwitchOutcome.FOREIGN:
            self._recorded_pending = None
        if event.outcome in _UP:
            self._recorded = event.new
        elif event.outcome in _DOWN:
            self._recorded = EEVDF

    def _concerns(self, event: SwitchEvent) -> bool:
        lost = event.outcome is SwitchOutcome.LOST and event.new == self._assumed
        return lost or event.outcome is SwitchOutcome.FOREIGN

    def _take(self, event: SwitchEvent) -> SwitchEvent:
        if event.outcome is SwitchOutcome.LOST:
            self._assumed = EEVDF
        return event

    def _due(self, now_ns: int) -> SwitchEvent | None:
        if self._pending is None:
            return None
        target, ordered_ns = self._pending
        elapsed_ns = self._delays_ns.get(target, _USUAL_NS)
        if now_ns < ordered_ns + elapsed_ns:
            return None
        old, self._assumed, self._pending = self._assumed, target, None
        return SwitchEvent(
            monotonic_ns=ordered_ns + elapsed_ns,
            outcome=SwitchOutcome.SHADOWED if self._shadow else SwitchOutcome.CONFIRMED,
            old=old,
            new=target,
            elapsed_ns=elapsed_ns,
            detail="assumed",
            undo="",
        )

    def _shown(self, sample: RawSample) -> RawSample:
        if sample.sched_ext is None or self._shadow:
            return sample
        attached = self._assumed != EEVDF
        state = SchedExtState(
            state="enabled" if attached else "disabled",
            ops=_ASSUMED + self._assumed.bare if attached else "",
            enable_seq=sample.sched_ext.enable_seq,
        )
        return replace(sample, sched_ext=state)


class _Tally:
    """Counts while ticks go by."""

    def __init__(self) -> None:
        self._ticks = self._compared = self._differing = self._assumed = 0
        self._by_field: Counter[str] = Counter()
        self._first: list[Difference] = []
        self._recorded: list[tuple[int, int, str]] = []  # monotonic, wall, scheduler
        self._replayed: list[tuple[int, int, str]] = []
        self._times_ns: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self._last: tuple[int, str | None, str | None] | None = None

    def take(self, tick: Tick, decision: Decision, *, assumed: bool) -> None:
        sample, recorded = tick.sample, tick.decision
        self._ticks += 1
        self._assumed += assumed
        self._in_force(sample.monotonic_ns, None if recorded is None else recorded.current, decision.current)
        for orders, one in ((self._recorded, recorded), (self._replayed, decision)):
            if one is not None and one.switch_to is not None:
                orders.append((sample.monotonic_ns, sample.wall_ns, one.switch_to))
        if recorded is None:
            return
        self._compared += 1
        fields = _differing(recorded, decision)
        if not fields:
            return
        self._differing += 1
        self._by_field.update(fields)
        if len(self._first) < MOST_LISTED:
            found = Difference(
                at_ns=sample.wall_ns, fields=fields, recorded=_brief(recorded), replayed=_brief(decision)
            )
            self._first.append(found)

    def _in_force(self, now_ns: int, recorded: str | None, replayed: str | None) -> None:
        if self._last is not None and 0 < now_ns - self._last[0] <= LONGEST_GAP_S * 1e9:
            for times_ns, name in zip(self._times_ns, self._last[1:], strict=True):
                if name is not None:
                    times_ns[name] += now_ns - self._last[0]
        self._last = (now_ns, recorded, replayed)

    def outcome(self) -> Replay:
        same, moved, saved, added = _matched(self._recorded, self._replayed)
        before, after = self._times_ns
        names = sorted(before | after, key=lambda name: -before[name])
        return Replay(
            ticks=self._ticks,
            compared=self._compared,
            differing=self._differing,
            by_field=dict(self._by_field.most_common()),
            first=tuple(self._first),
            recorded_switches=len(self._recorded),
            replayed_switches=len(self._replayed),
            same_switches=same,
            moved=moved,
            saved=saved,
            added=added,
            schedulers={name: (before[name] / 1e9, after[name] / 1e9) for name in names},
            assumed_ticks=self._assumed,
        )


def _differing(one: Decision, other: Decision) -> tuple[str, ...]:
    fields = [name for name in _FIELDS if getattr(one, name) != getattr(other, name)]
    mine, theirs = one.probabilities, other.probabilities
    if (mine is None) != (theirs is None):
        fields.append("probabilities")
    elif mine is not None and theirs is not None:
        pairs = zip(mine.values, theirs.values, strict=False)
        if mine.classes != theirs.classes or any(abs(left - right) > _CLOSE for left, right in pairs):
            fields.append("probabilities")
    if one.vote.regime not in (None, other.vote.regime):  # a journal of before tells of none
        fields.append("regime")
    return tuple(fields)


def _brief(decision: Decision) -> Brief:
    return Brief(
        workload=decision.workload,
        wanted=decision.wanted,
        current=decision.current,
        switch_to=decision.switch_to,
        reason=decision.reason,
        standbys=decision.standbys,
    )


_Orders = list[tuple[int, int, str]]
_Listed = tuple[Ordered, ...]


def _matched(recorded: _Orders, replayed: _Orders) -> tuple[int, _Listed, _Listed, _Listed]:
    """How many are the same, then those moved, saved and added; each is matched with the nearest of its scheduler."""
    same = set(recorded) & set(replayed)
    left = [order for order in recorded if order not in same]
    right = [order for order in replayed if order not in same]
    moved, saved = [], []
    for at_ns, wall_ns, scheduler in left:
        near = [one for one in right if one[2] == scheduler and abs(one[0] - at_ns) <= MOVED_S * 1e9]
        if not near:
            saved.append(Ordered(at_ns=wall_ns, scheduler=scheduler))
            continue
        nearest = min(near, key=lambda one: abs(one[0] - at_ns))
        right.remove(nearest)
        moved.append(Ordered(at_ns=wall_ns, scheduler=scheduler, moved_s=(nearest[0] - at_ns) / 1e9))
    added = [Ordered(at_ns=wall_ns, scheduler=scheduler) for _, wall_ns, scheduler in right]
    return len(same), tuple(moved), tuple(saved), tuple(added)
