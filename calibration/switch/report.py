# SPDX-License-Identifier: GPL-2.0-only
"""What a run of the switch benchmark found, for people (Markdown) and programs (one JSON object a figure).

Takes a `Result`, makes text. Every number comes from there; it measures nothing.
"""

import statistics
import time
from collections.abc import Iterable, Iterator, Sequence

from calibration import goals
from calibration.goals import Host, described, doubtful, row, rule
from calibration.switch.benchmark import Result
from calibration.switch.figures import ClockedFigure, SwitchFigure, percentile, timed
from calibration.switch.samples import Found, Kind, Swap, Switch
from scenarios.lab.emulator import Clock

_KINDS = {Kind.PLAIN: "stop-then-start", Kind.GATED: "gated", Kind.STANDBY: "from a standby"}


def as_json(figure: ClockedFigure) -> str:
    """One line. Under the wall clock the name has `_wall` at its end; goal and ok are null where there is no goal."""
    name = figure.name if figure.clock is Clock.PARALLEL else f"{figure.name}_{figure.clock}"
    return goals.as_json(figure, "at_least", name=name, clock=figure.clock)


def cells(figure: ClockedFigure) -> tuple[str, ...]:
    """A figure as name, clock, value, goal, met, and the words beside it."""
    name, *others = goals.cells(figure, ".3f")
    return name, figure.clock, *others


def warnings(result: Result) -> list[str]:
    """What did not go as meant."""
    found = [f"{clock}: {trouble}" for clock, one in result.found.items() for trouble in one.troubles]
    for clock, one in result.found.items():
        for kind, title in _KINDS.items():
            made = len(timed(one, kind))
            if made < result.switches:
                found.append(f"{clock}: {made} of {result.switches} switches ({title})")
    return found


def document(result: Result, machine: Host, *, image: str) -> str:
    """The whole of docs/switching-figures.md. `image` is the picture's path beside it."""
    made = result.figures()
    lines = [
        "# What a switch takes",
        "",
        "Written by `make bench-switch` (`asa lab bench switch`) itself; do not edit.",
        "",
        *_when(result, machine),
        *("", "## Figures", "", row("figure", "clock", "value", "goal", "met", ""), rule(6)),
        *(row(*cells(figure)) for figure in made),
        "",
        *described(SwitchFigure),
        *doubtful(warnings(result)),
        *("", f"![Switches of each kind, and their gaps]({image})"),
    ]
    for clock, found in result.found.items():
        lines += ["", f"## Under the {clock} clock", *_pairs(found), *_steps(found), *_floor(found)]
        lines += [*_waiting(found), *_witnessed(found), *_late(found)]
    lines += ["", "## How", "", *_HOW, "", "```", *(as_json(figure) for figure in made), "```"]
    return "\n".join([*lines, ""])


_HOW = (
    "- Guests of 2 virtual CPUs, one for each clock (docs/lab.md): `parallel` counts instructions, so that the host's",
    "  load drops out of its times; `wall` is the host's time. Within a guest the kinds of switch take turns, round",
    "  by round, over the same ring of schedulers; a round's first scheduler comes from the kernel's own and is not",
    "  counted.",
    "- The agent's own switchers do the work, from a real-time process as in production, in the wait of the agent's",
    "  loop. Nothing else of the agent runs beside, no collector and no model. A switch is timed from just before",
    "  the order until the switcher has confirmed it by what sysfs says. Orders come when the work that the last",
    "  switch had left is done.",
    "- The gap of a gated switch is the switcher's own figure, from just before it takes the old scheduler out, so",
    "  that the detach is in it as a whole; that of stop-then-start is counted from the first look that finds the",
    "  old one gone, one look each 20 ms, and so is told up to that much too short. Beside one switch of each round",
    "  a program reads sysfs each millisecond: the table of witnessed switches has both.",
    "- The floor is `calibration/switch/switch_floor.c`: `BPF_LINK_DETACH`, `BPF_LINK_CREATE`, one read of sysfs, as",
    "  urgent as the agent, with expedited grace periods. The schedulers are loaded anew each round and wait behind",
    "  the gate; it uses their maps by id. With two of scx_simple that is the floor; with the rota's schedulers it",
    "  is what the kernel itself takes for the same pair: no way of switching between them can be faster.",
    "- Lateness is that of `calibration/switch/switch_probe.c`, an ordinary task. Its windows go from order to",
    "  confirmation, so that a longer way has more wakeups to be late with.",
    "- A 99th percentile of some twenty values is the largest.",
)


