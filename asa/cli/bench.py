# SPDX-License-Identifier: GPL-2.0-only
"""`asa bench overhead`: what the agent costs this machine, with goals; prints it and writes docs/overhead.md."""

import argparse
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.cli.main import Commands
    from asa.paths import Places
    from calibration.overhead import Options, Result
    from calibration.overhead_figures import Name
    from calibration.overhead_report import Machine

_SHORTEST_S, _LONGEST_S = 1.0, 86_400.0
_MOST_ROUNDS = 1_000
_PLAIN_WIDTH = 140  # of the table in a file or a log


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser("bench", help="measure what ASA costs this machine")
    benches = command.add_subparsers(dest="bench", metavar="BENCH", required=True)
    overhead = benches.add_parser(
        "overhead", help="CPU time, memory, nanoseconds a switch (root; leave the host alone)"
    )
    overhead.add_argument("--rounds", type=_rounds, default=7, metavar="N", help="of the ping-pong (default: 7)")
    overhead.add_argument(
        "--idle-seconds", type=_seconds, default=60.0, metavar="S", help="the agent alone, and under load (default: 60)"
    )
    overhead.add_argument(
        "--slope-minutes", type=_minutes, default=30.0, metavar="M", help="of memory's growth (default: 30; 0: none)"
    )
    overhead.add_argument(
        "--out", type=Path, metavar="FILE", help="document to write, its picture beside it (default: docs/overhead.md)"
    )
    overhead.add_argument(
        "--only", metavar="FIGURE,...", help="measure these alone; writes no document unless --out names one"
    )
    overhead.add_argument("--json", action="store_true", help="the figures' JSON lines alone")
    overhead.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Exit code 0 when it measured, whatever it found."""
    import os

    import asa
    from asa import host, paths
    from calibration import overhead
    from calibration.overhead_report import Machine

    only = _only(arguments.only)
    options = overhead.Options(
        rounds=arguments.rounds, idle_s=arguments.idle_seconds, slope_min=arguments.slope_minutes, only=only
    )
    out = arguments.out or (Path("docs/overhead.md") if arguments.only is None else None)
    if out is not None:
        _writable(out)  # before the half hour, not after it
    machine = Machine(
        cpu=host.cpu_model(),
        cpus=host.cpus(),
        kernel=os.uname().release,
        version=asa.__version__,
        command=_command(arguments),
    )
    result = _measured(options, paths.default())
    if out is not None:
        _write(result, machine, out)
    _print(result, as_json=arguments.json)
    return 0


def _only(text: str | None) -> "frozenset[Name]":
    from asa.core.errors import AsaError
    from calibration.overhead_figures import Name

    if text is None:
        return frozenset(Name)
    try:
        return frozenset(Name(name.strip()) for name in text.split(","))
    except ValueError as error:
        raise AsaError(f"--only: {error}; the figures are {', '.join(Name)}") from None


def _measured(options: "Options", places: "Places") -> "Result":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from calibration import overhead

    columns = (TextColumn("{task.description:48}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console) as progress, _ends_by_sigterm():
        task = progress.add_task("", total=1.0)
        told = ""

        def tell(what: str, share: float) -> None:
            nonlocal told
            if what != told and not console.is_terminal:
                console.print(what, markup=False)  # a log has no bar, but it has steps
            told = what
            progress.update(task, description=what, completed=share)

        return overhead.measure(options, places, tell)


@contextmanager
def _ends_by_sigterm() -> "Iterator[None]":
    """An ordinary kill ends what was started, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _writable(out: Path) -> None:
    import os

    from asa.core.errors import AsaError

    strange = out.is_symlink() or (out.exists() and not out.is_file())  # it is replaced: no link, folder or device
    if strange or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise AsaError(f"{out}: cannot be written; make its folder, or name another place by --out")


def _write(result: "Result", machine: "Machine", out: Path) -> None:
    from asa.core.errors import AsaError
    from calibration.overhead_figures import GOALS, Name
    from calibration.overhead_plot import picture
    from calibration.overhead_report import document

    image = out.with_suffix(".svg")
    try:
        if result.idle is not None:
            goals = (GOALS[Name.AGENT_CPU].value, GOALS[Name.AGENT_RSS].value)
            _put(image, picture(result.idle, cpu_goal_pct=goals[0], rss_goal_mb=goals[1]))
        text = document(result, machine, image=image.name if result.idle is not None else None)
        _put(out, text)
    except OSError as error:
        raise AsaError(f"{out}: cannot be written: {error.strerror}; name another place by --out") from error
    print(f"wrote {out}", file=sys.stderr)


def _put(path: Path, text: str) -> None:
    """The file as a whole or not at all, whatever its name is a link to; in a user's folder it is that user's."""
    import os
    import secrets

    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fresh = f".{path.name}-{secrets.token_hex(4)}"
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            with os.fdopen(file, "w", encoding="utf-8") as writer:
                writer.write(text)
                writer.flush()
                owner = os.fstat(folder)
                if os.geteuid() == 0 and owner.st_uid != 0:
                    os.fchown(file, owner.st_uid, owner.st_gid)
                os.fchmod(file, 0o644)
            os.replace(fresh, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(fresh, dir_fd=folder)
            raise
    finally:
        os.close(folder)


def _print(result: "Result", *, as_json: bool) -> None:
    from calibration.overhead_report import as_json as line
    from calibration.overhead_report import cells, warnings

    for text in warnings(result):
        print(f"asa: {text}", file=sys.stderr)
    if not as_json:
        from rich.console import Console
        from rich.table import Table

        table = Table()
        for name in ("figure", "value", "goal", "met", ""):
            table.add_column(name, justify="right" if name in {"value", "goal"} else "left", no_wrap=bool(name))
        for figure in result.figures:
            table.add_row(*cells(figure))
        console = Console(highlight=False, markup=False)
        if not console.is_terminal:
            console.width = _PLAIN_WIDTH
        console.print(table)
    for figure in result.figures:
        print(line(figure))


def _command(arguments: argparse.Namespace) -> str:
    words = ["asa", "bench", "overhead", "--rounds", str(arguments.rounds)]
    words += ["--idle-seconds", f"{arguments.idle_seconds:g}", "--slope-minutes", f"{arguments.slope_minutes:g}"]
    words += ["--out", str(arguments.out)] if arguments.out is not None else []
    words += ["--only", arguments.only] if arguments.only is not None else []
    return " ".join(words)


def _rounds(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _MOST_ROUNDS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {_MOST_ROUNDS}")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not _SHORTEST_S <= value <= _LONGEST_S:  # also keeps nan out
        raise argparse.ArgumentTypeError(f"{text} is not a time from {_SHORTEST_S:g} to {_LONGEST_S:g} seconds")
    return value


def _minutes(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= _LONGEST_S / 60.0:
        raise argparse.ArgumentTypeError(f"{text} is not a time from 0 to {_LONGEST_S / 60.0:g} minutes")
    return value
