# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab tune`: searches a scheduler's flags for a use in the lab, and confirms what is best on fresh seeds."""

import argparse
import datetime
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.act.portfolio import Portfolio
    from asa.cli.main import Commands
    from calibration.scale.samples import Metric
    from calibration.switchback.play import Tell
    from calibration.tuning.lab import InGuests, Use
    from calibration.tuning.outcome import Outcome
    from calibration.tuning.swarm import Coefficients
    from calibration.tuning.trials import Trials
    from calibration.tuning.tune import Asked, Confirmed, Found
    from scenarios.catalogue import Scenario

EXIT_UNCONFIRMED = 4
_MOST_TRIALS, _RACE, _ELSEWHERE = 600, 9, 3
_MOST_PULL = 4.0
_MOST_TOGETHER = 20
_POLICIES = "policies"
_TEXT = """\
Searches the flags of a scheduler that serve a use best. Candidates and the untuned scheduler take turns in
guests of the lab, which play one scenario. The best candidate is then played with seeds that nobody searched
with. It is written as a policy if it is surely better there, and at most 2 % worse than the kernel's own, also in
--others. Of a screening, the flags that matter make the candidate. The same command goes on where it was stopped.
"""
_MORE = """\
exit status:
  0  a policy was confirmed and written
  1  nothing was found, or it could not go on
  4  the best candidate is not surely better on fresh seeds, or too bad elsewhere, or no flag matters; no policy was
     written

files of the folder:
  outcome.json                 what was found, and how the confirmation ended
  trials.jsonl                 what was played, a line a trial
  MACHINE.jsonl                the same of the confirmation on another machine
  USE-MACHINE.jsonl            the same of --others
  policies/SCHEDULER-MODE.yaml what was confirmed; a copy in /etc/asa/policies makes the agent know it

examples:
  asa lab tune --policy scx_lavd --class office+archive --method screen --flag=--slice-max-us --out screened
      Whether this flag matters, by twelve trials, and whether it is confirmed.
  asa lab tune --policy scx_lavd --class office+archive --method golden --confirm-machine vm122 --out tuned
      One slice and what follows from it, confirmed on another machine.
  asa lab tune --policy scx_bpfland --class messages --method pso --trials 120 --rounds 2 --out swarm
      All numbers, by messages a second of the scale benchmark.
  asa lab tune --policy scx_flash --class messages --method pso --together 5 --jobs 4 --out side-by-side
      The twenty particles of an iteration in four guests at once.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("tune", help="search a scheduler's flags", description=_TEXT, epilog=_MORE)
    command.add_argument("--policy", required=True, metavar="SCHEDULER", help="what is tuned")
    command.add_argument(
        "--class",
        required=True,
        dest="workload",
        metavar="SCENARIO",
        help="a pair, as of `asa lab bench run`, or a figure of `asa lab bench scale` such as messages",
    )
    command.add_argument(
        "--method",
        required=True,
        choices=("golden", "pso", "tpe", "screen"),
        help="golden section on one flag that sets others, a particle swarm or Parzen estimators on numbers, "
        "screening of up to 8 flags",
    )
    command.add_argument(
        "--objective",
        choices=("score", "energy"),
        default="score",
        help="of a pair: its score, or the power that it takes while its score is at most 2 %% behind the kernel's own "
        "(default: score)",
    )
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the trials")
    command.add_argument(
        "--trials",
        type=bounds.number(2, _MOST_TRIALS),
        default=12,
        metavar="N",
        help="at most, before the confirmation (default: 12; a screening always has 12)",
    )
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of the search (default: 1)")
    command.add_argument(
        "--flag",
        action="append",
        default=[],
        metavar="FLAG",
        help="of pso, tpe and screen: this one; may be given repeatedly",
    )
    command.add_argument(
        "--coefficients",
        type=_coefficients,
        metavar="INERTIA,OWN,SWARM",
        help="of pso, as `asa lab surface` chooses them (default: the study's, 0.4365,3.02,3.02)",
    )
    _register_where(command)
    command.add_argument("--json", action="store_true", help="outcome.json as one line")
    command.set_defaults(run=run)


def _register_where(command: argparse.ArgumentParser) -> None:
    command.add_argument("--machine", default="vm120", metavar="MACHINE", help="where it is searched (default: vm120)")
    command.add_argument(
        "--confirm-machine", metavar="MACHINE", help="where it is confirmed (default: where it was searched)"
    )
    command.add_argument(
        "--others",
        action="append",
        default=[],
        metavar="USE",
        help="a pair or a figure, where it may be at most 2 %% worse than the kernel's own, by three seeds; may be "
        "given repeatedly",
    )
    command.add_argument("--rounds", type=bounds.COUNT, default=4, metavar="N", help="of each guest (default: 4)")
    command.add_argument(
        "--together",
        type=bounds.number(1, _MOST_TOGETHER),
        metavar="N",
        help="candidates of one guest (default: 4 of a pair, 20 of a figure)",
    )
    command.add_argument(
        "--jobs", type=bounds.COUNT, metavar="N", help="guests at once; the outcome is the same (default: 1)"
    )
    command.add_argument("--cluster", default="", metavar="ADDRESS", help="of a Dask scheduler, whose workers play")


def _coefficients(text: str) -> "Coefficients":
    from calibration.tuning.swarm import Coefficients

    try:
        inertia, own, swarm = (float(word) for word in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give INERTIA,OWN,SWARM, such as 0.4365,3.02,3.02") from None
    if not (0.0 <= inertia < 1.0 and 0.0 <= own <= _MOST_PULL and 0.0 <= swarm <= _MOST_PULL):
        raise argparse.ArgumentTypeError(f"{text!r}: give an inertia of 0 to below 1, and pulls of 0 to {_MOST_PULL:g}")
    return Coefficients(inertia=inertia, own=own, swarm=swarm)


def run(arguments: argparse.Namespace) -> int:
    """Exit code EXIT_UNCONFIRMED when the best is not surely better."""
    from asa.cli.extras import need

    need("joblib", "optuna", "pyarrow", "scipy", "rich", extra="bench,guests,train")
    if arguments.cluster:
        need("distributed", extra="cluster")
    from asa import paths
    from asa.act.portfolio import Portfolio
    from calibration.tuning import outcome, tune

    asked = _asked(arguments, Portfolio.load(paths.manifest(), paths.default().schedulers))
    others = {name: use_of(name) for name in dict.fromkeys(arguments.others)}
    path = None
    shutil.rmtree(arguments.out / _POLICIES, ignore_errors=True)  # of an earlier call, which asked for less
    with bench_output.progress() as tell:
        played = _Played(arguments, tell)
        try:
            made, found = _searched(played, asked)
            if found is not None:
                confirmed = _confirmed(played, found)
                elsewhere = {}
                if confirmed.wanted:
                    elsewhere = {name: _elsewhere(played, found, use) for name, use in others.items()}
                made = outcome.raced(made, confirmed, played.confirm_machine, elsewhere)
                if not any(gain < tune.WORST_PCT for gain in elsewhere.values()):
                    path, made = _written(arguments, asked, found, confirmed, made)
        finally:
            played.say_troubles()
    outcome.write(made, arguments.out / outcome.FILE)
    _show(made, path, as_json=arguments.json)
    return EXIT_UNCONFIRMED if path is None else 0


def _searched(played: "_Played", asked: "Asked") -> "tuple[Outcome, Found | None]":
    from calibration.tuning import outcome, tune
    from calibration.tuning.tune import Method

    given = played.arguments
    trials = played.trials(use_of(given.workload), given.machine, "trials")
    screened = tune.screen(asked, trials) if asked.method is Method.SCREEN else None
    found = screened.found if screened else tune.search(asked, trials)
    made = outcome.of(
        asked, found, workload=_named(given), machine=given.machine, rounds=given.rounds, screened=screened
    )
    return made, found


def _named(given: argparse.Namespace) -> str:
    # of what is tuned, in a policy
    return str(given.workload) if given.objective == "score" else f"{given.workload} by {given.objective}"


class _Played:
    """Trials of this command's folder."""

    def __init__(self, arguments: argparse.Namespace, tell: "Tell") -> None:
        self.arguments = arguments
        self._tell = tell
        self._labs: list[InGuests] = []

    def trials(self, use: "Scenario | Metric", machine: str, name: str) -> "Trials":
        """Of a use on a machine, kept in a file of this name. Raises AsaError."""
        from asa import paths
        from asa.core.decision import SchedulerName
        from calibration.hosts import Where
        from calibration.tuning.lab import Aim, Bench, InGuests, Pair
        from calibration.tuning.trials import Trials
        from scenarios.catalogue import Scenario
        from scenarios.lab import machines

        given = self.arguments
        word = use.label if isinstance(use, Scenario) else use.name
        base, on = SchedulerName(given.policy), machines.load(machine)
        out = (given.out / "guests" / f"{word}-{Path(machine).stem}").resolve()
        alike: dict[str, Any] = {"base": base, "machine": on, "rounds": given.rounds}
        if given.together is not None:
            alike["together"] = given.together
        judged: Use
        if isinstance(use, Scenario):
            judged = Pair(scenario=use, aim=Aim(given.objective), **alike)
        else:
            judged = Bench(metric=use, **alike)
        where = Where(jobs=given.jobs or 1, cluster=given.cluster)
        lab = InGuests(use=judged, out=out, places=paths.default(), tell=self._tell, where=where)
        self._labs.append(lab)
        return Trials(lab, given.out / f"{name}.jsonl")

    def say_troubles(self) -> None:
        for words in (one for lab in self._labs for one in lab.troubles):
            print(f"asa: {words}", file=sys.stderr)

    @property
    def confirm_machine(self) -> str:
        return str(self.arguments.confirm_machine or self.arguments.machine)

    def fresh_seeds(self, count: int) -> list[int]:
        """Not the search's, nor that of the search for intensities."""
        from calibration.switchback.intensity import SEED

        first = self.arguments.seed + 1
        return [seed for seed in range(first, first + count + 1) if seed != SEED][:count]


