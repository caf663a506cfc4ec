# SPDX-License-Identifier: GPL-2.0-only
"""Is there anything to gain while a machine has little to do? How often somebody waits, by the load of a tick.

On recordings of real programs under the kernel's own scheduler, by what the agent goes by (`asa.decide.signals`). In
a light load in which nobody waits no trial begins: `orders` asks the agent's own policy, tick by tick.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from msgspec.structs import replace

from asa import paths
from asa.act.portfolio import Portfolio
from asa.config import GuardSettings, PolicySettings, QuarantineSettings, StandbySettings
from asa.core.decision import EEVDF, Permit, Vote, Workload
from asa.core.kinds import IDLE, halves
from asa.core.regime import Load, Regime
from asa.decide import policy, regime, table
from asa.decide.books import Books
from asa.decide.learning import Learning, begin
from asa.decide.policy_state import Around, Now, PolicyState, Seen
from asa.decide.signals import Signals, of_rates, waited
from asa.decide.table import MappingTable
from asa.decide.trial_budget import SAVED_S, Account, Stand
from asa.pipeline import plan
from collectors import rates
from models.train.recorded import Recorded, read
from scenarios import planted

_HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """One tick of a recording, with the regime before it, if any, and its own."""

    at_ns: int  # CLOCK_MONOTONIC
    workload: Workload | None  # that the recording's marks name
    before: Regime | None
    now: Regime
    signals: Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setup:
    """An agent as it is installed, which may do all that it can."""

    table: MappingTable
    policy: PolicySettings = field(default_factory=PolicySettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    quarantine: QuarantineSettings = field(default_factory=QuarantineSettings)
    versions: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""
    standby: StandbySettings = field(default_factory=StandbySettings)
    permit: Permit = field(default_factory=lambda: Permit(switch=True, stand_by=True))
    shadow: bool = False


def felt(journals: Iterable[Path]) -> Mapping[Load, tuple[int, int]]:
    """By load: the ticks in which a wait is felt, and all. Raises JournalError."""
    hits, total = Counter[Load](), Counter[Load]()
    for tick in _ticks(journals):
        total[tick.now.load] += 1
        hits[tick.now.load] += waited(tick.signals)
    return {load: (hits[load], total[load]) for load in total}


def quiet(journals: Iterable[Path]) -> Mapping[bool, tuple[int, int]]:
    """In how many ticks the load is light and no wait is felt, and all: of uses with work behind, and without.

    Raises JournalError.
    """
    hits, total = Counter[bool](), Counter[bool]()
    for tick in _ticks(journals):
        if tick.workload is not None:
            behind = halves(tick.workload)[1] is not None
            total[behind] += 1
            hits[behind] += tick.now.load is Load.LIGHT and not waited(tick.signals)
    return {behind: (hits[behind], total[behind]) for behind in total}


def orders(journals: Iterable[Path], *, gate: bool = True, measured: bool = False) -> tuple[int, int]:
    """In how many ticks of a light load without a felt wait the policy orders a switch, and how many these are.

    Each tick is that of an agent whose use has stood for an hour under the shipped table, and whose budget is full.
    `measured`: under a table in which each use has a scheduler that was measured here, and in no light load. Raises
    JournalError.
    """
    modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()
    shipped = table.load(paths.mapping_tables() / "default.yaml", modes)
    setup = _Setup(table=_of_more(shipped) if measured else shipped)
    ordered = total = 0
    for tick in _ticks(journals):
        if tick.now.load is not Load.LIGHT or waited(tick.signals) or tick.workload is None:
            continue
        light = gate and regime.has_little_to_do(tick.before, tick.now, tick.signals)
        total += 1
        ordered += _orders(setup, tick, light=light)
    return ordered, total


def _of_more(shipped: MappingTable) -> MappingTable:
    found = replace(planted.evidence(), light=False)
    entry = replace(planted.entry("scx_rusty"), evidence=found)
    return planted.into(shipped, {str(label): [entry] for label in shipped.listed})


def _orders(setup: _Setup, tick: Tick, *, light: bool) -> bool:
    assert tick.workload is not None  # noqa: S101  # see `orders`
    lessons = begin(Learning(account=Account(credit_s=SAVED_S)), Stand(kernel="", versions={}))
    books = Books(policy=PolicyState(workload=tick.workload), lessons=lessons)
    loaded = frozenset(offer.name for offer in setup.table.offers(tick.workload))
    seen = Seen(
        vote=Vote(workload=tick.workload, confidence=1.0),
        current=EEVDF,
        signals=tick.signals,
        ready=loaded,
        around=Around(awake_s=_HOUR_S, loaded=loaded, light=light),
    )
    now = Now(monotonic_ns=_HOUR_S * 10**9, wall_ns=_HOUR_S * 10**9)
    return policy.decide(books, seen, now, setup)[1].switch_to is not None


def _ticks(journals: Iterable[Path]) -> Iterator[Tick]:
    for session in (one for path in journals for one in read(path)):
        yield from ticks_of(session)


def ticks_of(session: Recorded) -> Iterator[Tick]:
    """Those of a session that tell how much there is to do."""
    before, wanted = None, plan(())
    marks = [
        (mark.monotonic_ns, "+".join(filter(None, (mark.interactive, mark.background))) or IDLE)
        for mark in session.marks
    ]
    for old, new in pairwise(session.samples):
        derived = rates.derive(old, new, wanted)
        if derived is None or new.cpu is None:
            before = None
            continue
        cpus = len(new.cpu.cores)
        now = regime.of(derived, cpus, before)
        if now is not None:
            label = next((name for at_ns, name in reversed(marks) if at_ns <= new.monotonic_ns), "")
            yield Tick(
                at_ns=new.monotonic_ns,
                workload=Workload(label) if label else None,
                before=before,
                now=now,
                signals=of_rates(derived, cpus),
            )
        before = now
