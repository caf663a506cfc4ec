# SPDX-License-Identifier: GPL-2.0-only
"""What a sweep of the voting found, for people: the table that is printed, and the page with its picture.

Takes a sweep, makes text. It measures nothing.
"""

import time
from collections.abc import Iterator, Sequence

from calibration.voting.filters import Method
from calibration.voting.score import HOLD_S
from calibration.voting.sweep import MOST_ERROR_PCT, MOST_MEDIAN_S, Chosen, Sweep

HEAD = ("method", "setting", "median s", "P95 s", "missed", "error %", "lost %", "flaps/min", "us")
_SHIPPED = "as shipped"


def rows(found: Sweep) -> Iterator[tuple[str, ...]]:
    """Each method at its best, and what is shipped, in the columns of `HEAD`."""
    yield from (_row(method, chosen) for method, chosen in found.chosen.items())
    yield _row(_SHIPPED, found.shipped)


def words(found: Sweep) -> list[str]:
    """What is chosen on what, how each method compares with the paper's, and which becomes the default; lines."""
    lines = [
        f"set on {found.validation} sessions, reported on {found.reported} others, {found.reported_changes} changes"
    ]
    for method, chosen in (*found.chosen.items(), (_SHIPPED, found.shipped)):
        if chosen.against_paper_pct is not None:
            more, low, high = chosen.against_paper_pct
            lines.append(
                f"{method}: {more:+.2f} % of the ticks lost ({low:+.2f} to {high:+.2f}) against the paper's voting"
            )
    clear = f"clearly better than {Method.TIME_WEIGHTED}" if found.default is found.best else "not clearly better"
    told = "the paper's own" if found.best is Method.TIME_WEIGHTED else clear
    return [*lines, f"best by the rule: {found.best}, {told}; the default is {found.default}"]


def page(found: Sweep, sources: Sequence[str], picture: str, *, allowed_s: float, command: str) -> str:
    """Markdown. `sources`: what the sessions are; `allowed_s`: as of the sweep; `picture`: its file's name."""
    shipped = found.shipped.reported
    reached = (
        f"As shipped: a median of {_shown(shipped.median_s)} s at an error rate of {_shown(shipped.error_pct)} %. "
        f"Goals, the paper's best points (Figure 7): {MOST_MEDIAN_S:g} s and {MOST_ERROR_PCT:g} %."
    )
    lines = [
        "# Voting: how soon it follows a change, and how often it is wrong",
        "",
        f"Written by `{command}` itself; do not edit.",
        "",
        "Each method is set on half of the sessions and reported on the others. *median*, *P95*: from a true change",
        f"until the right class stands, and goes on to for {HOLD_S:g} s; *missed*: changes that were never followed;",
        f"*error*: ticks on a wrong class, of those later than {allowed_s:g} s after a change; *lost*: all ticks on a",
        "wrong class, and what flaps cost; *us*: per tick.",
        "",
        f"- when: {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}",
        *(f"- {source}" for source in sources),
        "",
        reached,
        "",
        f"![response delay and error rate]({picture})",
        "",
        _line(HEAD),
        "| --- | --- |" + " ---: |" * (len(HEAD) - 2),
        *(_line(row) for row in rows(found)),
        "",
        *(f"- {line}" for line in words(found)),
        "",
    ]
    return "\n".join(lines)


def _row(method: str, chosen: Chosen) -> tuple[str, ...]:
    one = chosen.reported
    setting = " ".join(f"{name}={value:g}" for name, value in chosen.point.parameters.items())
    numbers = (one.median_s, one.p95_s, one.missed, one.error_pct, one.lost_pct, one.flaps_per_min)
    return str(method), setting, *(_shown(value) for value in numbers), f"{chosen.tick_us:.0f}"


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
