# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.recognition`: prints figures of kinds of use as JSON lines, measured anew with `--measure`."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from asa import paths
from calibration.goals import Named
from calibration.kept import Count, answer, parser
from calibration.recognition import sources
from calibration.recognition.benchmark import KEPT, Bench
from calibration.recognition.evaluation import QUICK, Options
from calibration.recognition.papers import papers
from calibration.recognition.uses import UseFigure
from models.train.dataset import Dataset, assemble
from models.train.ensemble import Recipe
from models.train.held_out import Kept


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    words = parser("calibration.recognition", __doc__, KEPT)
    words.add_argument("--quick", action="store_true", help="by a small model: to see that all works")
    words.add_argument("--recordings", type=Path, metavar="DIR", help="folder of journals (default: the package's)")
    given = words.parse_args(arguments)
    return answer(given, UseFigure, lambda: _counts(given.recordings, quick=given.quick), "make bench-recognition")


def _counts(folder: Path | None, *, quick: bool) -> Mapping[Named, Count]:
    shipped = paths.base_model().parent.parent / "recordings"
    options = Options(
        recipe=QUICK if quick else Recipe(),
        seed=1,
        quick=quick,
        jobs=len(os.sched_getaffinity(0)),
        kept=Kept(paths.default().cache / "recognition"),
        model=paths.base_model(),
        sequences=tuple(sorted((shipped / "sequences").glob("*.journal.xz"))),
    )

    def tell(what: str, _share: float) -> None:
        print(what, file=sys.stderr, flush=True)

    def assembled() -> Dataset:
        return assemble(sources.recordings(folder or shipped / "scenarios"), least_sessions=1)

    def everywhere() -> Dataset:
        return sources.with_served(sources.of_kinds(folder or shipped, machines=True))

    data = sources.with_served(sources.of_kinds(folder or shipped, other=True))
    return {**Bench(data, everywhere, options, tell).counts(), **papers(assembled, options, tell)}


if __name__ == "__main__":
    sys.exit(main())
