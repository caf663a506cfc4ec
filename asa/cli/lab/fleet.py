# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab fleet run|list`: plays scenarios on the lab's fleet of ten machines, under schedulers and controllers."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asa.cli.extras import need
from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asa.cli.main import Commands
    from calibration.fleet.run import Count, Request
    from calibration.fleet.task import Played
    from scenarios.lab.machines import Machine

EXIT_LACKING = 4  # what was played can be evaluated, which 1 does not say

_TEXT = """\
Guests of the lab as a fleet of machines: other numbers and speeds of CPUs, threads, caches and sizes of memory,
after the ten machines of the paper's evaluation. Laptops and machines of one's own are played, too.
"""
_RUN_TEXT = """\
Plays scenarios on machines of the fleet, under one column after another in random order: schedulers, and
controllers, which decide in a trial's course which scheduler is in force. The same command goes on where it
was interrupted, and plays again what has failed; with more columns, scenarios or repeats it adds them.
"""
_RUN_MORE = """\
columns, several by commas:
  scx_lavd, scx_bpfland:powersave, eevdf  a scheduler throughout
  agent                                   `asa run`, with the table and model that are given
  agent:fresh                             the same without its machine's table
  agent:inside                            the same at the guest's speed: else it has a laptop's
  agent:no-voting, agent:no-cooldown, agent:no-guard, agent:no-cost
                                          the same without a part of it
  loader-auto                             the rule of scx_loader --auto: scx_lavd while a CPU is busy
  random                                  one of the run's schedulers, drawn for each trial
  installed                               all schedulers that are installed here, and eevdf
  controllers                             agent, loader-auto, random

exit status:
  0  every trial was played
  1  nothing was played, or it could not go on: a folder of another run, a host that cannot play
  4  it went to its end, and trials failed or are left

files of the folder:
  MACHINE/trials.parquet   every trial; what a controller did is among its parameters
  MACHINE/samples.parquet  every sample
  MACHINE/machine.json     what the machine is, and what its agent was given
  MACHINE/plan.json        what is played; MACHINE/trials/ what was played

examples:
  asa lab fleet run --out fleet --machine vm120 --scenario S16 --scheduler eevdf,scx_simple,agent
      One scenario on one machine.
  asa lab fleet run --out fleet --table tables/ --repeat 5 --jobs 2
      Everything, each machine with its own table, two guests at once. Days.
  asa lab fleet run --out fleet --cluster tcp://head:8786
      The same on the workers of a Dask cluster.
"""


def register(commands: "Commands") -> None:
    """Add `fleet` and its two commands."""
    fleet = commands.add_parser("fleet", help="calibrate and evaluate on ten virtual machines", description=_TEXT)
    actions = fleet.add_subparsers(dest="action", metavar="ACTION", required=True)
    _register_run(actions)
    listed = actions.add_parser("list", help="the machines of the lab, and what each stands for")
    listed.add_argument("--json", action="store_true", help="one JSON object a line")
    listed.set_defaults(run=_list)


