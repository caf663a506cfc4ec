# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.knowledge`: prints what the base of programs is worth as JSON lines; `--measure` measures."""

import sys
from collections.abc import Sequence

from calibration.kept import answer, parser
from calibration.knowledge.benchmark import KEPT, Bench, KnowledgeFigure


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.knowledge", __doc__, KEPT).parse_args(arguments)
    return answer(given, KnowledgeFigure, lambda: Bench().counts(), "make bench-knowledge")


if __name__ == "__main__":
    sys.exit(main())
