# SPDX-License-Identifier: GPL-2.0-only
"""A picture of a switch benchmark: every switch and every gap as a dot on a logarithmic scale, as SVG.

Takes what guests recorded, makes text. It reads and writes no file.
"""

import math
from collections.abc import Mapping, Sequence

from calibration.switch.figures import confirmed_ms, gaps_ms, took_ms
from calibration.switch.samples import Found, Kind
from scenarios.lab.emulator import Clock

_WIDTH, _LEFT, _RIGHT = 760, 190, 20  # in pixels
_ROW, _TOP, _BOTTOM = 24, 34, 30
_INK, _GRID, _OURS, _KERNEL = "#333", "#ddd", "#1f77b4", "#2ca02c"
_FONT = f'font-family="sans-serif" font-size="11" fill="{_INK}"'
_SPREAD = 4  # dots of one row lie on so many heights, or they would hide each other


def picture(found: Mapping[Clock, Found]) -> str:
    """The SVG document: a panel for each clock, on one scale."""
    panels = [(clock, _rows(one)) for clock, one in found.items()]
    values = [value for _, rows in panels for _, dots, _ in rows for value in dots if value > 0.0]
    low, high = (math.floor(math.log10(min(values, default=1.0))), math.ceil(math.log10(max(values, default=10.0))))
    parts, top = [], 0
    for clock, rows in panels:
        parts += _panel(top, f"{clock} clock, ms", rows, low, max(high, low + 1))
        top += _TOP + _ROW * len(rows) + _BOTTOM
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" {_FONT}>'
    return "\n".join([head, f'<rect width="{_WIDTH}" height="{top}" fill="#fff"/>', *parts, "</svg>", ""])


_Row = tuple[str, Sequence[float], str]


def _rows(found: Found) -> list[_Row]:
    """Title, milliseconds, colour."""
    return [
        ("stop-then-start", took_ms(found, Kind.PLAIN), _OURS),
        ("its gap", gaps_ms(found, Kind.PLAIN), _OURS),
        ("gated", took_ms(found, Kind.GATED), _OURS),
        ("its gap", gaps_ms(found, Kind.GATED), _OURS),
        ("from a standby", took_ms(found, Kind.STANDBY), _OURS),
        ("its gap", gaps_ms(found, Kind.STANDBY), _OURS),
        ("the kernel alone, same pairs", confirmed_ms(found.kernels), _KERNEL),
        ("the kernel alone, scx_simple", confirmed_ms(found.floor), _KERNEL),
    ]


def _panel(top: int, title: str, rows: Sequence[_Row], low: int, high: int) -> list[str]:
    """Lines of one panel: its title, a grid of decades, and a row of dots for each title."""
    bottom = top + _TOP + _ROW * len(rows)

    def at_x(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * share, 1)

    parts = [f'<text x="{_LEFT}" y="{top + 20}" font-size="13">{title}</text>']
    for decade in range(low, high + 1):
        x = at_x(10.0**decade)
        parts += [
            f'<line x1="{x}" x2="{x}" y1="{top + _TOP}" y2="{bottom}" stroke="{_GRID}"/>',
            f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{10.0**decade:g}</text>',
        ]
    for number, (name, dots, colour) in enumerate(rows):
        y = top + _TOP + _ROW * number + _ROW // 2
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{name}</text>')
        parts += [
            f'<circle cx="{at_x(value)}" cy="{y - 6 + 4 * (place % _SPREAD)}" r="2.5" fill="{colour}" opacity="0.6"/>'
            for place, value in enumerate(dots)
            if value > 0.0
        ]
    return parts
