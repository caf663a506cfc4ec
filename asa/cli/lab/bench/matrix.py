# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench matrix`: switchback runs of all machines, scenarios and schedulers, step by step; keeps tables."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asa.cli.main import Commands
    from calibration.controllers.columns import Given
    from calibration.oracle.matrix import Cost, Step
    from calibration.switchback.play import Work
    from calibration.switchback.samples import Run

_TEXT = """\
Plays the matrix of switchback runs, in steps that each tell something by themselves. Says first what it costs. One
folder grows: the same command goes on where it was interrupted, and a later one with other steps adds to it.
"""
_MORE = """\
exit status:
  0  what was asked for is played, or --hours have passed
  1  nothing was played, or it could not go on
  4  it went to its end, and runs failed

files of the folder:
  rounds.parquet                                 a row for each scheduler in each round: all that is judged by
  runs.parquet, blocks.parquet, samples.parquet  what was measured, a row a run, a block, a sample
  runs/ID.json                                   the same of runs that this folder's command played
  states/ID/                                     what an agent had learnt at the end of a run

examples:
  asa lab bench matrix --plan
      Steps, machines, what is played, and how many hours of a processor are left.
  asa lab bench matrix --step small,classic --hours 3 --jobs 2
      Four pairs on two machines, and one scheduler a guest to confirm them; no run is begun after three hours.
  asa lab bench matrix --step agent --model model.npz
      The agent in turns with EEVDF, with a model that knows the lab's stand-ins.
  asa lab bench matrix --step hours,learnt --model model.npz
      A fresh agent for three hours of guests, one after the other, and what it takes then.
"""
_HOUR_S = 3600.0
EXIT_LACKING = 4


def register(benches: "Commands") -> None:
    """Add the parser."""
    command = benches.add_parser(
        "matrix", help="switchback runs of all machines, scenarios and schedulers", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--out", type=Path, metavar="DIR", help="folder of the runs (default: the package's)")
    command.add_argument("--step", default="all", metavar="NAME,...", help="of the matrix, as --plan lists them")
    command.add_argument("--machine", default="", metavar="MACHINE,...", help="of these steps, these machines alone")
    command.add_argument("--hours", type=bounds.time(0.01, 10_000.0), metavar="H", help="begin no run after so long")
    command.add_argument("--model", type=Path, metavar="FILE", help="the agent's model (default: the shipped one)")
    command.add_argument("--jobs", type=bounds.COUNT, default=1, metavar="N", help="guests at once (default: 1)")
    command.add_argument("--plan", action="store_true", help="say what is left and what it costs, and play nothing")
    command.add_argument("--json", action="store_true", help="the plan as JSON lines")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code EXIT_LACKING when a run failed."""
    from asa.cli.extras import need

    need("pyarrow", "scipy", "rich", extra="bench,guests,train")
    import calibration
    from asa import paths
    from calibration.oracle import matrix, rounds
    from calibration.switchback import play, tables

    out: Path = arguments.out or Path(calibration.__file__).parent / "results" / "switchback"
    out.mkdir(parents=True, exist_ok=True)
    kept = [one for one in tables.known(out) if not one.orders.search]
    planned = _planned(arguments, out, kept)
    _print(matrix.costs(planned, kept), as_json=arguments.json)
    if arguments.plan:
        return 0
    known = {one.id for one in kept}
    works = [work for _, work in planned if work.id not in known]
    try:
        with bench_output.progress() as tell:
            troubles = play.play_all(works, out, paths.default(), tell, at_once=arguments.jobs, hours=arguments.hours)
    finally:  # what was played is in the tables, whatever ended it
        runs = [one for one in tables.known(out) if not one.orders.search]
        tables.write(out, runs)
        rounds.write(out / rounds.ROUNDS, rounds.of_runs(runs))
    for words in troubles:
        print(f"asa: {words}", file=sys.stderr)
    return EXIT_LACKING if troubles else 0


def _planned(arguments: argparse.Namespace, out: Path, kept: "Sequence[Run]") -> "list[tuple[Step, Work]]":
    from asa import paths
    from asa.act.portfolio import Portfolio
    from calibration.oracle import matrix
    from calibration.scale.benchmark import usable

    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    every = portfolio.modes()
    modes = {name: every[name] for name in usable(portfolio, ())}
    machines = [name.strip() for name in arguments.machine.split(",") if name.strip()]
    return matrix.works(matrix.steps(arguments.step), out, modes, kept, machines, _given(arguments))


def _given(arguments: argparse.Namespace) -> "Given":
    from asa.core.errors import AsaError
    from calibration.controllers.columns import Given, source

    model: Path | None = arguments.model
    if model is not None and not model.is_file():
        raise AsaError(f"--model: {model}: there is no such file; `asa lab train --out` makes one")
    return Given(model="" if model is None else str(model.resolve()), code=source())


def _print(costs: "Sequence[Cost]", *, as_json: bool) -> None:
    from dataclasses import asdict

    from asa import wire

    if as_json:
        for one in costs:
            print(wire.json_text(asdict(one)))
        return
    total_h = sum(one.left_s for one in costs) / _HOUR_S
    rows = [(one.step, one.machine, str(one.runs), str(one.played), f"{one.left_s / _HOUR_S:.1f}") for one in costs]
    rows.append(
        ("all", "", str(sum(one.runs for one in costs)), str(sum(one.played for one in costs)), f"{total_h:.1f}")
    )
    bench_output.table(("step", "machine", "runs", "played", "hours of a processor left"), rows)
