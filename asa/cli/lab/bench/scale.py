# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench scale`: latency and throughput of schedulers against core counts, in the lab; writes docs/scale.md."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.goals import Host
    from calibration.scale.benchmark import Options, Result

_FEWEST_FOR_A_DOCUMENT = 3  # turns: an interval of two is wider than what it is of
_MOST_TURNS = 100
_SHORTEST_S, _LONGEST_S = 0.2, 60.0  # the program's own limit


def register(benches: "Commands") -> None:
    """Add the parser."""
    scale = benches.add_parser("scale", help="schedulers against core counts (in the lab)")
    scale.add_argument("--cpus", type=_cpus, metavar="N,...", help="of the guests (default: 2,4,8,12)")
    scale.add_argument(
        "--scheduler", type=_names, default=(), metavar="NAME,...", help="these alone (default: all that are installed)"
    )
    scale.add_argument(
        "--repeat",
        type=bounds.number(1, _MOST_TURNS),
        default=5,
        metavar="N",
        help="turns of each scheduler in each guest (default: 5)",
    )
    scale.add_argument(
        "--seconds",
        type=bounds.time(_SHORTEST_S, _LONGEST_S),
        default=2.0,
        metavar="S",
        help="of each of 7 modes (default: 2)",
    )
    scale.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="document to write, its picture (.svg) and its gauges for Prometheus (.prom) beside it (default: "
        f"docs/scale.md, by a run of all core counts and schedulers with {_FEWEST_FOR_A_DOCUMENT} turns or more)",
    )
    scale.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    scale.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""

    from asa import paths
    from calibration.goals import Host
    from calibration.scale.benchmark import CPUS, Options, measure

    options = Options(
        cpus=arguments.cpus or CPUS,
        schedulers=arguments.scheduler,
        repeats=arguments.repeat,
        seconds=arguments.seconds,
    )
    out = arguments.out
    whole = options.cpus == CPUS and not options.schedulers and options.repeats >= _FEWEST_FOR_A_DOCUMENT
    if out is None and whole:
        out = Path("docs/scale.md")
    if out is not None:
        for path in _files(out):
            bench_output.writable(path)
    machine = Host.here(_command(arguments, options))
    with bench_output.progress() as tell:
        result = measure(options, paths.default(), tell)
    if out is not None:
        _write(result, machine, out)
    _print(result, as_json=arguments.json)
    return 0


def _files(out: Path) -> tuple[Path, Path, Path]:
    """Document, picture, gauges."""
    return out, out.with_suffix(".svg"), out.with_suffix(".prom")


def _write(result: "Result", machine: "Host", out: Path) -> None:
    from asa.core.errors import AsaError
    from calibration.scale.figures import figures
    from calibration.scale.plot import picture
    from calibration.scale.report import document, prometheus

    made = figures(result.found)
    _, image, gauges = _files(out)
    try:
        bench_output.put(image, picture(made))
        bench_output.put(gauges, prometheus(made))
        bench_output.put(out, document(result, machine, image=image.name, gauges=gauges.name))
    except OSError as error:
        raise AsaError(f"{out}: cannot be written: {error.strerror}; name another place by --out") from error
    print(f"wrote {out}", file=sys.stderr)


def _print(result: "Result", *, as_json: bool) -> None:
    from calibration.scale.figures import figures
    from calibration.scale.report import as_json as line
    from calibration.scale.report import cells, failures_as_json, warnings

    for text in warnings(result):
        print(f"asa: {text}", file=sys.stderr)
    made = figures(result.found)
    if not as_json:
        bench_output.table(("metric", "cpus", "scheduler", "value", ""), [cells(figure) for figure in made])
    for figure in made:
        print(line(figure))
    print(failures_as_json(result))


def _command(arguments: argparse.Namespace, options: "Options") -> str:
    words = ["asa", "lab", "bench", "scale", "--cpus", ",".join(map(str, options.cpus))]
    words += ["--scheduler", ",".join(options.schedulers)] if options.schedulers else []
    words += ["--repeat", str(options.repeats), "--seconds", f"{options.seconds:g}"]
    words += ["--out", str(arguments.out)] if arguments.out is not None else []
    return " ".join(words)


def _cpus(text: str) -> tuple[int, ...]:
    values = tuple(int(word) for word in text.split(","))
    if len(set(values)) < len(values) or not all(1 <= value <= 16 for value in values):
        raise argparse.ArgumentTypeError(f"{text} is not a list of different numbers from 1 to 16")
    return values


def _names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))
