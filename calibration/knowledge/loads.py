# SPDX-License-Identifier: GPL-2.0-only
"""Would a table gain by loads as a dimension? On kept trials of the lab. It plays nothing.

A row of the shipped table is of what a person looks at, and serves it beside every background: so it is one class under
several loads. The load of a pair is that of most ticks of its recordings, of real programs. For each pair the scheduler
is chosen that was the best beside the other backgrounds: all of them, or those of the same load.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from asa.core.mark import Phase
from asa.core.regime import Load
from calibration.knowledge.light import ticks_of
from calibration.scenarios import kept, scores
from models.train.recorded import read


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What schedulers scored in a pair, the mean of its trials, and how much there was to do."""

    interactive: str
    background: str
    load: Load
    score: Mapping[str, float]


def of_pairs(journals: Iterable[Path]) -> Mapping[tuple[str, str], Load]:
    """The load of most ticks of each pair. Raises JournalError."""
    found: dict[tuple[str, str], Counter[Load]] = defaultdict(Counter)
    for session in (one for path in journals for one in read(path)):
        running = [mark for mark in session.marks if mark.phase is Phase.RUNNING]
        if running and running[0].interactive and running[0].background:
            begun_ns = running[0].monotonic_ns
            loads = (tick.now.load for tick in ticks_of(session) if tick.at_ns >= begun_ns)
            found[running[0].interactive, running[0].background].update(loads)
    return {pair: counts.most_common(1)[0][0] for pair, counts in found.items() if counts}


def pairs(results: Path, loads: Mapping[tuple[str, str], Load], names: Sequence[str]) -> list[Pair]:
    """Those of the lab's kept trials in which all of these schedulers have a score. Raises AsaError."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in kept.read(results):
        if run.tier != "lab":
            continue
        scored = scores.scores(run.played)
        for one in run.played:
            value = scored[one.run, one.trial].score
            if value is not None:
                found[one.interactive, one.background][one.scheduler].append(value)
    return [
        Pair(
            interactive=pair[0],
            background=pair[1],
            load=loads[pair],
            score={name: fmean(by_name[name]) for name in names},
        )
        for pair, by_name in sorted(found.items())
        if pair in loads and all(by_name[name] for name in names)
    ]


def gain_pct(found: Sequence[Pair]) -> tuple[float, int]:
    """How much more the choice by loads scores, in per cent, the mean; and of how many pairs it chose another one."""
    gains, others = list[float](), 0
    for one in found:
        rest = [other for other in found if other.interactive == one.interactive and other is not one]
        alike = [other for other in rest if other.load is one.load] or rest
        plain, by_load = _best(rest), _best(alike)
        others += plain != by_load
        gains.append(100.0 * (one.score[by_load] / one.score[plain] - 1.0))
    return fmean(gains), others


def _best(found: Sequence[Pair]) -> str:
    means = {name: fmean(one.score[name] for one in found) for name in found[0].score}
    return max(means, key=lambda name: means[name])
