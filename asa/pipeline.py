# SPDX-License-Identifier: GPL-2.0-only
"""One tick, from a raw sample to a decision. Pure: no I/O and no clock but the sample's own time, so that a journal
replays to the same decisions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from asa.act.kernel import scheduler_in_force
from asa.config import PolicySettings, Voting
from asa.core.decision import Decision, Probabilities, Reason, SchedulerName, SwitchEvent, Vote
from asa.core.ports import Classifier
from asa.core.sample import RawSample
from asa.decide import policy, voting
from asa.decide.table import MappingTable
from collectors import rates
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


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What one tick hands to the next."""

    sample: RawSample | None = None
    window: voting.Window = field(default_factory=voting.Window)
    memory: policy.PolicyState = field(default_factory=policy.PolicyState)
    decision: Decision | None = None


def step(rules: Rules, previous: State, sample: RawSample, news: Iterable[SwitchEvent] = ()) -> State:
    """Judge one sample. `news` is what the switcher reported since the last tick. The decision is in the result."""
    memory = previous.memory
    for event in news:
        memory = policy.learn(memory, event)
    probabilities = _recognise(rules.classifier, previous.sample, sample)
    window = voting.push(previous.window, sample.monotonic_ns, probabilities, rules.voting.window_s)
    vote = voting.vote(window, threshold=rules.voting.threshold, decay=rules.voting.decay, standing=memory.workload)
    current = scheduler_in_force(sample.sched_ext, rules.name_of_ops, memory.running)
    memory, verdict = policy.decide(
        memory,
        vote,
        now_ns=sample.monotonic_ns,
        current=current,
        may_switch=rules.may_switch,
        table=rules.table,
        rules=rules.policy,
    )
    decision = _decision(sample, probabilities, vote, memory, verdict, current)
    return State(sample=sample, window=window, memory=memory, decision=decision)


def _recognise(classifier: Classifier, previous: RawSample | None, sample: RawSample) -> Probabilities | None:
    if previous is None or sample.cpu is None:
        return None
    derived = rates.derive(previous, sample)
    if derived is None:
        return None
    return classifier.predict(features.frame(derived, len(sample.cpu.cores)))


def _decision(
    sample: RawSample,
    probabilities: Probabilities | None,
    vote: Vote,
    memory: policy.PolicyState,
    verdict: policy.Verdict,
    current: SchedulerName | None,
) -> Decision:
    blind = probabilities is None and verdict.switch_to is None and vote.workload is None
    return Decision(
        monotonic_ns=sample.monotonic_ns,
        probabilities=probabilities,
        vote=vote,
        workload=memory.workload,
        wanted=verdict.wanted,
        current=current,
        switch_to=verdict.switch_to,
        reason=Reason.NO_RATES if blind else verdict.reason,
        sentence="nothing to judge by yet" if blind else verdict.sentence,
    )
