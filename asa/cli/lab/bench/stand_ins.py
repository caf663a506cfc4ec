# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench stand-ins`: the lab tier's stand-ins beside their programs, on this host; writes docs/stand-ins.md."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.main import Commands

_SHORTEST_S, _LONGEST_S = 1.0, 3_600.0
_DEFAULT_S = 30.0


def register(benches: "Commands") -> None:
    """Add the parser."""
    command = benches.add_parser(
        "stand-ins", help="the lab's stand-ins beside their programs (root; leave the host alone)"
    )
    command.add_argument(
        "--seconds",
        type=bounds.time(_SHORTEST_S, _LONGEST_S),
        default=_DEFAULT_S,
        metavar="S",
        help="that each is sampled (default: %(default)g)",
    )
    command.add_argument(
        "--only", metavar="NAME,...", help="these applications alone; writes no document without --out"
    )
    command.add_argument("--out", type=Path, metavar="FILE", help="document to write (default: docs/stand-ins.md)")
    command.add_argument("--json", action="store_true", help="the JSON lines alone")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""

    from asa import paths
    from calibration.goals import Host
    from calibration.scenarios import stand_ins, stand_ins_report
    from scenarios.application import Tier
    from scenarios.catalogue import applications

    names = _names(arguments.only)
    out = arguments.out or (Path("docs/stand-ins.md") if arguments.only is None else None)
    if out is not None:
        bench_output.writable(out)
    machine = Host.here(_command(arguments))
    options = stand_ins.Options(names=names, seconds=arguments.seconds)
    with bench_output.progress() as tell:
        result = stand_ins.compare(options, {tier: applications(tier) for tier in Tier}, paths.default(), tell)
    if out is not None:
        bench_output.write({out: stand_ins_report.document(result, machine)})
    for text in stand_ins_report.warnings(result):
        print(f"asa: {text}", file=sys.stderr)
    if not arguments.json:
        titles = ("application", "quantity", "program", "stand-in", "ratio", "")
        bench_output.table(titles, stand_ins_report.rows(result))
    for line in stand_ins_report.lines(result):
        print(line)
    return 0


def _names(text: str | None) -> tuple[str, ...]:
    from asa.core.errors import InputError
    from scenarios.standins import APPLICATIONS

    known = tuple(APPLICATIONS)
    if text is None:
        return known
    wanted = [name.strip() for name in text.split(",")]
    for name in wanted:
        if name not in known:
            raise InputError(path="--only", key="", value=name, allowed=", ".join(known))
    return tuple(name for name in known if name in wanted)


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "lab", "bench", "stand-ins", "--seconds", f"{arguments.seconds:g}"]
    words += ["--only", arguments.only] if arguments.only is not None else []
    words += ["--out", str(arguments.out)] if arguments.out is not None else []
    return " ".join(words)
