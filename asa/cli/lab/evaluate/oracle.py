# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate oracle`: how much there is to gain by choosing schedulers; writes docs/oracle.md and tables."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asa.cli.main import Commands
    from calibration.oracle.rounds import Round

_TEXT = """\
Says by the kept switchback runs how much there is to gain: by the best scheduler of each machine and scenario, by a
table by class, by one scheduler for all. Each choice is judged by rounds that it was not made by. It measures nothing.
"""
_MORE = """\
exit status:
  0  it was told
  1  no rounds are kept, or they cannot be read

examples:
  asa lab evaluate oracle --page docs/oracle.md
      The page, its pictures and rounds.parquet in docs/oracle.
  asa lab evaluate oracle --tables mapping_tables
      A mapping table for each machine that was played, lab-NAME.yaml.
  asa lab evaluate oracle --json
      What each rule of choice gains, a JSON object a line.
"""


def register(actions: "Commands") -> None:
    """Add the parser to those of `asa lab evaluate`."""
    command = actions.add_parser(
        "oracle", help="how much there is to gain by choosing schedulers", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "folder", type=Path, nargs="?", metavar="FOLDER", help="of `asa lab bench matrix` (default: the package's)"
    )
    command.add_argument("--page", type=Path, metavar="FILE", help="write the whole there (Markdown)")
    command.add_argument("--tables", type=Path, metavar="DIR", help="write a mapping table for each machine there")
    command.add_argument("--json", action="store_true", help="what each rule gains as JSON lines alone")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises AsaError."""
    from asa.cli.extras import need

    need("pyarrow", "scipy", "statsmodels", "rich", extra="bench,guests,train")
    import calibration
    from asa import wire
    from asa.cli.lab.bench import output as bench_output
    from asa.core.errors import ModelError
    from calibration.oracle import page
    from calibration.oracle.enough import enough, rounds_of

    folder = arguments.folder or Path(calibration.__file__).parent / "results" / "switchback"
    rows = _rounds(folder)
    if arguments.page is not None:
        _page(arguments, rows)
    if arguments.tables is not None:
        _tables(arguments, rows)
    try:
        enough(rows).check(rounds_of(rows))
    except ModelError as error:
        print(f"asa: what follows was played and judges nothing: {error}", file=sys.stderr)
    rules = page.rules(page.scored_by(rows))
    if not arguments.json:
        bench_output.table(
            ("rule", *page.MEASURES.values()),
            [(rule, *("" if one is None else one.words for one in told.values())) for rule, told in rules],
        )
        return 0
    for rule, told in rules:
        for measure, one in told.items():
            value = None if one is None else {"pct": one.value, "low": one.low, "high": one.high, "count": one.count}
            print(wire.json_text({"rule": rule, "measure": measure, "above_eevdf": value}))
    return 0


def _rounds(folder: Path) -> "list[Round]":
    from calibration.oracle import rounds
    from calibration.switchback import samples, tables

    if not (folder / samples.FILES).is_dir():
        return rounds.read(folder / rounds.ROUNDS)
    return rounds.of_runs([one for one in tables.known(folder) if not one.orders.search])  # a run may be under way


def _page(arguments: argparse.Namespace, rows: "Sequence[Round]") -> None:
    import asa
    from asa.cli.extras import need
    from asa.cli.lab.bench import output as bench_output
    from asa.core.errors import AsaError
    from calibration.oracle import choices, page, plot, rounds
    from calibration.oracle.choices import Measure, Rule

    need("matplotlib", extra="bench")
    place: Path = arguments.page
    bench_output.writable(place)
    beside = place.with_suffix("")
    found = page.scored_by(rows)
    score = found[Measure.SCORE]
    pictures = []
    try:
        beside.mkdir(exist_ok=True)
        if score:
            plot.draw_rules(beside / "rules.svg", page.rules(found))
            plot.draw_cells(beside / "cells.svg", score, choices.judged(score, score, Rule.ORACLE))
            pictures = [
                (f"{beside.name}/rules.svg", "what each rule of choice gains above EEVDF"),
                (f"{beside.name}/cells.svg", "what Static-Oracle gains on each machine in each scenario"),
            ]
        made = page.Made(
            command=f"asa lab evaluate oracle --page {place}",
            version=asa.__version__,
            when_s=time.time(),
            played=_played({row.run for row in rows}),
            pictures=pictures,
        )
        bench_output.put(place, page.document(rows, made))
    except OSError as error:
        raise AsaError(f"{place}: cannot be written: {error.strerror}; name another place by --page") from error
    rounds.write(beside / rounds.ROUNDS, rows)
    print(f"wrote {place}, {beside}", file=sys.stderr)


def _played(known: set[str]) -> list[tuple[str, str, int, int]]:
    """Of each step: its name, what it tells, how many of its runs are kept, and how many there are."""
    from asa import paths
    from asa.act.portfolio import Portfolio
    from calibration.oracle import matrix

    modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()
    told = []
    for step in matrix.STEPS:
        ids = [work.id for _, work in matrix.works((step,), Path(), modes)]
        told.append((step.name, step.tells, sum(one in known for one in ids), len(ids)))
    return told


def _tables(arguments: argparse.Namespace, rows: "Sequence[Round]") -> None:
    from asa.decide import tablefile
    from calibration.oracle import mapping

    for machine, known in sorted(mapping.leads(rows).items()):
        file = mapping.table(machine, known, rows, "asa lab bench matrix")
        if file is not None:
            path = arguments.tables / f"lab-{machine}.yaml"
            tablefile.write(path, file)
            print(f"wrote {path}", file=sys.stderr)