def _register_run(actions: "Commands") -> None:
    command = actions.add_parser(
        "run", help="play scenarios on machines of the fleet", description=_RUN_TEXT, epilog=_RUN_MORE
    )
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the run")
    command.add_argument(
        "--machine",
        default="all",
        metavar="MACHINE,...",
        help="all (of the fleet), prototypes, unseen, laptops, names, YAML files (default: all)",
    )
    command.add_argument(
        "--scenario", default="all", metavar="SCENARIO,...", help="as of `asa lab bench run` (default: all)"
    )
    command.add_argument(
        "--scheduler",
        default="installed,controllers",
        metavar="COLUMN,...",
        help="what they are played under (default: installed,controllers)",
    )
    command.add_argument(
        "--repeat", type=bounds.COUNT, default=1, metavar="N", help="each with other parameters; may grow (default: 1)"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="decides order and parameters (default: 0)")
    command.add_argument(
        "--seconds", type=bounds.SECONDS_ABOVE_0, default=30.0, metavar="S", help="that are measured (default: 30)"
    )
    command.add_argument(
        "--warm-up",
        type=bounds.SECONDS,
        default=20.0,
        metavar="S",
        help="in which a controller may settle (default: 20)",
    )
    command.add_argument(
        "--table", type=Path, metavar="FILE", help="the agent's mapping table, or a folder with MACHINE.yaml for each"
    )
    command.add_argument("--model", type=Path, metavar="FILE", help="its model, or a folder with MACHINE.npz for each")
    command.add_argument("--settings", type=Path, metavar="FILE", help="its other settings (default: docs/fleet.md)")
    command.add_argument("--jobs", type=bounds.COUNT, metavar="N", help="guests at once (default: 1)")
    command.add_argument("--cluster", default="", metavar="ADDRESS", help="of a Dask scheduler, whose workers play")
    command.add_argument("--json", action="store_true", help="the machines' counts as JSON lines")
    command.set_defaults(run=_run)


def _list(arguments: argparse.Namespace) -> int:
    import json

    from asa import wire
    from scenarios.lab.machines import shipped

    if arguments.json:
        for one in shipped():
            print(json.dumps(wire.plain(one) | {"cpus": one.cpus, "speeds": one.speeds}))
        return 0
    need("rich", extra="guests")
    rows = [
        (
            one.name,
            str(one.cpus),
            one.shape,
            str(one.memory_mb),
            one.role or "",
            one.note,
        )
        for one in shipped()
    ]
    bench_output.table(("machine", "CPUs", "clusters of cores", "MB", "role", ""), rows)
    return 0


def _run(arguments: argparse.Namespace) -> int:
    """Exit code EXIT_LACKING when a trial failed or is left."""
    need("joblib", "pyarrow", "rich", extra="bench,guests,train")
    if arguments.cluster:
        need("distributed", extra="cluster")
    from asa import paths
    from asa.core.errors import AsaError
    from calibration.fleet.run import Fleet, run
    from calibration.hosts import Where

    if arguments.cluster and arguments.jobs is not None:
        raise AsaError("--jobs is of guests here; a cluster plays as many at once as its workers have threads")
    request = _request(arguments)
    with Fleet(arguments.out, request, _command(arguments)) as fleet:
        tasks = fleet.tasks()
        trials = sum(len(task.trials) for task in tasks)
        print(f"asa: {trials} trials in {len(tasks)} tasks to play, results in {arguments.out}", file=sys.stderr)
        try:
            if tasks:
                where = Where(jobs=arguments.jobs or 1, cluster=arguments.cluster)
                with bench_output.progress() as tell:
                    if not arguments.cluster:
                        _make_ready(request, paths.default(), lambda line: tell(line, 0.0))
                    steps = _Steps(tell, len(tasks))
                    tell("the first task is played", 0.0)
                    run(fleet, where, steps.heard)
        except KeyboardInterrupt:
            print("asa: interrupted; the same command goes on from here", file=sys.stderr)
            raise
        finally:
            counts = fleet.finish()
    _print(counts, as_json=arguments.json)
    return EXIT_LACKING if any(one.failed or one.left for one in counts) else 0


def _request(arguments: argparse.Namespace) -> "Request":
    from calibration.controllers import columns as controllers
    from calibration.fleet.run import Request
    from scenarios import catalogue
    from scenarios.lab.machines import find

    machines = find(arguments.machine)
    columns = _columns(arguments.scheduler)
    controllers.check(columns)
    return Request(
        machines=machines,
        scenarios=catalogue.find(arguments.scenario),
        columns=columns,
        repeats=arguments.repeat,
        seed=arguments.seed,
        seconds=arguments.seconds,
        warm_up_s=arguments.warm_up,
        tables=_files(arguments.table, machines, ".yaml"),
        models=_files(arguments.model, machines, ".npz"),
        settings=_settings(arguments.settings),
    )


