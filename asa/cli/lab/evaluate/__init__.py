# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab evaluate`: what benchmark, recognition, voting, agent and lab are worth, by kept results and recordings."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.extras import need
from asa.cli.lab.evaluate import fleet, model, oracle, outside, voting

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.goals import Figure
    from calibration.scenarios.evaluation import Compared
    from models.train.recorded_table import Facts

_TEXT = """\
Judges by what is kept: `scenarios` says whether the benchmark repeats, whether it finds no difference where there
is none and one where there is, and whether results and recordings are complete; `model` says what recognition is
worth on what it has not learnt from, `voting` what the filters after it are, `fleet` what the agent is worth beside
single schedulers and other rules, `oracle` how much there is to gain at all, and `outside` whether the lab agrees with
published figures.
"""
_MORE = """\
exit status:
  0  the figures were printed, whether their goals are met or not
  1  kept results cannot be read

examples:
  asa lab evaluate scenarios
      Figures with their goals, and each scenario's comparison.
  asa lab evaluate scenarios --json
      The figures alone, a JSON object a line; value is null for what no kept result tells.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "evaluate", help="evaluate the agent by kept results and recordings", description=_TEXT, epilog=_MORE
    )
    actions = command.add_subparsers(dest="evaluate", metavar="WHAT", required=True)
    scenarios = actions.add_parser("scenarios", help="the benchmark: repeatability, A/A and A/B, completeness")
    scenarios.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="folders of `asa lab bench run` (default: the package's)",
    )
    scenarios.add_argument(
        "--dataset",
        type=Path,
        metavar="FILE",
        help="a Parquet file of `asa lab dataset build`, or a folder of packed journals (default: the package's)",
    )
    scenarios.add_argument("--plot", type=Path, metavar="FILE", help="draw the comparisons (.svg, .png)")
    scenarios.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    scenarios.set_defaults(run=_scenarios)
    model.register(actions)
    voting.register(actions)
    fleet.register(actions)
    outside.register(actions)
    oracle.register(actions)


def _scenarios(arguments: argparse.Namespace) -> int:
    """Raises AsaError."""
    need("pyarrow", "pandas", "scipy", "statsmodels", "rich", extra="bench,guests,train")
    import calibration
    from asa import paths
    from asa.core.decision import EEVDF
    from calibration.goals import as_json
    from calibration.scenarios import kept as evaluate_results
    from calibration.scenarios.evaluation import SIMPLE, compare, figures
    from scenarios.application import Tier
    from scenarios.conditions import said

    folder = arguments.results or Path(calibration.__file__).parent / "results"
    recordings = paths.base_model().parent.parent / "recordings"
    places = [arguments.dataset] if arguments.dataset else [recordings / "scenarios", recordings / "stand-ins"]
    runs = evaluate_results.read(folder)
    found = figures(runs, _facts(places))
    lab = [run for run in runs if run.tier == Tier.LAB]
    sides = [
        (f"{EEVDF} against itself", compare(lab, (EEVDF, 1), (EEVDF, 2))),
        (f"{EEVDF} against {SIMPLE}", compare(lab, (EEVDF, 1), (SIMPLE, 1))),
    ]
    if arguments.plot is not None:
        need("matplotlib", extra="bench")
        from calibration.scenarios.plot import draw

        draw(arguments.plot, sides)
    if not arguments.json:
        for line in said(evaluate_results.under(runs, Tier.LAB)):
            print(f"Runs of the lab: {line}")
        _print(found, sides)
    for figure in found:
        print(as_json(figure, "sign", "what"))
    return 0


def _facts(places: Sequence[Path]) -> "Sequence[Facts] | None":
    from models.train import recorded, recorded_table

    if len(places) == 1 and places[0].is_file():
        return recorded_table.read(places[0])
    journals = [path for folder in places for path in sorted(folder.glob(f"*.journal{recorded.PACKED}"))]
    return recorded_table.facts(recorded_table.table(recorded.sessions(journals))) if journals else None


def _print(found: "Sequence[Figure]", sides: "Sequence[tuple[str, Sequence[Compared]]]") -> None:
    from asa.cli.lab.bench import output as bench_output
    from calibration.goals import HEAD, cells

    for title, compared in sides:
        if compared:
            print(title)
            bench_output.table(
                ("scenario", "pairs", "score", "95 %", "effect", "p", ""), [_row(one) for one in compared]
            )
    bench_output.table(HEAD, [cells(figure) for figure in found])


def _row(one: "Compared") -> tuple[str, ...]:
    test = one.test
    between = "" if test.low is None else f"{test.low:+.3f} to {test.high:+.3f}"
    effect = "" if test.effect is None else f"{test.effect:+.1f}"
    p = "" if one.adjusted is None else f"{one.adjusted:.2g}{' *' if one.significant else ''}"
    metrics = ", ".join(f"{name} x{ratio:.2f}" for name, ratio in one.metrics)
    pairs = f"{test.pairs}, {one.lost} lost" if one.lost else str(test.pairs)
    return one.label, pairs, f"{test.mean:+.3f}", between, effect, p, metrics
