# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.trials`: prints what trials are worth as JSON lines, played anew with `--measure`."""

import sys
from collections.abc import Sequence

from calibration.kept import answer, parser
from calibration.trials.benchmark import KEPT, Bench, TrialFigure


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.trials", __doc__, KEPT).parse_args(arguments)
    return answer(given, TrialFigure, lambda: Bench().counts(), "python -m calibration.trials --measure")


if __name__ == "__main__":
    sys.exit(main())