def _when(result: Result, machine: Host) -> Iterator[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.began_s))
    yield f"- when: {when}, for {result.took_s / 60.0:.1f} minutes"
    yield f"- machine: {machine.cpu}, {machine.cpus} CPUs, Linux {machine.kernel}; {result.emulator}"
    for clock, found in result.found.items():
        tick = f"{result.tick_hz} Hz, " if result.tick_hz is not None else ""
        yield f"- guest ({clock}): {found.cpus} CPUs, {tick}Linux {found.kernel}; {', '.join(found.rota)}"
    yield f"- asa {machine.version}, `{machine.command}`"


def _pairs(found: Found) -> Iterator[str]:
    yield from ("", "Order to confirmation, and in brackets the gap, ms; medians:", "")
    yield from (row("from", "to", *_KINDS.values(), "the kernel alone"), rule(6))
    pairs = [(old, found.rota[(place + 1) % len(found.rota)]) for place, old in enumerate(found.rota)]
    for old, new in pairs:
        cells_of = [
            _medians([one for one in timed(found, kind) if (one.old, one.new) == (old, new)]) for kind in _KINDS
        ]
        kernel = [swap.confirmed_ns / 1e6 for swap in found.kernels if (swap.old, swap.new) == (old, new)]
        yield row(old, new, *cells_of, f"{statistics.median(kernel):.2f}" if kernel else "")


def _medians(switches: Sequence[Switch]) -> str:
    if not switches:
        return ""
    gaps = [one.gap_ns / 1e6 for one in switches if one.gap_ns is not None]
    gap = f" ({statistics.median(gaps):.2f})" if gaps else ""
    return f"{statistics.median(one.took_ns / 1e6 for one in switches):.2f}{gap}"


def _steps(found: Found) -> Iterator[str]:
    switches = timed(found, Kind.STANDBY)
    names = list(dict.fromkeys(step.name for switch in switches for step in switch.steps))
    if not names:
        return
    yield from ("", "Steps of a switch to a standby, ms since the order:", "")
    yield from (row("step", "median", "largest"), rule(3))
    for name in names:
        yield row(name, *_two(step.at_ns for switch in switches for step in switch.steps if step.name == name))
    yield row("confirmed", *_two(switch.took_ns for switch in switches))
    yield row("the loop has the event", *_two(switch.told_ns for switch in switches))


def _floor(found: Found) -> Iterator[str]:
    yield from ("", "The kernel alone, ms:", "")
    yield from (row("", "detach", "attach", "in all", "99th percentile", "exchanges"), rule(6))
    for title, swaps in (("scx_simple with scx_simple", found.floor), ("the rota's pairs", found.kernels)):
        if swaps:
            yield row(title, *_swap_medians(swaps), len(swaps))


def _swap_medians(swaps: Sequence[Swap]) -> Iterator[str]:
    yield f"{statistics.median(swap.detached_ns / 1e6 for swap in swaps):.2f}"
    yield f"{statistics.median((swap.attached_ns - swap.detached_ns) / 1e6 for swap in swaps):.2f}"
    yield f"{statistics.median(swap.confirmed_ns / 1e6 for swap in swaps):.2f}"
    yield f"{percentile([swap.confirmed_ns / 1e6 for swap in swaps], 0.99):.2f}"


def _waiting(found: Found) -> Iterator[str]:
    yield from ("", "Schedulers that wait:", "")
    yield from (
        row("", "load, s", "resident, MB", "proportional share, MB", "processor time, ms", "over, s"),
        rule(6),
    )
    for one in found.parked:
        yield row(
            one.scheduler,
            f"{one.load_ns / 1e9:.2f}",
            f"{one.rss_bytes / 1e6:.1f}",
            f"{one.pss_bytes / 1e6:.1f}",
            f"{one.cpu_ns / 1e6:.3f}",
            f"{one.idle_ns / 1e9:.1f}",
        )


def _witnessed(found: Found) -> Iterator[str]:
    switches = [switch for switch in found.switches if switch.witnessed]
    if not switches:
        return
    yield from ("", "Witnessed switches, the probes beside them:", "")
    yield from (row("kind", "from", "to", "in all, ms", "gap as told, ms", "gap as seen, ms"), rule(6))
    for one in switches:
        told, seen = ("" if gap is None else f"{gap / 1e6:.2f}" for gap in (one.gap_ns, one.seen_gap_ns))
        yield row(one.kind, one.old, one.new, f"{one.took_ns / 1e6:.2f}", told, seen)


def _late(found: Found) -> Iterator[str]:
    yield from ("", "Latest wakeup of the 1 ms probe, ms:", "")
    yield from (row("beside", "window, ms", "wakeups", "latest"), rule(4))
    for one in found.lateness:
        yield row(one.kind, f"{one.window_ns / 1e6:.0f}", one.wakeups, f"{one.worst_ns / 1e6:.2f}")


def _two(values_ns: Iterable[int]) -> tuple[str, str]:
    values_ms = [value / 1e6 for value in values_ns]
    return f"{statistics.median(values_ms):.2f}", f"{max(values_ms):.2f}"
