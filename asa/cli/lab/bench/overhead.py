# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench overhead`: what the agent costs this machine, with goals; prints it and writes docs/overhead.md.

Each other bench is a module beside this one.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import laptop as bench_laptop
from asa.cli.lab.bench import matrix as bench_matrix
from asa.cli.lab.bench import output as bench_output
from asa.cli.lab.bench import recognition as bench_recognition
from asa.cli.lab.bench import run as bench_run
from asa.cli.lab.bench import scale as bench_scale
from asa.cli.lab.bench import stand_ins as bench_stand_ins
from asa.cli.lab.bench import switch as bench_switch
from asa.cli.lab.bench import switchback as bench_switchback

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.paths import Places
    from calibration.goals import Host
    from calibration.overhead.benchmark import Options, Result

_SHORTEST_S, _LONGEST_S = 1.0, 86_400.0

_TEXT = """\
Measures schedulers, and what ASA costs, against goals and the figures of the paper: `run` the benchmark's
applications under each scheduler, `scale` schedulers against numbers of CPUs in the lab, `stand-ins` the
lab's stand-ins beside the programs that they stand for; `overhead` the agent and its probes on this
machine, `switch` a switch of schedulers in the lab, `laptop` daemon and helper of an installed machine,
`recognition` the evaluation of the model, `switchback` schedulers in turns within one guest and scenario,
`matrix` these of all machines, scenarios and schedulers.
Nothing else should run meanwhile. Figures come as JSON lines on standard output.
"""
_MORE = """\
exit status:
  0  it measured, whatever it found
  1  it could not measure

files:
  docs/scale.md              what `scale` writes, with its picture and gauges
  docs/stand-ins.md          what `stand-ins` writes
  docs/overhead.md           what `overhead` writes, with overhead.svg
  docs/switching-figures.md  what `switch` writes, with its picture
  docs/laptop-figures.md     what `laptop` writes
  docs/runtime.md            what `recognition` writes

examples:
  sudo asa lab bench overhead
      All figures, in 33 minutes.
  asa lab bench switch --switches 2 --clock wall --json
      A short look; no document.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "bench", help="measure schedulers, and what ASA costs", description=_TEXT, epilog=_MORE
    )
    benches = command.add_subparsers(dest="bench", metavar="BENCH", required=True)
    bench_run.register(benches)
    bench_scale.register(benches)
    bench_stand_ins.register(benches)
    overhead = benches.add_parser(
        "overhead", help="CPU time, memory, nanoseconds a switch (root; leave the host alone)"
    )
    overhead.add_argument("--rounds", type=bounds.COUNT, default=7, metavar="N", help="of the ping-pong (default: 7)")
    overhead.add_argument(
        "--idle-seconds",
        type=bounds.time(_SHORTEST_S, _LONGEST_S),
        default=60.0,
        metavar="S",
        help="the agent alone, and under load (default: 60)",
    )
    overhead.add_argument(
        "--slope-minutes",
        type=bounds.time(0.0, _LONGEST_S / 60.0, "minutes"),
        default=30.0,
        metavar="M",
        help="of memory's growth (default: 30; 0: none)",
    )
    overhead.add_argument(
        "--out", type=Path, metavar="FILE", help="document to write, its picture beside it (default: docs/overhead.md)"
    )
    overhead.add_argument(
        "--only", metavar="FIGURE,...", help="measure these alone; writes no document unless --out names one"
    )
    overhead.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    overhead.set_defaults(run=run)
    bench_switch.register(benches)
    bench_laptop.register(benches)
    bench_recognition.register(benches)
    bench_switchback.register(benches)
    bench_matrix.register(benches)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""

    from asa import paths
    from calibration.goals import Host
    from calibration.overhead import benchmark as overhead
    from calibration.overhead.figures import OverheadFigure

    only = OverheadFigure.only(arguments.only)
    options = overhead.Options(
        rounds=arguments.rounds, idle_s=arguments.idle_seconds, slope_min=arguments.slope_minutes, only=only
    )
    out = arguments.out or (Path("docs/overhead.md") if arguments.only is None else None)
    if out is not None:
        bench_output.writable(out)  # before the half hour, not after it
    machine = Host.here(_command(arguments))
    result = _measured(options, paths.default())
    if out is not None:
        _write(result, machine, out)
    _print(result, lines_only=arguments.json)
    return 0


def _measured(options: "Options", places: "Places") -> "Result":
    from calibration.overhead import benchmark as overhead

    with bench_output.progress() as tell:
        return overhead.measure(options, places, tell)


def _write(result: "Result", machine: "Host", out: Path) -> None:
    from calibration.overhead.figures import CPU_PCT, RSS_MB
    from calibration.overhead.plot import picture
    from calibration.overhead.report import document

    image = out.with_suffix(".svg")
    drawn = {} if result.idle is None else {image: picture(result.idle, cpu_goal_pct=CPU_PCT, rss_goal_mb=RSS_MB)}
    bench_output.write({**drawn, out: document(result, machine, image=image.name if drawn else None)})


def _print(result: "Result", *, lines_only: bool) -> None:
    from calibration.goals import HEAD, as_json
    from calibration.overhead.report import cells, warnings

    for text in warnings(result):
        print(f"asa: {text}", file=sys.stderr)
    if not lines_only:
        bench_output.table(HEAD, [cells(figure) for figure in result.figures])
    for figure in result.figures:
        print(as_json(figure))


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "lab", "bench", "overhead", "--rounds", str(arguments.rounds)]
    words += ["--idle-seconds", f"{arguments.idle_seconds:g}", "--slope-minutes", f"{arguments.slope_minutes:g}"]
    words += ["--out", str(arguments.out)] if arguments.out is not None else []
    words += ["--only", arguments.only] if arguments.only is not None else []
    return " ".join(words)
