# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench scale`: latency and throughput of schedulers on several machines, in the lab; writes docs/scale.md.

With `--foreign` what PANDEMONIUM's benchmark measures, into docs/foreign.md.
"""

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
    from scenarios.lab.machines import Machine

_FEWEST_FOR_A_DOCUMENT = 3  # turns: an interval of two is wider than what it is of
_MOST_TURNS = 100
_SHORTEST_S, _LONGEST_S = 0.2, 60.0  # the program's own limit


def register(benches: "Commands") -> None:
    """Add the parser."""
    scale = benches.add_parser("scale", help="schedulers against numbers of CPUs, on machines of the lab")
    scale.add_argument(
        "--foreign",
        action="store_true",
        help="what PANDEMONIUM's benchmark measures, its published figures beside it, in docs/foreign.md",
    )
    scale.add_argument("--cpus", type=_cpus, default=(), metavar="N,...", help="guests of so many CPUs alike")
    scale.add_argument("--machine", default="", metavar="NAME,...", help="guests of the lab's machines, or of files")
    scale.add_argument(
        "--tick",
        type=int,
        choices=(250, 1000),
        help="of their kernels, in Hz (default: 1000; without --cpus and --machine: 2, 4, 8, 12, 16 CPUs and "
        "laptop-hybrid at 1000, and 2, 4, 8 CPUs at 250; with --foreign: 2, 4, 8, 12)",
    )
    scale.add_argument(
        "--scheduler", type=_names, default=(), metavar="NAME,...", help="these alone (default: all that are installed)"
    )
    scale.add_argument(
        "--repeat",
        type=bounds.number(1, _MOST_TURNS),
        default=2,
        metavar="N",
        help="how often each scheduler is brought into force in each guest (default: 2)",
    )
    scale.add_argument(
        "--plays",
        type=bounds.number(1, _MOST_TURNS),
        default=2,
        metavar="N",
        help="how often it plays all modes then (default: 2)",
    )
    scale.add_argument(
        "--seconds",
        type=bounds.time(_SHORTEST_S, _LONGEST_S),
        default=0.5,
        metavar="S",
        help="of each mode (default: 0.5)",
    )
    _files_of(scale)
    scale.set_defaults(run=run)


def _files_of(scale: argparse.ArgumentParser) -> None:
    """Arguments of how much at once, and of files."""
    scale.add_argument(
        "--at-once", type=bounds.number(1, _MOST_TURNS), default=2, metavar="N", help="guests (default: 2)"
    )
    scale.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="document to write, its picture (.svg) and its gauges for Prometheus (.prom) beside it (default: "
        f"docs/scale.md, by a run of all guests and schedulers with {_FEWEST_FOR_A_DOCUMENT} plays or more)",
    )
    scale.add_argument(
        "--before", type=Path, metavar="FILE", help="gauges of the serial clock (default: docs/scale-serial.prom)"
    )
    scale.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="where a whole run's records are kept, for `asa lab evaluate outside` (default: the package's)",
    )
    scale.add_argument(
        "--from", dest="kept", type=Path, metavar="DIR", help="measure nothing; write --out of the records kept there"
    )
    scale.add_argument("--json", action="store_true", help="the figures' JSON lines alone")


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""

    from asa import paths
    from calibration.goals import Host
    from calibration.scale.benchmark import Options, forget, measure, planned, planned_foreign
    from calibration.scale.samples import FOREIGN, USUAL

    if arguments.kept is not None:
        return _again(arguments)
    all_machines = planned_foreign() if arguments.foreign else planned()
    options = Options(
        machines=_machines(arguments) or all_machines,
        schedulers=arguments.scheduler,
        repeats=arguments.repeat,
        plays=arguments.plays,
        seconds=arguments.seconds,
        at_once=arguments.at_once,
        modes=FOREIGN if arguments.foreign else USUAL,
    )
    out = arguments.out
    plays = options.repeats * options.plays
    whole = options.machines == all_machines and not options.schedulers and plays >= _FEWEST_FOR_A_DOCUMENT
    if out is None and whole:
        out = Path("docs/foreign.md" if arguments.foreign else "docs/scale.md")
    if out is not None:
        for path in _files(out, foreign=arguments.foreign):
            bench_output.writable(path)
    machine = Host.here(_command(arguments, options))
    with bench_output.progress() as tell:
        result = measure(options, paths.default(), tell)
    if out is not None:
        _write(result, machine, out, arguments)
    if whole or arguments.keep is not None:
        _keep(result, arguments)
    if out is not None and not result.troubles:
        forget(options, paths.default())
    _print(result, arguments)
    return 0


def _again(arguments: argparse.Namespace) -> int:
    """Figures and document of kept records."""
    from calibration.goals import Host
    from calibration.scale.benchmark import of_kept

    result = of_kept(arguments.kept)
    out = arguments.out
    if out is not None:
        for path in _files(out, foreign=arguments.foreign):
            bench_output.writable(path)
        foreign = " --foreign" if arguments.foreign else ""
        machine = Host.here(f"asa lab bench scale{foreign} --from {arguments.kept} --out {out}")
        _write(result, machine, out, arguments)
    _print(result, arguments)
    return 0


def _machines(arguments: argparse.Namespace) -> "tuple[Machine, ...]":
    """Those that were asked for; none where none was. Raises InputError."""
    from calibration.scale.benchmark import planned, planned_foreign, ticking
    from calibration.scale.samples import USUAL_HZ
    from scenarios.lab import machines

    found = [*map(machines.alike, arguments.cpus), *(machines.find(arguments.machine) if arguments.machine else ())]
    if not found and arguments.tick is None:
        return ()
    tick = arguments.tick or USUAL_HZ
    whole = planned_foreign() if arguments.foreign else planned()
    return tuple(ticking(one, tick) for one in found) or tuple(one for one in whole if one.tick_hz == tick)


def _keep(result: "Result", arguments: argparse.Namespace) -> None:
    import calibration
    from calibration.scale.samples import write

    name = "foreign" if arguments.foreign else "scale"
    place = arguments.keep or Path(calibration.__file__).parent / "results" / name
    place.mkdir(parents=True, exist_ok=True)
    for found in result.found:
        write(found, place / f"{found.under.machine}-{found.under.tick_hz}.json")


def _files(out: Path, *, foreign: bool) -> tuple[Path, ...]:
    """Document, picture, gauges; of foreign measures the document alone."""
    return (out,) if foreign else (out, out.with_suffix(".svg"), out.with_suffix(".prom"))


def _write(result: "Result", machine: "Host", out: Path, arguments: argparse.Namespace) -> None:
    from asa import paths
    from asa.decide import table
    from calibration.outside import evidence
    from calibration.scale import foreign
    from calibration.scale.figures import figures
    from calibration.scale.plot import picture
    from calibration.scale.report import document, kept_before, prometheus

    if arguments.foreign:
        published = evidence.read(paths.mapping_tables() / table.EVIDENCE)
        bench_output.write({out: foreign.document(result, machine, published)})
        return
    made = figures(result.found)
    _, image, gauges = _files(out, foreign=False)
    serial = arguments.before or out.with_name("scale-serial.prom")
    before = kept_before(serial) if serial.exists() else {}
    text = document(result, machine, image=image.name, gauges=gauges.name, before=before)
    bench_output.write({image: picture(made), gauges: prometheus(made), out: text})


def _print(result: "Result", arguments: argparse.Namespace) -> None:
    from calibration.scale import foreign
    from calibration.scale.figures import figures
    from calibration.scale.report import as_json as line
    from calibration.scale.report import cells, failures_as_json, warnings

    for text in warnings(result):
        print(f"asa: {text}", file=sys.stderr)
    made = foreign.averages(result.found) if arguments.foreign else figures(result.found)
    if not arguments.json:
        bench_output.table(("metric", "guest", "scheduler", "value", ""), [cells(figure) for figure in made])
    for figure in made:
        print(line(figure))
    print(failures_as_json(result))


def _command(arguments: argparse.Namespace, options: "Options") -> str:
    words = ["asa", "lab", "bench", "scale"]
    words += ["--foreign"] if arguments.foreign else []
    words += ["--cpus", ",".join(map(str, arguments.cpus))] if arguments.cpus else []
    words += ["--machine", arguments.machine] if arguments.machine else []
    words += ["--tick", str(arguments.tick)] if arguments.tick else []
    words += ["--scheduler", ",".join(options.schedulers)] if options.schedulers else []
    words += ["--repeat", str(options.repeats), "--plays", str(options.plays), "--seconds", f"{options.seconds:g}"]
    words += ["--out", str(arguments.out)] if arguments.out is not None else []
    return " ".join(words)


def _cpus(text: str) -> tuple[int, ...]:
    values = tuple(int(word) for word in text.split(","))
    if len(set(values)) < len(values) or not all(1 <= value <= 64 for value in values):
        raise argparse.ArgumentTypeError(f"{text} is not a list of different numbers from 1 to 64")
    return values


def _names(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))
