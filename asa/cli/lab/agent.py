# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab agent`: observes a use, plans what to try, tries it, and learns; in the lab, or on this machine."""

import argparse
import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.paths import Places
    from calibration.loop.controller import Planner, Story
    from calibration.loop.planner import Repository
    from calibration.loop.stage import Arena, Budget
    from calibration.switchback.play import Tell

EXIT_NOTHING = 4
_MOST_TRIALS, _MOST_TOKENS = 600, 10_000_000
_LAB_TRIALS = 36
_HERE_TRIALS, _HERE_RACE = 11, 5  # and one trial to keep: clients begin twelve changes an hour at most
_LEARNT = "agent-learnt.jsonl"
_TEXT = """\
Four steps, one controller. It observes a use, plans what to try, tries it, and writes down what it learnt.
The plan is made without any model: nearest profiles, halving, screening and tuning. With --server a language
model picks what is tried next, from lists. What is best is confirmed on fresh seeds. What is not surely better
is not taken.
"""
_MORE = """\
exit status:
  0  something is surely better, and was written or kept
  1  nothing could be observed or tried
  4  nothing is surely better: nothing changes

files of the folder:
  agent.md, agent.json         the report: cost beside gain
  trials.jsonl                 each trial; the same command goes on where it was stopped
  policies/SCHEDULER-MODE.yaml flags that were confirmed; a copy in /etc/asa/policies makes the agent know them

examples:
  asa lab agent --use requests --machine vm120 --out requests
      Requests a second of a benchmark like schbench, in guests of four CPUs.
  asa lab agent --use office+kernel --trials 40 --out build --server http://127.0.0.1:8080/v1
      A build beside typing; a local model takes the plan's part.
  asa lab agent --here --metric wakeup_p99_us --keep 3600 --out here
      This machine, as it is used now, through its agent: what is best stays for an hour.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "agent", help="observe, plan, try and learn by itself", description=_TEXT, epilog=_MORE
    )
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--use",
        metavar="SCENARIO|FIGURE",
        help="a pair, as of `asa lab bench run`, a figure of `asa lab bench scale`, or batches: jobs with a long tail, "
        "on four CPUs",
    )
    where.add_argument("--here", action="store_true", help="this machine, as it is used now, through its agent")
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of trials and report")
    command.add_argument(
        "--trials",
        type=bounds.number(4, _MOST_TRIALS),
        metavar="N",
        help=f"at most, with those of the confirmation (default: {_LAB_TRIALS}; with --here {_HERE_TRIALS})",
    )
    command.add_argument(
        "--minutes", type=bounds.MINUTES, default=240.0, metavar="M", help="of the search at most (default: 240)"
    )
    command.add_argument("--seed", type=int, default=1, metavar="N", help="of the search (default: 1)")
    command.add_argument("--machine", default="vm120", metavar="MACHINE", help="of the lab (default: vm120)")
    command.add_argument("--rounds", type=bounds.COUNT, default=4, metavar="N", help="of each guest (default: 4)")
    command.add_argument("--server", metavar="URL", help="of a language model with OpenAI's interface, on this machine")
    command.add_argument("--model", default="", metavar="NAME", help="of that server (default: its first)")
    command.add_argument(
        "--tokens", type=bounds.number(1, _MOST_TOKENS), default=50_000, metavar="N", help="at most (default: 50000)"
    )
    command.add_argument("--remote", action="store_true", help="the model's server may be on another machine")
    command.add_argument(
        "--repository", type=Path, metavar="FILE", help=f"what was learnt (default: {_LEARNT} in the state folder)"
    )
    command.add_argument(
        "--metric",
        default="wakeup_p99_us",
        metavar="NAME",
        help="of --here: a wait to lessen (default: %(default)s)",
    )
    command.add_argument(
        "--seconds", type=bounds.number(40, 600), default=120, metavar="S", help="of --here: of a trial (default: 120)"
    )
    command.add_argument(
        "--keep",
        type=bounds.number(60, 86_400),
        metavar="S",
        help="of --here: what is best stays so long (default: it does not)",
    )
    command.add_argument("--json", action="store_true", help="the report as a JSON line")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code EXIT_NOTHING when nothing is surely better."""
    from asa.cli.extras import need

    need("pyarrow", "scipy", "rich", extra="bench,guests,train")
    from asa import paths
    from asa.cli.lab.agent_here import Here
    from calibration.loop import batches, controller, lab, learning, story
    from calibration.loop.stage import Stage

    places = paths.default()
    path = arguments.repository or places.state / _LEARNT
    before = story.read(path)
    with bench_output.progress() as tell:
        arena = _arena(arguments, places, tell)
        profile = arena.observe()
        known = lab.portfolio(places)
        in_batches = isinstance(arena, batches.Batches)
        repository = (
            batches.repository(known, before) if in_batches else lab.repository(profile.workload, known, before)
        )
        stage = Stage(arena, _budget(arguments), arguments.out / "trials.jsonl")
        planner = _planner(arguments, repository)
        made = controller.run(stage, profile, planner, arguments.seed, lambda words: tell(words, 0.0))
        kept = ""
        if arguments.keep is not None and made.chosen is not None and isinstance(arena, Here):
            kept = arena.keep(made.chosen, arguments.keep)
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    story.write(path, [*before, *learning.learnt(made, day)])
    return _end(arguments, made, day, kept)


