# SPDX-License-Identifier: GPL-2.0-only
"""`asa resume`: tells the running agent to go on after a hold, and to give schedulers that failed another chance."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.status import Status

_TEXT = """\
Ends a hold, whatever caused it. Schedulers that were set aside or barred may be tried again. With a name, it
forgets the failures of that scheduler only (all its modes, or the one given), and what daily use has taught of it.
"""
_MORE = """\
exit status:
  0  the hold and the marks are gone
  1  there is no agent, or it is still on hold

examples:
  asa resume
      Go on, with everything allowed again.
  asa resume scx_p2dq:performance
      Give one scheduler in one mode another chance.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "resume", help="end a hold, and let failed schedulers try again", description=_TEXT, epilog=_MORE
    )
    command.add_argument("scheduler", nargs="?", metavar="SCHEDULER", help="forget the failures of this one only")
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait for what became of it, and say it. Exit code 0 when the hold and the marks are gone, else 1."""
    from asa import requests, wire

    name = arguments.scheduler
    folder, before = requests.agent()
    if name is not None:
        _check(name, before)
    after = requests.ask(folder, before, requests.Resume(scheduler=name), settled=lambda found: _done(found, name))
    done = _done(after, name)
    if arguments.json:
        print(wire.json_text({"resumed": done, "agent": after}))
        return 0 if done else 1
    for line in _lines(before, after, name):
        print(line)
    return 0 if done else 1


def _check(name: str, agent: "Status") -> None:
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.core.decision import SchedulerName
    from asa.core.errors import AsaError

    modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()
    scheduler, mode = SchedulerName(name).bare, SchedulerName(name).mode
    if name in agent.set_aside or mode in modes.get(scheduler, ()):
        return
    known = f"{scheduler} has the modes {', '.join(modes[scheduler])}" if scheduler in modes else ", ".join(modes)
    raise AsaError(f"{name!r} is no scheduler that asa knows; {known}")


def _done(agent: "Status", name: str | None) -> bool:
    if agent.mode == "hold":
        return False
    return not (_marked(agent, name) if name is not None else agent.set_aside)


def _marked(agent: "Status", name: str) -> list[str]:
    from asa.core.decision import SchedulerName

    # `scx_p2dq` stands for all its modes
    return [one for one in agent.set_aside if SchedulerName(one).answers_to(name)]


def _lines(before: "Status", after: "Status", name: str | None) -> list[str]:
    lines = []
    if after.mode == "hold":
        lines.append(f"still on hold: {after.mode_reason}")
    elif before.mode == "hold":
        lines.append(f"the hold is over; {after.mode}{': ' + after.mode_reason if after.mode_reason else ''}")
    else:
        lines.append(f"there was no hold; {after.mode}{': ' + after.mode_reason if after.mode_reason else ''}")
    marked = before.set_aside if name is None else _marked(before, name)
    freed = [one for one in marked if one not in after.set_aside]
    if freed:
        lines.append(f"may be tried again: {', '.join(freed)}")
    elif name is not None and not marked:
        lines.append(f"{name} was not set aside")
    if after.set_aside:
        lines.append(f"set aside: {', '.join(after.set_aside)}")
    lines.append(f"{after.scheduler or 'no sched_ext'} in force; wanted {after.wanted or 'none'}")
    return lines
