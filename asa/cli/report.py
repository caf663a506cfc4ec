# SPDX-License-Identifier: GPL-2.0-only
"""`asa report`: a journal as one HTML page: timelines, times, latencies around switches, costs, verdicts, failures."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.decide.proof import Proof
    from asa.paths import Places

_PAGE = Path("report.html")
_ATTACHED = Path("asa-bug.txt")
_WORDS = """\
Makes one HTML page of a journal. For each session it shows a timeline of classes and schedulers, switches
with their reasons, the time of each, latencies before and after a switch, what switching and the agent cost,
what the guard took back, failures, and what `asa proof` says. The page needs no scripts and nothing from
the network.

--attach makes a text for a bug report instead: the machine, what `asa doctor` finds, settings that were changed, the
agent's state, the newest session, and the proof. Names of users and hosts, paths, tasks and addresses are taken out.
All of it is shown before it is written.
"""
_MORE = """\
examples:
  asa report
      The agent's own journal, as report.html in this folder.
  asa report journal.sqlite --out /tmp/week.html
      Another journal, another page.
  asa report --json
      The same figures, for programs.
  asa report --attach
      Shows a text to attach to a bug report, asks, and writes it.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    from asa.cli.journal import add_file

    command = commands.add_parser("report", help="make an HTML page of a journal", description=_WORDS, epilog=_MORE)
    add_file(command)
    command.add_argument("--out", type=Path, metavar="FILE", help=f"the page (default: {_PAGE}; none with --json)")
    command.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    command.add_argument(
        "--attach",
        type=Path,
        nargs="?",
        const=_ATTACHED,
        metavar="FILE",
        help=f"show a text for a bug report, then write it ({_ATTACHED} without FILE)",
    )
    command.add_argument("--yes", action="store_true", help="with --attach: write it without a question")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write the page, or print its figures, or both. The journal stays as it is."""
    from asa import paths, wire
    from asa.cli import attach, outfile
    from asa.cli.journal import JOURNAL, chosen
    from asa.core.errors import JournalError
    from asa.report import words
    from asa.report.gathering import gather
    from asa.report.page import page
    from asa.report.reading import opened

    path = chosen(arguments.journal)
    if arguments.attach is not None:
        return attach.run(arguments.attach, path, yes=arguments.yes)
    places = paths.default()
    mine = path == places.state / JOURNAL
    if mine and not paths.there(path):
        keeps = "the agent of your session keeps it while it runs, and `asa run --journal FILE` keeps another"
        raise JournalError(f"{path}: there is no such journal; {keeps}")
    with opened(path) as journal:
        found = gather(journal, str(path), proof=_proof(places) if mine else None)
    out: Path | None = arguments.out or (None if arguments.json else _PAGE)
    if out is not None:
        with outfile.whole(out, path) as part:
            part.write_text(page(found), encoding="utf-8")
    if arguments.json:
        print(wire.json_text(found))
    else:
        counts = (
            words.counted(found.session_count, "session"),
            words.duration(found.seconds),
            words.counted(found.outcomes.get("confirmed", 0), "switch", "switches"),
            f"{found.verdict_count} taken back",
        )
        print(f"{out}: {', '.join(counts)}")
    return 0


def _proof(places: "Places") -> "Proof | None":
    # a report on what happened is not given up for a file that it does not need
    from asa.core.errors import AsaError
    from asa.report.proof import of_host

    try:
        return of_host(places)
    except AsaError as error:
        print(f"asa: {error}; the report has what the newest session began with", file=sys.stderr)
        return None
