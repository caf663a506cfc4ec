# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab shadow report`: what `asa run --shadow` found a scheduler's load and the agent itself to cost."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.overhead.shadow_report import Report

_PACKED = ".xz"
_PLAIN_WIDTH = 140  # of the tables in a file or a log

_TEXT = """\
In the shadow mode the agent loads and verifies each scheduler that it would switch to, and attaches
none. The report tabulates a journal of that: what each load took in time, processor and memory, beside
what the agent itself costs.
"""
_MORE = """\
files:
  ~/.local/state/asa/shadow.sqlite  where `asa run --shadow` writes

examples:
  asa lab shadow report
      The shadow mode's own journal.
  asa lab shadow report recorded.journal.xz --plot costs.svg
      A packed one, with a picture.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "shadow",
        help="what switching would have cost (`asa run --shadow` measures it)",
        description=_TEXT,
        epilog=_MORE,
    )
    shadows = command.add_subparsers(dest="shadow", metavar="ACTION", required=True)
    report = shadows.add_parser("report", help="tabulate a shadow journal by scheduler, with the agent's own cost")
    report.add_argument(
        "journal", type=Path, nargs="?", metavar="FILE", help="journal (default: the shadow mode's own)"
    )
    report.add_argument("--json", action="store_true", help="one JSON object")
    report.add_argument("--plot", type=Path, metavar="FILE", help="draw it, too (SVG)")
    report.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; the journal stays as it is."""
    from asa import paths, wire
    from asa.cli import outfile
    from asa.cli.run import SHADOW_JOURNAL
    from asa.journal import Journal
    from calibration.overhead.shadow_plot import picture
    from calibration.overhead.shadow_report import report

    path = arguments.journal or paths.default().state / SHADOW_JOURNAL
    opened = Journal.unpack(path) if path.suffix == _PACKED else Journal.look(path)
    with opened as journal:
        found = report(journal, str(path))
    if arguments.plot is not None:
        with outfile.whole(arguments.plot, path) as part:
            part.write_text(picture(found), encoding="utf-8")
    if arguments.json:
        print(wire.json_text(found))
    else:
        _print(found)
    return 0


def _print(found: "Report") -> None:
    from rich.console import Console
    from rich.table import Table

    from asa.report.markup import plain
    from calibration.overhead.shadow_report import AGENT_COLUMNS, SCHEDULER_COLUMNS, agent_rows, scheduler_rows

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    sessions = f"{found.sessions} shadow session{'s' if found.sessions != 1 else ''}"
    console.print(plain(f"{sessions} on {'; '.join(found.hosts)}, Linux {', '.join(found.kernels)}"))
    for columns, rows in ((SCHEDULER_COLUMNS, scheduler_rows(found)), (AGENT_COLUMNS, agent_rows(found))):
        table = Table()
        for number, column in enumerate(columns):
            table.add_column(column, justify="left" if number in (0, len(columns) - 1) else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    if found.agent is not None:
        console.print(f"{found.agent.ticks} ticks in {found.agent.duration_s:.0f} s. Times of loads: p50 / p95 / max.")
    console.print(f"Paper: {found.paper.source}; another machine, other collectors.")
