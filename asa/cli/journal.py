# SPDX-License-Identifier: GPL-2.0-only
"""`asa journal`: list the sessions of a journal, show one of them, export its ticks as CSV or Parquet.

A journal is read while an agent writes it, and stays as it is.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.main import Commands
    from asa.report.export import Table
    from asa.report.figures import Report, Session

JOURNAL = "daemon.sqlite"
"""Of the agent of a user's session, below paths.Places.state: it writes it, and these commands read it."""
_PLAIN_SHARES = 4  # classes in a line of the list
_LAST = 20  # switches that `show` lists
_LIST = """\
Prints one paragraph for each session (one run of the agent, or one recording): when it began, in which mode,
how many ticks it has, what share of the time went to which class, how many switches and failures there were.
"""
_SHOW = """\
Prints the times by class, scheduler and reason of one session, and what became of its last switches.
"""
_EXPORT = """\
Writes one row for each tick: all rates of `asa metrics`, derived anew from the raw counters, the probability
of each class, and the decision. Unknown is empty (CSV) or null (Parquet, which needs the extra `export`).
"""
_LIST_MORE = """\
examples:
  asa journal list
      The sessions of the agent's own journal, also while it runs.
  asa journal list --json models/recordings/host.journal.xz
      Those of a packed recording, for programs.
"""
_SHOW_MORE = """\
examples:
  asa journal show
      The newest session.
  asa journal show --session 3 journal.sqlite
      Another one.
"""
_EXPORT_MORE = """\
examples:
  asa journal export --out ticks.csv
      All ticks of the agent's own journal.
  asa journal export --format parquet --session 3 --out ticks.parquet journal.sqlite
      One session, for pandas and the like.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    from asa.cli import replay

    command = commands.add_parser("journal", help="list, show, export or replay recorded sessions")
    actions = command.add_subparsers(dest="journal_action", metavar="ACTION", required=True)
    listing = actions.add_parser(
        "list",
        help="all sessions: when, where, how long, classes, switches",
        description=_LIST,
        epilog=_LIST_MORE,
    )
    showing = actions.add_parser(
        "show",
        help="one session: times by class and scheduler, and what became of switches",
        description=_SHOW,
        epilog=_SHOW_MORE,
    )
    export = actions.add_parser(
        "export",
        help="ticks with rates, probabilities and decisions, one row each",
        description=_EXPORT,
        epilog=_EXPORT_MORE,
    )
    for action in (listing, showing, export):
        add_file(action)
        action.add_argument("--json", action="store_true", help="one JSON object")
    for action in (showing, export):
        action.add_argument("--session", type=int, metavar="N", help="this session (show: the newest; export: all)")
    export.add_argument(
        "--format", choices=("csv", "parquet"), default="csv", help="form of the file (default: %(default)s)"
    )
    export.add_argument("--out", type=Path, metavar="FILE", help="write here (CSV: else standard output)")
    listing.set_defaults(run=run_list)
    showing.set_defaults(run=run_show)
    export.set_defaults(run=run_export)
    replay.register(actions)


def add_file(command: argparse.ArgumentParser) -> None:
    """Add the journal's argument."""
    command.add_argument(
        "journal", type=Path, nargs="?", metavar="FILE", help=f"journal (default: {JOURNAL} of your agent's state)"
    )


def chosen(path: Path | None) -> Path:
    """The journal that is meant."""
    from asa import paths

    return path or paths.default().state / JOURNAL


