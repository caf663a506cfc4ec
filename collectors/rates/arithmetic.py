# SPDX-License-Identifier: GPL-2.0-only
"""The few operations that all rates are made of. Each takes None for unknown and gives None where nothing is known."""

from typing import TypeAlias

Fields: TypeAlias = dict[str, float | None]
"""Fields of Rates by name: None until a part of the samples gives them."""


def level(value: int | None) -> float | None:
    """A level as it is."""
    return None if value is None else float(value)


def growth(old: int | None, new: int | None) -> int | None:
    """What a counter grew by; None when it went back (a reboot, a 32-bit wrap, a source that began anew)."""
    return None if old is None or new is None or new < old else new - old


def rate(old: int | None, new: int | None, elapsed_s: float, factor: int = 1) -> float | None:
    """Growth a second, `factor` being the units in one count."""
    return None if old is None or new is None or new < old else (new - old) * factor / elapsed_s


def total(one: int | None, other: int | None) -> int | None:
    """The sum, unknown when one of them is."""
    return None if one is None or other is None else one + other


def ratio(part: int | None, whole: int | None) -> float | None:
    """Part a whole, such as a mean; None of nothing."""
    return None if part is None or not whole else part / whole


def share(part: int | None, whole: int | None) -> float | None:
    """As `ratio`, in 0..1. More than the whole is no share: the two do not belong to the same moment."""
    return None if part is None or not whole or part > whole else part / whole
