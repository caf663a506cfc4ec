# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate fleet`: what the agent is worth, by kept runs of a fleet of machines; writes docs/evaluation.md."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.fleet.figures.blocks import PlayedMachine

_TEXT = """\
Compares the agent with EEVDF, every single scheduler, the best of them, scx_loader's --auto rule and a random router,
by the runs that `asa lab fleet run` has kept. It measures nothing.
"""
_MORE = """\
exit status:
  0  the figures were printed, whether their goals are met or not
  1  kept runs cannot be read, or there are none

examples:
  asa lab evaluate fleet calibration/results/fleet
      Figures with their goals.
  asa lab evaluate fleet calibration/results/fleet --page docs/evaluation.md
      The page with all tables; its pictures and all scores in docs/evaluation.
  asa lab evaluate fleet --json
      The figures alone, a JSON object a line; value is null for what no kept run tells.
"""


def register(actions: "Commands") -> None:
    """Add the parser to those of `asa lab evaluate`."""
    command = actions.add_parser(
        "fleet", help="the agent against EEVDF, every scheduler and other rules", description=_TEXT, epilog=_MORE
    )
    command.add_argument(
        "folder",
        type=Path,
        nargs="?",
        metavar="FOLDER",
        help="what `asa lab fleet run` kept, or a folder of several (default: the package's)",
    )
    command.add_argument("--page", type=Path, metavar="FILE", help="write the whole evaluation there (Markdown)")
    command.add_argument(
        "--notes", type=Path, metavar="FILE", help="Markdown for the page: what was tried where a goal is missed"
    )
    command.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises AsaError."""
    from asa.cli.extras import need

    need("pyarrow", "pandas", "scipy", "statsmodels", "rich", extra="bench,guests,train")
    import calibration
    from asa.cli.lab.bench import output as bench_output
    from calibration.fleet import page as fleet_page
    from calibration.fleet.figures import read as fleet_figures_read
    from calibration.fleet.figures.named import figures

    folder = arguments.folder or Path(calibration.__file__).parent / "results" / "fleet"
    machines = fleet_figures_read.read(_near(folder))
    left = fleet_figures_read.unfinished(_near(folder))
    for one in left:
        print(f"{one}: left out: it has no tables yet; `asa lab fleet run` makes them at its end", file=sys.stderr)
    found = figures(machines)
    if arguments.page is not None:
        need("matplotlib", extra="bench")
        _write(arguments, folder, machines, left)
    if not arguments.json:
        bench_output.table(fleet_page.HEAD, [fleet_page.cells(figure) for figure in found])
    for figure in found:
        print(fleet_page.as_json(figure))
    return 0


def _write(arguments: argparse.Namespace, folder: Path, machines: "list[PlayedMachine]", left: list[Path]) -> None:
    import asa
    from asa.cli.lab.bench import output as bench_output
    from asa.core.errors import AsaError
    from calibration.fleet import page as fleet_page
    from calibration.fleet import plots as fleet_plots
    from calibration.fleet import scores as fleet_scores
    from calibration.fleet.figures import windows as fleet_figures_windows

    page: Path = arguments.page
    bench_output.writable(page)
    notes = _read(arguments.notes)
    beside = page.parent / page.stem
    windows = fleet_figures_windows.read(folder)
    names = fleet_plots.draw(beside, machines, windows)
    scores = beside / "scores.parquet"
    fleet_scores.write(scores, machines)
    made = fleet_page.Made(
        command=_command(arguments),
        when_s=time.time(),
        version=asa.__version__,
        pictures=[(f"{page.stem}/{name}.svg", fleet_plots.PICTURES[name]) for name in names],
        scores=f"{page.stem}/{scores.name}",
        notes=notes,
        left=left,
    )
    try:
        bench_output.put(page, fleet_page.document(machines, windows, made))
    except OSError as error:
        raise AsaError(f"{page}: cannot be written: {error.strerror}; name another place by --page") from error
    print(f"wrote {page}, {beside}", file=sys.stderr)


def _read(notes: Path | None) -> str:
    from asa.core.errors import AsaError

    if notes is None:
        return ""
    try:
        return notes.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AsaError(f"{notes}: cannot be read: {error}; name a text file by --notes") from error


def _near(folder: Path) -> Path:
    """As a path from here where it lies below: a page is the same wherever the project lies."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_absolute() and folder.is_relative_to(here) else folder


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "lab", "evaluate", "fleet"]
    words += [str(arguments.folder)] if arguments.folder is not None else []
    words += ["--page", str(arguments.page)]
    words += ["--notes", str(arguments.notes)] if arguments.notes is not None else []
    return " ".join(words)