def run_list(arguments: argparse.Namespace) -> int:
    """Print the sessions."""
    import msgspec

    from asa import wire

    found = _gathered(chosen(arguments.journal), None)
    if arguments.json:
        sessions = [msgspec.structs.replace(one, timeline=None) for one in found.sessions]
        print(wire.json_text({"journal": found.journal, "sessions": sessions}))
        return 0
    if not found.sessions:
        print(f"{found.journal}: no session in it")
    for session in found.sessions:
        print("\n".join(_heading(session)))
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Print one session."""
    from asa import wire
    from asa.report import words

    path = chosen(arguments.journal)
    found = _gathered(path, session_of(path, arguments.session))
    (session,) = found.sessions
    if arguments.json:
        print(wire.json_text(found))
        return 0
    print("\n".join(_heading(session)))
    shown = {"class": session.workloads, "scheduler": session.schedulers, "reason": found.reasons}
    shown["regime"] = found.regimes
    width = max(16, *(len(key) for times_s in shown.values() for key in times_s))
    for name, times_s in shown.items():
        for number, (key, time_s) in enumerate(times_s.items()):
            head = f"{name:<10}" if number == 0 else " " * 10
            print(f"{head} {key:<{width}} {words.duration(time_s):>12} {words.percent(time_s / session.seconds):>6}")
    for number, one in enumerate(found.refused[:_PLAIN_SHARES]):
        head = f"{'refused':<10}" if number == 0 else " " * 10
        looked = f"{words.counted(one.ticks, 'tick')} looked like {one.label} ({one.share:.0%}), refused"
        print(f"{head} {looked}: fits no class")
    for event in found.events[-_LAST:]:
        line = f"{words.moment(event.at_ns, seconds=True)}  {event.old} -> {event.new}: {event.outcome} ({event.way}"
        print(f"{line}, {words.milliseconds(event.elapsed_ms)})")
        for text in (event.why, event.detail, event.ended):
            if text:
                print(f"{' ' * 21}{text}")
    return 0


def run_export(arguments: argparse.Namespace) -> int:
    """Write the ticks; with `--json` say how many rows and columns went where."""
    from asa import wire
    from asa.cli import outfile
    from asa.core.errors import AsaError
    from asa.report import export
    from asa.report.reading import opened

    path = chosen(arguments.journal)
    if arguments.out is None and (arguments.format == "parquet" or arguments.json):
        raise AsaError("--out FILE is needed here: the table does not go to standard output")
    session = None if arguments.session is None else session_of(path, arguments.session)
    with opened(path) as journal:
        table = export.Table.of(journal, session)
        if arguments.out is None:
            rows = export.write_csv(table, sys.stdout)
        else:
            with outfile.whole(arguments.out, path) as part:
                rows = _written(table, part, arguments.format)
    if arguments.json:
        body = {"file": str(arguments.out), "rows": rows, "columns": table.names}
        print(wire.json_text(body))
    elif arguments.out is not None:
        print(f"{rows:,} ticks with {len(table.names)} columns in {arguments.out}")
    return 0


def _written(table: "Table", path: Path, form: str) -> int:
    from asa.report import export

    if form == "parquet":
        return export.write_parquet(table, path)
    with path.open("w", encoding="utf-8", newline="") as file:
        return export.write_csv(table, file)


def _gathered(path: Path, session: int | None) -> "Report":
    from asa.report.gathering import gather
    from asa.report.reading import opened

    path = chosen(path)
    with opened(path) as journal:
        return gather(journal, str(path), session)


def session_of(path: Path, number: int | None) -> int:
    """The session that is meant, by default the newest. Raises AsaError when the journal has not got it."""
    from asa.core.errors import AsaError
    from asa.report.reading import opened

    with opened(path) as journal:
        numbers = [session.number for session in journal.sessions()]
    if not numbers:
        raise AsaError(f"{path}: no session in it")
    if number is not None and number not in numbers:
        raise AsaError(f"{path}: there is no session {number}; it has {numbers[0]} to {numbers[-1]}")
    return numbers[-1] if number is None else number


def _heading(session: "Session") -> "Iterator[str]":
    from asa.report import words

    switches = session.outcomes.get("confirmed", 0)
    failures = sum(session.outcomes.get(name, 0) for name in ("refused", "failed", "lost"))
    yield (
        f"{session.number:>4}  {words.moment(session.started_ns)}  {session.mode or 'agent':<10} "
        f"{words.counted(session.ticks, 'tick')}, {words.duration(session.seconds)}, "
        f"{words.counted(switches, 'switch', 'switches')}, {words.counted(failures, 'failure')}"
    )
    yield f"      {session.host}, {session.cpus} CPUs, Linux {session.kernel}"
    shares = [
        f"{name} {words.percent(time_s / session.seconds)}"
        for name, time_s in list(session.workloads.items())[:_PLAIN_SHARES]
    ]
    if shares:
        more = len(session.workloads) - len(shares)
        yield f"      {', '.join(shares)}{f', and {more} more' if more > 0 else ''}"
