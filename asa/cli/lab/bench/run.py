# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench run`: plays the benchmark's scenarios under schedulers; writes samples, a summary; prints scores."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.extras import need
from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.paths import Places
    from calibration.scenarios.summary import Summary
    from scenarios.application import Tier
    from scenarios.catalogue import Scenario
    from scenarios.lab.machines import Machine
    from scenarios.runner_folder import Folder
    from scenarios.runner_plan import Asked, Result, Trial

    Tell = Callable[[str, float], None]

_LAB_CPUS = 4

_TEXT = """\
Plays scenarios, an interactive application beside a background load, under one scheduler after another
in random order, and measures what a person would feel of it. Every application is played alone too, once
a repeat, as what relative figures are compared with. The same command goes on where it was interrupted,
and plays again what has failed.
"""
_MORE = """\
scenarios, several by commas:
  all            the 28 pairs, S1 to S28; S1..S7 are some
  web+blender    one pair
  web            all pairs with it
  alone:web      it alone
  idle           nothing
  everything     idle, all alone, all pairs, also those without a number
  changing       P1 to P4: a pair, then another one
  web+disk~game  such a one: a pair, then the game alone

applications:
  interactive  {interactive}
  background   {background}

exit status:
  0  every trial was played
  1  a trial failed, or nothing could be played

files of the folder:
  samples.parquet  every sample, with its time in the measured window
  trials.parquet   every trial, with the noise of the machine, versions and parameters
  summary.json     scores, figures, versions, failures
  plan.json        what is played, in which order; trials/ what was played

examples:
  asa lab bench run --scenario all --seconds 10
      The real programs, on this machine, under its own scheduler.
  asa lab bench run --tier lab --scheduler eevdf,scx_simple --repeat 3 --jobs 2
      Their stand-ins in emulated guests, under two schedulers.
"""


