# SPDX-License-Identifier: GPL-2.0-only
"""`python -m asa.cli.lab.hurried ARGUMENT...`: `asa` at the speed that it has on a laptop, in a guest that measures."""

import sys
from collections.abc import Sequence


def main(words: Sequence[str]) -> None:
    """The command line of asa, which ends the process."""
    from asa.core.errors import AsaError
    from calibration.controllers.hurried import SPEED_PCT, Hurry

    try:
        hurry = Hurry(SPEED_PCT)
    except AsaError as error:
        sys.exit(f"hurried: {error}")
    from asa.cli.main import main as asa

    try:
        asa(list(words))
    finally:
        del hurry


if __name__ == "__main__":
    main(sys.argv[1:])
