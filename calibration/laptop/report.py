# SPDX-License-Identifier: GPL-2.0-only
"""What a run of the laptop benchmark found, for people (Markdown) and programs (one JSON object a figure).

Takes a `Result`, makes text. Every number comes from there; it measures nothing.
"""

import json
import time
from collections.abc import Iterator

from calibration.laptop.benchmark import Result
from calibration.laptop.figures import GOALS, Figure, Name
from calibration.overhead.report import Machine


def as_json(figure: Figure) -> str:
    """One line; goal and ok are null where there is no goal."""
    goal = GOALS[figure.name]
    body: dict[str, object] = {
        "name": figure.name,
        "value": None if figure.value is None else round(figure.value, 4),
        "unit": goal.unit,
        "goal": goal.bound,
        "at_least": goal.at_least,
        "ok": figure.ok,
    }
    body |= {key: text for key, text in (("detail", figure.detail), ("reason", figure.reason)) if text}
    return json.dumps(body)


def cells(figure: Figure) -> tuple[str, str, str, str, str]:
    """A figure as name, value, goal, met, and the words beside it."""
    goal = GOALS[figure.name]
    value = "unknown" if figure.value is None else f"{figure.value:.4g} {goal.unit}"
    if figure.value is not None and figure.value == int(figure.value):
        value = f"{figure.value:.0f} {goal.unit}"
    bound = "" if goal.bound is None else f"{'>=' if goal.at_least else '<='} {goal.bound:g} {goal.unit}"
    met = {None: "", True: "yes", False: "no"}[figure.ok]
    return figure.name, value, bound, met, figure.detail or figure.reason


def document(result: Result, machine: Machine) -> str:
    """The whole of docs/laptop-figures.md."""
    lines = [
        "# On a laptop: what daemon and helper cost, and keep",
        "",
        "Written by `make bench-laptop` (`asa lab bench laptop`) itself; do not edit.",
        "",
        *_when(result, machine),
        *("", "## Figures", "", _row("figure", "value", "goal", "met", ""), "|---|---|---|---|---|"),
        *(_row(*cells(figure)) for figure in result.figures),
        "",
        *(_described(name) for name in Name),
        *("", "## How", "", *_HOW, "", "```", *(as_json(figure) for figure in result.figures), "```"),
    ]
    return "\n".join([*lines, ""])


_HOW = (
    "- A box (`scenarios/lab/box`) is a whole machine in namespaces: real systemd, dbus-daemon, polkitd",
    "  and logind.",
    "  `asa install` sets it up, the bus starts the helper, and the daemon runs in a user's session in front of its",
    "  seat. What needs sched_ext is measured in a box inside a guest of the lab (docs/lab.md), whose emulated",
    "  processor is some ten times slower than a laptop's; the rest in a box on this machine.",
    "- `lease_release_s`: a client in the user's session takes the lease, has scx_simple brought up, and is killed;",
    "  sysfs is then read each millisecond until it says `disabled`.",
    "- The fuzzed calls (`scenarios/lab/box/fuzz.py`) are half an ordinary user's and half root's, which polkit lets",
    "  pass. No scheduler but eevdf is named: a switch that root orders is none that a fault has made. Nine of ten are",
    "  made in a box on this machine, which may have no sched_ext, the others in the guest's.",
    "- The three reads are of the same programs at the same time. The descriptor may only read, and the kernel maps no",
    "  memory for such a one; mapped memory would need one that may write, and no user's process may have that. In all",
    "  three most of the time goes into making a sample of the words.",
)


def _when(result: Result, machine: Machine) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    yield f"- when: {when}, for {result.took_s / 60.0:.1f} minutes"
    emulator = f"; {result.emulator}" if result.emulator else ""
    yield f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}{emulator}"
    yield f"- asa {machine.version}, `{machine.command}`"


def _described(name: Name) -> str:
    goal = GOALS[name]
    return f"- `{name}`: {goal.what}.{f' Goal: {goal.why}.' if goal.why else ''}"


def _row(*values: object) -> str:
    return "| " + " | ".join(str(value).replace("|", "\\|") for value in values) + " |"
