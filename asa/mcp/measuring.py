# SPDX-License-Identifier: GPL-2.0-only
"""What a client's trial is judged by: an intent, frozen before the first change, and four turns. Pure.

The scheduler in force (A) and the one to be tried (B) take turns, A B B A: a load that grows steadily favours neither.
Values are the agent's own signals of each tick (`asa.decide.signals.Signals`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from asa.mcp.asked import Intent

FEWEST = 5
"""Ticks of a turn that had a value of the metric, or the turn says nothing."""

MOST_WAITED = 20
"""A turn goes on until it has that many, but for so many ticks at most."""

ORDER = (False, True, True, False)
"""Of the turns: is it the candidate's?"""

Values = Mapping[str, float | None]
"""The signals of one tick by their names; None: not measured."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn, as it is measured."""

    candidate: bool
    ticks: list[dict[str, float]] = field(default_factory=list)  # what was known in each

    def add(self, values: Values) -> None:
        """One tick more."""
        self.ticks.append({name: value for name, value in values.items() if value is not None})

    def enough(self, metric: str) -> bool:
        """Does it say something, or never will?"""
        return self.median(metric) is not None or len(self.ticks) >= MOST_WAITED

    def median(self, metric: str) -> float | None:
        """None with too few ticks."""
        found = [tick[metric] for tick in self.ticks if metric in tick]
        return median(found) if len(found) >= FEWEST else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the turns came to."""

    verdict: str  # reached, missed or inconclusive
    gain_pct: float | None  # the mean of the pairs; above 0 the candidate is better
    pairs: tuple[float | None, ...]
    why: str


def frozen(intent: Mapping[str, Any]) -> str:
    """The SHA-256 of an intent with all that belongs to it, as canonical JSON."""
    text = json.dumps(intent, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def gain_pct(before: float | None, after: float | None, direction: str) -> float | None:
    """How much better `after` is, in per cent of `before`; None where that is unknown, or of nothing."""
    if before is None or after is None or before <= 0.0:
        return None
    grown = 100.0 * (after - before) / before
    return grown if direction == "higher" else -grown


def broken(intent: Intent, turns: Sequence[Turn]) -> str:
    """The guard rail that the candidate's present turn has broken, in words; "": none."""
    now = turns[-1]
    if not now.candidate:
        return ""
    for rail in intent.guard_rails:
        before, after = turns[0].median(rail.metric), now.median(rail.metric)
        if before is None or after is None:
            continue
        most = before * (1.0 + rail.most_growth_pct / 100.0)
        if after > most:
            return f"guard rail: {rail.metric} is {after:.6g}, more than {most:.6g} ({rail.most_growth_pct} % growth)"
    return ""


def judge(intent: Intent, turns: Sequence[Turn]) -> Verdict:
    """Four turns as in `ORDER`, whole."""
    first, second, third, fourth = (turn.median(intent.metric) for turn in turns)
    pairs = (gain_pct(first, second, intent.direction), gain_pct(fourth, third, intent.direction))
    known = [gain for gain in pairs if gain is not None]
    if len(known) < len(pairs):
        why = f"{intent.metric} was not measured often enough, or was 0 under the scheduler in force"
        return Verdict(verdict="inconclusive", gain_pct=None, pairs=pairs, why=why)
    mean = sum(known) / len(known)
    figures = f"{intent.metric}: {mean:+.1f} % ({known[0]:+.1f} and {known[1]:+.1f})"
    if min(known) <= 0.0 < max(known):
        why = f"{figures}; the two pairs contradict each other"
        return Verdict(verdict="inconclusive", gain_pct=mean, pairs=pairs, why=why)
    reached = mean > 0.0 and mean >= intent.least_gain_pct
    why = f"{figures}; at least {intent.least_gain_pct} % was the aim"
    return Verdict(verdict="reached" if reached else "missed", gain_pct=mean, pairs=pairs, why=why)
