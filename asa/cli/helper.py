# SPDX-License-Identifier: GPL-2.0-only
"""`asa helper`: the root process behind org.asa.Helper1; systemd or the bus starts it, seldom a person."""

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_TEXT = """\
Switches schedulers and loads probes as root, for the daemon of the user at this machine. polkit says who may
ask; the manifest says what can be asked for. The helper has no model, makes no decision, and needs no network.

One daemon at a time has the lease. The lease ends when the daemon returns it, ends, is killed, or another user
takes the machine; the kernel then gets back the scheduler of before. SIGHUP makes the helper read its settings
again. It ends at SIGINT or SIGTERM, or after a minute without a request; the bus starts it again.
"""
_MORE = """\
exit status:
  0  it ended, and the kernel's scheduler is as it was
  1  it could not start, the bus has gone, or a scheduler of its own is still in force; the last line says which

files:
  /etc/asa/asa.yaml           settings; of these `switch` and `collect.ebpf` are the helper's
  /var/lib/asa/scx            schedulers, and the record of their hashes
  /var/lib/asa/approvals.json  schedulers that an administrator has approved or revoked
  /var/lib/asa/hold.json      an administrator's word that nothing is switched
  /run/asa                    a lock, how to undo what it did, logs of schedulers

examples:
  sudo systemctl status asa-helper
      Whether it runs, and its last lines.
  sudo asa helper
      In the foreground, to see what it says.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "helper",
        help="the root process that switches for users' daemons (started by systemd)",
        description=_TEXT,
        epilog=_MORE,
    )
    command.add_argument(
        "--bus", default="system", metavar="system|session|ADDRESS", help="where to be called (default: system)"
    )
    command.add_argument("--config", type=Path, metavar="FILE", help="settings (default: /etc/asa/asa.yaml if there)")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes, or nobody wants anything."""
    from asa.core.errors import AsaError

    if os.geteuid() != 0:
        raise AsaError("the helper has to be root: systemd starts it (asa-helper.service), or `sudo asa helper`")
    from asa import inbox, paths
    from asa.helper.service import serve

    # the loop has its own handlers; an ordinary end before that must clean up too, as Ctrl-C does
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with inbox.remembered(signal.SIGHUP):
            return serve(arguments.bus, arguments.config, paths.installed(), _say)
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
