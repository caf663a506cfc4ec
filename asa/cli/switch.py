# SPDX-License-Identifier: GPL-2.0-only
"""`asa switch`: tells the running agent to bring one scheduler up by hand and to stay on it."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from asa.cli.main import Commands
    from asa.status import Status

_LIMIT_S = 120.0  # loading the largest one takes a minute in an emulated machine

_MORE = """\
exit status:
  0  it is in force
  1  there is no agent, or the scheduler is not available, or it did not come up

examples:
  asa switch scx_flash
      This scheduler until `asa resume`.
  asa switch scx_p2dq:performance 1h30m
      In one of its modes, for an hour and a half.
  asa switch eevdf
      The kernel's own, and stay there.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    from asa.cli.hold import add_duration

    text = """\
The scheduler stays until `asa resume`, or for DURATION. A restart of the agent ends that, too. The guard does
not judge it. If it fails, EEVDF serves and the hold goes on. The failure is not counted against it.
"""
    command = commands.add_parser(
        "switch", help="load a scheduler by hand, and keep it", description=text, epilog=_MORE
    )
    command.add_argument("scheduler", metavar="SCHEDULER", help="such as scx_flash, scx_lavd:performance or eevdf")
    add_duration(command)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, wait until the scheduler is in force or has failed, and say it. Exit code 0 when it is in force, else 1."""
    from asa import requests, wire
    from asa.cli.hold import check_switching, end_ns, holds

    folder, before = requests.agent()
    name = checked(arguments.scheduler, folder)
    check_switching(before)
    check_never(name, before)
    until_ns = end_ns(arguments.duration)

    def chosen(found: "Status") -> bool:
        return holds(found, until_ns) and found.chosen == name

    def settled(found: "Status") -> bool:
        return not chosen(found) or found.scheduler == name

    request = requests.Switch(scheduler=name, until_ns=until_ns)
    after = requests.ask(folder, before, request, settled=settled, limit_s=_LIMIT_S)
    done = chosen(after) and after.scheduler == name
    if arguments.json:
        print(wire.json_text({"switched": done, "agent": after}))
    elif done:
        print(f"{name} is in force: {after.mode_reason}")
    elif chosen(after):
        print(f"{name} is not in force after {_LIMIT_S:g} s, and still awaited: {after.sentence}")
    else:
        print(f"{name} is not in force: {after.mode_reason or after.sentence}")
    return 0 if done else 1


def check_never(name: str, agent: "Status") -> None:
    """Raises AsaError for one that the settings bar."""
    from asa.core.decision import SchedulerName, bar
    from asa.core.errors import AsaError

    if one := bar(SchedulerName(name), agent.never):
        raise AsaError(
            f"{name} is not brought up: switch.never in the settings names {one}; take it out and send the agent SIGHUP"
        )


def checked(asked: str, folder: "Path") -> str:
    """The scheduler's full name. Raises AsaError for one that is not known, or cannot be used here."""
    from asa import paths
    from asa.act.portfolio import Portfolio, Unavailable
    from asa.core.decision import SchedulerName
    from asa.core.errors import AsaError

    ours = paths.default()
    places = ours if folder == ours.run else paths.Places()
    # The record is only looked at, to say at once what cannot work: the agent trusts whom its own settings name.
    owner = {places.schedulers.stat().st_uid} if places.schedulers.is_dir() else ()
    portfolio = Portfolio.load(paths.manifest(), places.schedulers, owners=owner)
    modes = portfolio.modes()
    full = SchedulerName(asked)
    scheduler = full.bare
    if scheduler not in modes:
        raise AsaError(f"{asked!r} is no scheduler that asa knows; {', '.join(modes)}")
    if full.mode not in modes[scheduler] or asked.endswith(":"):
        raise AsaError(
            f"{asked!r} is no scheduler that asa knows; {scheduler} has the modes {', '.join(modes[scheduler])}"
        )
    found = portfolio.look(scheduler)
    if isinstance(found, Unavailable):
        usable = [one for one in modes if not isinstance(portfolio.look(SchedulerName(one)), Unavailable)]
        raise AsaError(f"{scheduler}: {found.reason}; usable here: {', '.join(usable)}")
    return SchedulerName.of(scheduler, full.mode)
