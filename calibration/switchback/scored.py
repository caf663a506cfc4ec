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
    sides = ((interactive, ""), ("", background))
    singles = [_played(f"alone {one}{two}", one, two, known) for one, two in sides if one or two]
    # the second copy: of a single the first is what it is compared with
    played = [_played(str(at), interactive, background, by_application(one), copy=2) for at, one in enumerate(blocks)]
    return [one.score for one in scores.of_alike(played, scores.figures([*singles, *played]))]


def _played(trial: str, interactive: str, background: str, samples: Figures, copy: int = 1) -> Played:
    return Played(
        trial=trial,
        run="",
        repeat=1,
        interactive=interactive,
        background=background,
        scheduler=EEVDF,
        copy=copy,
        samples=samples,
    )
