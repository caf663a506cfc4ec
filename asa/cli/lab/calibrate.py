# SPDX-License-Identifier: GPL-2.0-only
"""`asa calibrate prototype|overhead|generalize`: measures this machine, or guests of the lab, and writes its table."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.extras import need
from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.lab.calibrate_setup import Setup
    from asa.cli.main import Commands
    from asa.decide.table import TableFile
    from calibration.stages.campaign import Learnt

LAB_CPUS = 4

_TEXT = """\
Finds out which scheduler serves which use best on this machine, and what it costs to switch to it, in three
stages, and writes that into the machine's mapping table. The same command goes on where it was interrupted;
until a stage has ended the table in force stays as it is. One that the new table does not go on from is kept
beside it, as table.yaml.1, .2 and so on.
"""
_MORE = """\
stages:
  prototype   each scheduler plays each scenario: a ranking for each class
  overhead    the agent decides, and what it chooses is loaded and not attached: the cost of a switch
  generalize  the agent switches; trials go where a ranking is uncertain, until it is settled or the budget spent

exit status:
  0  the table was written
  1  it was not, and is as it was; one line on standard error says why

files of the campaign's folder:
  trials.parquet, samples.parquet  every trial that was played, as of `asa lab bench run`
  machine.json                     what the machine is
  recordings/                      with --record: what `asa lab train --recordings` reads

examples:
  sudo asa calibrate prototype
      Each scheduler and each of its modes through the 28 scenarios. That takes 12 hours and more.
  sudo asa calibrate overhead --scenario web
      The costs, by the seven scenarios with a browser.
  sudo asa calibrate generalize --minutes 120
      Two hours more for what is uncertain. `asa adapt` is the short form of it, for a new machine.
  asa calibrate prototype --in-lab --jobs 2 --scheduler eevdf,scx_simple --scenario web+archive
      Guests of the lab stand for the machine; the table goes into the campaign's folder.
