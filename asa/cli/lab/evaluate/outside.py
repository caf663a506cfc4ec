# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate outside`: is the lab's order of schedulers that of published figures? Writes docs/outside.md."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.outside.agreement import Agreement
    from calibration.outside.evidence import Evidence
    from calibration.scale.samples import Found

_TEXT = """\
Compares the order of schedulers in the lab, by the records that `asa lab bench scale` has kept, with the order in
figures that others published of real machines (mapping_tables/evidence.yaml). It measures nothing.
"""
_MORE = """\
exit status:
  0  the figures were printed, whether their goals are met or not
  1  records or published figures cannot be read, or there are none

examples:
  asa lab evaluate outside
      Kendall's tau of each published figure with the lab's.
  asa lab evaluate outside --page docs/outside.md
      The page with both figures of each scheduler, and its picture.
  asa lab evaluate outside --json
      The figures alone, a JSON object a line.
"""


def register(actions: "Commands") -> None:
    """Add the parser to those of `asa lab evaluate`."""
    command = actions.add_parser(
        "outside", help="the lab's order of schedulers beside published ones", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "folder", type=Path, nargs="?", metavar="FOLDER", help="records of the scale benchmark (default: the package's)"
    )
    command.add_argument("--evidence", type=Path, metavar="FILE", help="published figures (default: the package's)")
    command.add_argument("--page", type=Path, metavar="FILE", help="write the whole there (Markdown, .svg beside it)")
    command.add_argument("--plot", type=Path, metavar="FILE", help="draw the agreement (.svg, .png)")
    command.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises AsaError."""
    from asa.cli.extras import need

    need("scipy", "rich", extra="bench,guests")
    import calibration
    from asa import paths
    from asa.cli.lab.bench import output as bench_output
    from asa.decide import table
    from calibration.goals import as_json
    from calibration.outside import agreement, page
    from calibration.outside.evidence import read
    from calibration.scale.samples import kept

    evidence = read(arguments.evidence or paths.mapping_tables() / table.EVIDENCE)
    found = kept(arguments.folder or Path(calibration.__file__).parent / "results" / "scale")
    agreements = agreement.compare(evidence, found)
    if arguments.page is not None:
        _write(arguments, evidence, agreement.usable(found), agreements)
    if arguments.plot is not None:
        need("matplotlib", extra="bench")
        from calibration.outside.plot import draw

        draw(arguments.plot, agreements)
    if not arguments.json:
        bench_output.table(page.HEAD, [page.cells(one) for one in agreements])
    for figure in page.figures(agreements):
        print(as_json(figure, "sign", "what", "low", "high"))
    return 0


def _write(
    arguments: argparse.Namespace, evidence: "Evidence", found: "list[Found]", agreements: "list[Agreement]"
) -> None:
    import asa
    from asa.cli.extras import need
    from asa.cli.lab.bench import output as bench_output
    from asa.core.errors import AsaError
    from calibration.outside import page

    need("matplotlib", extra="bench")
    from calibration.outside.plot import draw

    place: Path = arguments.page
    bench_output.writable(place)
    image = place.with_suffix(".svg")
    made = page.Made(
        command=f"asa lab evaluate outside --page {place}",
        version=asa.__version__,
        when_s=time.time(),
        image=image.name,
    )
    try:
        draw(image, agreements)
        bench_output.put(place, page.document(evidence, found, agreements, made))
    except OSError as error:
        raise AsaError(f"{place}: cannot be written: {error.strerror}; name another place by --page") from error
    print(f"wrote {place}", file=sys.stderr)
