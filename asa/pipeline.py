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
    Order,
    Probabilities,
    Reason,
    SchedulerName,
    SwitchEvent,
    Vote,
)
from asa.core.ports import Classifier
from asa.core.sample import RawSample
from asa.decide import guard, learning, policy, standbys, voting
from asa.decide.learning import Lessons
from asa.decide.signals import Signals, of_rates
from asa.decide.standing import Standing
from asa.decide.table import MappingTable
from collectors import rates
from collectors.rates import Rates
from models import features


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What does not change from tick to tick. `name_of_ops` turns a name in sysfs into the manifest's (pure)."""

    classifier: Classifier
    table: MappingTable
    voting: Voting
    policy: PolicySettings
    name_of_ops: Callable[[str], SchedulerName | None]
    may_switch: bool
    guard: GuardSettings = field(default_factory=GuardSettings)
    quarantine: QuarantineSettings = field(default_factory=QuarantineSettings)
    standby: StandbySettings = field(default_factory=StandbySettings)
    may_stand_by: bool = False  # the gate works here
    shadow: bool = False  # what is chosen is never attached: what was chosen last counts as what runs
    versions: Mapping[str, str] = field(default_factory=dict)  # scheduler, without a mode -> hash of its file


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What one tick hands to the next.

    `standing` and `lessons.kept` outlive the agent; they are other objects only when they changed.
    """

    sample: RawSample | None = None
    seen: features.Window = field(default_factory=features.Window)
    votes: voting.FilterState = field(default_factory=voting.FilterState)
    memory: policy.PolicyState = field(default_factory=policy.PolicyState)
    readiness: standbys.Readiness = field(default_factory=standbys.Readiness)
    standing: Standing = field(default_factory=Standing)
    lessons: Lessons = field(default_factory=Lessons)
    decision: Decision | None = None
    signals: Signals | None = None  # what the guard saw of this tick


def step(
    rules: Rules,
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
    memory = policy.powered(previous.memory, sample.battery_saver, sample.on_battery)
    standing, lessons = previous.standing, previous.lessons
    for event in news:
        memory, standing = policy.learn(memory, standing, event, wall_ns=sample.wall_ns, rules=rules)
    current = scheduler_in_force(sample.sched_ext, rules.name_of_ops, None if rules.shadow else memory.running)
    believed = (memory.running or EEVDF) if rules.shadow and current is not None else current
    for order in orders:
        memory, standing = policy.obey(memory, standing, order, believed)
        lessons = learning.obey(lessons, order)
    derived = None if previous.sample is None else rates.derive(previous.sample, sample)
    memory = memory if derived is not None else replace(memory, guard=guard.broken_off(memory.guard))
    seen = features.take(previous.seen, derived, sample)
    judged = rules.classifier.judge(features.frame(seen)) if features.is_new(seen, sample) else None
    probabilities = None if judged is None else judged.probabilities
    before = previous.votes if derived is not None else voting.FilterState()
    votes = voting.take(before, rules.voting, sample.monotonic_ns, judged, current=memory.workload)
    signals = _signals(sample, derived)
    memory, standing, verdict = policy.decide(
        memory,
        standing,
        votes.vote,
        now_ns=sample.monotonic_ns,
        wall_ns=sample.wall_ns,
        current=believed,
        signals=signals,
        rules=rules,
        ready=previous.readiness.chosen,
        lessons=lessons,
    )
    readiness = previous.readiness
    if rules.may_stand_by:
        readiness = standbys.observe(readiness, probabilities, sample.monotonic_ns, rules.voting.window_s)
        readiness = standbys.weigh(readiness, sizes or {})
        readiness = _stand_by(rules, readiness, memory, standing, lessons, sample, derived)
    decision = _decision(sample, probabilities, votes.vote, memory, verdict, current)
    decision = replace(decision, standbys=readiness.chosen) if readiness.chosen else decision
    return State(
        sample=sample,
        seen=seen,
        votes=votes,
        memory=memory,
        readiness=readiness,
        standing=standing,
        lessons=_learned(lessons, rules, previous, memory, verdict, sample, derived),
        decision=decision,
        signals=signals,
    )


def _signals(sample: RawSample, derived: Rates | None) -> Signals | None:
    cpus = None if sample.cpu is None else len(sample.cpu.cores)  # those online
    return None if derived is None else of_rates(derived, cpus)


def _stand_by(
    rules: Rules,
    readiness: standbys.Readiness,
    memory: policy.PolicyState,
    standing: Standing,
    lessons: Lessons,
    sample: RawSample,
    derived: Rates | None,
) -> standbys.Readiness:
    spare = rules.may_switch and not memory.hold and sample.sched_ext is not None and not memory.power.saver
    served = {}
    for workload in readiness.classes if spare else ():
        out = policy.out_for(memory, standing, workload, wall_ns=sample.wall_ns, rules=rules)
        wanted = policy.serves(memory, workload, now_ns=sample.monotonic_ns, out=out, rules=rules, lessons=lessons)
        if wanted is not None:
            served[workload] = wanted
    return standbys.choose(
        readiness,
        now_ns=sample.monotonic_ns,
        served=served,
        running=memory.running,
        pending=memory.pending,
        memory_pressure=None if derived is None else derived.pressure_memory_some_share,
        spare=spare,
        count=rules.standby.count,
    )


def _learned(
    lessons: Lessons,
    rules: Rules,
    previous: State,
    memory: policy.PolicyState,
    verdict: policy.Verdict,
    sample: RawSample,
    derived: Rates | None,
) -> Lessons:
    last = previous.sample
    known = last is not None and derived is not None  # after a gap nobody knows what was in force
    return learning.note(
        lessons,
        before=previous.memory,
        after=memory,
        verdict=verdict,
        elapsed_s=(sample.monotonic_ns - last.monotonic_ns) / 1e9 if known and last is not None else 0.0,
        now_ns=sample.monotonic_ns,
        wall_ns=sample.wall_ns,
        rules=rules,
    )


def _decision(
    sample: RawSample,
    probabilities: Probabilities | None,
    vote: Vote,
    memory: policy.PolicyState,
    verdict: policy.Verdict,
    current: SchedulerName | None,
) -> Decision:
    blind = probabilities is None and verdict.switch_to is None and vote.workload is None
    decision = Decision(
        monotonic_ns=sample.monotonic_ns,
        probabilities=probabilities,
        vote=vote,
        workload=memory.workload,
        wanted=verdict.wanted,
        current=current,
        switch_to=verdict.switch_to,
        reason=Reason.NO_RATES if blind else verdict.reason,
        sentence="no rates yet: first sample, or after a gap" if blind else verdict.sentence,
    )
    refused = decision.refused if verdict.reason is Reason.UNDECIDED else ""
    return replace(decision, sentence=f"{verdict.sentence}: {refused}") if refused else decision
