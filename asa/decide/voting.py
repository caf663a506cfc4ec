# SPDX-License-Identifier: GPL-2.0-only
"""From a tick's probabilities to the current class: the paper's Algorithm 1 over a sliding window, or none. Pure.

Each distribution in the window contributes its probabilities above the threshold, weighted by decay^(W - t), so the
newest (t = W) counts fully. The class with the largest sum wins. What the paper leaves open is settled here:

- nothing passed the threshold in the whole window: no winner, the vote's workload is None;
- a tie: the current class if it is among the tied, else the one more probable in the newest distribution, else the
  one the model lists first;
- the window holds what is younger than W seconds: a gap (the agent was stopped, or starved) forgets instead of mixing;
- a window that is not full yet is judged as it is, the newest again with weight 1;
- a tick that fits no class of the model votes for the class `unknown`: where it wins nobody does, and the regimes of
  these ticks (`asa.decide.regime`) are voted on by the same weights. How long the current class stays then is for
  `asa.decide.policy`.

The other rules that were tried, and the benchmark that compares them, are in `calibration.voting` (docs/voting.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from asa.config import Method
from asa.core.decision import Judgement, Probabilities, Vote, Workload

UNKNOWN = Workload("unknown")
"""No class of a model: the name of what fits none of them."""
DECAY = 0.8
"""Weight of a vote compared with the one a second after it: the paper's alpha (docs/voting.md swept it)."""

_NOTHING = Vote(workload=None, confidence=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Distributions with their times (CLOCK_MONOTONIC, ns), oldest first."""

    entries: tuple[tuple[int, Probabilities], ...] = ()


class Rule(Protocol):
    """The part of `asa.config.Voting` that is needed here."""

    @property
    def method(self) -> Method:
        """By which rule."""
        ...

    @property
    def open_world(self) -> bool:
        """Whether what fits no class is unknown."""
        ...

    @property
    def window_s(self) -> float:
        """How long a distribution counts."""
        ...

    @property
    def threshold(self) -> float:
        """Probabilities that are not larger do not count."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterState:
    """What is kept from tick to tick, and the last tick's vote."""

    window: Window = field(default_factory=Window)
    vote: Vote = _NOTHING
    regimes: tuple[tuple[int, Workload], ...] = ()  # of the ticks in the window that fit no class, with their times


def take(
    state: FilterState,
    rule: Rule,
    now_ns: int,
    judged: Judgement | None,
    *,
    current: Workload | None,
    regime: Workload | None = None,
) -> FilterState:
    """Take in what the model said of one tick (None: nothing). `current` is the class in force, None before the first.

    `regime` is what the machine does, whatever the model says; None: not told.

    To change the voting rule, change this function and what it calls.
    """
    fits = judged is not None and (judged.known or not rule.open_world)
    seen = None if judged is None else open_world(judged.probabilities, fits=fits)
    if rule.method is Method.NONE:
        winner = newest(seen, current=current)
        return replace(state, vote=replace(winner, regime=regime) if winner.unknown else winner)
    window = push(state.window, now_ns, seen, rule.window_s)
    regimes = state.regimes if fits or judged is None or regime is None else (*state.regimes, (now_ns, regime))
    if regimes:
        times = {at_ns for at_ns, _ in window.entries}
        regimes = tuple(one for one in regimes if one[0] in times)
    winner = known(vote(window, threshold=rule.threshold, decay=DECAY, current=current))
    if winner.unknown:
        winner = replace(winner, regime=regime_vote(window, regimes, decay=DECAY, current=state.vote.regime))
    return FilterState(window=window, vote=winner, regimes=regimes)


def emptied(state: FilterState) -> FilterState:
    """Without the ticks so far: what comes is of another use. The last vote stands until the next one."""
    return FilterState(vote=state.vote)


def open_world(probabilities: Probabilities, *, fits: bool) -> Probabilities:
    """The same with the class `unknown` added, which has all of the mass when the tick fits no class."""
    values = (*probabilities.values, 0.0) if fits else (*(0.0 for _ in probabilities.values), 1.0)
    return Probabilities(classes=(*probabilities.classes, UNKNOWN), values=values)


def newest(probabilities: Probabilities | None, *, current: Workload | None) -> Vote:
    """No voting: the most probable class of one tick."""
    return _NOTHING if probabilities is None else best(probabilities.classes, probabilities.values, current)


def push(window: Window, now_ns: int, probabilities: Probabilities | None, window_s: float) -> Window:
    """Add one tick's distribution (None: nothing to add) and forget what has left the window.

    Distributions of another model (other classes) are forgotten too.
    """
    horizon_ns = now_ns - int(window_s * 1e9)
    kept = tuple(entry for entry in window.entries if horizon_ns < entry[0] <= now_ns)
    if probabilities is not None:
        kept = (*(entry for entry in kept if entry[1].classes == probabilities.classes), (now_ns, probabilities))
    return Window(entries=kept)


def vote(window: Window, *, threshold: float, decay: float, current: Workload | None) -> Vote:
    """The window's winner and its confidence: its sum as a share of what a certain class would have, 0..1."""
    if not window.entries:
        return _NOTHING
    classes = window.entries[-1][1].classes
    sums = [0.0] * len(classes)
    most = 0.0
    last = len(window.entries) - 1
    for index, (_, probabilities) in enumerate(window.entries):
        weight = decay ** (last - index)
        most += weight
        for column, value in enumerate(probabilities.values):
            if value > threshold:
                sums[column] += value * weight
    most_votes = max(sums)
    if most_votes <= 0.0:
        return _NOTHING
    tied = [classes[column] for column, total in enumerate(sums) if total == most_votes]
    newest = window.entries[-1][1]
    winner = current if current in tied else max(tied, key=newest.of)
    return Vote(workload=winner, confidence=min(1.0, most_votes / most))


def regime_vote(
    window: Window, regimes: Sequence[tuple[int, Workload]], *, decay: float, current: Workload | None
) -> Workload | None:
    """The regime with the most votes, each weighted as its tick in the window; of several that are alike the current
    one, else the newest. None: no tick has one."""
    by_time, sums = dict(regimes), dict[Workload, float]()
    for age, (at_ns, _) in enumerate(reversed(window.entries)):
        if (name := by_time.get(at_ns)) is not None:
            sums[name] = sums.get(name, 0.0) + decay**age
    most = max(sums.values(), default=0.0)
    tied = [name for name, total in sums.items() if total == most]
    return current if current in tied else next(iter(tied), None)


def best(classes: Sequence[Workload], values: Sequence[float], current: Workload | None) -> Vote:
    """The class with the largest value; of several that are alike the current one, else the first."""
    most = max(values)
    tied = [name for name, value in zip(classes, values, strict=True) if value == most]
    return known(Vote(workload=current if current in tied else tied[0], confidence=min(1.0, most)))


def known(vote: Vote) -> Vote:
    """The same, where `unknown` has won with no winner."""
    return Vote(workload=None, confidence=vote.confidence, unknown=True) if vote.workload == UNKNOWN else vote
