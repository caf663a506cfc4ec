# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate model`: what recognition is worth on seeds, places and programs that it has not learnt from."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.extras import need

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.goals import Figure
    from calibration.recognition.figures import Result
    from models.train.dataset import Dataset

_TEXT = """\
Trains models that each have something kept away (a seed, a place, a program), and judges them by it. What was found
of a dataset is kept: a second call with the same recordings, seed and version prints it without training anew.
"""
_MORE = """\
exit status:
  0  the figures were printed, whether their goals are met or not
  1  recordings cannot be read, or are not enough to judge by

examples:
  asa lab evaluate model
      Of the benchmark's recordings in the package: figures with their goals, and where it errs.
  asa lab evaluate model --recordings mine --page mine.md
      Of those in a folder, with a page and its pictures.
  asa lab evaluate model --quick --json
      A small model and few folds, to see that all works; JSON objects, one a line.
"""


def register(actions: "Commands") -> None:
    """Add the parser to those of `asa lab evaluate`."""
    from asa.cli.lab import train

    command = actions.add_parser(
        "model", help="recognition: accuracy on what was not learnt from", description=_TEXT, epilog=_MORE
    )
    train.add_recordings(command)
    command.add_argument(
        "--model", type=Path, metavar="FILE", help="artefact whose evaluation is timed (default: the package's)"
    )
    command.add_argument(
        "--table", type=Path, metavar="FILE", help="mapping table of the figure by scheduler (default: default.yaml)"
    )
    command.add_argument(
        "--sequences",
        type=Path,
        nargs="+",
        default=[],
        metavar="JOURNAL",
        help="sessions of `asa lab record --sequence` to judge the voting by (default: spliced from what was held out)",
    )
    command.add_argument("--page", type=Path, metavar="FILE", help="page to write (.md), pictures beside it")
    command.add_argument("--quick", action="store_true", help="a small model and few folds: worse figures, sooner")
    command.add_argument("--again", action="store_true", help="judge anew, also what was kept")
    command.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Raises AsaError."""
    need("pandas", "sklearn", "xgboost", "joblib", "rich", "matplotlib", extra="train,bench,guests")
    from asa.cli.lab import train

    train.single_threaded()
    from asa.core.errors import AsaError
    from calibration.goals import as_json
    from calibration.recognition import figures as evaluate_model_figures
    from calibration.recognition import sources
    from models.train import dataset

    if arguments.page is not None and not arguments.page.parent.is_dir():
        raise AsaError(f"{arguments.page}: its folder is not there; make it, or name another place by --page")
    data = dataset.assemble(sources.recordings(train.scenarios(arguments)), least_sessions=1)
    result = _result(arguments, sources.with_served(data))
    served, why = sources.served(arguments.table, result.classes)
    found = evaluate_model_figures.figures(result, served, why)
    if arguments.page is not None:
        _write(arguments, result, found)
    if not arguments.json:
        _print(result, found)
    for figure in found:
        print(as_json(figure))
    return 0


def _result(arguments: argparse.Namespace, data: "Dataset") -> "Result":
    from asa import paths
    from asa.cli.lab import train
    from asa.cli.lab.bench import output as bench_output
    from calibration.recognition import evaluation as evaluate_model
    from calibration.recognition import figures as evaluate_model_figures
    from models.train.ensemble import Recipe

    given = _given(arguments)
    name = evaluate_model_figures.file_name(data.sha256, arguments.seed, quick=arguments.quick, given=given)
    keep = arguments.keep or paths.default().cache / "recognition"
    places = [keep / name] if arguments.keep else [_shipped() / name, keep / name]
    for path in places:
        kept = None if arguments.again or arguments.sequences else evaluate_model_figures.read(path)
        if kept is not None:
            _say(f"as kept in {path}, made {kept.made}")
            return kept
    options = evaluate_model.Options(
        recipe=evaluate_model.QUICK if arguments.quick else Recipe(),
        seed=arguments.seed,
        quick=arguments.quick,
        jobs=train.jobs(arguments),
        kept=train.results(arguments.keep),
        model=arguments.model or paths.base_model(),
        sequences=tuple(arguments.sequences),
    )
    with bench_output.progress() as tell:
        result = evaluate_model.evaluate(data, options, tell)
    evaluate_model_figures.write(keep / name, result)
    _say(f"kept in {keep / name}")
    return result


def _given(arguments: argparse.Namespace) -> str:
    # times of a named model and voting on named sequences are not to be read later as the package's own
    import hashlib

    from models import versions

    files = [*([arguments.model] if arguments.model is not None else []), *arguments.sequences]
    names = [versions.hash_of(path) if path.is_file() else str(path) for path in files]
    return hashlib.sha256("\n".join(names).encode()).hexdigest() if names else ""


def _shipped() -> Path:
    import calibration

    return Path(calibration.__file__).parent / "results" / "recognition"


def _write(arguments: argparse.Namespace, result: "Result", found: "list[Figure]") -> None:
    from asa.cli.lab.bench import output as bench_output
    from calibration.recognition import page as evaluate_model_page
    from calibration.recognition import plot as evaluate_model_plot

    page: Path = arguments.page
    bench_output.writable(page)
    pictures = {}
    for what in evaluate_model_plot.PICTURES:
        if what == "learning" and not result.curve:
            continue
        path = page.with_name(f"{page.stem}-{what}.svg")
        evaluate_model_plot.draw(path, what, result)
        pictures[what] = path.name
        _say(f"wrote {path}")
    words = ["asa lab evaluate model", *(["--quick"] if result.quick else [])]
    words += [f"--recordings {arguments.recordings}"] if arguments.recordings is not None else []
    words += [f"--sequences {' '.join(map(str, arguments.sequences))}"] if arguments.sequences else []
    command = " ".join([*words, "--page", str(page)])
    bench_output.put(page, evaluate_model_page.page(result, found, pictures, command=command))
    _say(f"wrote {page}")


def _print(result: "Result", found: "list[Figure]") -> None:
    from asa.cli.lab.bench import output as bench_output
    from calibration.goals import HEAD
    from calibration.recognition import figures as evaluate_model_figures

    seeds = ", ".join(str(seed) for seed in result.seeds)
    print(f"{result.rows} rows; {'; '.join(f'{place}: {count} sessions' for place, count in result.sessions.items())}")
    print(f"held out: {result.held_out} in {result.folds} folds (seeds {seeds}), preferred: {', '.join(result.kinds)}")
    if result.lacks:
        print(f"lacking: {result.lacks}")
    if result.quick:
        print("quick: a small model and few folds, whose figures are worse than the model's")
    bench_output.table(HEAD, list(evaluate_model_figures.rows(found)))
    for one in result.places:
        if one.left_out_pct is not None and one.known_pct is not None:
            print(f"without {one.name}: {one.left_out_pct:.2f} % there, {one.known_pct:.2f} % with it")
    for point in result.curve:
        if point.accuracy_40_pct is not None:
            print(f"{point.sessions} sessions a label and place: {point.accuracy_40_pct:.2f} % of all labels")
    words = ", ".join(f"{true} as {seen} {count}" for true, seen, count in result.worst[:8])
    print(f"taken for another, ticks: {words}")
    recall = ", ".join(f"{name} {share:.1f} %" for name, share, _ in evaluate_model_figures.recall_pct(result)[:8])
    print(f"least recalled: {recall}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
