# SPDX-License-Identifier: GPL-2.0-only
"""What the monitor's panels show, as lines of styled runs for a width and a height. Pure but for the time zone.

Colours tell classes and schedulers apart; they are middle tones that show on dark and on light alike, and each stands
beside its name somewhere. Everything else has the terminal's own colours.
"""

import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from asa.monitor.feed import History, Point
from asa.status import Place, Status, Switched, Trying

Run: TypeAlias = tuple[str, str]  # text and its style
Line: TypeAlias = tuple[Run, ...]

_COLOURS = ("#2f86c9", "#e08e00", "#0a9f75", "#cf6fa3", "#8f74c9", "#d5602a", "#38a9c2", "#93932a", "#a07850")
_CURVE = _COLOURS[0]
_GREY = "#8a8a8e"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_LABEL = 10
_NAME = 15
_VALUE = 9
_TOP = 10  # what the top of a curve stands for
_MODES = {"switching": "#0a9f75", "hold": "#e08e00"}
_FAILED = ("refused", "failed", "lost")
STRIPS = ("votes", "class", "scheduler")
LATENCIES = {  # signal -> its name, and the value that a full bar stands for at least
    "run_queue_p99_us": ("run queue p99", 1000.0),
    "wakeup_p99_us": ("wakeup p99", 1000.0),
    "timer_late_us": ("timer late p99", 1000.0),
    "cpu_pressure": ("CPU pressure", 0.25),
}


