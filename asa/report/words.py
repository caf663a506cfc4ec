# SPDX-License-Identifier: GPL-2.0-only
"""Numbers and times as the report's page writes them. Pure but for the time zone."""

import time

UNKNOWN = "unknown"


def duration(seconds: float) -> str:
    """Two units at most."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s} s" if rest_s else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def latency(value_us: float | None) -> str:
    """Three figures."""
    if value_us is None:
        return UNKNOWN
    if value_us < 999.5:
        return f"{value_us:.3g} µs"
    return f"{value_us / 1e3:.3g} ms" if value_us < 999_500 else f"{value_us / 1e6:.3g} s"


def milliseconds(value_ms: float | None) -> str:
    """As `latency`."""
    return latency(None if value_ms is None else value_ms * 1e3)


def percent(share: float | None) -> str:
    """Of 1."""
    if share is None:
        return UNKNOWN
    return f"{share:.1%}" if 0.0 < share < 0.1 else f"{share:.0%}"


def moment(wall_ns: int, *, seconds: bool = False) -> str:
    """Local date and time."""
    return _local(wall_ns, "%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def clock(wall_ns: int) -> str:
    """Local day of the week and time."""
    return _local(wall_ns, "%a %H:%M:%S")


def zone() -> str:
    """The local time zone's name."""
    return time.strftime("%Z")


def counted(count: int, one: str, many: str = "") -> str:
    """`1 switch`, `2 switches`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _local(wall_ns: int, form: str) -> str:
    try:
        return time.strftime(form, time.localtime(wall_ns / 1e9))
    except (OverflowError, ValueError, OSError):  # a clock far from any date
        return UNKNOWN
