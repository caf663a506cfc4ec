# SPDX-License-Identifier: GPL-2.0-only
"""The report's pictures, as SVG without any text: they stretch to the page's width, and what they say stands in HTML.

Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor, log10

from asa.report.figures import Bin, Event, Timeline
from asa.report.markup import Markup, element

_HEIGHT = 100.0
_LEAST_US, _MOST_US = 1.0, 1e8
CURVES: Mapping[str, Callable[[Bin], float | None]] = {
    "wakeup p99": lambda bin_: bin_.wakeup_p99_us,
    "run queue p99": lambda bin_: bin_.run_queue_p99_us,
    "timer late p99": lambda bin_: bin_.timer_late_p99_us,
}


def shares(
    timeline: Timeline, of: Callable[[Bin], Mapping[str, float]], colours: Mapping[str, str], says: str
) -> Markup:
    """Each bin a column, cut by the time of its names; what the agent did not see stays empty."""
    paths: dict[str, list[str]] = {name: [] for name in colours}
    order = {name: place for place, name in enumerate(colours)}
    runs: list[tuple[int, int, Mapping[str, float]]] = []
    for at, bin_ in enumerate(timeline.bins):
        values = of(bin_)
        if runs and runs[-1][2] == values:  # an hour of one class is one rectangle
            runs[-1] = (runs[-1][0], at + 1, values)
        else:
            runs.append((at, at + 1, values))
    for begin, end, values in runs:
        top = _HEIGHT
        for name in sorted(values, key=lambda name: order.get(name, len(order))):
            height = min(top, _HEIGHT * values[name] / timeline.bin_s)
            top -= height
            paths.setdefault(name, []).append(f"M{begin} {_short(top)}h{end - begin}v{_short(height)}h{begin - end}z")
    drawn = [
        element("path", d="".join(parts), style=f"fill:{colours.get(name, 'var(--none)')}")
        for name, parts in paths.items()
        if parts
    ]
    return _svg(len(timeline.bins), _HEIGHT, "strip", says, drawn)


def marks(events: Sequence[tuple[Event, str]], length_s: float, says: str) -> Markup:
    """A line for each event, with words that show when it is pointed at."""
    drawn = [
        element(
            "g",
            element("title", words),
            element("line", x1=_short(x), x2=_short(x), y1=0, y2=_HEIGHT, class_=f"mark{_tone(event)}"),
        )
        for event, words in events
        for x in (place(event, length_s) * 10,)
    ]
    return _svg(1000, _HEIGHT, "marks", says, drawn)


def place(event: Event, length_s: float) -> float:
    """Where in the timeline, 0 to 100."""
    return min(100.0, max(0.0, 100.0 * event.offset_s / length_s)) if length_s else 0.0


def curves(timeline: Timeline, says: str) -> tuple[Markup, float, float] | None:
    """Latencies through time on a logarithmic scale, with its ends in us; None where nothing was measured."""
    found = {name: [read(bin_) for bin_ in timeline.bins] for name, read in CURVES.items()}
    known = [value for values in found.values() for value in values if value]
    if not known:
        return None
    low, high = decades(known)
    drawn = [
        element("line", x1=0, x2=len(timeline.bins), y1=_short(y), y2=_short(y), class_="grid")
        for exponent in range(round(log10(low)) + 1, round(log10(high)))
        for y in (_HEIGHT * (1.0 - scaled(10.0**exponent, low, high)),)
    ]
    for number, values in enumerate(found.values()):
        line = _line(values, low, high)
        if line:
            drawn.append(element("path", d=line, class_="stroke", style=f"stroke:var(--l{number})"))
    return _svg(len(timeline.bins), _HEIGHT, "curve", says, drawn), low, high


def bar(share: float, colour: str) -> Markup:
    """A bar of this share of the width."""
    width = _short(100.0 * min(1.0, max(0.0, share)))
    return _svg(100, 10, "bar", "", [element("rect", width=width, height=10, style=f"fill:{colour}")])


def change(before_us: float, after_us: float, low: float, high: float, tone: str) -> Markup:
    """From a short line (before) to a tall one (after), on a logarithmic scale."""
    x1, x2 = (_short(1000.0 * scaled(value, low, high)) for value in (before_us, after_us))
    colour = f"stroke:var(--{tone})"
    drawn = [
        element("line", x1=x1, x2=x2, y1=50, y2=50, class_="stroke", style=colour),
        element("line", x1=x1, x2=x1, y1=35, y2=65, class_="stroke", style=colour),
        element("line", x1=x2, x2=x2, y1=5, y2=95, class_="stroke", style=f"{colour};stroke-width:4"),
    ]
    return _svg(1000, _HEIGHT, "cell", "", drawn)


def decades(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten that hold all values, at least one apart."""
    low = floor(log10(min(max(min(values), _LEAST_US), _MOST_US)))
    high = ceil(log10(min(max(*values, _LEAST_US), _MOST_US)))
    return 10.0**low, 10.0 ** max(high, low + 1)


def scaled(value: float, low: float, high: float) -> float:
    """Place of a value on a logarithmic scale, 0 to 1."""
    return min(1.0, max(0.0, log10(max(value, low) / low) / log10(high / low)))


def _line(values: Sequence[float | None], low: float, high: float) -> str:
    # through the middles of bins; an unknown one breaks it, and one alone is drawn as wide as its bin
    parts, pen = [], "M"
    for at, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = _short(_HEIGHT * (1.0 - scaled(value, low, high)))
        alone = pen == "M" and (at + 1 == len(values) or values[at + 1] is None)
        parts.append(f"M{at} {y}h1" if alone else f"{pen}{at + 0.5} {y}")
        pen = "L"
    return "".join(parts)


def _tone(event: Event) -> str:
    return "" if event.outcome in {"confirmed", "shadowed"} and not event.taken_back else " bad"


def _svg(width: float, height: float, name: str, says: str, drawn: Sequence[Markup]) -> Markup:
    words = {"role": "img", "aria_label": says} if says else {"aria_hidden": "true"}
    box = f"0 0 {_short(max(width, 1))} {_short(height)}"
    return element("svg", *drawn, viewBox=box, preserveAspectRatio="none", class_=name, **words)


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
