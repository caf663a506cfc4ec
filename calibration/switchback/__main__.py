# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.switchback`: prints what switchback runs are worth as JSON lines, anew with `--measure`."""

import sys
from collections.abc import Sequence

from calibration.kept import answer, parser
from calibration.switchback.benchmark import COMMAND, KEPT, EvaluationFigure, counts


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.switchback", __doc__, KEPT).parse_args(arguments)
    return answer(given, EvaluationFigure, counts, COMMAND)


if __name__ == "__main__":
    sys.exit(main())
