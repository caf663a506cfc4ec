# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.agent`: prints, as JSON lines, how the control plane holds up (`--measure`: anew)."""

import sys
from collections.abc import Sequence

from calibration.agent.benchmark import KEPT, AgentFigure, counts
from calibration.kept import answer, parser


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.agent", __doc__, KEPT).parse_args(arguments)
    return answer(given, AgentFigure, counts, "make bench-agent")


if __name__ == "__main__":
    sys.exit(main())