def _asked(arguments: argparse.Namespace, portfolio: "Portfolio") -> "Asked":
    from asa.core.decision import EEVDF, SchedulerName
    from asa.core.errors import AsaError
    from calibration.tuning.tune import Asked, Method
    from scenarios.catalogue import Scenario

    name = SchedulerName(arguments.policy)
    if name != name.bare or name == EEVDF:
        raise AsaError(f"--policy {name}: is not a scheduler alone; name one such as scx_bpfland")
    method = Method(arguments.method)
    if arguments.coefficients and method is not Method.PSO:
        raise AsaError("--coefficients: are the particle swarm's alone; leave them out, or take --method pso")
    if arguments.cluster and arguments.jobs is not None:
        raise AsaError("--jobs: is of guests here; a cluster plays as many at once as its workers have threads")
    if method is Method.GOLDEN and arguments.flag:
        raise AsaError("--flag: golden section has one flag of its own; leave it out, or take --method pso")
    if arguments.objective != "score" and not isinstance(use_of(arguments.workload), Scenario):
        raise AsaError(f"--objective {arguments.objective}: is of pairs alone; name one such as office+archive")
    return Asked(
        scheduler=name,
        knobs=portfolio.entry(name).knobs,
        method=method,
        trials=arguments.trials,
        seed=arguments.seed,
        flags=tuple(dict.fromkeys(arguments.flag)),
        coefficients=arguments.coefficients,
    )


