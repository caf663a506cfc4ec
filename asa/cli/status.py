# SPDX-License-Identifier: GPL-2.0-only
"""`asa status`: what the running agent sees and has done; without one, what the kernel runs."""

import argparse
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.status import Status

_WAYS = {
    "gated": "by the gate: the next scheduler loads beside the one in force",
    "plain": "stop, then start",
    "shadow": "not at all: schedulers load, and are denied (shadow mode)",
}

_TEXT = """\
Shows the class and its confidence, the scheduler in force, since when and why, the standbys, the schedulers
that are set aside, and the sources that are missing. Without an agent, it shows what the kernel runs.
"""
_MORE = """\
exit status:
  0  an agent is running
  3  none is

examples:
  asa status
      This user's agent, else that of root.
  asa status --json
      Everything that is known, for programs.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "status", help="show the workload, the scheduler and the state of the agent", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the status. Exit code 0 with an agent running, 3 without (as systemctl status has it)."""
    from asa import paths, status, wire
    from asa.act.kernel import sched_ext_state
    from asa.report.markup import plain

    places = paths.default()
    found = status.read(places.run) or status.read(paths.Places().run)  # this user's agent, else the system's
    kernel = sched_ext_state(places.sys)
    if arguments.json:
        print(wire.json_text({"running": found is not None, "agent": found, "sched_ext": kernel}))
        return 0 if found is not None else 3
    if found is not None:
        for line in _lines(found):
            print(plain(line))  # schedulers' own words are in it
    else:
        print("agent      not running; `asa run` starts it")
    if kernel is None:
        print("kernel     no sched_ext; `asa doctor` says how to get it")
    else:
        print(f"kernel     sched_ext {kernel.state}, {plain(kernel.ops or 'eevdf')} in force")
    return 0 if found is not None else 3


def beside(found: "Status") -> list[str]:
    """What speaks for a use beside the model: the desktop, and a client."""
    told = (("hints", found.hint), ("told", found.told))
    return [f"{name:<10} {one.words}" for name, one in told if one is not None]


def _lines(found: "Status") -> list[str]:
    from asa.cli.trial import learned_line, trial_lines
    from asa.status import seen

    age_s = (time.time_ns() - found.updated_ns) / 1e9
    in_force = "no sched_ext"
    if found.scheduler is not None:
        in_force = f"{found.scheduler} for {(time.time_ns() - found.scheduler_since_ns) / 1e9:.0f} s"
    stale = f", last heard of {age_s:.0f} s ago" if age_s > 3 * found.interval_s else ""
    lines = [
        f"agent      {found.mode} (pid {found.pid}{stale}){': ' + found.mode_reason if found.mode_reason else ''}",
        f"workload   {seen(found)} ({found.confidence:.0%})",
        f"scheduler  {in_force}; wanted {found.wanted or 'none'}",
        f"why        {found.sentence}",
        *(f"rests on   {place.learned or place.why}" for place in found.ranking if place.scheduler == found.wanted),
        f"so far     {found.ticks} ticks ({found.overruns} late), {found.switches} switches, {found.failures} failures",
        f"timing     the latest tick began {found.worst_late_ms:.1f} ms after it was due",
        f"table      {found.table}{f' ({found.table_elsewhere})' if found.table_elsewhere else ''}",
    ]
    if found.table_stale:
        lines.append(f"stale      {'; '.join(f'{name}: {why}' for name, why in found.table_stale.items())}")
    if found.way:
        lines.append(
            f"switching  {_WAYS.get(found.way, found.way)}{': ' + found.way_reason if found.way_reason else ''}"
        )
    if found.standbys:
        shown = (f"{one.scheduler} ({one.memory_bytes / 1e6:.1f} MB)" for one in found.standbys if one.ready)
        loading = (f"{one.scheduler} (loading)" for one in found.standbys if not one.ready)
        lines.append(f"standby    {', '.join((*shown, *loading))}")
    if found.set_aside:
        lines.append(f"set aside  {', '.join(found.set_aside)}; `asa explain` says why")
    if found.barred:
        lines.append(f"barred     {', '.join(found.barred)}, for {found.workload}; `asa explain` says why")
    if found.limits:
        lines.append(f"limits     {found.limits}")
    lines.extend(beside(found))
    if found.trial is not None:
        lines.extend(trial_lines(found.trial))
    if found.learned is not None and (found.learned.asked or found.learned.learn != "on"):
        lines.append(f"learned    {learned_line(found.learned)}")
    if found.last_event:
        lines.append(f"last       {found.last_event}")
    lines.extend(f"without    {source}: {reason}" for source, reason in found.missing_sources.items())
    lines.extend(f"slow       {source} {text}" for source, text in found.slow_sources.items())
    return lines
