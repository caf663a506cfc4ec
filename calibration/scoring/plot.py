# SPDX-License-Identifier: GPL-2.0-only
"""The curves of the scores as SVG: a panel for each value curve with its sweet spot, and one for stability.

Takes the table, makes text. It reads and writes no file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from calibration.scoring.curves import stability_score, value_score
from calibration.scoring.table import APPLICATIONS
from scenarios.metric import Metric

_COLUMNS, _WIDTH, _HEIGHT = 3, 300, 210  # a panel's, in pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 36, 14, 54, 44
_INK, _SOFT, _GRID, _SWEET, _LINE = "#333", "#777", "#ddd", "#e8f1e4", "#1f77b4"
_FONT = f'font-family="sans-serif" font-size="11" fill="{_INK}"'
_POINTS = 80
_REACH = 4.0  # of the x axis: so many f above theta, and as many times the spread that halves


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One line: its points (x, score), the sweet spot's two ends (None: it has none), and what it is of."""

    title: str
    users: tuple[str, ...]
    unit: str
    points: tuple[tuple[float, float], ...]
    edges: tuple[float, float] | None


def curves() -> tuple[Curve, ...]:
    """Each value curve that the table has, once, with all metrics that use it; then the stability curves."""
    shared: dict[tuple[object, ...], list[tuple[str, Metric]]] = {}
    steady: dict[float, list[str]] = {}
    for application in APPLICATIONS.values():
        for metric in application.metrics:
            name = f"{application.name}.{metric.name}"
            key = (metric.good, metric.bad, metric.k_value, metric.gamma_value, metric.scale)
            shared.setdefault(key, []).append((name, metric))
            if metric.spread is not None:
                steady.setdefault(metric.gamma_stability, []).append(name)
    values = (_value(same[0][1], tuple(name for name, _ in same)) for same in shared.values())
    return (*values, *(_stability(gamma, tuple(users)) for gamma, users in steady.items()))


def picture(found: Sequence[Curve]) -> str:
    """The SVG document."""
    rows = -(-len(found) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_FONT}>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for place, curve in enumerate(found):
        parts += _panel(curve, place % _COLUMNS * _WIDTH, place // _COLUMNS * _HEIGHT)
    return "\n".join([*parts, "</svg>", ""])


def _value(metric: Metric, users: tuple[str, ...]) -> Curve:
    end = metric.theta + _REACH * metric.f
    places = [end * number / _POINTS for number in range(_POINTS + 1)]
    constants = {"theta": metric.theta, "f": metric.f, "k": metric.k_value, "gamma": metric.gamma_value}
    return Curve(
        title="Value",
        users=users,
        unit=metric.scale,
        points=tuple((x, value_score(x, direction=metric.curve, **constants)) for x in places),
        edges=(min(metric.good, metric.bad), max(metric.good, metric.bad)),
    )


def _stability(gamma: float, users: tuple[str, ...]) -> Curve:
    # with the spread that halves the score as the unit, all metrics of one gamma share a line
    places = [_REACH * number / _POINTS for number in range(_POINTS + 1)]
    return Curve(
        title="Stability, standard deviation",
        users=users,
        unit="times the spread that halves",
        points=tuple((x, stability_score(x, k=1.0, gamma=gamma)) for x in places),
        edges=None,
    )


def _panel(curve: Curve, left: int, top: int) -> Iterator[str]:
    end = curve.points[-1][0]
    begin, floor, ceiling = left + _LEFT, top + _HEIGHT - _BOTTOM, top + _TOP

    def at(x: float, score: float) -> tuple[float, float]:
        wide = _WIDTH - _LEFT - _RIGHT
        return round(begin + wide * x / end, 1), round(floor - (floor - ceiling) * score, 1)

    yield f"<g><title>{escape(', '.join(curve.users))}</title>"
    for line, text in enumerate(_heading(curve)):
        colour = _INK if line == 0 else _SOFT
        yield f'<text x="{left + 8}" y="{top + 18 + 14 * line}" fill="{colour}">{escape(text)}</text>'
    if curve.edges is not None:
        (low, _), (high, _) = (at(edge, 0.0) for edge in curve.edges)
        yield (
            f'<rect x="{low}" y="{ceiling}" width="{round(high - low, 1)}" height="{floor - ceiling}" fill="{_SWEET}"/>'
        )
    for score in (0.0, 0.5, 1.0):
        y = at(0.0, score)[1]
        yield f'<line x1="{begin}" x2="{at(end, 0.0)[0]}" y1="{y}" y2="{y}" stroke="{_GRID}"/>'
        yield f'<text x="{begin - 6}" y="{y + 4}" text-anchor="end">{score:g}</text>'
    for x in _ticks(curve):
        yield f'<text x="{at(x, 0.0)[0]}" y="{floor + 15}" text-anchor="middle">{x:.3g}</text>'
    yield f'<text x="{at(end, 0.0)[0]}" y="{floor + 30}" text-anchor="end" fill="{_SOFT}">{escape(curve.unit)}</text>'
    line_points = " ".join(f"{x},{y}" for x, y in (at(*point) for point in curve.points))
    yield f'<polyline points="{line_points}" fill="none" stroke="{_LINE}" stroke-width="2"/></g>'


def _heading(curve: Curve) -> tuple[str, str]:
    more = f" and {len(curve.users) - 1} more" if len(curve.users) > 1 else ""
    return curve.title, curve.users[0] + more


def _ticks(curve: Curve) -> tuple[float, ...]:
    if curve.edges is None:
        return (0.0, 1.0, 2.0, 3.0, 4.0)
    low, high = curve.edges
    return (low, (low + high) / 2.0, high, curve.points[-1][0])
