# SPDX-License-Identifier: GPL-2.0-only
"""One tick, from a raw sample to a decision. Pure: no I/O and no clock but the sample's own times, so that a journal
replays to the same decisions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from asa.act.kernel import scheduler_in_force
from asa.config import (
    GuardSettings,
    PolicySettings,
    QuarantineSettings,
    StandbySettings,
    Voting,
)
from asa.core.decision import (
    EEVDF,
    Decision,
    Judgement,
    Order,
    Permit,
    Probabilities,
    Reason,
    SchedulerName,
    SwitchEvent,
    Vote,
    Workload,
)
from asa.core.evidence import Evidence
from asa.core.ports import Classifier
from asa.core.regime import Regime
from asa.core.sample import RawSample
from asa.decide import (
    disturbed,
    evidence,
    knowledge,
    learning,
    policy,
    power,
    regime,
    standbys,
    told,
    turns,
    voting,
)
from asa.decide.books import Books
from asa.decide.evidence import Uses
from asa.decide.hints import Hints
from asa.decide.policy_state import Around, Now, Seen
from asa.decide.signals import FIELDS as SIGNAL_FIELDS
from asa.decide.signals import Signals, of_rates
from asa.decide.table import MappingTable
from asa.decide.trial import SLEPT_NS
from collectors import rates
from collectors.rates import Rates
from models import features


def plan(fields: Iterable[str]) -> rates.Plan:
    """What a step looks at, besides these fields that its classifier asks for."""
    return rates.Plan({*fields, *SIGNAL_FIELDS, *regime.FIELDS, *disturbed.FIELDS, "pressure_memory_some_share"})


PLAN = plan(features.FIELDS)
"""Of any classifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What the step goes by. It stands from tick to tick, but for the permit and the limits in the table.

    `name_of_ops` turns a name in sysfs into the manifest's (pure).
    """

    classifier: Classifier
    table: MappingTable
    voting: Voting
    policy: PolicySettings
    name_of_ops: Callable[[str], SchedulerName | None]
    permit: Permit
    plan: rates.Plan = PLAN  # `plan` of what the classifier asks for
    hints: Hints = field(default_factory=Hints)
    guard: GuardSettings = field(default_factory=GuardSettings)
    quarantine: QuarantineSettings = field(default_factory=QuarantineSettings)
    standby: StandbySettings = field(default_factory=StandbySettings)
    shadow: bool = False  # what is chosen is never attached: what was chosen last counts as what runs
    versions: Mapping[str, str] = field(default_factory=dict)  # scheduler, without a mode -> hash of its file
    kernel: str = ""  # release; "": unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What one tick hands to the next: what is kept, and what this tick came to."""

    sample: RawSample | None = None
    awake_ns: int = 0  # when the agent began, or the machine last woke
    seen: features.Window = field(default_factory=features.Window)
    regime: Regime | None = None  # what the machine does, also while its use is known
    votes: voting.FilterState = field(default_factory=voting.FilterState)
    books: Books = field(default_factory=Books)
    readiness: standbys.Readiness = field(default_factory=standbys.Readiness)
    decision: Decision | None = None
    signals: Signals | None = None  # what the guard saw of this tick
    at_work: Uses = ()  # programs, as far as their packages are known
    evidence: Evidence | None = None  # what the desktop's knowledge spoke for, whether it counts or not


def step(
    setup: Setup,
    previous: State,
    sample: RawSample,
    news: Iterable[SwitchEvent] = (),
    orders: Iterable[Order] = (),
    sizes: Mapping[SchedulerName, int] | None = None,
) -> State:
    """Judge one sample. The decision is in the result.

    `news` is what the switcher reported since the last tick, `orders` what a person said, `sizes` the bytes that
    waiting schedulers hold, as far as they are known; none of them may be given twice.
    """
    now, news = Now(monotonic_ns=sample.monotonic_ns, wall_ns=sample.wall_ns), tuple(news)
    powered = policy.powered(previous.books.policy, power.saver_in(sample), sample.on_battery)
    books = replace(previous.books, policy=powered)
    for event in news:
        books = policy.learn(books, event, wall_ns=now.wall_ns, setup=setup)
    current, believed = _in_force(setup, sample, books.policy.running)
    for order in orders:
        books = policy.obey(books, order, believed)
    derived = None if previous.sample is None else rates.derive(previous.sample, sample, setup.plan)
    if derived is None:
        books = replace(books, policy=policy.interrupted(books.policy))
    seen = features.take(previous.seen, derived, sample)
    judged = setup.classifier.judge(features.frame(seen)) if features.is_new(seen, sample) else None
    at_work = evidence.at_work(previous.at_work, sample)
    hinted = evidence.of_tick(None if derived is None else previous.sample, sample, setup.hints, at_work)
    if judged is not None:
        judged, books = _beside(evidence.pooled(judged, hinted, setup.hints.weight), books, sample)
    probabilities = None if judged is None else judged.probabilities
    doing = _regime(previous.regime, sample, derived)
    does = None if doing is None else doing.workload
    votes = _votes(previous, books, gap=derived is None)
    votes = voting.take(votes, setup.voting, now.monotonic_ns, judged, current=books.policy.workload, regime=does)
    signals, readiness = _signals(sample, derived), previous.readiness
    awake_ns = _awake_ns(previous, sample)
    inhibited = disturbed.by(sample, derived, votes.vote.workload)
    light = regime.has_little_to_do(previous.regime, doing, signals)
    around = replace(_around(sample, awake_ns, news, sizes, inhibited), light=light)
    tick = Seen(vote=votes.vote, current=believed, signals=signals, ready=readiness.chosen, around=around)
    books, verdict = policy.decide(books, tick, now, setup)
    if setup.permit.stand_by:
        readiness = standbys.observe(readiness, probabilities, now.monotonic_ns, setup.voting.window_s)
        readiness = _stand_by(standbys.weigh(readiness, sizes or {}), books, sample, derived, setup)
    decision = _decision(sample, probabilities, votes.vote, books.policy.workload, verdict)
    lessons = learning.note(books.lessons, _lesson(previous, books, now, gap=derived is None), setup)
    return State(
        sample=sample,
        awake_ns=awake_ns,
        seen=seen,
        regime=doing,
        votes=votes,
        books=replace(books, lessons=lessons),
        readiness=readiness,
        decision=replace(decision, current=current, standbys=readiness.chosen),
        signals=signals,
        at_work=at_work,
        evidence=hinted,
    )


