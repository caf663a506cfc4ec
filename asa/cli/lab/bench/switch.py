# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench switch`: what a switch takes, each way, in guests of the lab; writes docs/switching-figures.md."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.goals import Host
    from calibration.switch.benchmark import Options, Result

_MOST_SWITCHES = 1_000
_FEWEST_FOR_A_DOCUMENT = 20  # the budgets' number
_BOTH = "both"


def register(benches: "Commands") -> None:
    """Add the parser."""
    switch = benches.add_parser("switch", help="what a switch takes, each way (in the lab; leave the host alone)")
    switch.add_argument(
        "--switches", type=bounds.number(1, _MOST_SWITCHES), default=20, metavar="N", help="of each kind (default: 20)"
    )
    switch.add_argument(
        "--clock", choices=("parallel", "wall", _BOTH), default=_BOTH, help="of the guests (default: %(default)s)"
    )
    switch.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="document to write, its picture beside it (default: docs/switching-figures.md, by a run of both clocks "
        f"and {_FEWEST_FOR_A_DOCUMENT} switches or more)",
    )
    switch.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    switch.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""

    from asa import paths
    from calibration.goals import Host
    from calibration.switch.benchmark import Options, measure
    from scenarios.lab.emulator import Clock

    clocks = (Clock.PARALLEL, Clock.WALL) if arguments.clock == _BOTH else (Clock(arguments.clock),)
    options = Options(clocks=clocks, switches=arguments.switches)
    out = arguments.out
    if out is None and len(clocks) > 1 and arguments.switches >= _FEWEST_FOR_A_DOCUMENT:
        out = Path("docs/switching-figures.md")
    if out is not None:
        bench_output.writable(out)
    machine = Host.here(_command(arguments, options))
    places = paths.default()
    with bench_output.progress() as tell:
        result = measure(options, places.cache, places.state / "bench-switch", tell)
    if out is not None:
        _write(result, machine, out)
    _print(result, as_json=arguments.json)
    return 0


def _write(result: "Result", machine: "Host", out: Path) -> None:
    from calibration.switch.plot import picture
    from calibration.switch.report import document

    image = out.with_suffix(".svg")
    bench_output.write({image: picture(result.found), out: document(result, machine, image=image.name)})


def _print(result: "Result", *, as_json: bool) -> None:
    from calibration.switch.report import as_json as line
    from calibration.switch.report import cells, warnings

    for text in warnings(result):
        print(f"asa: {text}", file=sys.stderr)
    figures = result.figures()
    if not as_json:
        bench_output.table(("figure", "clock", "value", "goal", "met", ""), [cells(figure) for figure in figures])
    for figure in figures:
        print(line(figure))


def _command(arguments: argparse.Namespace, options: "Options") -> str:
    words = ["asa", "lab", "bench", "switch", "--switches", str(options.switches), "--clock", arguments.clock]
    words += ["--out", str(arguments.out)] if arguments.out is not None else []
    return " ".join(words)
