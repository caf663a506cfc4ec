# SPDX-License-Identifier: GPL-2.0-only
"""`python -m calibration.lab`: prints the lab's own figures as JSON lines, measured anew with `--measure`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from asa import paths
from asa.core.errors import AsaError
from calibration.goals import as_json
from calibration.kept import collect, figures, read, write
from calibration.lab.benchmark import KEPT, Bench, LabFigure


def main(arguments: Sequence[str] | None = None) -> int:
    """0 whatever the figures are; 2 with one line on stderr where they cannot be asked for."""
    parser = argparse.ArgumentParser(prog="python -m calibration.lab", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure anew, and keep it")
    parser.add_argument("--only", metavar="NAMES", help="these figures, with commas between; the others stay")
    parser.add_argument(
        "--kept", type=Path, default=KEPT, metavar="FILE", help="where it is kept (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    try:
        only = LabFigure.only(given.only)
    except AsaError as error:
        print(f"asa: {error}", file=sys.stderr)
        return 2
    if given.measure:
        bench = Bench(paths.default(), lambda line: print(line, file=sys.stderr, flush=True))
        for name, count in bench.counts().items():
            if name in only:  # each is kept at once: demonstrations take an hour
                write(collect({name: count}, read(given.kept)), given.kept)
    for figure in figures(read(given.kept), LabFigure, "make bench-lab"):
        if figure.name in only:
            print(as_json(figure))
    return 0


if __name__ == "__main__":
    sys.exit(main())
