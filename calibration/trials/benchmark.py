# SPDX-License-Identifier: GPL-2.0-only
"""How often trials err and how many pairs they need, played on the noise of the kept recordings; matching beside it.

Nothing runs and no guest is booted. The same seeds give the same figures.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from random import Random

from asa.decide.signals import SIGNALS
from asa.decide.trial_pairs import SOFT, TESTED, Verdict
from asa.decide.trial_signs import MOST_PAIRS
from calibration.goals import Named
from calibration.kept import Count
from calibration.trials import matching
from calibration.trials.play import BLOCK, PAIR, Play, Result, Trouble, trial
from calibration.trials.recorded import Use, deviation, journals, uses

KEPT = Path(__file__).parents[1] / "results" / "trials.json"
TROUBLES: Mapping[str, Trouble] = {
    "as recorded": Trouble(),
    "drift": Trouble(drift=0.05),
    "carry-over": Trouble(left_s=3.0),
    "heavy tails": Trouble(spikes=0.02),
    "autocorrelation": Trouble(wander=0.25),
}
"""The wander deviates as much as two blocks of a recording that follow each other."""
_ALIKE_TRIALS, _TRIALS, _TROUBLED = 20, 12, 4  # of each use: without a gain, with one, and with one in trouble
_BAD_TIMES = 4.0


class TrialFigure(Named):
    """The figures, each with its goal."""

    FALSE_BETTER = (
        "trial_false_better_pct",
        "%",
        "of trials of one against itself that call it better",
        "<=",
        1.0,
    )
    FALSE_WORSE = "trial_false_worse_pct", "%", "of these trials that call it worse", "<=", 6.0
    FIND_5 = "trial_pairs_to_find_5pct", "pairs", "until a gain of 5 % is called better, the median"
    FIND_10 = "trial_pairs_to_find_10pct", "pairs", "until a gain of 10 % is called better, the median", "<=", 8.0
    FIND_20 = "trial_pairs_to_find_20pct", "pairs", "until a gain of 20 % is called better, the median"
    FOUND_10 = "trial_found_10pct_pct", "%", f"of gains of 10 % that are found in {MOST_PAIRS} pairs"
    FOUND_20 = "trial_found_20pct_pct", "%", f"of gains of 20 % that are found in {MOST_PAIRS} pairs"
    DROP_10 = "trial_pairs_to_drop_10pct", "pairs", "until a loss of 10 % is called worse, the median"
    DROP_20 = "trial_pairs_to_drop_20pct", "pairs", "until a loss of 20 % is called worse, the median"
    NOISE = (
        "trial_pair_deviation_pct",
        "%",
        f"of the wait, between two blocks of {BLOCK} s; a use's median",
    )
    MATCHED_20 = "matching_found_20pct_pct", "%", "of uses in which daily comparisons ever find a gain of 20 %"
    MATCHED_FALSE = "matching_false_pct", "%", "of comparisons of a scheduler with itself that call it better or worse"
    BAD_TRIAL = "trial_missed_bad_pct", "%", "of schedulers with four times the wait that trials do not call worse"
    BAD_GUARD = "matching_missed_bad_pct", "%", "of these that the guard does not take back in their minute"


class Bench:
    """Plays what a figure needs when it is asked for, once."""

    def __init__(self, found: Callable[[], Sequence[Use]] = lambda: uses(journals(), PAIR)) -> None:
        self._uses = found
        self._played: dict[tuple[float, str], list[Result]] = {}

    @cached_property
    def uses(self) -> Sequence[Use]:
        """Of the recordings."""
        return self._uses()

    def counts(self) -> Mapping[Named, Count]:
        """How each figure is measured."""
        return {
            TrialFigure.FALSE_BETTER: lambda: self.called(Verdict.BETTER, 0.0),
            TrialFigure.FALSE_WORSE: lambda: self.called(Verdict.WORSE, 0.0),
            TrialFigure.FIND_5: lambda: self.pairs(Verdict.BETTER, 0.05),
            TrialFigure.FIND_10: lambda: self.pairs(Verdict.BETTER, 0.1),
            TrialFigure.FIND_20: lambda: self.pairs(Verdict.BETTER, 0.2),
            TrialFigure.FOUND_10: lambda: self.called(Verdict.BETTER, 0.1),
            TrialFigure.FOUND_20: lambda: self.called(Verdict.BETTER, 0.2),
            TrialFigure.DROP_10: lambda: self.pairs(Verdict.WORSE, -0.1),
            TrialFigure.DROP_20: lambda: self.pairs(Verdict.WORSE, -0.2),
            TrialFigure.NOISE: self.noise,
            TrialFigure.MATCHED_20: self.matched,
            TrialFigure.MATCHED_FALSE: self.matched_falsely,
            TrialFigure.BAD_TRIAL: self.bad_in_trials,
            TrialFigure.BAD_GUARD: self.bad_by_guard,
        }

    def called(self, verdict: Verdict, gain: float) -> tuple[float, str]:
        """Of trials with such a gain the share with that verdict, in all troubles; and in each."""
        shares, words = list[float](), list[str]()
        for name in TROUBLES:
            found = self._results(gain, name)
            shares += [result.verdict is verdict for result in found]
            words.append(f"{name} {_pct([result.verdict is verdict for result in found]):.2g}")
        return _pct(shares), f"{len(shares)} trials of {len(self.uses)} uses; {', '.join(words)}"

    def pairs(self, verdict: Verdict, gain: float) -> tuple[float, str]:
        """Pairs until that verdict, the median of trials on the noise as it was recorded; and by use and trouble.

        Raises ArithmeticError where fewer than half come to it.
        """
        words = [f"{name} {_shown(self._until(verdict, gain, name))}" for name in list(TROUBLES)[1:]]
        until = self._until(verdict, gain, "as recorded")
        each = len(until) // len(self.uses)
        medians = sorted(statistics.median(until[at : at + each]) for at in range(0, len(until), each))
        quarters = [medians[round(share * (len(medians) - 1))] for share in (0.25, 0.75)]
        text = f"uses from {_count(quarters[0])} to {_count(quarters[1])} (quartiles); {', '.join(words)}"
        value = statistics.median(until)
        if math.isinf(value):
            raise ArithmeticError(f"fewer than half are called {verdict} in {MOST_PAIRS} pairs; {text}")
        return value, text

    def noise(self) -> tuple[float, str]:
        """By which pairs differ without a gain, and how much neighbouring ticks are alike."""
        soft = {place: SOFT[signal] for place, signal in enumerate(SIGNALS)}
        places = [SIGNALS.index(signal) for signal in TESTED]
        found = [deviation(use, BLOCK - 3, places, soft) for use in self.uses]
        spread, alike = ([values[at] for values in found] for at in (0, 1))
        text = f"{min(spread):.0%} to {max(spread):.0%}; seconds are alike by r = {statistics.median(alike):.2f}"
        return 100.0 * statistics.median(spread), f"{len(self.uses)} uses, {text}"

    def matched(self) -> tuple[float, str]:
        """Uses in which daily comparisons find a gain of 20 % in most courses."""
        found = []
        for number, use in enumerate(self.uses):
            outcomes, chance = matching.outcomes(use, 0.2), Random(f"matched {number}")  # noqa: S311
            courses = [matching.comparisons_to_find(outcomes, chance) for _ in range(5)]
            found.append(math.isfinite(statistics.median(courses)))
        return _pct(found), f"{len(found)} uses; differences of less than a quarter or 2 ms do not count there"

    def matched_falsely(self) -> tuple[float, str]:
        """Comparisons of recordings under one and the same scheduler."""
        outcomes = [outcome for use in self.uses for outcome in matching.outcomes(use, 0.0)]
        known = [outcome != 0 for outcome in outcomes if outcome is not None]
        return _pct(known), f"{len(known)} comparisons; {len(outcomes) - len(known)} more have another load"

    def bad_in_trials(self) -> tuple[float, str]:
        """A scheduler with four times the wait, in trials."""
        found = self._results(1.0 - _BAD_TIMES, "as recorded")
        until = statistics.median(result.pairs for result in found)
        return _pct([result.verdict is not Verdict.WORSE for result in found]), f"{len(found)} trials, {until:g} pairs"

    def bad_by_guard(self) -> tuple[float, str]:
        """The same by the guard."""
        found = [one for use in self.uses for one in matching.reverted(use, times=_BAD_TIMES)]
        return 100.0 - _pct(found), f"{len(found)} recordings, each after another one of its use"

    def _until(self, verdict: Verdict, gain: float, trouble: str) -> list[float]:
        found = self._results(gain, trouble)
        return [float(result.pairs) if result.verdict is verdict else math.inf for result in found]

    def _results(self, gain: float, trouble: str) -> list[Result]:
        if (gain, trouble) not in self._played:
            each = _ALIKE_TRIALS if not gain else _TRIALS if TROUBLES[trouble] == Trouble() else _TROUBLED
            self._played[gain, trouble] = [
                trial(_play(use, gain, trouble, number), 1000 * place + number)
                for place, use in enumerate(self.uses)
                for number in range(each)
            ]
        return self._played[gain, trouble]


def _play(use: Use, gain: float, trouble: str, number: int) -> Play:
    chance = Random(f"{use.label} {gain} {trouble} {number}")  # noqa: S311  # the same each time
    return Play(use=use, gain=gain, trouble=TROUBLES[trouble], chance=chance)


def _pct(found: Sequence[bool | float]) -> float:
    return 100.0 * sum(found) / len(found)


def _shown(until: Sequence[float]) -> str:
    return _count(statistics.median(until))


def _count(pairs: float) -> str:
    return f"over {MOST_PAIRS}" if math.isinf(pairs) else f"{pairs:g}"
