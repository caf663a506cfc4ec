# SPDX-License-Identifier: GPL-2.0-only
"""What each key and each number of `asa monitor` is: one table, for its help and for docs/monitor.md. Pure."""

import textwrap
from dataclasses import dataclass

COLUMNS = 72
"""Of a terminal of 80, without a frame, its margins and a bar to scroll by."""


@dataclass(frozen=True, slots=True)
class Meant:
    """A key, or what stands on the screen, and what it means."""

    shown: str
    words: str


KEYS = (
    Meant("q", "quit; the agent goes on"),
    Meant("h", "hold: nothing is switched for 30 minutes"),
    Meant("r", "resume: end the hold, give schedulers that failed another chance"),
    Meant("t", "teach: say what runs now; its next two minutes become a lesson"),
    Meant("?", "this help"),
)

NUMBERS = (
    Meant("up", "since the agent was started"),
    Meant("workload", "the class in force and its share of the votes; below, of this second"),
    Meant("▸ and bars", "the class in force; how likely each class is in this second"),
    Meant("for, as wanted", "since when it is in force; the agent wants this one"),
    Meant("standby, MB", "schedulers that are loaded beside it, and their memory"),
    Meant("trial, pair", "a scheduler that is tried against the one in force; turns of both"),
    Meant("votes", "the likeliest class of each second, as high as it is likely"),
    Meant("class", "the class in force: what won over the last seconds"),
    Meant("scheduler", "what the kernel ran"),
    Meant("run queue p99", "99 of 100 tasks that can run waited less for a processor"),
    Meant("wakeup p99", "the same from a task's wakeup until it runs"),
    Meant("timer late p99", "how late an ordinary task's timer fires, 99 of 100 sooner"),
    Meant("CPU pressure", "share of the time in which some task waited for a processor"),
    Meant("≤ at the right", "what the top of the curve stands for"),
    Meant("ranking", "the table's order for this class, what was measured, who is out"),
    Meant("gap, time", "of a switch: how long neither scheduler ran, else the whole way"),
    Meant("of a core, MB", "processor time of the agent in the last minute; its memory"),
    Meant("ticks late", "looks at the machine that began after they were due"),
    Meant("without", "sources that this machine does not have; `asa doctor` says why"),
)

_MORE = "`asa explain` says more of the present choice, `asa report` of the past."


def help_text() -> str:
    """For the screen, COLUMNS wide at most."""
    width = max(len(one.shown) for one in NUMBERS)
    keys = (f"{one.shown}  {one.words}" for one in KEYS)
    told = (
        textwrap.fill(f"{one.shown:<{width}}  {one.words}", COLUMNS, subsequent_indent=" " * (width + 2))
        for one in NUMBERS
    )
    return "\n".join((*keys, "", *told, "", textwrap.fill(_MORE, COLUMNS)))


def page(picture: str) -> str:
    """docs/monitor.md: the same in Markdown below a picture of the screen."""
    lines = [
        "# The monitor",
        "",
        "`asa monitor` shows the running agent in a terminal. `?` shows this list there.",
        "",
        f"![asa monitor beside a build, where the kernel has no sched_ext]({picture})",
        "",
        "| key | what it does |",
        "|---|---|",
        *(f"| `{one.shown}` | {one.words} |" for one in KEYS),
        "",
        "| on the screen | what it is |",
        "|---|---|",
        *(f"| {one.shown} | {one.words} |" for one in NUMBERS),
        "",
        f"{_MORE} `make screenshots` makes the picture and this page.",
    ]
    return "\n".join(lines) + "\n"
