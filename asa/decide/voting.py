# SPDX-License-Identifier: GPL-2.0-only
"""Time-weighted probability voting: the paper's Algorithm 1 over a sliding window. Pure.

Each distribution in the window contributes its probabilities above the threshold, weighted by decay^(W - t), so the
newest (t = W) counts fully. The class with the largest sum wins. What the paper leaves open is settled here:

- nothing passed the threshold in the whole window: no winner, the vote's workload is None;
- a tie: the standing class if it is among the tied, else the one more probable in the newest distribution, else the
  one the model lists first;
- the window holds what is younger than W seconds: a gap (the agent was stopped, or starved) forgets instead of mixing;
- a window that is not full yet is judged as it is, the newest again with weight 1.
"""

from dataclasses import dataclass

from asa.core.decision import Probabilities, Vote, Workload

_NOTHING = Vote(workload=None, confidence=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Distributions with their times (CLOCK_MONOTONIC, ns), oldest first."""

    entries: tuple[tuple[int, Probabilities], ...] = ()


def push(window: Window, now_ns: int, probabilities: Probabilities | None, window_s: float) -> Window:
    """Add one tick's distribution (None: nothing to add) and forget what has left the window.

    Distributions of another model (other classes) are forgotten too.
    """
    horizon_ns = now_ns - int(window_s * 1e9)
    kept = tuple(entry for entry in window.entries if horizon_ns < entry[0] <= now_ns)
    if probabilities is not None:
        kept = (*(entry for entry in kept if entry[1].classes == probabilities.classes), (now_ns, probabilities))
    return Window(entries=kept)


def vote(window: Window, *, threshold: float, decay: float, standing: Workload | None) -> Vote:
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
    best = max(sums)
    if best <= 0.0:
        return _NOTHING
    tied = [classes[column] for column, total in enumerate(sums) if total == best]
    newest = window.entries[-1][1]
    winner = standing if standing in tied else max(tied, key=newest.of)
    return Vote(workload=winner, confidence=min(1.0, best / most))