def register(benches: "Commands") -> None:
    """Add the parser."""
    from scenarios.catalogue import BACKGROUND, INTERACTIVE

    command = benches.add_parser(
        "run",
        help="the benchmark: applications beside loads, under schedulers",
        description=_TEXT,
        epilog=_MORE.format(interactive=", ".join(INTERACTIVE), background=", ".join(BACKGROUND)),
    )
    command.add_argument("--scenario", default="all", metavar="SCENARIO,...", help="what plays (default: all)")
    command.add_argument(
        "--tier",
        choices=("real", "lab"),
        default="real",
        help="the programs on this machine, or stand-ins in guests (default: real)",
    )
    command.add_argument(
        "--scheduler",
        default="eevdf",
        metavar="NAME,...",
        help="with its mode, as scx_bpfland:powersave; one that is named twice is compared with itself "
        "(default: eevdf)",
    )
    command.add_argument(
        "--repeat", type=bounds.COUNT, default=1, metavar="N", help="each with other parameters; may grow (default: 1)"
    )
    command.add_argument("--seed", type=int, default=0, metavar="N", help="decides order and parameters (default: 0)")
    command.add_argument(
        "--seconds", type=bounds.SECONDS_ABOVE_0, default=30.0, metavar="S", help="that are measured (default: 30)"
    )
    command.add_argument(
        "--warm-up", type=bounds.SECONDS, default=5.0, metavar="S", help="that are not, once all is ready (default: 5)"
    )
    command.add_argument(
        "--again",
        type=bounds.COUNT_FROM_0,
        default=2,
        metavar="N",
        help="repetitions of a disturbed trial (default: 2)",
    )
    command.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the run (default: one of this request's, below asa's state)"
    )
    command.add_argument("--jobs", type=bounds.COUNT, metavar="N", help="guests at once (default: 1)")
    command.add_argument("--cpus", type=bounds.COUNT, metavar="N", help=f"of a guest, up to 64 (default: {_LAB_CPUS})")
    command.add_argument(
        "--machine", metavar="NAME|FILE", help="what a guest is: of `asa lab fleet list`, or a YAML file"
    )
    command.add_argument("--json", action="store_true", help="the summary as JSON lines")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 1 when a trial failed."""
    need("pyarrow", "rich", extra="bench,guests")
    from asa import paths, wire
    from calibration.scenarios import tables as bench_tables
    from calibration.scenarios.summary import summary
    from scenarios import catalogue, runner_folder
    from scenarios.application import Tier
    from scenarios.runner_folder import Folder
    from scenarios.runner_plan import make, split

    places = paths.default()
    tier = Tier(arguments.tier)
    _check_options(arguments, tier)
    scenarios = catalogue.find(arguments.scenario)
    machine = _machine(arguments) if tier is Tier.LAB else None
    asked = _asked(arguments, tier, scenarios, machine)
    out = arguments.out or places.state / "bench-run" / _name(asked)
    bench_tables.check_replaceable(out)
    with Folder(out, asked, lambda name: make(asked, scenarios, name)) as folder:
        left = folder.left()
        print(f"asa: {len(left)} of {len(folder.plan.trials)} trials to play, results in {out}", file=sys.stderr)
        if left:
            try:
                _play(folder, left, arguments, places, machine)
            except KeyboardInterrupt:
                print("asa: interrupted; the same command goes on from here", file=sys.stderr)
                raise
        plan, results = split(folder.plan, folder.results())
        bench_tables.write(out, plan, list(results.values()))
        found = summary(plan, results)
        runner_folder.write(out / "summary.json", wire.plain(found))
    _print(found, as_json=arguments.json)
    return 1 if found.failed or found.left else 0


def _check_options(arguments: argparse.Namespace, tier: "Tier") -> None:
    from asa.core.errors import AsaError
    from scenarios.application import Tier
    from scenarios.lab.guest import CPUS

    if tier is Tier.REAL:
        for option in ("jobs", "cpus", "machine"):
            if getattr(arguments, option) is not None:
                raise AsaError(f"--{option} is of guests, which only --tier lab has")
    elif arguments.cpus is not None and arguments.machine is not None:
        raise AsaError("--cpus: a machine has its own; leave out --cpus or --machine")
    elif arguments.cpus is not None and arguments.cpus not in CPUS:
        raise AsaError(f"--cpus: a guest has {CPUS[0]} to {CPUS[-1]} CPUs, not {arguments.cpus}")


def _machine(arguments: argparse.Namespace) -> "Machine":
    """What each guest is. Raises InputError."""
    from scenarios.lab.machines import alike, load

    return alike(arguments.cpus or _LAB_CPUS) if arguments.machine is None else load(arguments.machine)


def _asked(
    arguments: argparse.Namespace, tier: "Tier", scenarios: "tuple[Scenario, ...]", machine: "Machine | None"
) -> "Asked":
    import os

    from scenarios.guests import conditions
    from scenarios.runner_plan import Asked

    under = None if machine is None else conditions(machine)
    return Asked(
        tier=tier,
        scenarios=tuple(one.label for one in scenarios),
        schedulers=tuple(word.strip() for word in arguments.scheduler.split(",")),
        repeats=arguments.repeat,
        seed=arguments.seed,
        seconds=arguments.seconds,
        warm_up_s=arguments.warm_up,
        cpus=len(os.sched_getaffinity(0)) if machine is None else machine.cpus,
        clock="" if under is None else under.clock,
        tick_hz=None if under is None else under.tick_hz,
        machine="" if under is None else under.machine,
    )


def _name(asked: "Asked") -> str:
    """Of the default folder: the same for the same request."""
    import hashlib

    from asa import wire

    return f"{asked.tier}-{hashlib.sha256(wire.json_bytes(asked)).hexdigest()[:8]}"


def _play(
    folder: "Folder",
    left: "list[Trial]",
    arguments: argparse.Namespace,
    places: "Places",
    machine: "Machine | None",
) -> None:
    with bench_output.progress() as tell:
        if machine is None:
            _play_here(folder, left, arguments.again, places, tell)
        else:
            _play_in_guests(folder, left, arguments.jobs or 1, machine, places, tell)


def _play_here(folder: "Folder", left: "list[Trial]", again: int, places: "Places", tell: "Tell") -> None:
    from asa.act.forcing import Forcing
    from asa.core.decision import SchedulerName
    from scenarios import catalogue, runner
    from scenarios.session import default_folder

    asked = folder.plan.asked
    steps = _Steps(tell, len(left))
    with Forcing(places) as forcing:
        for name in asked.schedulers:
            forcing.check_usable(SchedulerName(name))
        stage = runner.Stage(
            applications=catalogue.applications(asked.tier),
            tier=asked.tier,
            cache=places.cache,
            scratch=default_folder(places.cache, lab=False),
            forcing=forcing,
            seconds=asked.seconds,
            warm_up_s=asked.warm_up_s,
            again=again,
        )
        runner.prepare(_applications(left), stage, lambda line: tell(line, 0.0))
        runner.play_all(left, stage, steps.keeping(folder), steps.begin)


def _play_in_guests(
    folder: "Folder", left: "list[Trial]", jobs: int, machine: "Machine", places: "Places", tell: "Tell"
) -> None:
    from asa import paths
    from asa.act.forcing import check_startable
    from asa.act.portfolio import Portfolio
    from scenarios import catalogue
    from scenarios.guests import booter, power, ready
    from scenarios.runner_guests import Guests
    from scenarios.session import place_for, prepare

    asked = folder.plan.asked
    check_startable(asked.schedulers, Portfolio.load(paths.manifest(), places.schedulers))
    for name in _applications(left):  # here: a guest sees the cache, but cannot write to it
        application = catalogue.applications(asked.tier)[name]
        prepare(application, place_for(application, cache=places.cache, tier=asked.tier), lambda line: tell(line, 0.0))
    tell("the lab is made ready", 0.0)
    lab = ready(places.cache, lambda line: tell(line, 0.0), machine)
    steps = _Steps(tell, len(left))
    with Guests(
        boot=booter(lab, machine),
        out=folder.path / "guests",
        seconds=asked.seconds,
        warm_up_s=asked.warm_up_s,
        power=power(machine),
        keep=steps.keeping(folder),
        begin=lambda trial: steps.begin(trial, 1),
    ) as guests:
        tell("the first guest boots", 0.0)
        guests.play(left, jobs)


def _applications(trials: "list[Trial]") -> list[str]:
    return list(dict.fromkeys(name for trial in trials for name in trial.applications))


class _Steps:
    """Progress over the trials that are left."""

    def __init__(self, tell: "Tell", count: int) -> None:
        self._tell = tell
        self._count = count
        self._done = 0

    def begin(self, trial: "Trial", attempt: int) -> None:
        again = f", attempt {attempt}" if attempt > 1 else ""
        number = f"{self._done + 1}/{self._count}"
        self._tell(f"{number} {trial.scenario} {trial.label} {trial.scheduler}{again}", self._done / self._count)

    def keeping(self, folder: "Folder") -> "Callable[[Result], None]":
        from scenarios.runner_plan import Outcome

        def keep(result: "Result") -> None:
            folder.keep(result)
            self._done += 1
            words = f"{result.trial.id} {result.outcome}"
            if result.outcome is not Outcome.DONE:
                who = f"{result.application}: " if result.application else ""
                words = f"{words}: {who}{result.reason}"
            self._tell(words, self._done / self._count)

        return keep


def _print(found: "Summary", *, as_json: bool) -> None:
    from asa import wire
    from calibration.scenarios.summary import HEAD, cells

    if as_json:
        head = {name: value for name, value in wire.plain(found).items() if name != "rows"}
        for line in (head, *found.rows):
            print(wire.json_text(line))
        return
    bench_output.table(HEAD, [cells(row) for row in found.rows])
    parts = f"{found.done} done, {found.disturbed} disturbed, {found.failed} failed, {found.left} left"
    print(f"{found.trials} trials: {parts}; {found.took_s:.0f} s; {found.under.words}")
