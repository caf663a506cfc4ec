# SPDX-License-Identifier: GPL-2.0-only
"""The score of each block of a run, by the same curves as a trial of the benchmark. Pure.

Blocks of a run are compared with each other, so they are scored by what all of them measured; what each application did
alone, under the kernel's own scheduler, was measured once in the run.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from asa.core.decision import EEVDF
from calibration.scenarios import scores
from calibration.scenarios.scores import Played
from calibration.switchback.samples import Samples

Figures = Mapping[str, Mapping[str, Sequence[float]]]


def by_application(series: Sequence[Samples]) -> dict[str, dict[str, Sequence[float]]]:
    """Application -> metric -> values, of what was measured."""
    found: dict[str, dict[str, Sequence[float]]] = defaultdict(dict)
    for one in series:
        if one.values:
            found[one.application][one.metric] = one.values
    return dict(found)


def score_all(
    interactive: str, background: str, alone: Sequence[Samples], blocks: Sequence[Sequence[Samples]]
) -> list[float | None]:
    """Of each block, 0 to 1; None of one that measured too little."""
    known = by_application(alone)
    trials = [
        _played(f"alone {interactive}", interactive, "", {interactive: known.get(interactive, {})}),
        _played(f"alone {background}", "", background, {background: known.get(background, {})}),
        *(_played(str(place), interactive, background, by_application(one)) for place, one in enumerate(blocks)),
    ]
    found = scores.scores(trials)
    return [found["", str(place)].score for place in range(len(blocks))]


def _played(trial: str, interactive: str, background: str, samples: Figures) -> Played:
    return Played(
        trial=trial,
        run="",
        repeat=1,
        interactive=interactive,
        background=background,
        scheduler=EEVDF,
        copy=1,
        samples=samples,
    )