def _beside(judged: Judgement, books: Books, sample: RawSample) -> tuple[Judgement, Books]:
    # the model's word together with what the programs at work did before, and with a client's
    knows = knowledge.take(books.knowledge, sample, judged)
    word = told.heard(books.told, judged, sample.wall_ns)
    for said in (knowledge.evidence(knows, sample), told.evidence(word)):
        judged = evidence.pooled(judged, said, knowledge.WEIGHT)
    return judged, replace(books, knowledge=knows, told=word)


def _votes(previous: State, books: Books, *, gap: bool) -> voting.FilterState:
    # those before this tick, as far as they are of the use of now
    if gap:
        return voting.FilterState()
    changed = books.knowledge.present != previous.books.knowledge.present
    return voting.emptied(previous.votes) if changed else previous.votes


def _in_force(
    setup: Setup, sample: RawSample, running: SchedulerName | None
) -> tuple[SchedulerName | None, SchedulerName | None]:
    # what sysfs reports, and what counts as it
    current = scheduler_in_force(sample.sched_ext, setup.name_of_ops, None if setup.shadow else running)
    return current, (running or EEVDF) if setup.shadow and current is not None else current


def _around(
    sample: RawSample,
    awake_ns: int,
    news: Iterable[SwitchEvent],
    sizes: Mapping[SchedulerName, int] | None,
    inhibited: str,
) -> Around:
    return Around(
        awake_s=(sample.monotonic_ns - awake_ns) / 1e9,
        suspended_ns=sample.suspended_ns,
        inhibited=inhibited,
        leased=not any(event.withdrawn for event in news),
        loaded=frozenset(sizes or ()),
    )


def _awake_ns(previous: State, sample: RawSample) -> int:
    last = previous.sample
    if last is None:
        return sample.monotonic_ns
    before_ns, now_ns = last.suspended_ns, sample.suspended_ns
    slept = before_ns is not None and now_ns is not None and now_ns - before_ns > SLEPT_NS
    return sample.monotonic_ns if slept else previous.awake_ns


def _signals(sample: RawSample, derived: Rates | None) -> Signals | None:
    cpus = None if sample.cpu is None else len(sample.cpu.cores)  # those online
    return None if derived is None else of_rates(derived, cpus)


def _regime(before: Regime | None, sample: RawSample, derived: Rates | None) -> Regime | None:
    # a gap begins anew
    return None if derived is None or sample.cpu is None else regime.of(derived, len(sample.cpu.cores), before)


def _stand_by(
    readiness: standbys.Readiness, books: Books, sample: RawSample, derived: Rates | None, setup: Setup
) -> standbys.Readiness:
    state, now = books.policy, Now(monotonic_ns=sample.monotonic_ns, wall_ns=sample.wall_ns)
    spare = setup.permit.switch and not state.hold and sample.sched_ext is not None and not state.power.saver
    served = {}
    for workload in readiness.classes if spare else ():
        out = policy.out_for(books, workload, wall_ns=now.wall_ns, setup=setup)
        wanted = policy.first_choice(books, workload, now, setup, out=out)
        if wanted is not None:
            served[workload] = wanted
    scene = standbys.Scene(
        running=state.running,
        pending=state.pending,
        memory_pressure=None if derived is None else derived.pressure_memory_some_share,
        spare=spare,
        partner=turns.partner(state),
    )
    return standbys.choose(readiness, now_ns=now.monotonic_ns, served=served, scene=scene, count=setup.standby.count)


def _lesson(previous: State, books: Books, now: Now, *, gap: bool) -> learning.Tick:
    last = previous.sample
    # after a gap nobody knows what was in force
    elapsed_s = 0.0 if gap or last is None else (now.monotonic_ns - last.monotonic_ns) / 1e9
    return learning.Tick(before=previous.books.policy, after=books.policy, elapsed_s=elapsed_s, now=now)


def _decision(
    sample: RawSample,
    probabilities: Probabilities | None,
    vote: Vote,
    workload: Workload | None,
    verdict: policy.Verdict,
) -> Decision:
    blind = probabilities is None and verdict.reason is Reason.UNDECIDED
    decision = Decision(
        monotonic_ns=sample.monotonic_ns,
        probabilities=probabilities,
        vote=vote,
        workload=workload,
        wanted=verdict.wanted,
        current=None,
        switch_to=verdict.switch_to,
        reason=Reason.NO_RATES if blind else verdict.reason,
        sentence="no rates yet: first sample, or after a gap" if blind else verdict.sentence,
        trial=verdict.trial,
    )
    refused = decision.refused if verdict.reason is Reason.UNDECIDED else ""
    if not refused:
        return decision
    no_entry = "" if vote.regime is None else f"; the mapping table has no entry for {vote.regime}"
    return replace(decision, sentence=f"{verdict.sentence}: {refused}{no_entry}")
