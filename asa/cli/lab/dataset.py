# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab dataset`: from journals of recorded scenarios to the Parquet file that a model is trained from."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.extras import need

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from models.train.recorded_table import Facts

_TEXT = """\
Makes one table of the journals that `asa lab record --scenario` wrote: a row a sample, with what was there at that
moment, the phase, the scheduler in force, all rates and all histograms. `check` says what it lacks to train from.
"""
_MORE = """\
exit status:
  0  it is done; for check: nothing is lacking
  1  it is not, or something is

examples:
  asa lab dataset build --out scenarios.parquet models/recordings/scenarios/*.journal.xz
      The same journals give the same file, whatever their order.
  asa lab dataset check scenarios.parquet
      Labels without three sessions of different seeds, sources that were not read, schedulers.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "dataset", help="make a table of recorded scenarios, or inspect one", description=_TEXT, epilog=_MORE
    )
    actions = command.add_subparsers(dest="dataset", metavar="ACTION", required=True)
    build = actions.add_parser("build", help="make it of journals")
    build.add_argument("--out", type=Path, required=True, metavar="FILE", help="the Parquet file to write")
    build.add_argument("journals", type=Path, nargs="+", metavar="JOURNAL", help="packed or not")
    build.set_defaults(run=_build)
    check = actions.add_parser("check", help="what it lacks to train from")
    check.add_argument("--sessions", type=int, default=3, metavar="N", help="of each label (default: %(default)s)")
    check.add_argument(
        "--for",
        type=float,
        default=60.0,
        dest="seconds",
        metavar="SECONDS",
        help="how long all of it has to run in a session (default: 60)",
    )
    check.set_defaults(run=_check)
    shown = actions.add_parser("list", help="its sessions")
    shown.set_defaults(run=_list)
    for action in (check, shown):
        action.add_argument("dataset_file", type=Path, metavar="FILE", help="a Parquet file of `build`")
    for action in (build, check, shown):
        action.add_argument("--json", action="store_true", help="JSON objects, one a line")


def _build(arguments: argparse.Namespace) -> int:
    """Raises JournalError, ModelError."""
    need("pyarrow", extra="export")
    from models.train import recorded, recorded_table

    found = recorded.sessions(arguments.journals)
    digest = recorded_table.write(arguments.out, found)
    body = {
        "file": str(arguments.out),
        "sha256": digest,
        "bytes": arguments.out.stat().st_size,
        "sessions": len(found),
        "labels": len({one.session.header.label for one in found}),
        "rows": sum(len(one.rows) for one in found),
    }
    if arguments.json:
        print(json.dumps(body))
    else:
        print(f"{digest}  {arguments.out}")
        print("{sessions} sessions of {labels} labels, {rows} rows, {bytes} bytes".format_map(body))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Raises ModelError. Exit code 1 when something is lacking."""
    need("pyarrow", extra="export")
    from models.train import recorded_table
    from scenarios.catalogue import PAPER

    facts = recorded_table.read(arguments.dataset_file)
    labels = [scenario.label for scenario in PAPER]
    lacks = recorded_table.lacks(facts, labels, least=arguments.sessions, seconds=arguments.seconds)
    for lack in lacks:
        print(json.dumps({"lacks": lack}) if arguments.json else lack)
    if not arguments.json:
        print(f"{len(facts)} sessions: {f'{len(lacks)} things are lacking' if lacks else 'nothing is lacking'}")
    return 1 if lacks else 0


def _list(arguments: argparse.Namespace) -> int:
    """Raises ModelError."""
    need("pyarrow", extra="export")
    from dataclasses import asdict

    from models.train import recorded_table

    for one in recorded_table.read(arguments.dataset_file):
        print(json.dumps(asdict(one)) if arguments.json else _line(one))
    return 0


def _line(one: "Facts") -> str:
    missing = f", without {', '.join(one.missing)}" if one.missing else ""
    what = f"{one.id}  {one.label:16} seed {one.seed:<4} {one.rows:4} rows, {one.running:3} running"
    return f"{what}  {one.tier:4} {one.scheduler:10} {one.host}, {one.cpus} CPUs{missing}"
