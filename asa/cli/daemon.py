# SPDX-License-Identifier: GPL-2.0-only
"""`asa daemon`: the agent in the user's session. It recognises and decides; the root helper probes and switches."""

import argparse
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_TEXT = """\
Runs the agent as a user service, without any privilege. Once a second it recognises what this machine is
used for, and asks the root helper (asa-helper.service, on the system bus) for the scheduler that suits this
use. Without the helper, or while another user sits at the machine, it observes and says why.

`asa install` sets both up. `systemctl --user status asa` shows this one. SIGHUP makes it read settings,
table and model again. However it ends, the helper then puts the kernel's scheduler back.
"""
_MORE = """\
exit status:
  0  it ended, and the kernel's scheduler is as it was
  1  it could not start, or a scheduler of its own is still in force; the last line says what to do

environment:
  DBUS_SYSTEM_BUS_ADDRESS, DBUS_SESSION_BUS_ADDRESS  the buses, where they are not in their usual places

files:
  ~/.config/asa/asa.yaml            settings
  ~/.local/state/asa/daemon.sqlite  the journal
  $XDG_RUNTIME_DIR/asa              its status, its lock, and requests of `asa hold` and the like
  /var/lib/asa/scx                  the schedulers that the helper runs

examples:
  asa daemon --observe --for 60
      Only look, for a minute.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    from asa.cli.run import add_limit

    command = commands.add_parser(
        "daemon", help="the agent as a user service; the root helper switches", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--observe", action="store_true", help="decide, but leave the kernel's scheduler alone")
    command.add_argument("--config", type=Path, metavar="FILE", help="settings (default: ~/.config/asa/asa.yaml)")
    command.add_argument("--journal", type=Path, metavar="FILE", help="keep samples and decisions here (SQLite)")
    command.add_argument("--no-journal", action="store_true", help="keep none")
    add_limit(command)
    command.add_argument("--json", action="store_true", help="one JSON object a tick, and one for each other line")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run until a signal comes."""
    from asa import inbox
    from asa.cli.run import killed_like_interrupted

    with inbox.remembered(signal.SIGHUP), killed_like_interrupted():  # until the loop has its own handlers
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read once, when numpy loads: threads would only cost memory
    from asa import paths
    from asa.assembly import Assembly
    from asa.cli.journal import JOURNAL
    from asa.cli.run import Printer
    from asa.clock import SystemClock
    from asa.remote import Remote
    from asa.sd_notify import ServiceManager

    printer = Printer(as_json=arguments.json, lasting=True)
    places = paths.default()
    journal = None if arguments.no_journal else arguments.journal or places.state / JOURNAL
    remote = Remote.open(SystemClock(), printer.say, observe=arguments.observe)
    try:
        assembly = Assembly.open(
            places,
            config_path=arguments.config,
            observe=arguments.observe,
            journal_path=journal,
            journal_needed=arguments.journal is not None,
            say=printer.say,
            remote=remote,
        )
        try:
            for source, reason in assembly.sampler.missing.items():
                printer.say(f"going on without {source}: {reason}")
            printer.say(f"choosing by {assembly.setup.table.path} ({assembly.setup.table.machine})")
            ServiceManager().ready()
            agent = assembly.agent(printer.say, printer.decision)
            agent.run(arguments.limit_s)
        finally:
            assembly.close()
    finally:
        remote.close()
    if not agent.clean:
        printer.say("ended, but the helper has not put the kernel back; `systemctl restart asa-helper` does")
        return 1
    printer.say("ended; the kernel's scheduler is as it was")
    return 0
