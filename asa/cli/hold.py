# SPDX-License-Identifier: GPL-2.0-only
"""`asa hold`: tells the running agent to switch nothing for a while. Also what `asa switch` shares with it."""

import argparse
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.status import Status

_MOST_S = 30 * 86_400
_DURATION = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,10})s)?", re.ASCII)

_MORE = """\
exit status:
  0  nothing is switched from now on
  1  there is no agent, or it switches nothing anyway

examples:
  asa hold 30m
      Keep what runs for half an hour, such as for a measurement.
  asa hold
      Keep it until `asa resume`.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    text = """\
Keeps the scheduler in force and switches nothing. `asa resume` or a restart of the agent ends the hold. A switch
that is under way still completes. In a trial, what served before it comes back first. For all users of the
machine: `asa machine hold`.
"""
    command = commands.add_parser(
        "hold", help="stop switching, for some time or until `asa resume`", description=text, epilog=_MORE
    )
    add_duration(command)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait until the agent holds, and say it. Exit code 0 when it does, else 1."""
    from asa import requests, wire

    folder, before = requests.agent()
    check_switching(before)
    until_ns = end_ns(arguments.duration)
    after = requests.ask(folder, before, requests.Hold(until_ns=until_ns), settled=lambda found: holds(found, until_ns))
    done = holds(after, until_ns)
    if arguments.json:
        print(wire.json_text({"held": done, "agent": after}))
    elif done:
        print(f"{after.mode_reason}; {after.scheduler} in force")
    else:
        print(f"not on hold: {after.mode}{': ' + after.mode_reason if after.mode_reason else ''}")
    return 0 if done else 1


def add_duration(command: argparse.ArgumentParser) -> None:
    """Add the argument: for how long."""
    text = "for so long, such as 90s, 30m or 1h30m (default: until `asa resume`)"
    command.add_argument("duration", nargs="?", type=duration_s, metavar="DURATION", help=text)


def duration_s(text: str) -> int:
    """Seconds of `90s`, `30m`, `2h`, `1h30m`. Raises ArgumentTypeError."""
    found = _DURATION.fullmatch(text)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    total_s = 3600 * hours + 60 * minutes + seconds
    if not 0 < total_s <= _MOST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 30m or 1h30m, up to 720h")
    return total_s


def end_ns(after_s: int | None) -> int | None:
    """CLOCK_REALTIME so many seconds from now."""
    return None if after_s is None else time.time_ns() + after_s * 10**9


def check_switching(agent: "Status") -> None:
    """Raises AsaError for an agent that switches nothing anyway."""
    from asa.core.errors import AsaError

    if agent.mode not in {"switching", "hold"}:
        why = f" ({agent.mode_reason})" if agent.mode_reason else ""
        raise AsaError(f"the agent (pid {agent.pid}) switches nothing: its mode is {agent.mode}{why}")


def holds(agent: "Status", until_ns: int | None) -> bool:
    """Is the user's hold with this end in force?"""
    return agent.held and agent.held_until_ns == until_ns
