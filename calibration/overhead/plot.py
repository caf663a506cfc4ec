# SPDX-License-Identifier: GPL-2.0-only
"""A picture of a run: the agent's CPU share and resident memory over time, as SVG. Two lines need no plotting library.

Takes the looks of a window, makes text. It reads and writes no file.
"""

from collections.abc import Sequence
from itertools import pairwise

from calibration.overhead.agent import Window

_WIDTH, _HEIGHT = 760, 190  # of one panel, in pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 32, 30
_INK, _GRID, _LINE, _BOUND = "#333", "#ddd", "#1f77b4", "#d62728"
_FONT = f'font-family="sans-serif" font-size="11" fill="{_INK}"'
_TICKS = 4


def picture(window: Window, *, cpu_goal_pct: float, rss_goal_mb: float) -> str:
    """The SVG document: CPU between two looks above, memory at each look below, goals dashed."""
    start_ns = window.looks[0].monotonic_ns
    cpu = [
        (
            (later.monotonic_ns - start_ns) / 60e9,
            100.0 * (later.cpu_ns - earlier.cpu_ns) / (later.monotonic_ns - earlier.monotonic_ns),
        )
        for earlier, later in pairwise(window.looks)
    ]
    rss = [((look.monotonic_ns - start_ns) / 60e9, look.resident_bytes / 1e6) for look in window.looks]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {2 * _HEIGHT}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{2 * _HEIGHT}" fill="#fff"/>',
        *_panel(0, "CPU time of the agent, % of one core", cpu, cpu_goal_pct),
        *_panel(_HEIGHT, "resident memory of the agent, MB (over minutes)", rss, rss_goal_mb),
        "</svg>",
    ]
    return "\n".join([*parts, ""])


def _panel(top: int, title: str, points: Sequence[tuple[float, float]], goal: float) -> list[str]:
    """Lines of one panel: frame, grid with numbers, the goal, and the curve."""
    longest = max(x for x, _ in points)
    highest = 1.1 * max(goal, *(y for _, y in points))
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at_x(x: float) -> float:
        return round(_LEFT + wide * x / longest, 1)

    def at_y(y: float) -> float:
        return round(top + _TOP + high * (1.0 - y / highest), 1)

    across = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}"'
    curve = " ".join(f"{at_x(x)},{at_y(y)}" for x, y in points)
    parts = [f'<text x="{_LEFT}" y="{top + 20}" font-size="13">{title}</text>']
    for number in range(_TICKS + 1):
        y, x = highest * number / _TICKS, longest * number / _TICKS
        parts += [
            f'<line {across} y1="{at_y(y)}" y2="{at_y(y)}" stroke="{_GRID}"/>',
            f'<text x="{_LEFT - 6}" y="{at_y(y) + 4}" text-anchor="end">{y:.3g}</text>',
            f'<text x="{at_x(x)}" y="{top + _HEIGHT - 12}" text-anchor="middle">{x:.3g}</text>',
        ]
    parts += [
        f'<line {across} y1="{at_y(goal)}" y2="{at_y(goal)}" stroke="{_BOUND}" stroke-dasharray="6 4"/>',
        f'<text x="{_WIDTH - _RIGHT - 4}" y="{at_y(goal) - 4}" text-anchor="end" fill="{_BOUND}">goal {goal:g}</text>',
        f'<polyline fill="none" stroke="{_LINE}" stroke-width="1.5" points="{curve}"/>',
    ]
    return parts
