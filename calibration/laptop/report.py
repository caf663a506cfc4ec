# SPDX-License-Identifier: GPL-2.0-only
"""What a run of the laptop benchmark found, for people (Markdown) and programs (one JSON object a figure).

Takes a `Result`, makes text. Every number comes from there; it measures nothing.
"""

import time
from collections.abc import Iterator

from calibration import goals
from calibration.goals import HEAD, Figure, Host, described, markdown
from calibration.laptop.benchmark import Result
from calibration.laptop.figures import LaptopFigure


def as_json(figure: Figure) -> str:
    """One line; goal and ok are null where there is no goal."""
    return goals.as_json(figure, "at_least")


def cells(figure: Figure) -> tuple[str, ...]:
    """A figure as name, value, goal, met, and the words beside it."""
    whole = figure.value is not None and figure.value == int(figure.value)
    return goals.cells(figure, ".0f" if whole else ".4g")


def document(result: Result, machine: Host) -> str:
    """The whole of docs/laptop-figures.md."""
    lines = [
        "# On a laptop: what daemon and helper cost, and keep",
        "",
        "Written by `make bench-laptop` (`asa lab bench laptop`) itself; do not edit.",
        "",
        *_when(result, machine),
        *("", "## Figures", "", *markdown(HEAD, map(cells, result.figures))),
        "",
        *described(LaptopFigure),
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


def _when(result: Result, machine: Host) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    yield f"- when: {when}, for {result.took_s / 60.0:.1f} minutes"
    emulator = f"; {result.emulator}" if result.emulator else ""
    yield f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}{emulator}"
    yield f"- asa {machine.version}, `{machine.command}`"
