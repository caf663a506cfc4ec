# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.harmless`: prints what harm the agent does as JSON lines, measured anew with `--measure`."""

import sys
from collections.abc import Sequence

from calibration.harmless.benchmark import KEPT, HarmlessFigure, counts
from calibration.kept import answer, parser


def main(arguments: Sequence[str] | None = None) -> int:
    """As `calibration.kept.answer`."""
    made = parser("calibration.harmless", __doc__, KEPT)
    made.add_argument(
        "--plays", type=int, metavar="N", help="play N plants more for a figure at most (default: all); N may be 0"
    )
    given = made.parse_args(arguments)
    if given.plays is not None and given.plays < 0:
        made.error(f"--plays: {given.plays}; a number from 0")

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    command = "python -m calibration.harmless --measure"
    return answer(given, HarmlessFigure, lambda: counts(given.plays, tell), command)


if __name__ == "__main__":
    sys.exit(main())
