# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench switchback`: all schedulers take turns within one guest that plays one scenario; keeps tables."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asa.cli.main import Commands
    from calibration.switchback.figures import Change
    from calibration.switchback.play import Options
    from calibration.switchback.samples import Run

_TEXT = """\
Plays each scenario in a guest of its own, started once. In each round all schedulers load and wait, then take
turns for some seconds each, in an order drawn anew; the kernel's own is the first and the last of each round.
The same command goes on where it was interrupted.
"""
_MORE = """\
exit status:
  0  every run was played
  1  nothing was played, or it could not go on
  4  it went to its end, and runs failed

files of the folder:
  runs.parquet, blocks.parquet, samples.parquet  what was measured, a row a run, a block, a sample
  runs/ID.json                                   the same of runs that this folder's command played

examples:
  asa lab bench switchback --out runs --machine vm120 --scenario S1..S7 --scheduler eevdf,scx_simple,scx_flash
      Seven scenarios; EEVDF is compared with itself, too.
  asa lab bench switchback --out found --find-intensities --keep calibration/switchback/intensities.yaml
      How hard each scenario has to be, so that EEVDF scores between 0.3 and 0.9.
"""
EXIT_LACKING = 4


def register(benches: "Commands") -> None:
    """Add the parser."""
    command = benches.add_parser(
        "switchback", help="schedulers in turns within one guest and scenario", description=_TEXT, epilog=_MORE
    )
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the runs")
    command.add_argument(
        "--machine", default="vm120", metavar="MACHINE,...", help="as of `asa lab fleet run` (default: vm120)"
    )
    command.add_argument(
        "--scenario", default="all", metavar="SCENARIO,...", help="pairs, as of `asa lab bench run` (default: all)"
    )
    command.add_argument(
        "--scheduler", default="installed", metavar="NAME,...", help="who takes turns (default: all that are installed)"
    )
    command.add_argument("--rounds", type=bounds.COUNT, default=4, metavar="N", help="of each run (default: 4)")
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of the first run (default: 1)")
    command.add_argument(
        "--seeds",
        type=bounds.COUNT,
        default=1,
        metavar="N",
        help="runs of each scenario, seeds counted up (default: 1)",
    )
    command.add_argument(
        "--settle",
        type=bounds.time(0.1, 60.0),
        default=2.0,
        metavar="S",
        help="after each switch, before what counts (default: 2)",
    )
    command.add_argument(
        "--window",
        type=bounds.time(0.5, 600.0),
        metavar="S",
        help="of each block (default: 5 to 20, by how long the scenario's main metric is remembered)",
    )
    command.add_argument("--jobs", type=bounds.COUNT, default=1, metavar="N", help="guests at once (default: 1)")
    command.add_argument(
        "--find-intensities", action="store_true", help="find how hard the loads have to be, and play no rounds"
    )
    command.add_argument("--keep", type=Path, metavar="FILE", help="where the intensities are added (YAML)")
    command.add_argument("--json", action="store_true", help="comparisons, or intensities, as JSON lines")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code EXIT_LACKING when a run failed."""
    from asa.cli.extras import need

    need("pyarrow", "scipy", "rich", extra="bench,guests,train")
    from asa import paths
    from calibration.switchback import play, tables

    options = _options(arguments)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    with bench_output.progress() as tell:
        troubles = play.play(options, out, paths.default(), tell)
    runs = [one for one in tables.known(out) if one.orders.search is arguments.find_intensities]
    for words in (*troubles, *(f"{one.id}: {words}" for one in runs for words in one.troubles)):
        print(f"asa: {words}", file=sys.stderr)
    if arguments.find_intensities:
        _found(arguments, runs)
    else:
        tables.write(out, runs)
        _print(runs, as_json=arguments.json)
    return EXIT_LACKING if troubles else 0


def _options(arguments: argparse.Namespace) -> "Options":
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.core.errors import AsaError
    from calibration.scale.benchmark import usable
    from calibration.switchback.play import Options
    from scenarios import catalogue
    from scenarios.lab import machines

    if arguments.keep is not None and not arguments.find_intensities:
        raise AsaError("--keep is of --find-intensities; name both, or neither")
    names: tuple[str, ...] = ()
    if not arguments.find_intensities:
        portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
        words = tuple(word.strip() for word in arguments.scheduler.split(","))
        names = usable(portfolio, ()) if words == ("installed",) else words
    return Options(
        machines=machines.find(arguments.machine),
        scenarios=catalogue.find(arguments.scenario),
        schedulers=names,
        rounds=arguments.rounds,
        seed=arguments.seed,
        seeds=arguments.seeds,
        search=arguments.find_intensities,
        settle_s=arguments.settle,
        window_s=arguments.window,
        at_once=arguments.jobs,
    )


def _found(arguments: argparse.Namespace, runs: "Sequence[Run]") -> None:
    from asa import wire
    from calibration.switchback import intensity

    known = intensity.of_runs(runs)
    if arguments.keep is not None:
        words = f"asa lab bench switchback --find-intensities --machine {arguments.machine}"
        intensity.keep(arguments.keep, known, f"{words} --scenario {arguments.scenario}")
        print(f"wrote {arguments.keep}", file=sys.stderr)
    rows = [(name, label, one) for name, machine in known.items() for label, one in machine.scenarios.items()]
    if arguments.json:
        for name, label, one in rows:
            print(wire.json_text({"machine": name, "scenario": label} | wire.plain(one)))
        return
    bench_output.table(
        ("machine", "scenario", "crowd", "effort", "score of EEVDF"),
        [(name, label, f"{one.crowd:g}", f"{one.effort:g}", f"{one.score:.3f}") for name, label, one in rows],
    )


def _print(runs: "Sequence[Run]", *, as_json: bool) -> None:
    from dataclasses import asdict

    from asa import wire
    from calibration.switchback.benchmark import main_changes
    from calibration.switchback.figures import changes

    made = [one for run in runs for one in changes(run)]
    if as_json:
        for one in made:
            print(wire.json_text(asdict(one) | {"verdict": one.verdict}))
        return
    bench_output.table(
        ("run", "scheduler", "figure", "EEVDF", "value", "change", "95 %", "rounds", ""),
        [_row(one) for one in main_changes(made)],
    )
    for run in runs:
        remembered = ", ".join(f"{name} {one:.2f} s" for name, one in run.memories_s.items() if one is not None)
        cost = f"{run.host_cpu_s:.0f} s of a CPU here, {run.guest_s:.0f} s of the guest's time"
        print(f"{run.id}: windows of {run.window_s:g} s ({remembered or 'nothing known'}); {cost}")


def _row(one: "Change") -> tuple[str, ...]:
    between = "" if one.low is None else f"{one.low:+.1f} to {one.high:+.1f}"
    who = f"{one.scheduler} (itself)" if one.against_itself else one.scheduler
    figure = f"{one.probe}, {one.unit}" if one.unit else one.probe
    values = f"{one.own:.4g}", f"{one.value:.4g}", f"{one.pct:+.1f} %"
    return one.run, who, figure, *values, between, str(one.rounds), one.verdict
