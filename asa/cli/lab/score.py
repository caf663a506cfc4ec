# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab score`: how a benchmark's figures become scores from 0 to 1: constants with their reasons, and curves.

Reads nothing but the table in `calibration.scoring`. `show --markdown` writes docs/scoring.md, `plot` docs/scoring.svg.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands

_TEXT = """\
A benchmark's figures become scores from 0 to 1 as a person feels them: flat where nothing is usable, flat
where nobody can tell, steep in between. `show` lists each metric's constants with the reason and its
source, `plot` draws the curves.
"""
_MORE = """\
examples:
  asa lab score show game
      The metrics of one application.
  asa lab score plot --out curves.svg
      All curves as a picture.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "score", help="explain how measurements become scores", description=_TEXT, epilog=_MORE
    )
    actions = command.add_subparsers(dest="score", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="each metric's constants, with the reason and its source")
    show.add_argument("application", nargs="?", metavar="APPLICATION", help="this one alone, such as web or kernel")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object")
    form.add_argument("--markdown", action="store_true", help="all, with the formulas: docs/scoring.md")
    show.set_defaults(run=_show)
    plot = actions.add_parser("plot", help="draw the curves (SVG)")
    plot.add_argument("--json", action="store_true", help="the curves' points as one JSON object, no picture")
    plot.add_argument("--out", type=Path, metavar="FILE", help="write it there (default: standard output)")
    plot.set_defaults(run=_plot)


def _show(arguments: argparse.Namespace) -> int:
    """Raises AsaError for an application that is not scored."""
    import json

    from asa.core.errors import AsaError
    from calibration.scoring.page import lines, markdown, plain
    from calibration.scoring.table import APPLICATIONS

    name = arguments.application
    if name is not None and arguments.markdown:
        raise AsaError("--markdown writes the whole document; leave the application out")
    if name is not None and name not in APPLICATIONS:
        raise AsaError(f"{name!r} is not scored; the applications are {', '.join(APPLICATIONS)}")
    chosen = tuple(one for one in APPLICATIONS.values() if name in (None, one.name))
    if arguments.json:
        print(json.dumps(plain(chosen)))
    else:
        print("\n".join(markdown() if arguments.markdown else lines(chosen)))
    return 0


def _plot(arguments: argparse.Namespace) -> int:
    """Raises AsaError when the file cannot be written."""
    import json
    from dataclasses import asdict

    from asa.cli.lab.bench import output as bench_output
    from asa.core.errors import AsaError
    from calibration.scoring.plot import curves, picture

    found = curves()
    text = json.dumps({"curves": [asdict(curve) for curve in found]}) + "\n" if arguments.json else picture(found)
    if arguments.out is None:
        print(text, end="")
        return 0
    bench_output.writable(arguments.out)
    try:
        bench_output.put(arguments.out, text)
    except OSError as error:
        raise AsaError(f"{arguments.out}: cannot be written: {error.strerror}; name another file") from error
    return 0
