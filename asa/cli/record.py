# SPDX-License-Identifier: GPL-2.0-only
"""`asa record`: plays workloads of real programs and records them as labelled sessions; lists and packs recordings.

What is played comes from `scenarios.workloads`; this module parses, calls the recorder and prints.
"""

import argparse
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from asa.cli.run import add_ebpf

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.config import Ebpf
    from asa.core.decision import Workload
    from asa.journal import Journal
    from scenarios.recorder import Outcome, Recorder

_PACKED = ".xz"
_SIZE_MB = 4096.0  # a recording is never thinned out
_DEFAULT_SECONDS = 45
_ATTACH_LIMIT_S = 120.0  # scx_lavd takes an emulated guest a minute

_TEXT = """\
Plays workloads of real programs and records what the collectors see of them as labelled sessions in a
journal: what the model is trained from. A campaign plays every workload several times, and goes on where it
was interrupted.
"""
_MORE = """\
exit status:
  0  every session was recorded
  1  a session was dropped, or nothing could be recorded

files:
  ~/.local/state/asa/recordings.journal  the journal, if none is named

examples:
  asa record --label cpu --for 60
      One session of one minute.
  asa record --campaign --sessions 4 --journal new.journal --pack new.journal.xz
      Four of each workload, packed at the end.
  asa record --list --journal new.journal
      What there is.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "record", help="play workloads and record them as labelled sessions", description=_TEXT, epilog=_MORE
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--label", metavar="WORKLOAD", help="record one session of this workload")
    what.add_argument(
        "--campaign",
        action="store_true",
        help="record several sessions of every workload; goes on where it was interrupted",
    )
    what.add_argument("--list", action="store_true", help="show the sessions of a journal or a packed recording")
    command.add_argument(
        "--for",
        type=_positive,
        default=_DEFAULT_SECONDS,
        dest="seconds",
        metavar="SECONDS",
        help="length of a session (default: %(default)s)",
    )
    command.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="chooses programs and parameters; a campaign counts up from it (default: 0)",
    )
    command.add_argument(
        "--sessions", type=_positive, default=3, metavar="N", help="of each workload in a campaign (default: 3)"
    )
    command.add_argument(
        "--scheduler", metavar="SCHEDULER", help="keep this scheduler in force meanwhile (needs root and sched_ext)"
    )
    command.add_argument("--labels", metavar="A,B", help="workloads of a campaign (default: all)")
    command.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="journal to add to (default: recordings.journal in the state folder)",
    )
    command.add_argument(
        "--pack", type=Path, metavar="FILE", help="write the whole journal to this compressed file at the end"
    )
    add_ebpf(command)
    command.add_argument("--json", action="store_true", help="outcomes and sessions as JSON lines")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Record or list. Exit code 1 when a session was dropped, 0 otherwise."""
    from asa import paths

    path = arguments.journal or paths.default().state / "recordings.journal"
    with ExitStack() as stack:
        journal = stack.enter_context(_open(path, create=not arguments.list))
        code = _list(journal, as_json=arguments.json) if arguments.list else _record(arguments, journal)
        if arguments.pack is not None:
            _pack(journal, arguments.pack)
    return code


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _open(path: Path, *, create: bool) -> "Journal":
    from asa.core.errors import JournalError
    from asa.journal import Journal

    if path.suffix == _PACKED:
        if create:
            raise JournalError(f"{path}: a packed recording cannot be added to; name a journal and pack it again")
        return Journal.unpack(path)
    if not create and not path.exists():
        raise JournalError(
            f"{path}: there is no such journal; `asa record --campaign` makes one, --journal names another"
        )
    return Journal.open(path, size_mb=_SIZE_MB)


def _pack(journal: "Journal", path: Path) -> None:
    from asa.core.errors import JournalError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        journal.pack(path)
    except OSError as error:
        raise JournalError(f"{path}: cannot be written: {error.strerror}; choose another place") from error
    print(f"packed {len(journal.sessions())} sessions into {path}, {path.stat().st_size} bytes", file=sys.stderr)


def _list(journal: "Journal", *, as_json: bool) -> int:
    for session in journal.sessions():
        header = session.header
        samples = sum(1 for _ in journal.samples(session.number))
        started = datetime.fromtimestamp(header.started_ns / 1e9, UTC).isoformat(timespec="seconds")
        if as_json:
            fields = {"session": session.number, "label": header.label, "seed": header.seed, "samples": samples}
            place = {"host": header.host, "cpus": header.cpus, "kernel": header.kernel, "scheduler": header.scheduler}
            versions = {"started": started, "asa_version": header.asa_version, "parameters": header.parameters}
            print(json.dumps({**fields, **place, **versions}))
        else:
            seed = "-" if header.seed is None else header.seed
            what = f"{session.number:4} {header.label or '(live)':10} seed {seed:<4} {samples:5} samples"
            where = f"{header.host}, {header.cpus} CPUs, {header.kernel}, {header.scheduler or 'unknown scheduler'}"
            print(f"{what}  {started}  {where}")
    return 0


