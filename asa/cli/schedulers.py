# SPDX-License-Identifier: GPL-2.0-only
"""`asa schedulers install|list|verify`: get the portfolio, show it, compare it with its recorded hashes."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from asa import paths, wire
from asa.act.portfolio import Available, Portfolio, Unavailable
from asa.core.decision import SchedulerName
from asa.core.errors import SchedulerError

if TYPE_CHECKING:
    from rich.progress import Progress

    from asa.act.build import Outcome, Watcher
    from asa.cli.main import Commands

_SHOWN_S = 10.0  # without a terminal, a build that goes on is mentioned this often

_TEXT = """\
Installs the schedulers of the portfolio, lists them, or compares them with their records. `install` uses
what the host has, builds the others from checked sources, and records the hash and the flags of each. The
agent runs nothing else. `record` is for after an update of the host's own schedulers; packages run it.
"""
_MORE = """\
exit status:
  0  done; for `verify`: every file is the recorded one
  1  a scheduler failed or is not to be had; for `verify`: a file is another one or missing

files:
  ~/.cache/asa/scx                 the schedulers that were built
  ~/.cache/asa/scx/installed.json  their hashes and flags

examples:
  sudo asa schedulers install
      All of them, for an agent of root.
  sudo asa schedulers install scx_flash scx_lavd
      Two of them.
  asa schedulers list --json
      What there is, for programs.
"""


def register(commands: "Commands") -> None:
    """Add `schedulers` and what it can do."""
    parser = commands.add_parser(
        "schedulers", help="install, list or verify schedulers", description=_TEXT, epilog=_MORE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = actions.add_parser("install", help="use the host's, build the others, record hashes and flags")
    one.add_argument("names", nargs="*", metavar="NAME", help="as in `list`; all when none is given")
    one.set_defaults(run=lambda arguments: install_missing(arguments.names))
    one = actions.add_parser("record", help="record anew those of the host that an update has changed; build nothing")
    one.set_defaults(run=_record)
    for name, what, run in (("list", "what there is, and from where", _list), ("verify", "compare hashes", _verify)):
        one = actions.add_parser(name, help=what)
        one.add_argument("--json", action="store_true", help="print JSON")
        one.set_defaults(run=run)


def _record(_: argparse.Namespace) -> int:
    """What a package's trigger or hook runs. Exit code 1 when a file of the host cannot be used."""
    from asa.act import build

    portfolio = _portfolio()
    if not portfolio.records():
        return 0  # and no folder is made
    with _watcher(sys.stderr) as watcher:
        outcomes = build.install(portfolio, paths.default().cache, watcher, recorded=True)
    return 1 if any(outcome.status is build.Status.FAILED for outcome in outcomes) else 0


def install_missing(names: Sequence[str] = (), *, output: TextIO | None = None) -> int:
    """Install `names` (all when empty), showing how it goes on `output` (stderr); also a step of `asa lab setup`.

    Gives an exit code: 0 unless one failed, or one that was asked for by name cannot be had.
    """
    from asa.act import build  # set-up code, which the agent does not load

    output = output or sys.stderr
    asked = tuple(SchedulerName(name) for name in names)
    places = paths.default()
    with _watcher(output) as watcher:
        outcomes = build.install(_portfolio(), places.cache, watcher, asked)
    bad = {build.Status.FAILED, build.Status.UNAVAILABLE} if asked else {build.Status.FAILED}
    failed = [outcome for outcome in outcomes if outcome.status in bad]
    usable = sum(outcome.status not in (build.Status.FAILED, build.Status.UNAVAILABLE) for outcome in outcomes)
    print(f"{usable} of {len(outcomes)} schedulers are usable", file=output)
    for outcome in failed:
        print(f"asa: {outcome.name}: {outcome.detail}", file=output)
    return 1 if failed else 0


def build_loader(output: TextIO | None = None) -> None:
    """Build scx_loader for the tests where it is not there yet. Raises SetupError."""
    from asa.act import build

    with _watcher(output or sys.stderr) as watcher:
        build.loader(_portfolio(), paths.default().cache, watcher)


def _portfolio() -> Portfolio:
    return Portfolio.load(paths.manifest(), paths.default().schedulers)


