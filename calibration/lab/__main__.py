# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.lab`: prints the lab's own figures as JSON lines, measured anew with `--measure`."""

import sys
from collections.abc import Sequence

from asa import paths
from calibration.kept import answer, parser
from calibration.lab.benchmark import KEPT, Bench, LabFigure


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.lab", __doc__, KEPT).parse_args(arguments)
    bench = Bench(paths.default(), lambda line: print(line, file=sys.stderr, flush=True))
    return answer(given, LabFigure, bench.counts, "make bench-lab")


if __name__ == "__main__":
    sys.exit(main())
