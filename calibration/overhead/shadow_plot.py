# SPDX-License-Identifier: GPL-2.0-only
"""A picture of a shadow report as SVG: what each scheduler's load takes above, what a tick of the agent takes below.

Bars are medians, the thin line ends at the 95th percentile. It reads and writes no file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from calibration.overhead.shadow_report import Quantiles, Report

_WIDTH, _BAR, _LEFT, _RIGHT = 760, 26, 130, 30  # in pixels
_HEAD, _FOOT = 44, 34  # of a panel, above and below its bars
_INK, _GRID, _USER, _SYSTEM, _WALL = "#333", "#ddd", "#1f77b4", "#ff7f0e", "#333"
_FONT = f'font-family="sans-serif" font-size="11" fill="{_INK}"'
_TICKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    label: str
    segments: tuple[tuple[float, str], ...]  # length and colour, one after the other
    reach: float  # where the thin line ends


def picture(found: Report) -> str:
    """The SVG document; of a panel without any bar nothing is left but its title."""
    panels = (
        ("a scheduler's load, ms: user (blue) and system (orange) CPU time; line: p95 of what passed", _loads(found)),
        ("one tick of the agent, us; line: p95", _ticks(found)),
    )
    parts, top = [], 0
    for title, bars in panels:
        parts += _panel(top, title, bars)
        top += _HEAD + _BAR * len(bars) + _FOOT
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{top}" fill="#fff"/>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])


def _loads(found: Report) -> list[_Bar]:
    return [
        _Bar(
            label=costs.scheduler,
            segments=((costs.user_ms.p50, _USER), (costs.system_ms.p50, _SYSTEM)),
            reach=costs.wall_ms.p95,
        )
        for costs in found.schedulers
        if costs.wall_ms is not None and costs.user_ms is not None and costs.system_ms is not None
    ]


def _ticks(found: Report) -> list[_Bar]:
    if found.agent is None:
        return []
    parts: tuple[tuple[str, Quantiles | None], ...] = (
        ("collection", found.agent.collection_us),
        ("inference", found.agent.inference_us),
        ("decision", found.agent.decision_us),
        ("action", found.agent.action_us),
        ("journal", found.agent.journal_us),
    )
    return [
        _Bar(label=name, segments=((values.p50, _USER),), reach=values.p95)
        for name, values in parts
        if values is not None
    ]


def _panel(top: int, title: str, bars: Sequence[_Bar]) -> list[str]:
    parts = [f'<text x="10" y="{top + 22}" font-size="13">{escape(title)}</text>']
    longest = max((max(bar.reach, sum(length for length, _ in bar.segments)) for bar in bars), default=0.0)
    if longest <= 0.0:
        return parts
    wide, bottom = _WIDTH - _LEFT - _RIGHT, top + _HEAD + _BAR * len(bars)

    def at(value: float) -> float:
        return round(_LEFT + wide * value / longest, 1)

    for number in range(_TICKS + 1):
        value = longest * number / _TICKS
        parts += [
            f'<line x1="{at(value)}" x2="{at(value)}" y1="{top + _HEAD}" y2="{bottom}" stroke="{_GRID}"/>',
            f'<text x="{at(value)}" y="{bottom + 16}" text-anchor="middle">{value:,.4g}</text>',
        ]
    for row, bar in enumerate(bars):
        y, done = top + _HEAD + _BAR * row, 0.0
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 17}" text-anchor="end">{escape(bar.label)}</text>')
        for length, colour in bar.segments:
            width = round(at(done + length) - at(done), 1)
            parts.append(f'<rect x="{at(done)}" y="{y + 5}" width="{width}" height="{_BAR - 10}" fill="{colour}"/>')
            done += length
        middle = y + _BAR / 2
        parts.append(f'<line x1="{_LEFT}" x2="{at(bar.reach)}" y1="{middle}" y2="{middle}" stroke="{_WALL}"/>')
    return parts
