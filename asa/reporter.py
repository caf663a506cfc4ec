# SPDX-License-Identifier: GPL-2.0-only
"""What the agent says of itself in each tick: its status, put together from the loop's state. Writes nothing."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import asa
from asa.config import Settings
from asa.core.decision import Decision, Probabilities
from asa.core.evidence import Evidence
from asa.core.kinds import halves
from asa.core.ports import Clock, Switcher
from asa.daemon import Agent
from asa.decide.account import Account, Accountant, switched
from asa.decide.policy_state import Now
from asa.decide.signals import Signals
from asa.decide.told import Told
from asa.status import Hinted, Status, ToldUse, Waiting
from collectors.sampler import HostSampler


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How switches are made: gated, plain, shadow, or "" for not at all; why not by the gate; why not at all."""

    way: str
    no_gate: str
    mode_reason: str


@dataclass(slots=True, kw_only=True)
class Reporter:
    """Makes `asa.status.Status` of a tick. `how` says how switches are made now."""

    clock: Clock
    sampler: HostSampler
    switcher: Switcher | None
    how: Callable[[], How]
    settings: Settings
    model: Callable[[], str]  # the artefact that judges
    limits: Callable[[], str] = lambda: ""  # of control groups, in words
    _started_ns: int = 0
    _since: tuple[str | None, int] = (None, 0)
    _accountant: Accountant = field(default_factory=Accountant)

    def __post_init__(self) -> None:
        self._started_ns = self.clock.wall_ns()

    def status(self, agent: Agent, decision: Decision) -> Status:
        """The status after `decision`."""
        now_ns, monotonic_ns = self.clock.wall_ns(), self.clock.monotonic_ns()
        scheduler, scheduler_since_ns = self._in_force(decision, now_ns)
        how = self.how()
        state, counts = agent.state.books.policy, agent.counts
        account = self._account(agent, now_ns, monotonic_ns)
        return Status(
            pid=os.getpid(),
            asa_version=asa.__version__,
            started_ns=self._started_ns,
            updated_ns=now_ns,
            mode=_mode(how.way, state.hold),
            mode_reason=state.hold or how.mode_reason,
            workload=decision.workload,
            confidence=round(decision.vote.confidence, 4),
            probabilities=_shares(decision.probabilities),
            wanted=decision.wanted,
            scheduler=scheduler,
            scheduler_since_ns=scheduler_since_ns,
            reason=decision.reason,
            sentence=decision.sentence,
            switches=counts.switches,
            failures=counts.failures,
            set_aside=sorted(state.set_aside),
            last_event=counts.last_event,
            table=agent.setup.table.path,
            table_elsewhere=agent.setup.table.elsewhere,
            never=sorted(agent.setup.table.never),
            table_stale={str(name): why for name, why in agent.setup.table.stale.items()},
            model=self.model(),
            interval_s=self.settings.interval_s,
            ticks=counts.ticks,
            overruns=counts.overruns,
            worst_late_ms=round(counts.worst_late_ms, 3),
            backends=self.sampler.backends,
            missing_sources=self.sampler.missing | self.sampler.failing,
            slow_sources=self.sampler.slow,
            cost_us=self.sampler.cost_us,
            held=state.held is not None,
            held_until_ns=state.held.until_ns if state.held is not None else None,
            chosen=state.held.scheduler if state.held is not None else None,
            client=state.held.client if state.held is not None else "",
            lease=state.held.lease if state.held is not None else "",
            way=how.way,
            way_reason=how.no_gate if how.way == "plain" else "",
            standbys=self._standbys(now_ns - monotonic_ns),
            **{name: getattr(account, name) for name in Account.__slots__},  # fields of both
            lately=switched(counts.lately),
            limits=self.limits(),
            hint=_hinted(agent.state.evidence, agent.setup.hints.weight),
            told=told_use(agent.state.books.told),
            regime=decision.vote.regime or "",
            signals=_signals(agent.state.signals),
            cpu_ns=time.process_time_ns(),
            resident_bytes=agent.meter.resident_bytes(),
        )

    def _in_force(self, decision: Decision, now_ns: int) -> tuple[str | None, int]:
        scheduler = str(decision.current) if decision.current is not None else None
        if scheduler != self._since[0]:
            self._since = (scheduler, now_ns)
        return self._since

    def _account(self, agent: Agent, now_ns: int, monotonic_ns: int) -> Account:
        return self._accountant.account(agent.state.books, Now(monotonic_ns=monotonic_ns, wall_ns=now_ns), agent.setup)

    def _standbys(self, offset_ns: int) -> tuple[Waiting, ...]:
        return tuple(
            Waiting(
                scheduler=one.scheduler,
                ready=one.ready,
                memory_bytes=one.memory_bytes,
                since_ns=one.since_ns + offset_ns,
            )
            for one in (self.switcher.standbys() if self.switcher is not None else ())
        )


def _shares(found: Probabilities | None) -> dict[str, float]:
    return (
        {} if found is None else {str(name): round(p, 4) for name, p in zip(found.classes, found.values, strict=True)}
    )


def _mode(way: str, hold: str) -> str:
    if way in ("", "shadow"):
        return way or "observing"
    return "hold" if hold else "switching"


def _hinted(found: Evidence | None, weight: float) -> Hinted | None:
    if found is None:
        return None
    interactive, background = (
        {str(kind): round(strength, 4) for kind, strength in half.items()}
        for half in (found.interactive, found.background)
    )
    return Hinted(because=found.because, interactive=interactive, background=background, weight=weight)


def told_use(found: Told | None) -> ToldUse | None:
    """What a client says, as the status has it."""
    if found is None:
        return None
    return ToldUse(
        use=found.use,
        sure=found.sure,
        until=found.until,
        client=found.client,
        lease=found.lease,
        silent=tuple(kind for kind in halves(found.use) if kind and kind not in found.kinds),
    )


def _signals(found: Signals | None) -> dict[str, float | None]:
    return {} if found is None else {name: getattr(found, name) for name in Signals.__slots__}