"""


def register(commands: "Commands") -> None:
    """Add the parsers."""
    command = commands.add_parser(
        "calibrate", help="measure which scheduler suits each workload on this machine", description=_TEXT, epilog=_MORE
    )
    stages = command.add_subparsers(dest="stage", metavar="STAGE", required=True)
    prototype = stages.add_parser("prototype", help="stage 1: every scheduler through the scenarios")
    add_common(prototype, schedulers="all")
    prototype.add_argument(
        "--repeat", type=bounds.COUNT, default=3, metavar="N", help="each with other parameters; may grow (default: 3)"
    )
    prototype.set_defaults(run=_prototype)
    overhead = stages.add_parser("overhead", help="stage 2: what it costs to decide and to switch")
    add_common(overhead, schedulers="ranked", scenario="web+kernel,office+video,game+llm,audio+disk")
    overhead.add_argument(
        "--repeat", type=bounds.COUNT, default=1, metavar="N", help="each with other parameters; may grow (default: 1)"
    )
    overhead.set_defaults(run=_overhead)
    generalize = stages.add_parser("generalize", help="stage 3: real switches, where a ranking is uncertain")
    add_common(generalize, schedulers="default")
    budget = generalize.add_mutually_exclusive_group()
    budget.add_argument("--trials", type=bounds.COUNT, metavar="N", help="most trials that are played (default: 200)")
    budget.add_argument(
        "--minutes",
        type=bounds.MINUTES,
        metavar="M",
        help="most machine time instead",
    )
    add_live(generalize)
    generalize.set_defaults(run=_generalize)


def add_common(
    command: argparse.ArgumentParser, *, schedulers: str, scenario: str = "all", seconds: float = 20.0
) -> None:
    """The options that all stages have."""
    command.add_argument(
        "--scenario", default=scenario, metavar="SCENARIO,...", help="as of `asa lab bench run` (default: %(default)s)"
    )
    command.add_argument(
        "--scheduler",
        default=schedulers,
        metavar="NAME,...",
        help="all that can be started here in all their modes; default: in their default modes; ranked: those that the "
        "table ranks; or names, with a mode as scx_lavd:powersave (default: %(default)s)",
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="decides order and parameters (default: 0)")
    command.add_argument(
        "--seconds",
        type=bounds.SECONDS_ABOVE_0,
        default=seconds,
        metavar="S",
        help="of a trial that are measured (default: %(default)g)",
    )
    command.add_argument(
        "--warm-up", type=bounds.SECONDS, default=3.0, metavar="S", help="that are not (default: %(default)g)"
    )
    command.add_argument(
        "--again",
        type=bounds.COUNT_FROM_0,
        default=1,
        metavar="N",
        help="repetitions of a disturbed trial (default: 1)",
    )
    command.add_argument("--record", action="store_true", help="record each trial, too, to train a model from")
    command.add_argument("--in-lab", action="store_true", help="guests of the lab stand for the machine")
    command.add_argument("--jobs", type=bounds.COUNT, metavar="N", help="guests at once (default: 1)")
    command.add_argument("--cpus", type=bounds.COUNT, metavar="N", help=f"of a guest, up to 64 (default: {LAB_CPUS})")
    command.add_argument(
        "--machine", metavar="NAME|FILE", help="what a guest is: of `asa lab fleet list`, or a YAML file"
    )
    command.add_argument(
        "--from", dest="prior", type=Path, metavar="FILE", help="table to begin with (default: the one in force)"
    )
    command.add_argument(
        "--folder", type=Path, metavar="DIR", help="of the campaign (default: one of this request's, below asa's state)"
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="table to write (default: this machine's; in the lab, the campaign's)"
    )
    command.add_argument("--json", action="store_true", help="the outcome as one JSON object")


def add_live(command: argparse.ArgumentParser) -> None:
    """Add `--without-agent`."""
    command.add_argument(
        "--without-agent",
        action="store_true",
        help="bring schedulers into force directly: quicker, and the agent's cost is not in the scores",
    )


def _prototype(arguments: argparse.Namespace) -> int:
    from asa.core.errors import AsaError
    from calibration.stages import campaign as stages
    from calibration.stages import table as stages_table

    def finish(setup: "Setup") -> int:
        asked = setup.asked(repeats=arguments.repeat)
        plan, results = stages.play_plan(setup.folder, asked, setup.scenarios, setup.player)
        setup.keep(plan, results)
        played = setup.played(plan.run, results)
        file = stages_table.first(played, setup.before, setup.prior, setup.machine(), setup.measured(results))
        if not any(entry.score is not None for ranking in file.classes.values() for entry in ranking):
            raise AsaError(f"{setup.folder}: no scenario was scored under two schedulers; {setup.unchanged()}")
        return setup.finish(file, results, {})

    return conduct(arguments, finish)


def _overhead(arguments: argparse.Namespace) -> int:
    from asa import wire
    from asa.core.errors import AsaError
    from calibration.stages import campaign as stages
    from calibration.stages import table as stages_table

    def finish(setup: "Setup") -> int:
        asked = setup.asked(repeats=arguments.repeat, columns=stages.shadows(setup.schedulers))
        plan, results = stages.play_plan(setup.folder, asked, setup.scenarios, setup.player)
        setup.keep(plan, results)
        costs, lacking = stages_table.costs(results)
        if not costs:
            raise AsaError(f"{setup.folder}: no cost was measured; {setup.unchanged()}")
        file = stages_table.with_costs(costs, setup.before, setup.machine(), setup.measured(results))
        felt = stages_table.felt(setup.played(plan.run, results))
        return setup.finish(file, results, {"felt": wire.plain(felt), "left_out": lacking})

    return conduct(arguments, finish)


def _generalize(arguments: argparse.Namespace) -> int:
    trials = arguments.trials if arguments.trials or arguments.minutes else 200
    return generalize(arguments, trials, None if arguments.minutes is None else 60.0 * arguments.minutes)


def generalize(
    arguments: argparse.Namespace, trials: int | None, seconds: float | None, *, adapts: bool = False
) -> int:
    """Stage 3 with a budget in trials or in seconds of machine time; with `adapts` what it took is kept (`adapted`)."""
    from asa.core.errors import AsaError
    from calibration.stages import adapted
    from calibration.stages import campaign as stages
    from calibration.stages import table as stages_table
    from calibration.stages.best_arm import Rule

    def finish(setup: "Setup") -> int:
        wanted = stages.Campaign(
            run=stages.new_run(),
            asked=setup.asked(repeats=0),
            trials=trials,
            seconds=seconds,
            live=not arguments.without_agent,
            beliefs=stages_table.beliefs((one.label for one in setup.scenarios), setup.prior, setup.schedulers),
            before=setup.before,
        )
        found = stages.play_rounds(setup.folder, wanted, setup.player, Rule())
        results = list(found.results)
        if not found.verdicts:
            raise AsaError(f"{setup.folder}: no scenario was scored under two schedulers; {setup.unchanged()}")
        setup.keep(stages.whole(found, wanted.asked), results)
        played = setup.played(found.run, results)
        machine, measured = setup.machine(), setup.measured(results)
        carries = setup.old is not None or arguments.prior is not None
        file = stages_table.refined(
            played, setup.before, setup.prior, machine, measured, begun=found.before, carries=carries
        )
        code = setup.finish(file, results, _told(found), stages_table.kept(found.before, machine, measured))
        if adapts:
            adapted.write(setup.out, minutes_of(found))
        return code

    return conduct(arguments, finish)


def conduct(arguments: argparse.Namespace, finish: "Callable[[Setup], int]") -> int:
    """Make ready, run a stage, and say that nothing has changed when it is interrupted."""
    need("numpy", "pyarrow", "rich", "pandas", "scipy", "statsmodels", extra="bench,guests")
    from asa.cli.lab.calibrate_setup import prepare

    with bench_output.progress() as tell:
        setup = prepare(arguments, tell)
        try:
            return finish(setup)
        except KeyboardInterrupt:
            print(f"asa: interrupted; {setup.unchanged()}, the same command goes on from here", file=sys.stderr)
            raise


def minutes_of(found: "Learnt") -> float:
    """Of machine time."""
    return round(found.spent_s / 60.0, 2)


def _told(found: "Learnt") -> dict[str, object]:
    from calibration.stages.table import unlearnt

    return {
        "adapt_minutes": minutes_of(found),
        "rounds": found.rounds,
        "settled": sorted(label for label, one in found.verdicts.items() if one.settled),
        "unlearnt": unlearnt(found.verdicts, found.unplayed),
        "left_out": dict(found.left_out),
    }


def show(file: "TableFile") -> None:
    """Classes with their first entry, and what stands beside EEVDF; then costs."""
    from asa.core.decision import EEVDF

    rows = []
    for label, ranking in file.classes.items():
        first = ranking[0]
        own = next((entry for entry in ranking if entry.name == EEVDF), None)
        gain = "" if first.score is None or own is None or own.score is None else f"{first.score - own.score:+.3f}"
        score = "" if first.score is None else f"{first.score:.3f}"
        rows.append((label, str(first.name), score, gain, str(first.runs or ""), first.why))
    bench_output.table(("class", "scheduler", "score", "to eevdf", "runs", ""), rows)
    if file.costs:
        costs = [
            (name, _number(cost.switch_ms), _number(cost.overhead_pct), str(cost.runs), "")
            for name, cost in file.costs.items()
        ]
        bench_output.table(("scheduler", "switch, ms", "overhead, %", "runs", ""), costs)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"
