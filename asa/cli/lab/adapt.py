# SPDX-License-Identifier: GPL-2.0-only
"""`asa adapt`: stage 3 of the calibration alone, on a machine that nothing was measured on yet, in half an hour."""

import argparse
from typing import TYPE_CHECKING

from asa.cli.lab import bounds, calibrate

if TYPE_CHECKING:
    from asa.cli.main import Commands

_MOST_MINUTES = 30.0

_TEXT = """\
Measures, within a stated time, what a table of another machine cannot know about this one: begins with the table
in force, lets the agent switch for real, plays what is most uncertain first, and writes this machine's own
table. What it had no time to learn is named, and is served by the table in force before. The same command goes
on where it was interrupted; until it has ended the old table stays as it is. What the applications need is
made ready before, and does not count; nor does a guest's boot. What it took is kept beside the table, as
TABLE.adapted.json.
"""
_MORE = """\
exit status:
  0  the table was written
  1  it was not, and is as it was; one line on standard error says why

examples:
  sudo asa adapt
      At most half an hour.
  sudo asa adapt --minutes 10 --scenario web --scheduler eevdf,scx_bpfland,scx_lavd
      The scenarios with a browser, three schedulers, ten minutes.
  asa adapt --in-lab --machine vm122 --out tables/vm122.yaml
      A machine of the fleet; then asa lab fleet run --machine vm122 --table tables/ --out fleet
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "adapt",
        help="measure this machine within half an hour, and write its table",
        description=_TEXT,
        epilog=_MORE,
    )
    calibrate.add_common(command, schedulers="default", seconds=8.0)
    command.add_argument(
        "--minutes",
        type=_minutes,
        default=_MOST_MINUTES,
        metavar="M",
        help="most machine time, 30 at most (default: %(default)g)",
    )
    calibrate.add_live(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when the table was written."""
    return calibrate.generalize(arguments, None, 60.0 * arguments.minutes, adapts=True)


def _minutes(text: str) -> float:
    value = bounds.MINUTES(text)
    if value > _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"{text} is more than {_MOST_MINUTES:g} minutes; asa calibrate generalize")
    return value