def _record(arguments: argparse.Namespace, journal: "Journal") -> int:
    from scenarios.recorder import Result

    labels = _labels(arguments)
    show = _Lines(as_json=True) if arguments.json else _display()
    with _in_force(arguments.scheduler), _recorder(journal, arguments.ebpf) as recorder, show:
        if arguments.campaign:
            outcomes = recorder.campaign(
                labels,
                sessions=arguments.sessions,
                seconds=arguments.seconds,
                seed=arguments.seed,
                on_start=show.start,
                on_outcome=show.outcome,
            )
        else:
            show.start(labels[0], arguments.seed, 1, 1)
            outcomes = [recorder.record(labels[0], seed=arguments.seed, seconds=arguments.seconds)]
            show.outcome(outcomes[0])
    counts = {result: sum(outcome.result is result for outcome in outcomes) for result in Result}
    text = ", ".join(f"{count} {result}" for result, count in counts.items())
    print(f"{len(outcomes)} sessions: {text}", file=sys.stderr)
    return 1 if counts[Result.DROPPED] else 0


def _labels(arguments: argparse.Namespace) -> "tuple[Workload, ...]":
    from asa.core.errors import InputError
    from scenarios import workloads

    option, text = ("--label", arguments.label) if arguments.label is not None else ("--labels", arguments.labels)
    if text is None:
        return workloads.LABELS
    found = []
    for word in [text] if option == "--label" else text.split(","):
        entry = workloads.find(word)
        if entry is None:
            raise InputError(path=option, key="", value=word, allowed=", ".join(workloads.LABELS))
        found.append(entry.label)
    return tuple(found)


@contextmanager
def _in_force(scheduler: str | None) -> "Iterator[None]":
    if scheduler is None:
        yield
        return
    from asa import config, paths
    from asa.act.plain import PlainSwitcher, bring_up
    from asa.act.portfolio import Portfolio
    from asa.act.undo import UndoJournal
    from asa.core.decision import SchedulerName
    from asa.status import StatusFile
    from collectors.sampler import SystemClock

    places = paths.default()
    lock = StatusFile(places.run)  # an agent that started meanwhile would stop this scheduler as a leftover
    settings = config.load(places.config)
    owners = settings.switch.trusted_owners
    switcher = PlainSwitcher(
        portfolio=Portfolio.load(paths.manifest(), places.schedulers, owners=owners),
        undo=UndoJournal(places.run / "undo.json", places.proc),
        clock=SystemClock(),
        limits=config.SwitchSettings(attach_limit_s=_ATTACH_LIMIT_S),
        sys=places.sys,
        logs=places.run / "logs",
    )
    try:
        bring_up(switcher, SchedulerName(scheduler))
        yield
    finally:
        switcher.rest()
        lock.close()


@contextmanager
def _recorder(journal: "Journal", ebpf: "Ebpf | None") -> "Iterator[Recorder]":
    from msgspec.structs import replace

    from asa import config, paths
    from asa.act.urgency import go_first
    from collectors.sampler import HostSampler, SystemClock, standard
    from scenarios.player import Player, find_stage
    from scenarios.recorder import Recorder, machine

    places = paths.default()
    collect = config.load(places.config).collect
    if ebpf is not None:
        collect = replace(collect, ebpf=ebpf)
    go_first()  # as the agent does: what it would see is what is recorded
    stage = find_stage(cache=places.cache, proc=places.proc)
    clock = SystemClock()
    # Ctrl-C ends the programs on the way out; so must an ordinary kill
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with closing(HostSampler(standard(places.proc, places.sys, collect), clock)) as sampler:
            sampler.open()
            for source, reason in sampler.missing.items():
                print(f"asa: {source}: {reason}; recorded without it", file=sys.stderr)
            yield Recorder(
                journal=journal,
                sampler=sampler,
                clock=clock,
                play=lambda label, seed: Player.start(label, seed=seed, stage=stage),
                machine=machine(lab=stage.lab, cpus=stage.cpus, proc=places.proc),
            )
    finally:
        signal.signal(signal.SIGTERM, before)


class _Display(Protocol):
    """Shows a campaign as it goes; entered before the first session and left after the last."""

    def start(self, label: "Workload", seed: int, number: int, total: int) -> None: ...

    def outcome(self, outcome: "Outcome") -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def _display() -> _Display:
    if sys.stdout.isatty():
        try:
            return _Bar()
        except ImportError:  # rich is in the `lab` extra
            pass
    return _Lines(as_json=False)


def _words(outcome: "Outcome") -> str:
    from scenarios.recorder import Result

    detail = {Result.KEPT: f" ({outcome.samples} samples)", Result.DROPPED: f": {outcome.reason}", Result.SKIPPED: ""}
    return f"{outcome.workload} seed {outcome.seed} {outcome.result}{detail[outcome.result]}"


class _Lines:
    """One line for each session, or one JSON object."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._prefix = ""

    def start(self, label: "Workload", seed: int, number: int, total: int) -> None:  # noqa: ARG002  # shown with the outcome
        self._prefix = f"{number}/{total} "

    def outcome(self, outcome: "Outcome") -> None:
        if self._as_json:
            import msgspec

            print(msgspec.json.encode(outcome).decode(), flush=True)
        else:
            print(self._prefix + _words(outcome), flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return


class _Bar:
    """A progress bar over the sessions, outcomes scroll by above it."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description:32}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns)
        self._task = self._progress.add_task("")

    def start(self, label: "Workload", seed: int, number: int, total: int) -> None:
        self._progress.update(
            self._task, description=f"recording {label} seed {seed}", completed=number - 1, total=total
        )

    def outcome(self, outcome: "Outcome") -> None:
        self._progress.console.print(_words(outcome), markup=False, highlight=False)
        self._progress.advance(self._task)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
