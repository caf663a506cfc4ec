# SPDX-License-Identifier: GPL-2.0-only
"""How much evidence an hour buys: switchback runs beside classic ones, a scheduler a trial, by the kernel's own twice.

Evidence is the inverse of the variance of one pair's change where nothing differs, an hour is one of a host's CPU.
Compared metric by metric and scenario by scenario; the ratio is the median of all that both have.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from asa.core.decision import EEVDF
from calibration.scenarios import scores
from calibration.scenarios.scores import Played
from calibration.scoring.fusion import measured
from calibration.scoring.table import APPLICATIONS
from calibration.switchback.figures import SCORE, change_pct, pair_score, paired_blocks
from calibration.switchback.samples import Block, Run
from calibration.switchback.scored import by_application

INTERRUPTED_S = 600.0
"""Between two trials: the run was stopped, or its host."""

_FEWEST = 3
_FLOOR_PCT = 0.1  # two runs of a figure that has reached its end are equal

Key = tuple[str, str]
"""Label and metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Of one way to play: seconds of a CPU for a pair, and one pair's scatter in per cent."""

    pair_s: float
    scatter_pct: Mapping[Key, float]

    def per_hour(self, key: Key) -> float:
        """Pairs of a scatter of 1 % that an hour is worth."""
        return 3600.0 / self.pair_s / max(self.scatter_pct[key], _FLOOR_PCT) ** 2


def ratio(ours: Evidence, theirs: Evidence) -> tuple[float, int] | None:
    """The median over what both have, and of how many; None where they share nothing."""
    shared = sorted(ours.scatter_pct.keys() & theirs.scatter_pct.keys())
    if not shared:
        return None
    return statistics.median(ours.per_hour(key) / theirs.per_hour(key) for key in shared), len(shared)


def trial_s(started_ns: Sequence[int], jobs: int) -> float:
    """Seconds of a CPU that a trial of a kept run took, by when trials began. `jobs` guests played at once.

    Of a guest under the serial clock, which keeps one CPU busy. Raises ValueError for fewer than two.
    """
    starts = sorted(started_ns)
    apart_s = [(after - before) / 1e9 for before, after in pairwise(starts)]
    played_s = [one for one in apart_s if one <= INTERRUPTED_S]
    if not played_s:
        raise ValueError("the run has too few trials to tell what one takes")
    return jobs * sum(played_s) / len(played_s)


def of_classic(played: Sequence[Played], trial_cost_s: float) -> Evidence:
    """Of one run's trials. A pair is two of a repeat, of the kernel's own and its second copy."""
    figures, marks = scores.figures(played), scores.scores(played)
    trials = {
        (one.interactive, one.background, one.repeat, one.copy): (one.run, one.trial)
        for one in played
        if one.scheduler == EEVDF and one.interactive and one.background
    }
    found: dict[Key, list[float]] = defaultdict(list)
    for (interactive, background, repeat, copy), first in trials.items():
        second = trials.get((interactive, background, repeat, 2))
        if copy != 1 or second is None:
            continue
        label, one, other = f"{interactive}+{background}", figures[first], figures[second]
        for name, known in one.items():
            for metric in known.keys() & other.get(name, {}).keys():
                change = change_pct(known[metric].value, other[name][metric].value)
                found[label, f"{name}.{metric}"].append(change)
        own, copied = marks[first].score, marks[second].score
        if own is not None and copied is not None:
            found[label, SCORE].append(change_pct(own, copied))
    return Evidence(pair_s=2.0 * trial_cost_s, scatter_pct=_scatter(found))


def of_switchback(runs: Sequence[Run]) -> Evidence:
    """A pair is a block of the kernel's own between the two that open and close its round. All other pairs of a run
    share its cost, and those two blocks."""
    found: dict[Key, list[float]] = defaultdict(list)
    pairs, cost_s = 0, 0.0
    for run in runs:
        cost_s += run.host_cpu_s
        for (scheduler, _), sides in paired_blocks(run).items():
            pairs += len(sides)
            for own, other in sides if scheduler == EEVDF else ():
                one, two = _figures(run, own), _figures(run, other)
                for metric in one.keys() & two.keys():
                    found[run.orders.label, metric].append(change_pct(one[metric], two[metric]))
                marks = pair_score(run, own, other)
                if marks is not None:
                    found[run.orders.label, SCORE].append(change_pct(*marks))
    if not pairs:
        return Evidence(pair_s=0.0, scatter_pct={})
    return Evidence(pair_s=cost_s / pairs, scatter_pct=_scatter(found))


def _figures(run: Run, blocks: Sequence[Block]) -> dict[str, float]:
    """The figures that are scored, of these blocks' samples together, as those of a trial."""
    found = {}
    for name in run.parts:
        for metric in APPLICATIONS[name].metrics:
            values = [v for block in blocks for v in by_application(block.series).get(name, {}).get(metric.name, ())]
            figure = measured(metric, values)
            if figure is not None:
                found[f"{name}.{metric.name}"] = figure.value
    return found


def _scatter(found: Mapping[Key, Sequence[float]]) -> dict[Key, float]:
    return {key: statistics.stdev(values) for key, values in found.items() if len(values) >= _FEWEST}