def use_of(name: str) -> "Scenario | Metric":
    """A figure of the scale benchmark by its name, else a scenario by its label. Raises AsaError."""
    from calibration.scale.samples import METRICS

    return {one.name: one for one in METRICS}.get(name) or _scenario("a use", name)


def _scenario(option: str, label: str) -> "Scenario":
    from asa.core.errors import AsaError
    from scenarios import catalogue

    found = catalogue.find(label)
    if len(found) != 1:
        raise AsaError(f"{option} {label}: is {len(found)} scenarios; name one such as office+archive")
    return found[0]


def _confirmed(played: _Played, found: "Found") -> "Confirmed":
    from calibration.tuning import tune

    machine = played.confirm_machine
    name = "trials" if machine == played.arguments.machine else Path(machine).stem
    trials = played.trials(use_of(played.arguments.workload), machine, name)
    return tune.confirm(found, trials, played.fresh_seeds(_RACE))


def _elsewhere(played: _Played, found: "Found", use: "Scenario | Metric") -> float:
    from calibration.tuning import tune
    from scenarios.catalogue import Scenario

    machine = played.confirm_machine
    word = use.label if isinstance(use, Scenario) else use.name
    trials = played.trials(use, machine, f"{word}-{Path(machine).stem}")
    return tune.elsewhere(found, trials, played.fresh_seeds(_ELSEWHERE))


def _written(
    arguments: argparse.Namespace, asked: "Asked", found: "Found", confirmed: "Confirmed", made: "Outcome"
) -> "tuple[Path | None, Outcome]":
    import msgspec

    from asa import files, paths
    from asa.act.forcing import version_of
    from asa.act.policies import file_name
    from asa.act.portfolio import Portfolio
    from calibration.tuning import tune

    policy = tune.policy(
        asked,
        found,
        confirmed,
        version=version_of(asked.scheduler, Portfolio.load(paths.manifest(), paths.default().schedulers)),
        machine=arguments.confirm_machine or arguments.machine,
        workload=_named(arguments),
        day=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    if policy is None:
        return None, made
    path: Path = arguments.out / _POLICIES / file_name(policy.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, tune.written(policy))
    return path, msgspec.structs.replace(made, policy=str(policy.name))


def _show(made: "Outcome", path: Path | None, *, as_json: bool) -> None:
    from asa import wire

    if as_json:
        print(wire.json_bytes(made).decode())
        return
    if made.effects:
        bench_output.table(
            ("flag", "effect", "p", ""),
            [
                (one.flag, f"{one.effect:+.2f} %", f"{one.p:.3f}", "matters" if one.matters else "")
                for one in made.effects
            ],
        )
    race = made.race
    if race is None or made.gain_pct is None:
        print("no flag matters, or those that do help as they are; no policy was written")
        return
    by = "adds up to" if made.effects else "best"
    print(f"{by}, of {made.trials} trials: {made.gain_pct:+.2f} %, {' '.join(made.arguments)}")
    low, high = race.interval_pct
    print(
        f"on {len(race.seeds)} fresh seeds of {race.machine}: {race.gain_pct:+.2f} % ({low:+.2f} to {high:+.2f}), "
        f"{race.verdict}; the search had it {race.regression_pct:+.2f} points too good"
    )
    for label, gain in (("this use", race.over_eevdf_pct), *race.elsewhere_pct.items()):
        print(f"over EEVDF in {label}: {gain:+.2f} %")
    print(f"wrote {path}" if path else "no policy was written")
