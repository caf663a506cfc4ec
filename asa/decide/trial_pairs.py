# SPDX-License-Identifier: GPL-2.0-only
"""What blocks of a trial measured, and what pairs of them say: better, worse, alike, or not yet known. Pure.

A block's value of a signal is the mean of the logarithms of its ticks, so that a rare large tick counts as one tick. A
pair's gain is the mean difference over the signals of `TESTED` that both its blocks know, positive where the candidate
makes tasks wait less, and to it that over the signals of `SHOWN`. Gains add up as logarithms; `saved` gives the share
of the wait.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from asa.decide.guard import WORSE_BY
from asa.decide.signals import MEANINGS, SIGNALS, Signal, Signals, felt, values_of
from asa.decide.trial_signs import LIKELY, MOST_PAIRS, SURE, above, below, interval, middle

TESTED = (Signal.RUN_QUEUE, Signal.WAKEUP, Signal.PRESSURE)
"""Of which a gain is made. The timer's lateness differs three times as much from block to block as these do, in the
kept recordings; it has a veto alone."""
SHOWN = (Signal.FRAMES, Signal.SOUND, Signal.INTERVAL)
"""What is seen and heard counts as much as all waits together, and is added: where nothing of it differs, or nothing is
drawn and played, the gain is that of the waits. Input to picture and progress are no part of it: a few presses, and
tasks that end in bursts, differ by chance as the timer does. They have a veto."""
SOFT = {signal: meaning.soft for signal, meaning in MEANINGS.items()}
"""Added to each value before its logarithm is taken."""
SMALLEST = 0.05
"""A gain or a loss of less than this share of the wait is none. A first choice."""
FEWEST_TICKS = 4
"""A block with fewer of a signal does not know it."""

Values = tuple[float | None, ...]
"""In the order of SIGNALS; None: unknown."""
_PLACES = tuple(tuple(map(SIGNALS.index, group)) for group in (TESTED, SHOWN))


class Verdict(StrEnum):
    """Of a trial, about the candidate."""

    BETTER = "better"
    WORSE = "worse"
    ALIKE = "alike"
    VOID = "void"  # nothing is known by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one block measured."""

    logs: Values  # means of logarithms
    means: Values  # of the values themselves, in their units


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A block under each of the two, one after the other."""

    in_force: Side
    candidate: Side

    @property
    def gain(self) -> float | None:
        """How much less tasks wait, and how much more is shown, under the candidate, as a logarithm; None: no signal is
        known of both."""
        parts = [one for places in _PLACES if (one := self._mean(places)) is not None]
        return sum(parts) if parts else None

    def difference(self, place: int) -> float | None:
        """The same of one signal alone."""
        before, after = self.in_force.logs[place], self.candidate.logs[place]
        return None if before is None or after is None else before - after

    def _mean(self, places: Iterable[int]) -> float | None:
        known = [one for place in places if (one := self.difference(place)) is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block that is being filled."""

    known: tuple[int, ...] = (0,) * len(SIGNALS)
    sums: tuple[float, ...] = (0.0,) * len(SIGNALS)
    logs: tuple[float, ...] = (0.0,) * len(SIGNALS)

    def plus(self, signals: Signals) -> "Block":
        """With one tick more. What is no number, or below zero, is unknown."""
        known, sums, logs = list(self.known), list(self.sums), list(self.logs)
        for place, (signal, value) in enumerate(zip(SIGNALS, values_of(signals), strict=False)):  # without the load
            if value is not None and math.isfinite(value) and value >= 0.0:
                known[place] += 1
                sums[place] += value
                logs[place] += math.log(value + SOFT[signal])
        return Block(known=tuple(known), sums=tuple(sums), logs=tuple(logs))

    @property
    def side(self) -> Side:
        """What it came to."""
        return Side(logs=self._means(self.logs), means=self._means(self.sums))

    def _means(self, sums: Iterable[float]) -> Values:
        pairs = zip(sums, self.known, strict=True)
        return tuple(total / count if count >= FEWEST_TICKS else None for total, count in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What pairs came to: the share of the wait that the candidate saves; below 0 it adds. `low` to `high`: 90 %."""

    share: float
    low: float | None
    high: float | None


def verdict(pairs: Sequence[Pair]) -> Verdict | None:
    """What pairs show, all of them looked at in their order of time; None: nothing yet, more of them may.

    Better is said of one that is not with a probability of SURE.error at most, worse and alike of LIKELY.error.
    """
    gains = _gains(pairs)
    if not gains:
        return None
    smallest, usual = -math.log1p(-SMALLEST), middle(gains)
    if usual <= -smallest and below(gains, LIKELY):
        return Verdict.WORSE
    if usual >= smallest and above(gains, SURE) and spoiled(pairs) is None:
        return Verdict.BETTER
    if abs(usual) < smallest and above(gains, LIKELY, -smallest) and below(gains, LIKELY, smallest):
        return Verdict.ALIKE
    return Verdict.ALIKE if len(gains) >= MOST_PAIRS else None


def effect(pairs: Sequence[Pair]) -> Effect | None:
    """By how much; None of no pairs."""
    gains = _gains(pairs)
    if not gains:
        return None
    low, high = interval(gains, LIKELY)
    return Effect(
        share=saved(middle(gains)), low=None if low is None else saved(low), high=None if high is None else saved(high)
    )


def told_of(effect: Effect | None) -> str:
    """An effect for people."""
    if effect is None:
        return "nothing measured"
    ends = "" if effect.low is None or effect.high is None else f" ({effect.low:+.0%} to {effect.high:+.0%})"
    return f"saves {effect.share:+.0%} of the wait{ends}"


def saved(gain: float) -> float:
    """The share of the wait that a gain saves."""
    return -math.expm1(-gain)


def spoiled(pairs: Sequence[Pair]) -> Signal | None:
    """A signal that is felt to be worse under the candidate, as the guard says it, whatever all of them come to.

    Of one that is not guarded the pairs have to show it besides.
    """
    for place, signal in enumerate(SIGNALS):
        both = [(pair.candidate.means[place], pair.in_force.means[place]) for pair in pairs]
        known = [(after, before) for after, before in both if after is not None and before is not None]
        if known and felt(signal, median(one for one, _ in known), median(one for _, one in known), WORSE_BY):
            differences = [one for pair in pairs if (one := pair.difference(place)) is not None]
            if MEANINGS[signal].guarded or below(differences, LIKELY):
                return signal
    return None


def _gains(pairs: Sequence[Pair]) -> list[float]:
    return [gain for pair in pairs if (gain := pair.gain) is not None]
