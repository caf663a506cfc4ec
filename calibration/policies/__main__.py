# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.policies`: prints, as JSON lines, what policies are worth (`--measure`: anew)."""

import sys
from collections.abc import Sequence

from calibration.kept import answer, parser
from calibration.policies.benchmark import KEPT, PoliciesFigure, counts


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.policies", __doc__, KEPT).parse_args(arguments)
    return answer(given, PoliciesFigure, counts, "make bench-policies")


if __name__ == "__main__":
    sys.exit(main())