def _list(arguments: argparse.Namespace) -> int:
    portfolio = _portfolio()
    looks = [portfolio.look(name) for name in portfolio.names()]
    if arguments.json:
        print(json.dumps([_as_json(look, portfolio) for look in looks], indent=2))
        return 0
    for look in looks:
        entry = look.entry
        print(f"{entry.name:<12} {'paper    ' if entry.paper else 'candidate'} {_where(look)}")
        print(f"{'':<12} {entry.purpose}")
        print(f"{'':<12} modes: {', '.join(portfolio.modes()[entry.name])}")
    return 0


def _where(look: Available | Unavailable) -> str:
    if isinstance(look, Unavailable):
        return f"unavailable: {look.reason}"
    place = f" {look.path}" if look.path else ""
    return f"{look.origin}{f' {look.version}' if look.version else ''}{place}"


def _as_json(look: Available | Unavailable, portfolio: Portfolio) -> dict[str, object]:
    entry = look.entry
    there = look if isinstance(look, Available) else None
    return {
        "name": entry.name,
        "paper": entry.paper,
        "available": there is not None,
        "reason": None if isinstance(look, Available) else look.reason,
        "origin": there and there.origin,
        "path": str(there.path) if there and there.path else None,
        "version": there and there.version,
        "sha256": there and there.sha256,
        "flags": there and there.flags,
        "purpose": entry.purpose,
        "modes": {
            mode: portfolio.arguments(SchedulerName.of(entry.name, mode)) for mode in portfolio.modes()[entry.name]
        },
        "policies": [wire.plain(policy) for name, policy in portfolio.policies.items() if name.bare == entry.name],
    }


def _verify(arguments: argparse.Namespace) -> int:
    portfolio = _portfolio()
    known = set(portfolio.names())
    wrong: dict[str, str] = {}
    records = portfolio.records()
    for name, record in records.items():
        try:
            found = portfolio.hash_of(name, Path(record.path))
        except SchedulerError as error:
            wrong[name] = error.reason
            continue
        if found != record.sha256:
            wrong[name] = f"SHA-256 is {found}, recorded {record.sha256}; run `asa schedulers install {name}`"
    if arguments.json:
        rows = [
            {
                "name": name,
                "path": record.path,
                "sha256": record.sha256,
                "ok": name not in wrong,
                "why": wrong.get(name),
            }
            for name, record in records.items()
        ]
        print(json.dumps(rows, indent=2))
    else:
        for name, record in records.items():
            told = wrong.get(name) or ("ok" if name in known else "ok, but no longer in the manifest")
            print(f"{name:<12} {record.path}: {told}")
        if not records:
            print("nothing is installed; run `asa schedulers install`")
    return 1 if wrong else 0


@contextmanager
def _watcher(output: TextIO) -> "Iterator[Watcher]":
    if not output.isatty():
        yield _Lines(output)
        return
    from rich.console import Console  # of the extra `monitor`, and for people only
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.description:<12}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[words]}", table_column=Column(no_wrap=True, ratio=1), markup=False),
    )
    with Progress(*columns, console=Console(file=output), expand=True) as progress:
        yield _Bar(progress)


class _Bar:
    """A progress bar: which one of how many, the time, the last line of the build."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, words="")

    def begin(self, name: SchedulerName, position: int, total: int) -> None:
        self._progress.update(self._task, description=name, completed=position - 1, total=total, words="")

    def line(self, text: str) -> None:
        self._progress.update(self._task, words=text.strip())

    def end(self, outcome: "Outcome") -> None:
        self._progress.advance(self._task)
        self._progress.console.print(_told(outcome), markup=False, highlight=False, soft_wrap=True)


class _Lines:
    """The same for a log: one line a scheduler, and a sign of life now and then."""

    def __init__(self, output: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._output = output
        self._clock = clock
        self._shown_s = clock()
        self._head = ""

    def begin(self, name: SchedulerName, position: int, total: int) -> None:
        self._head = f"[{position}/{total}] {name}"
        self._shown_s = self._clock()

    def line(self, text: str) -> None:
        now_s = self._clock()
        if now_s - self._shown_s >= _SHOWN_S:
            self._shown_s = now_s
            print(f"{self._head} … {text.strip()}", file=self._output, flush=True)

    def end(self, outcome: "Outcome") -> None:
        print(f"{self._head.split()[0]} {_told(outcome)}", file=self._output, flush=True)


def _told(outcome: "Outcome") -> str:
    return f"{outcome.name}: {outcome.status}, {outcome.detail} ({outcome.elapsed_s:.0f} s)"
