# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab surface`: chooses the particle swarm's coefficients by a Box-Behnken design of simulated searches."""

import argparse
import json
from typing import TYPE_CHECKING

from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from asa.cli.main import Commands
    from calibration.tuning.surface import Chosen, Searched

_FRESH = 3
_TEXT = """\
Chooses inertia and both pulls of the particle swarm as the study of CFS did: 14 whole searches of a Box-Behnken
design, and a second-order model of what they found and how soon. What is searched is the model of compositions,
which plays a batch: no guest boots. The choice and the study's coefficients then search with three other seeds.
The study's own table is shown beside it. Times and iterations are added up, as there: microseconds, and jiffies.
"""
_MORE = """\
examples:
  asa lab surface
      Minutes of one CPU; `asa lab tune --method pso` takes what it prints.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "surface", help="choose the swarm's coefficients by a response surface", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of the 14 searches (default: 1)")
    command.add_argument("--json", action="store_true", help="searches, model and choice as a JSON line")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Always 0."""
    from asa.cli.extras import need

    need("scipy", "rich", extra="bench,guests")
    from calibration.tuning import simulated, surface
    from calibration.tuning.swarm import Coefficients

    costs = simulated.costs()
    chosen = surface.choose(surface.searching(costs, len(simulated.NAMES), arguments.seed))
    seeds = range(arguments.seed + 1, arguments.seed + 1 + _FRESH)
    fresh = {
        name: [surface.searching(costs, len(simulated.NAMES), seed)(given) for seed in seeds]
        for name, given in (("chosen", chosen.best), ("the study's", Coefficients()))
    }
    if arguments.json:
        found = chosen.surface
        whole = {
            "runs": [_plain(one) for one in chosen.runs],
            "stationary": found.stationary,
            "curvatures": found.curvatures,
            "minimum": found.minimum,
            "chosen": (chosen.best.inertia, chosen.best.own, chosen.best.swarm),
            "fresh": {name: [_plain(one) for one in runs] for name, runs in fresh.items()},
        }
        print(json.dumps(whole))
    else:
        _show(chosen, fresh)
    return 0


def _plain(one: "Searched") -> dict[str, float]:
    given = one.coefficients
    return {
        "inertia": given.inertia,
        "own": given.own,
        "swarm": given.swarm,
        "makespan_us": one.cost,
        "iterations": one.iterations,
    }


def _show(chosen: "Chosen", fresh: "Mapping[str, Sequence[Searched]]") -> None:
    from calibration.tuning.surface import STUDY

    theirs: dict[tuple[float, ...], list[tuple[int, int]]] = {}
    for *factors, cost, iterations in reversed(STUDY):
        theirs.setdefault(tuple(factors), []).append((cost, iterations))
    least = min(row[3] for row in STUDY)
    rows = []
    for run in chosen.runs:
        place = run.coefficients.inertia, run.coefficients.own, run.coefficients.swarm
        cost, iterations = theirs[place].pop()  # the centre was played twice
        rows.append((*map(str, place), f"{run.cost:.0f}", f"{run.iterations}", f"+{cost - least}", f"{iterations}"))
    bench_output.table(
        ("inertia", "own pull", "swarm's pull", "least, us", "iterations", "the study's, jiffies", "iterations"), rows
    )
    what = "a minimum" if chosen.surface.minimum else "no minimum: the least of the model within the ranges is taken"
    print(
        f"the model's level point is {what}; curvatures {', '.join(f'{one:.0f}' for one in chosen.surface.curvatures)}"
    )
    best = chosen.best
    print(f"chosen: --coefficients {best.inertia:.4g},{best.own:.4g},{best.swarm:.4g}")
    for name, runs in fresh.items():
        said = ", ".join(f"{one.cost:.0f} us after {one.iterations}" for one in runs)
        print(f"with other seeds, {name}: {said}")