def _arena(arguments: argparse.Namespace, places: "Places", tell: "Tell") -> "Arena":
    from asa.cli.lab.agent_here import Here
    from asa.cli.lab.tune import use_of
    from calibration.loop import batches
    from calibration.loop.lab import InLab
    from scenarios.lab import machines

    if arguments.here:
        return Here(metric=arguments.metric, seconds=arguments.seconds, tell=lambda words: tell(words, 0.0))
    out = (arguments.out / "guests").resolve()
    if arguments.use == batches.USE:
        return batches.Batches(rounds=arguments.rounds, out=out, places=places, tell=lambda words: tell(words, 0.0))
    return InLab(
        machine=machines.load(arguments.machine),
        use=use_of(arguments.use),
        rounds=arguments.rounds,
        out=out,
        places=places,
        tell=tell,
    )


def _budget(arguments: argparse.Namespace) -> "Budget":
    from calibration.loop.stage import Budget
    from calibration.tuning.racing import LEAST, MOST

    trials = arguments.trials or (_HERE_TRIALS if arguments.here else _LAB_TRIALS)
    return Budget(
        trials=trials,
        minutes=arguments.minutes,
        tokens=arguments.tokens if arguments.server else 0,
        kept_back=min(_HERE_RACE if arguments.here else MOST, max(LEAST, trials // 2)),
    )


def _planner(arguments: argparse.Namespace, repository: "Repository") -> "Planner":
    from calibration.loop.model import Advised, Asked
    from calibration.loop.planner import Nearest

    without = Nearest(repository, arguments.seed)
    if not arguments.server:
        return without
    asked = Asked(url=arguments.server, model=arguments.model, remote=arguments.remote)
    return Advised(asked=asked, repository=repository, without=without, seed=arguments.seed)


def _end(arguments: argparse.Namespace, made: "Story", day: str, kept: str) -> int:
    from asa import files
    from calibration.loop import page

    written = _write_policy(arguments, made, day)
    whole = page.as_plain(made, None if written is None else str(written)) | {"kept": kept}
    files.replace(arguments.out / "agent.md", page.page(made, day).encode())
    files.replace(arguments.out / "agent.json", json.dumps(whole).encode())
    if arguments.json:
        print(json.dumps(whole))
    else:
        _show(made, arguments.out / "agent.md", written, kept)
    return EXIT_NOTHING if made.chosen is None else 0


def _show(made: "Story", report: Path, written: Path | None, kept: str) -> None:
    race, ledger = made.race, made.ledger
    print(f"best: {'nothing' if made.best is None else made.best}")
    if race is not None:
        print(f"on {race.pairs} fresh seeds: {race.mean:+.2f} % ({race.low:+.2f} to {race.high:+.2f}), {race.verdict}")
    print(f"gain of the loop: {made.gain_pct:+.2f} %, by {ledger.trials} trials and {ledger.tokens} tokens")
    for words in (made.stopped, kept, f"wrote {written}" if written else "", f"report: {report}"):
        if words:
            print(words)


def _write_policy(arguments: argparse.Namespace, made: "Story", day: str) -> Path | None:
    from asa import files, paths
    from asa.act.forcing import version_of
    from asa.act.policies import file_name
    from calibration.loop import lab, learning
    from calibration.tuning import tune

    if made.chosen is None or not made.chosen.flags:
        return None
    known = lab.portfolio(paths.default())
    policy = learning.policy(made, day, arguments.seed, version_of(made.chosen.bare, known))
    path: Path = arguments.out / "policies" / file_name(policy.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, tune.written(policy))
    return path
