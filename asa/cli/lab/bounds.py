# SPDX-License-Identifier: GPL-2.0-only
"""Numbers and times of a command line that lie within bounds; anything else is told with the bounds."""

import argparse
import math
from collections.abc import Callable

_MOST = 1000
_LONGEST_S = 3600.0


def number(least: int, most: int) -> Callable[[str], int]:
    """Reads a whole number."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text} is not a number from {least} to {most}")
        return value

    return read


def time(least: float, most: float, unit: str = "seconds", *, zero: bool = True) -> Callable[[str], float]:
    """Reads a time; with `zero` off it is more than 0."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most or (value == 0.0 and not zero):  # nan is in no bounds
            above = "" if zero else " and above 0"
            raise argparse.ArgumentTypeError(f"{text} is not a time from {least:g} to {most:g} {unit}{above}")
        return value

    return read


COUNT, COUNT_FROM_0 = number(1, _MOST), number(0, _MOST)
SECONDS, SECONDS_ABOVE_0 = time(0.0, _LONGEST_S), time(0.0, _LONGEST_S, zero=False)
MINUTES = time(0.0, 10_000.0, "minutes", zero=False)
