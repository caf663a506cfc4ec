# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.harmless`: prints what harm the agent does as JSON lines, measured anew with `--measure`."""

import sys
from collections.abc import Sequence

from calibration.harmless.benchmark import KEPT, HarmlessFigure, counts
from calibration.kept import answer, parser


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.harmless", __doc__, KEPT).parse_args(arguments)
    return answer(given, HarmlessFigure, counts, "python -m calibration.harmless --measure")


if __name__ == "__main__":
    sys.exit(main())
