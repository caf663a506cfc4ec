# SPDX-License-Identifier: GPL-2.0-only
"""A picture of a scale benchmark as SVG: a panel for each metric, schedulers side by side in each guest.

Dots are means, bars their confidence intervals. Times have a logarithmic scale, all else one that begins at 0. Takes
figures, makes text; it reads and writes no file.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from calibration.scale.figures import Average
from calibration.scale.samples import METRICS, Metric

_COLUMNS, _WIDTH, _HEIGHT = 2, 760, 220  # a panel's, in pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 10, 34, 30
_INK, _GRID = "#333", "#ddd"
_COLOURS = ("#333333", "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#17becf", "#8c564b", "#e377c2")
_FONT = f'font-family="sans-serif" font-size="11" fill="{_INK}"'
_LEGEND = 20  # a line's height
_PER_LINE = 5  # schedulers
_SPREAD = 0.7  # of the width that a guest has that its schedulers take


def picture(made: Sequence[Average]) -> str:
    """The SVG document."""
    names = list(dict.fromkeys(figure.scheduler for figure in made))
    head = _LEGEND * (-(-len(names) // _PER_LINE)) + 8
    width, height = _COLUMNS * _WIDTH, head + -(-len(METRICS) // _COLUMNS) * _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, name in enumerate(names):
        x, y = 20 + place % _PER_LINE * (width - 20) // _PER_LINE, _LEGEND * (place // _PER_LINE + 1)
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{_colour(place)}"/>')
        parts.append(f'<text x="{x + 10}" y="{y}">{escape(name)}</text>')
    for place, metric in enumerate(METRICS):
        same = [figure for figure in made if figure.metric is metric]
        left, top = place % _COLUMNS * _WIDTH, head + place // _COLUMNS * _HEIGHT
        parts += _panel(metric, same, names, left, top)
    return "\n".join([*parts, "</svg>", ""])


def _panel(metric: Metric, made: Sequence[Average], names: Sequence[str], left: int, top: int) -> Iterator[str]:
    known = [figure for figure in made if figure.value is not None]
    counts = list(dict.fromkeys(figure.guest for figure in made))
    begin, end, floor = left + _LEFT, left + _WIDTH - _RIGHT, top + _HEIGHT - _BOTTOM
    at_y, ticks = _scale(metric, known, top + _TOP, floor)
    yield f'<g><text x="{left + 8}" y="{top + 20}" font-size="13">{metric.name}, {metric.unit}</text>'
    for tick in ticks:
        y = at_y(tick)
        yield f'<line x1="{begin}" x2="{end}" y1="{y}" y2="{y}" stroke="{_GRID}"/>'
        yield f'<text x="{begin - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>'
    wide = (end - begin) / max(1, len(counts))
    for number, label in enumerate(counts):
        x = round(begin + wide * (number + 0.5), 1)
        yield f'<text x="{x}" y="{floor + 16}" text-anchor="middle">{escape(label)}</text>'
    for figure in known:
        assert figure.value is not None  # noqa: S101  # see above
        place = names.index(figure.scheduler)
        middle = begin + wide * (counts.index(figure.guest) + 0.5)
        x = round(middle + wide * _SPREAD * ((place + 0.5) / len(names) - 0.5), 1)
        value, error = figure.value * metric.factor, (figure.error or 0.0) * metric.factor
        high, low = at_y(value + error), at_y(value - error)
        yield f'<line x1="{x}" x2="{x}" y1="{high}" y2="{low}" stroke="{_colour(place)}" stroke-width="1.5"/>'
        yield f'<circle cx="{x}" cy="{at_y(value)}" r="3" fill="{_colour(place)}"/>'
    yield "</g>"


def _scale(
    metric: Metric, known: Sequence[Average], ceiling: int, floor: int
) -> tuple[Callable[[float], float], list[float]]:
    """Where a value lies (what is beyond an end lies on it), and the values to name."""
    values = [value * metric.factor for figure in known if (value := figure.value) is not None]
    tops = [value + (figure.error or 0.0) * metric.factor for figure, value in zip(known, values, strict=True)]
    if metric.base == "seconds":
        positive = [value for value in values if value > 0.0]
        low = math.floor(math.log10(min(positive, default=1.0)))
        high = max(low + 1, math.ceil(math.log10(max(tops, default=10.0) or 1.0)))
        ticks = [10.0**decade for decade in range(low, high + 1)]

        def share(value: float) -> float:
            return (math.log10(value) - low) / (high - low) if value > 0.0 else 0.0
    else:
        most = max(tops, default=1.0) or 1.0
        step = 10.0 ** math.floor(math.log10(most))
        step = step / 2.0 if most / step < 3.0 else step
        ticks = [step * number for number in range(int(most / step) + 1)]

        def share(value: float) -> float:
            return value / most

    return lambda value: round(floor - (floor - ceiling) * min(1.0, max(0.0, share(value))), 1), ticks


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]