def head(found: Status, late_s: float | None, now_ns: int, width: int) -> Line:
    """The agent in one line."""
    since = f" · pid {found.pid} · up {duration((now_ns - found.started_ns) / 1e9)}"
    reason = f": {found.mode_reason}" if found.mode_reason else ""
    late = "" if late_s is None else f" · last heard of {duration(late_s)} ago"
    clock = time.strftime("%H:%M:%S", time.localtime(found.updated_ns // 10**9))
    room = width - len(f" ASA {found.mode}{since}{late} {clock} ")
    reason = cut(reason, max(0, room))
    gap = " " * max(1, room + 1 - len(reason))
    mode = f"bold {_MODES.get(found.mode, '')}".strip()
    return (
        (" ASA ", "bold"),
        (found.mode, mode),
        (reason, ""),
        (since, "dim"),
        (late, "bold #d5602a"),
        (gap, ""),
        (f"{clock} ", "dim"),
    )


def workload(found: Status, width: int, height: int) -> list[Line]:
    """All classes with their probabilities as bars; the class in force is marked."""
    if not found.probabilities:
        return [(("nothing to judge by yet", "dim"),)]
    colours = class_colours(found.probabilities)
    names = max(len(name) for name in found.probabilities)
    shown = sorted(found.probabilities, key=found.probabilities.__getitem__, reverse=True)[:height]
    room = max(1, width - names - 7)
    lines: list[Line] = []
    for name in sorted(found.probabilities):
        if name not in shown:
            continue
        share, mine = found.probabilities[name], name == found.workload
        lines.append(
            (
                ("▸" if mine else " ", colours[name]),
                (f"{name:<{names}} ", "bold" if mine else ""),
                (bar(share, room), colours[name]),
                (f"{share:>5.0%}", "bold" if mine else "dim"),
            )
        )
    return lines


def in_force(found: Status, now_ns: int, width: int, height: int, *, switches: bool) -> list[Line]:
    """The scheduler, why, and what stands by; the newest `switches` in the lines that are left."""
    as_wanted = found.scheduler is not None and found.wanted == found.scheduler
    if found.scheduler is None:
        lines: list[Line] = [(("no sched_ext in this kernel", "bold"),)]
    else:
        since = f" for {duration((now_ns - found.scheduler_since_ns) / 1e9)}"
        note = ", by hand" if found.chosen == found.scheduler else ", as wanted" if as_wanted else ""
        fits = len(found.scheduler + since + note) <= width
        lines = [((found.scheduler, "bold"), (since, ""), (note if fits else "", "dim"))]
    if not as_wanted:
        lines.append((("wanted ", "dim"), (found.wanted or "none", "bold")))
    lines += [((text, ""),) for text in folded(found.sentence, width, 2)]
    lines += [((text, "dim"),) for text in folded(_standbys(found), width, 2)]
    if found.trial is not None and (found.trial.under_way or found.trial.question):
        lines.append((("trial ", "dim"), (cut(_trial(found.trial), width - 6), "")))
    if found.set_aside:
        lines.append((("set aside ", "#d5602a"), (cut(", ".join(found.set_aside), width - 10), "")))
    if switches and found.lately:
        lines += latest(found.lately, width, max(1, height - len(lines)))
    return lines[:height]


def strips(found: Status | None, history: History, width: int) -> list[Line]:
    """Tick by tick, the newest at the right: the likeliest class (as high as it is likely), the one in force, and the
    scheduler."""
    points = list(history.points)[-max(1, width - _LABEL) :]
    blank = " " * (width - _LABEL - len(points))
    colours = class_colours(found.probabilities if found is not None else ())
    kept = scheduler_colours(history)

    def strip(label: str, cells: Iterable[Run]) -> Line:
        return ((f"{label:<{_LABEL}}", "dim"), (blank, ""), *joined(cells))

    def solid(name: str | None, among: dict[str, str]) -> Run:
        return (" ", "") if name is None else ("▄", among.get(name, _GREY))

    cells = (
        (_vote(point, colours) for point in points),
        (solid(point.workload, colours) for point in points),
        (solid(point.scheduler, kept) for point in points),
    )
    return [strip(label, row) for label, row in zip(STRIPS, cells, strict=True)]


def legend(history: History, width: int) -> Line:
    """The schedulers of the strip by their colours, as many as fit, the newest in force first."""
    colours = scheduler_colours(history)
    points = list(history.points)[-max(1, width - _LABEL) :]
    used = dict.fromkeys(point.scheduler for point in reversed(points) if point.scheduler is not None)
    runs: list[Run] = []
    for name in used:
        if sum(len(text) for text, _ in runs) + len(name) + 4 > width:
            break
        runs += [("■ ", colours[name]), (f"{name}  ", "dim")]
    return tuple(runs)


def latencies(history: History, width: int, height: int) -> list[Line]:
    """How long tasks wait, tick by tick: the newest value, the curve, and what its top stands for."""
    room, rows = max(1, width - _NAME - _VALUE - 2 - _TOP), max(1, height // len(LATENCIES))
    points = list(history.points)[-room:]
    lines: list[Line] = []
    for key, (name, least) in LATENCIES.items():
        values = [point.signals.get(key) for point in points]
        known = [value for value in values if value is not None]
        write = percent if key == "cpu_pressure" else latency
        if not known:
            lines.append(((f"{name:<{_NAME}}", ""), ("not measured", "dim")))
            lines += [()] * (rows - 1)
            continue
        top = max(*known, least)
        now = write(values[-1]) if values[-1] is not None else "-"
        left: Line = ((f"{name:<{_NAME}}", ""), (f"{now:>{_VALUE}}  ", "bold"))
        for row, curve in enumerate(spark(values, top, rows)):
            start = left if row == 0 else ((" " * (_NAME + _VALUE + 2), ""),)
            end = f"{'≤ ' + write(top):>{_TOP}}" if row == 0 else ""
            lines.append((*start, (" " * (room - len(values)), ""), (curve, _CURVE), (end, "dim")))
    return lines


def latest(lately: Sequence[Switched], width: int, most: int) -> list[Line]:
    """Switches, the newest first, one line each."""
    if not lately:
        return [(("no switches yet", "dim"),)]
    lines: list[Line] = []
    for one in list(reversed(lately))[:most]:
        at = time.strftime("%H:%M:%S", time.localtime(one.at_ns // 10**9))
        if one.outcome in _FAILED or one.outcome == "foreign":
            lines.append(((f"{at} ", "dim"), (f"{one.outcome} ", "#d5602a"), (cut(one.new, width - 18), "")))
            continue
        took_ns = one.elapsed_ns if one.gap_ns is None else one.gap_ns
        took, gap = f" {latency(took_ns / 1e3)}", "" if one.gap_ns is None else " gap"
        old, new = one.old, one.new
        if len(f"{at} {old} → {new}{took}{gap}") > width:
            old, new, gap = old.removeprefix("scx_"), new.removeprefix("scx_"), ""
        lines.append(((f"{at} ", "dim"), (cut(f"{old} → {new}", width - 9 - len(took)), ""), (took + gap, "dim")))
    return lines


def ranking(found: Status, width: int, height: int) -> list[Line]:
    """The table's order for the class in force, and who is out of it."""
    if not found.ranking:
        return [(("waits for a class", "dim"),)]
    loaded = {one.scheduler for one in found.standbys if one.ready}
    return [_place(number, place, found, loaded, width) for number, place in enumerate(found.ranking[:height], 1)]


def cost(found: Status, history: History, width: int) -> Line:
    """What the agent itself takes."""
    share = history.cpu_share()
    parts = []
    if share is not None:
        parts.append(f"{share:.2%} of a core")
    if found.resident_bytes is not None:
        parts.append(f"{found.resident_bytes / 1e6:.0f} MB")
    parts.append(f"{found.overruns} of {found.ticks} ticks late")
    parts.append(f"{found.switches} switches, {found.failures} failed")
    if found.missing_sources:
        parts.append(f"without {', '.join(sorted(found.missing_sources))}")
    return ((" agent ", "dim"), (cut(" · ".join(parts), width - 8), ""))


def bar(share: float, width: int) -> str:
    """A bar of `share` of `width`, in eighths of a column."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    whole, rest = divmod(eighths, 8)
    return f"{'█' * whole}{_EIGHTHS[rest].strip()}".ljust(width)


def spark(values: Sequence[float | None], top: float, rows: int = 1) -> list[str]:
    """A curve in so many rows, the highest first: a column for each value, blank where it is unknown.

    `top` is the height of a full column; what is known is at least one eighth of a row high.
    """
    most = 8 * rows - 1
    heights = [None if value is None else min(most, max(0, int(value / top * (most + 1)))) for value in values]

    def cell(height: int | None, floor: int) -> str:
        return " " if height is None or height < floor else _HEIGHTS[min(7, height - floor)]

    return ["".join(cell(height, 8 * row) for height in heights) for row in reversed(range(rows))]


def duration(seconds: float) -> str:
    """In the largest unit that leaves two figures."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def latency(value_us: float) -> str:
    """Three figures, and not below a tenth of a microsecond."""
    if value_us < 999.5:
        return f"{round(value_us, 1):.3g} µs"
    return f"{value_us / 1e3:.3g} ms" if value_us < 999_500 else f"{value_us / 1e6:.3g} s"


def percent(share: float) -> str:
    """Of 1."""
    return f"{share:.0%}"


def cut(text: str, width: int) -> str:
    """As much of it as fits."""
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def folded(text: str, width: int, most: int) -> list[str]:
    """In lines, `most` of them."""
    return textwrap.wrap(text, max(8, width), max_lines=most, placeholder=" …")


def joined(cells: Iterable[Run]) -> list[Run]:
    """Neighbours of one style in one run: a strip is then a few runs, not one for each cell."""
    runs: list[Run] = []
    for text, style in cells:
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + text, style)
        else:
            runs.append((text, style))
    return runs


def class_colours(names: Iterable[str]) -> dict[str, str]:
    """Class -> colour; `idle` is grey."""
    busy = sorted(name for name in names if name != "idle")
    return {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(busy)} | {"idle": _GREY}


def scheduler_colours(history: History) -> dict[str, str]:
    """Scheduler -> colour, the same one as long as the monitor runs; `eevdf` is grey."""
    others = [name for name in history.schedulers if name != "eevdf"]
    return {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(others)} | {"eevdf": _GREY}


def _vote(point: Point, colours: dict[str, str]) -> Run:
    if point.top is None:
        return " ", ""
    return _HEIGHTS[min(7, int(point.share * 8))], colours.get(point.top, _GREY)


def _trial(trial: Trying) -> str:
    what = f"{trial.candidate} against {trial.in_force}"
    return f"{what}: pair {trial.pairs + 1}" if trial.under_way else f"{what}? `asa trial yes` or `no`"


def _standbys(found: Status) -> str:
    if not found.standbys:
        return ""
    shown = (
        f"{one.scheduler} {f'{one.memory_bytes / 1e6:.1f} MB' if one.ready else 'loads'}" for one in found.standbys
    )
    return f"standby {', '.join(shown)}"


def _place(number: int, place: Place, found: Status, loaded: set[str], width: int) -> Line:
    out = f"out: {place.out}" if place.out else ""
    note = "in force" if place.scheduler == found.scheduler else "stands by" if place.scheduler in loaded else ""
    text = out or "; ".join(part for part in (note, place.learned, place.why) if part)
    name = f"{number}. {place.scheduler}"
    style = "bold" if note == "in force" else "dim" if out else ""
    return ((f"{name}  ", style), (cut(text, width - len(name) - 2), "#d5602a" if out else "dim"))