def _columns(words: str) -> tuple[str, ...]:
    """A name that is given twice is a column twice, but for those that a group brings."""
    from asa import paths
    from asa.act.portfolio import Available, Portfolio
    from calibration.controllers import columns as controllers

    found: list[str] = []
    for word in (one.strip() for one in words.split(",")):
        if word == "installed":
            portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
            names = [str(name) for name in portfolio.names() if isinstance(portfolio.look(name), Available)]
        elif word == "controllers":
            names = [controllers.AGENT, controllers.LOADER, controllers.RANDOM]
        else:
            found.append(word)
            continue
        found += [name for name in names if name not in found]
    return tuple(found)


def _files(path: Path | None, machines: "Sequence[Machine]", suffix: str) -> dict[str, Path]:
    if path is None:
        return {}
    return {one.name: path / f"{one.name}{suffix}" if path.is_dir() else path for one in machines}


def _settings(path: Path | None) -> dict[str, Any]:
    """As they are written, but for the whole paths of what they name, once they are seen to be settings.

    Raises InputError.
    """
    import yaml

    from asa import config

    if path is None:
        return {}
    settings = config.load(path, required=True)
    found: dict[str, Any] = yaml.safe_load(path.read_text()) or {}
    whole = {"table": settings.table, "model": settings.model}  # the agent's own file of settings is elsewhere
    return found | {key: value for key, value in whole.items() if key in found}


def _make_ready(request: "Request", places: Any, report: Any) -> None:
    """Said at once, and not by each task: what is not installed, what cannot be built."""
    from asa import paths
    from asa.act.forcing import check_startable
    from asa.act.portfolio import Portfolio
    from calibration.controllers import columns as controllers
    from calibration.fleet import task as fleet_task

    check_startable(controllers.schedulers(request.columns), Portfolio.load(paths.manifest(), places.schedulers))
    names = [
        name
        for one in request.scenarios
        for name in (
            one.interactive,
            one.background,
            *((one.then.interactive, one.then.background) if one.then else ()),
        )
    ]
    for machine in {one.tick_hz: one for one in request.machines}.values():
        fleet_task.make_ready(tuple(dict.fromkeys(filter(None, names))), machine, places, report)


class _Steps:
    """Progress over the tasks that are left."""

    def __init__(self, tell: Any, count: int) -> None:
        self._tell = tell
        self._count = count
        self._done = 0

    def heard(self, played: "Played") -> None:
        from scenarios.runner_plan import Outcome

        self._done += 1
        failed = [result for result in played.results if result.outcome is Outcome.FAILED]
        took_s = sum(result.took_s for result in played.results)
        words = f"{self._done}/{self._count} {played.task}: {len(played.results) - len(failed)} trials, {took_s:.0f} s"
        words += f"; {len(failed)} failed: {failed[0].trial.scheduler}: {failed[0].reason}" if failed else ""
        words += f"; {played.host}: {played.trouble}" if played.trouble else ""
        self._tell(words, self._done / self._count)


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "lab", "fleet", "run", "--out", str(arguments.out), "--machine", arguments.machine]
    words += ["--scenario", arguments.scenario, "--scheduler", arguments.scheduler, "--repeat", str(arguments.repeat)]
    words += ["--seed", str(arguments.seed), "--seconds", f"{arguments.seconds:g}"]
    words += ["--warm-up", f"{arguments.warm_up:g}"]
    for name in ("table", "model", "settings"):
        if getattr(arguments, name) is not None:
            words += [f"--{name}", str(getattr(arguments, name))]
    return shlex.join(words)


def _print(counts: "Sequence[Count]", *, as_json: bool) -> None:
    import json
    from dataclasses import asdict

    if as_json:
        for one in counts:
            print(json.dumps(asdict(one) | {"left": one.left}))
        return
    rows = [(one.machine, str(one.planned), str(one.done), str(one.failed), str(one.left)) for one in counts]
    bench_output.table(("machine", "trials", "done", "failed", "left"), rows)
