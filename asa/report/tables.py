# SPDX-License-Identifier: GPL-2.0-only
"""Tables of the report's page, and the one that sets before against after. Pure."""

from collections.abc import Callable, Sequence

from asa.core.decision import EEVDF, SwitchOutcome
from asa.decide import guard
from asa.report import pictures, words
from asa.report.figures import Event, Latencies, Report, Window
from asa.report.markup import Markup, Value, element, joined

_MOST_ROWS = 100
_FELT = 1.0 + guard.WORSE_BY  # a change by less is none
_LATENCIES: tuple[tuple[str, Callable[[Latencies], float | None]], ...] = (
    ("wakeup p99", lambda found: found.wakeup_p99_us),
    ("run queue p99", lambda found: found.run_queue_p99_us),
    ("timer late p99", lambda found: found.timer_late_p99_us),
)


def section(name: str, title: str, *parts: Markup) -> Markup:
    """A part of the page."""
    return element("section", element("h2", title), *parts, id=name)


def value(number: float | None) -> dict[str, Value]:
    """The attribute that carries an unrounded value; nothing for an unknown one."""
    return {} if number is None else {"data_value": repr(number)}


def time_cell(text: str) -> Markup:
    """A cell for a time, in one line."""
    return element("td", text, class_="t")


def cell(text: Value, number: float | None = None) -> Markup:
    """A cell; with a number it is set to the right."""
    return element("td", text) if number is None else element("td", text, class_="n", **value(number))


def words_cell(text: str) -> Markup:
    """A cell for sentences."""
    return element("td", text, class_="words")


def table(head: Sequence[str], rows: Sequence[Sequence[Markup]], caption: str, *, id_: str = "") -> Markup:
    """A table that scrolls by itself where it is too wide; one line where there is nothing to show."""
    named: dict[str, Value] = {"id": id_} if id_ else {}
    if not rows:
        return element("p", "None.", class_="soft", **named)
    numbers = ['class="n"' in part for part in rows[0]]
    names = [element("th", name, class_="n" if right else "") for name, right in zip(head, numbers, strict=True)]
    body = [element("tr", *row) for row in rows]
    title = element("p", caption, class_="soft") if caption else Markup()
    parts = (element("thead", element("tr", *names)), element("tbody", *body))
    return joined(title, element("div", element("table", *parts, **named), class_="wide"))


def changes(found: Report) -> Markup:
    """Latencies before and after each change, the newest first."""
    events = [event for event in reversed(found.events) if event.before is not None and event.after is not None]
    events = events[:_MOST_ROWS]
    known = [
        one
        for event in events
        for window in (event.before, event.after)
        if window is not None
        for _, read in _LATENCIES
        if (one := read(window.latencies))
    ]
    low, high = pictures.decades(known) if known else (1.0, 10.0)
    rows = [
        (
            time_cell(words.moment(event.at_ns, seconds=True)),
            cell(moved(event)),
            cell(_classes(event)),
            *(_change_cell(event, read, low, high) for _, read in _LATENCIES),
        )
        for event in events
    ]
    scale = (
        f"From a short line (before) to a tall one (after), {words.latency(low)} to {words.latency(high)}, log scale; "
    )
    scale += "coloured where the class stayed the same and it became better or worse by a quarter."
    confirmed = found.outcomes.get("confirmed", 0)
    of = words.counted(confirmed, "switch", "switches")
    shown = f" {words.counted(len(rows), 'change')} with both sides known, of {of}."
    head = ("when", "scheduler", "class", *(name for name, _ in _LATENCIES))
    return section("changes", "Before and after each switch", table(head, rows, scale + shown, id_="before-after"))


def moved(event: Event) -> str:
    """From which scheduler to which; what was lost has gone to the kernel's own."""
    return f"{event.new} → {EEVDF}" if event.outcome == SwitchOutcome.LOST else f"{event.old} → {event.new}"


def _classes(event: Event) -> str:
    names = [window.workload for window in (event.before, event.after) if window is not None]
    return " → ".join(dict.fromkeys(names))


def _change_cell(event: Event, read: Callable[[Latencies], float | None], low: float, high: float) -> Markup:
    before, after = _read(event.before, read), _read(event.after, read)
    if before is None or after is None:
        return cell("-")
    tone = "soft"
    if event.before is not None and event.after is not None and event.before.workload == event.after.workload:
        tone = "good" if before > after * _FELT else "bad" if after > before * _FELT else "soft"
    text = joined(words.latency(before), " → ", element("span", words.latency(after), class_=tone))
    drawn = pictures.change(before, after, low, high, tone)
    return element("td", text, drawn, data_before=repr(before), data_after=repr(after))


def _read(window: Window | None, read: Callable[[Latencies], float | None]) -> float | None:
    return None if window is None else read(window.latencies)
