# SPDX-License-Identifier: GPL-2.0-only
"""`asa monitor`: the running agent, live in a terminal; or one JSON object a tick, for programs."""

import argparse
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_TEXT = """\
Shows the running agent live: the class and the probability of each, the votes of the last minute, the
scheduler in force and why, standbys, how long tasks wait, the last switches, and what the agent itself costs.
Without an agent it says so and waits for one.
"""
_MORE = """\
keys:
  q  quit; the agent goes on
  h  hold for 30 minutes: nothing is switched
  r  resume
  ?  what each number means

examples:
  asa monitor
      This user's agent, else that of root.
  asa monitor --json
      One JSON object a tick, as `asa status --json` prints one: for programs, until Ctrl-C.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("monitor", help="watch the running agent live", description=_TEXT, epilog=_MORE)
    command.add_argument("--json", action="store_true", help="print one JSON object a tick")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Show it until the user has seen enough. Raises AsaError without a terminal, or without textual."""
    from asa.core.errors import AsaError

    if arguments.json:
        return _print_ticks()
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # the screen is on standard error
        raise AsaError("asa monitor needs a terminal; `asa monitor --json` is for programs, `asa status` for one look")
    try:
        from asa.monitor.app import Monitor
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"textual", "rich"}:
            raise
        raise AsaError(
            "asa monitor needs the Python package textual, 8.0 or newer: pip install 'textual>=8'; "
            "`asa monitor --json` goes without"
        ) from error
    app = Monitor()
    app.run()
    return app.return_code or 0


def _print_ticks() -> int:
    from asa import wire
    from asa.monitor.feed import Feed

    feed, told = Feed(), False
    while True:
        if feed.look() or not told:
            told = True
            body: dict[str, object] = {"running": feed.status is not None, "agent": feed.status}
            if feed.error:
                body["error"] = feed.error
            print(wire.json_text(body), flush=True)
        time.sleep(feed.next_look_s())
