# SPDX-License-Identifier: GPL-2.0-only
"""`asa status`: what the running agent sees and has done; without one, what the kernel runs."""

import argparse
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.status import Status


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("status", help="workload, scheduler, and what the agent is doing")
    command.add_argument("--json", action="store_true")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the status. Exit code 0 with an agent running, 3 without (as systemctl status has it)."""
    import msgspec

    from asa import paths, status
    from asa.act.kernel import sched_ext_state

    places = paths.default()
    found = status.read(places.run) or status.read(paths.Places().run)  # this user's agent, else the system's
    kernel = sched_ext_state(places.sys)
    if arguments.json:
        print(msgspec.json.encode({"running": found is not None, "agent": found, "sched_ext": kernel}).decode())
        return 0 if found is not None else 3
    if found is not None:
        for line in _lines(found):
            print(line)
    else:
        print("agent      not running; `asa run` starts it")
    if kernel is None:
        print("kernel     no sched_ext; `asa doctor` says how to get it")
    else:
        print(f"kernel     sched_ext {kernel.state}, {kernel.ops or 'eevdf'} in force")
    return 0 if found is not None else 3


def _lines(found: "Status") -> list[str]:
    age_s = (time.time_ns() - found.updated_ns) / 1e9
    since_s = (time.time_ns() - found.scheduler_since_ns) / 1e9
    stale = f", last heard of {age_s:.0f} s ago" if age_s > 3 * found.interval_s else ""
    lines = [
        f"agent      {found.mode} (pid {found.pid}{stale}){': ' + found.mode_reason if found.mode_reason else ''}",
        f"workload   {found.workload or 'not recognised yet'} ({found.confidence:.0%})",
        f"scheduler  {found.scheduler or 'no sched_ext'} for {since_s:.0f} s; wanted {found.wanted or 'none'}",
        f"why        {found.sentence}",
        f"so far     {found.ticks} ticks ({found.overruns} late), {found.switches} switches, {found.failures} failures",
        f"timing     the latest tick began {found.worst_late_ms:.1f} ms after it was due",
        f"table      {found.table}",
    ]
    if found.set_aside:
        lines.append(f"set aside  {', '.join(found.set_aside)}")
    if found.last_event:
        lines.append(f"last       {found.last_event}")
    lines.extend(f"without    {source}: {reason}" for source, reason in found.missing_sources.items())
    lines.extend(f"slow       {source} {text}" for source, text in found.slow_sources.items())
    return lines
