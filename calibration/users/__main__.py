# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.users`: prints, as JSON lines, how ASA holds up where its users are (`--measure`: anew)."""

import sys
from collections.abc import Sequence

from calibration.kept import answer, parser
from calibration.users.benchmark import KEPT, UsersFigure, counts


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    given = parser("calibration.users", __doc__, KEPT).parse_args(arguments)
    return answer(given, UsersFigure, counts, "make bench-users")


if __name__ == "__main__":
    sys.exit(main())
