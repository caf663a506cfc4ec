# SPDX-License-Identifier: GPL-2.0-only
"""The figures of harm, and how each is measured.

Those of plants are played in guests. Those of trials are taken over from what calibration.trials keeps.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from asa.core.errors import ModelError
from calibration import kept
from calibration.goals import Named
from calibration.harmless import planting, plants
from calibration.harmless.plants import Played, Sort
from calibration.harmless.stretches import AFTER, played
from calibration.kept import Count
from calibration.trials import benchmark as trials
from calibration.trials.play import PAIR
from calibration.trials.recorded import Use, journals, uses

KEPT = Path(__file__).parents[1] / "results" / "harmless.json"
STRETCHES = 1000
_BAD_TIMES = 4.0


class HarmlessFigure(Named):
    """The figures, each with its goal."""

    FALSE_REVERT = (
        "false_revert_pct",
        "%",
        f"of {STRETCHES} recorded stretches under one scheduler, with loads that swing, in which the guard reverts",
        "<=",
        1.0,
    )
    FOUND = "quadruple_wait_found_pct", "%", f"of such stretches with four times the wait, taken back in {AFTER} s"
    NEAR = "quadruple_wait_near_pct", "%", "of these, taken back or handed to a pair of blocks"
    PLANTED_MEDIAN = (
        "planted_bad_seconds_median",
        "s",
        "of the guest's time under a bad scheduler, planted as measured here, until it has gone for good",
        "<=",
        15.0,
    )
    PLANTED_MOST = "planted_bad_seconds_max", "s", "the same, the longest", "<=", 45.0
    PLANTED_MISSED = "planted_bad_missed", "plants", "of these that are not taken back in two minutes", "<=", 0.0
    STARVER_MOST = (
        "planted_starver_seconds_max",
        "s",
        "from the first task that a scheduler of ours starves to EEVDF again, the longest",
        "<=",
        5.0,
    )
    TRIAL_FALSE = "trial_false_better_pct", "%", "of trials of one against itself that call it better", "<=", 1.0
    TRIAL_FIND = "trial_pairs_to_find_10pct", "pairs", "until a gain of 10 % is called better, the median", "<=", 8.0


def counts(most: int | None = None, tell: Callable[[str], None] = lambda _: None) -> Mapping[Named, Count]:
    """How each figure is measured. `most`: so many plants are played for one at most; the others are as kept."""

    def planted(sort: Sort, figure: Callable[[Sequence[Played], Sort, int], tuple[float, str]]) -> Count:
        return lambda: figure(planting.play(sort, most, tell), sort, len(planting.every(sort)))

    return {
        HarmlessFigure.FALSE_REVERT: lambda: reverted(1.0, near=False),
        HarmlessFigure.FOUND: lambda: reverted(_BAD_TIMES, near=False),
        HarmlessFigure.NEAR: lambda: reverted(_BAD_TIMES, near=True),
        HarmlessFigure.PLANTED_MEDIAN: planted(Sort.BAD, plants.median_s),
        HarmlessFigure.PLANTED_MOST: planted(Sort.BAD, plants.most_s),
        HarmlessFigure.PLANTED_MISSED: planted(Sort.BAD, plants.missed),
        HarmlessFigure.STARVER_MOST: planted(Sort.STARVER, plants.most_s),
        HarmlessFigure.TRIAL_FALSE: lambda: _of_trials(HarmlessFigure.TRIAL_FALSE),
        HarmlessFigure.TRIAL_FIND: lambda: _of_trials(HarmlessFigure.TRIAL_FIND),
    }


@cache
def _uses() -> Sequence[Use]:
    return uses(journals(), PAIR)


def reverted(times: float, *, near: bool) -> tuple[float, str]:
    """The share of stretches in which the guard speaks, in per cent; when, and what its turns cost."""
    found = [played(_uses()[number % len(_uses())], number, times=times, near=near) for number in range(STRETCHES)]
    worse = [one for one in found if one.worse is not None]
    text = f"{len(worse)} of {len(found)} stretches of {len(_uses())} uses"
    if worse:
        gone_s = statistics.median(one.seconds for one in worse if one.seconds is not None)
        under_s = statistics.median(one.under_s for one in worse)
        text += f", after {gone_s:g} s, of these {under_s:g} s under it (medians)"
    turns = [one.switches for one in found]
    text += f"; turns in {100.0 * sum(map(bool, turns)) / len(turns):.0f} %, {sum(turns) / len(turns):.1f} switches"
    return 100.0 * len(worse) / len(found), text


def _of_trials(name: HarmlessFigure) -> tuple[float, str]:
    known = kept.read(trials.KEPT)
    value = None if known is None else known.values.get(str(name))
    if known is None or value is None:
        raise ModelError(f"{trials.KEPT}: {name} is not kept; run `python -m calibration.trials --measure`")
    return value, known.details.get(str(name), "")
