# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench laptop`: what daemon and helper cost on an installed machine; writes docs/laptop-figures.md."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.goals import Figure
    from calibration.laptop.benchmark import Options

_FEWEST_FOR_A_DOCUMENT = 10_000  # calls: the budget's number
_MOST_CALLS = 1_000_000


def register(benches: "Commands") -> None:
    """Add the parser."""
    laptop = benches.add_parser("laptop", help="what daemon and helper cost, and keep (root; partly in the lab)")
    laptop.add_argument(
        "--calls",
        type=bounds.number(2, _MOST_CALLS),
        default=10_000,
        metavar="N",
        help="of the helper, at random (default: 10000)",
    )
    laptop.add_argument("--only", metavar="FIGURE,...", help="measure these alone; no document unless --out names one")
    laptop.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help=f"document to write (default: docs/laptop-figures.md, by a whole run of {_FEWEST_FOR_A_DOCUMENT} calls "
        "or more)",
    )
    laptop.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    laptop.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""
    import os

    from asa import paths
    from asa.core.errors import AsaError
    from calibration.goals import Host
    from calibration.laptop.benchmark import measure
    from calibration.laptop.report import document

    options = _options(arguments)
    if os.geteuid() != 0:
        raise AsaError("probes and boxes need root; run: sudo asa lab bench laptop")
    out = arguments.out
    if out is None and arguments.only is None and arguments.calls >= _FEWEST_FOR_A_DOCUMENT:
        out = Path("docs/laptop-figures.md")
    if out is not None:
        bench_output.writable(out)
    places = paths.default()
    with bench_output.progress() as tell:
        result = measure(options, places.cache, places.state / "bench-laptop", tell)
    machine = Host.here(_command(arguments))
    if out is not None:
        bench_output.write({out: document(result, machine)})
    _print(result.figures, as_json=arguments.json)
    return 0


def _options(arguments: argparse.Namespace) -> "Options":
    from calibration.laptop.benchmark import Options
    from calibration.laptop.figures import LaptopFigure

    return Options(calls=arguments.calls, only=LaptopFigure.only(arguments.only))


def _print(figures: "list[Figure]", *, as_json: bool) -> None:
    from calibration.laptop.report import as_json as line
    from calibration.laptop.report import cells

    if not as_json:
        bench_output.table(("figure", "value", "goal", "met", ""), [cells(figure) for figure in figures])
    for figure in figures:
        print(line(figure))


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "lab", "bench", "laptop", "--calls", str(arguments.calls)]
    words += ["--only", arguments.only] if arguments.only is not None else []
    words += ["--out", str(arguments.out)] if arguments.out is not None else []
    return " ".join(words)
