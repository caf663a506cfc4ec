# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench recognition`: what evaluating the model costs, by each candidate runtime; writes docs/runtime.md."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.lab import bounds
from asa.cli.lab.bench import output as bench_output

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from calibration.recognition.candidates import Candidate

_MOST_TURNS = 1_000_000
_FEWEST_TURNS = 100  # for a 99th percentile


def register(benches: "Commands") -> None:
    """Add the parser."""
    command = benches.add_parser("recognition", help="time and memory of the model's evaluation, by each candidate")
    command.add_argument("--model", type=Path, metavar="FILE", help="artefact (default: the shipped one)")
    command.add_argument(
        "--turns",
        type=bounds.number(_FEWEST_TURNS, _MOST_TURNS),
        default=1_000,
        metavar="N",
        help="predictions of a process (default: %(default)s)",
    )
    command.add_argument(
        "--rounds", type=bounds.COUNT, default=3, metavar="N", help="processes of a candidate (default: %(default)s)"
    )
    command.add_argument(
        "--samples", type=Path, metavar="FILE", help="journal whose ticks are timed (default: one of the package's)"
    )
    command.add_argument("--only", metavar="NAME,...", help="these candidates alone; writes no document without --out")
    command.add_argument(
        "--python", type=Path, metavar="FILE", help="interpreter that has the candidates (default: this one)"
    )
    command.add_argument("--out", type=Path, metavar="FILE", help="document to write (default: docs/runtime.md)")
    command.add_argument("--json", action="store_true", help="the JSON lines alone")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""

    from asa import paths
    from calibration.goals import Host
    from calibration.recognition import runtimes as recognition
    from calibration.recognition import runtimes_report as recognition_report

    candidates = _candidates(arguments.only)
    out = arguments.out or (Path("docs/runtime.md") if arguments.only is None else None)
    if out is not None:
        bench_output.writable(out)
    machine = Host.here(_command(arguments))
    options = recognition.Options(
        model=arguments.model or paths.base_model(),
        candidates=candidates,
        turns=arguments.turns,
        rounds=arguments.rounds,
        python=arguments.python or Path(sys.executable),
        samples=arguments.samples or recognition.recording(),
    )
    with bench_output.progress() as tell:
        result = recognition.measure(options, tell)
    if out is not None:
        bench_output.write({out: recognition_report.document(result, machine)})
    for text in recognition_report.warnings(result):
        print(f"asa: {text}", file=sys.stderr)
    if not arguments.json:
        bench_output.table(("figure", "value", "goal", "met", ""), recognition_report.figure_rows(result))
        bench_output.table(recognition_report.TITLES, recognition_report.rows(result))
    for line in recognition_report.lines(result):
        print(line)
    return 0


def _candidates(text: str | None) -> "tuple[Candidate, ...]":
    from asa.core.errors import InputError
    from calibration.recognition.candidates import Candidate

    if text is None:
        return tuple(Candidate)
    wanted = {name.strip() for name in text.split(",")}
    for name in sorted(wanted - set(Candidate)):
        raise InputError(path="--only", key="", value=name, allowed=", ".join(Candidate))
    return tuple(candidate for candidate in Candidate if candidate in wanted)


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "lab", "bench", "recognition", "--turns", str(arguments.turns), "--rounds", str(arguments.rounds)]
    for name in ("model", "samples", "only", "out"):
        value = getattr(arguments, name)
        words += [f"--{name}", str(value)] if value is not None else []
    words += ["--python", "FILE"] if arguments.python is not None else []  # a place on one machine
    return " ".join(words)
