# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab record`: plays workloads or the benchmark's scenarios and records labelled sessions; lists and packs them.

What is played comes from `scenarios.workloads` and `scenarios.catalogue`; this module parses, calls the recorder and
prints.
"""

import argparse
import json
import sys
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from asa.cli.run import add_ebpf

if TYPE_CHECKING:
    from asa.cli.main import Commands
    from asa.core.decision import Workload
    from asa.journal import Journal
    from scenarios.recorder import SessionRecorder

_PACKED = ".xz"
_SIZE_MB = 4096.0  # a recording is never thinned out
_DEFAULT_SECONDS, _SCENARIO_SECONDS, _STEP_SECONDS = 45, 60, 30

_TEXT = """\
Plays workloads of real programs, or scenarios of the benchmark, and records what the collectors see of them
as labelled sessions in a journal: what the model is trained from. A campaign plays every workload several
times, and goes on where it was interrupted; so does --scenario. A scenario is recorded from before its start
until after its end, with marks of what was there when. A sequence is several scenarios one after the other
in one session: what the voting is judged on.
"""
_MORE = """\
exit status:
  0  every session was recorded
  1  a session was dropped, or nothing could be recorded

files:
  ~/.local/state/asa/recordings.journal  the journal, if none is named

examples:
  asa lab record --label cpu --for 60
      One session of one minute.
  asa lab record --campaign --sessions 4 --journal new.journal --pack new.journal.xz
      Four of each workload, packed at the end.
  asa lab record --scenario web+blender,idle --sessions 1
      A minute of a browser beside a render, and one of a machine at rest, with what was before and after.
  asa lab record --scenario everything --journal real.journal --pack real.journal.xz
      Three sessions of each of the 40 labels: four hours.
  asa lab record --scenario kind:compress,web+zstd --sessions 1
      Each program that compresses alone, and a browser beside one; labelled compress and browse+compress.
  asa lab record --scenario mousepad,firefox+zstd --desktop --sessions 1 --journal desktop.journal
      The same with the window in front in a GNOME Shell, typed and clicked into.
  asa lab record --scenario everything --in-lab DIR --scheduler eevdf,eevdf,scx_bpfland --jobs 2
      The same of the stand-ins, in guests; a third of the sessions under another scheduler.
  asa lab record --scenario kind:compress,kind:disk --in-lab DIR --machine laptop-hybrid
      Programs of kinds on another machine, which the header of each session names.
  asa lab record --sequence 20 --seed 100 --journal sequences.journal --pack sequences.journal.xz
      Twenty sessions of five scenarios of 20 to 40 s each, drawn from the seed: over an hour.
  asa lab record --list --journal new.journal
      What there is.
"""


def register(commands: "Commands") -> None:
    """Add the parser."""
    command = commands.add_parser(
        "record", help="play workloads and record them as labelled sessions", description=_TEXT, epilog=_MORE
    )
    _add_what(command)
    command.add_argument(
        "--for",
        type=_positive,
        dest="seconds",
        metavar="SECONDS",
        help=f"length of a session (default: {_DEFAULT_SECONDS}); of a scenario, while all of it runs (default: "
        f"{_SCENARIO_SECONDS}), or in a sequence on average (default: {_STEP_SECONDS})",
    )
    command.add_argument(
        "--tier",
        choices=("real", "lab"),
        help="of scenarios: the programs, or their small stand-ins (default: real; inside the lab, lab)",
    )
    command.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="chooses programs and parameters; a campaign counts up from it (default: 0)",
    )
    command.add_argument(
        "--sessions", type=_positive, default=3, metavar="N", help="of each workload or scenario (default: 3)"
    )
    command.add_argument(
        "--scheduler", metavar="SCHEDULER", help="keep this scheduler in force meanwhile (needs root and sched_ext)"
    )
    command.add_argument(
        "--desktop",
        action="store_true",
        help="put windows of programs of kinds into a GNOME Shell without a screen, so that samples tell what is in "
        "front; programs that need X are dropped (use a journal of its own)",
    )
    command.add_argument(
        "--labels",
        metavar="A,B",
        help="workloads of a campaign (default: all), or scenarios that a sequence is drawn from (default: everything)",
    )
    command.add_argument(
        "--journal",
        type=Path,
        metavar="FILE",
        help="journal to add to (default: recordings.journal in the state folder)",
    )
    command.add_argument(
        "--pack", type=Path, metavar="FILE", help="write the whole journal to this compressed file at the end"
    )
    _add_lab(command)
    add_ebpf(command)
    command.add_argument("--json", action="store_true", help="outcomes and sessions as JSON lines")
    command.set_defaults(run=run)


def _add_what(command: argparse.ArgumentParser) -> None:
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--label", metavar="WORKLOAD", help="record one session of this workload")
    what.add_argument(
        "--campaign",
        action="store_true",
        help="record several sessions of every workload; goes on where it was interrupted",
    )
    what.add_argument(
        "--scenario",
        metavar="WORDS",
        help="the same of scenarios: everything (all labels), all (the paper's 28), idle, S16, web+blender, alone:web, "
        "web (all its pairs), pigz (a program of a kind), web+pigz, kind:compress, kind:other (of no kind), several "
        "by commas",
    )
    what.add_argument(
        "--sequence",
        type=_positive,
        metavar="N",
        help="record N sessions of several scenarios one after the other, drawn from the seed; goes on where it was "
        "interrupted",
    )
    what.add_argument("--list", action="store_true", help="show the sessions of a journal or a packed recording")


def _add_lab(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--in-lab",
        type=Path,
        metavar="DIR",
        help="play scenarios in guests of the lab, whose packed journals go there; several schedulers, by commas, take "
        "turns",
    )
    command.add_argument("--jobs", type=_positive, default=1, metavar="N", help="guests at once (default: 1)")
    command.add_argument("--cpus", type=_positive, metavar="N", help="of a guest, up to 16 (default: 4)")
    command.add_argument(
        "--machine",
        metavar="NAME|FILE",
        help="a guest of this machine instead: of `asa lab fleet list`, or a YAML file (docs/lab.md)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Record or list. Exit code 1 when a session was dropped, 0 otherwise."""
    from asa import paths
    from asa.core.errors import AsaError

    if arguments.in_lab is not None:
        return _record_in_lab(arguments)
    for option in ("cpus", "machine"):
        if getattr(arguments, option) is not None:
            raise AsaError(
                f"--{option} is of guests: name --in-lab DIR, too; programs here have all CPUs of this machine"
            )
    path = arguments.journal or paths.default().state / "recordings.journal"
    with ExitStack() as stack:
        journal = stack.enter_context(_open(path, create=not arguments.list))
        code = _list(journal, as_json=arguments.json) if arguments.list else _record(arguments, journal)
        if arguments.pack is not None:
            _pack(journal, arguments.pack)
    return code


def _record_in_lab(arguments: argparse.Namespace) -> int:
    from asa.cli.lab import record_display, record_lab
    from asa.core.errors import AsaError

    if not arguments.scenario or arguments.journal or arguments.pack or arguments.tier == "real" or arguments.desktop:
        raise AsaError("--in-lab plays the stand-ins of --scenario into packed journals; leave the others out")
    if arguments.cpus is not None and arguments.machine is not None:
        raise AsaError("--cpus: a machine has its own; leave out --cpus or --machine")
    show = record_display.Lines(as_json=True) if arguments.json else record_display.display()
    return record_lab.run(arguments, _scenarios(arguments.scenario), arguments.seconds or _SCENARIO_SECONDS, show)


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
            f"{path}: there is no such journal; `asa lab record --campaign` makes one, --journal names another"
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
    from asa.report.markup import plain
    from scenarios.recorder import asked

    for session in journal.sessions():
        header = session.header
        samples = sum(1 for _ in journal.samples(session.number))
        started = datetime.fromtimestamp(header.started_ns / 1e9, UTC).isoformat(timespec="seconds")
        if as_json:
            fields = {"session": session.number, "label": header.label, "seed": header.seed, "samples": samples}
            place = {"host": header.host, "cpus": header.cpus, "kernel": header.kernel, "scheduler": header.scheduler}
            versions = {"started": started, "asa_version": header.asa_version, "parameters": header.parameters}
            print(json.dumps({**fields, **place, **versions, "played": header.played}))
        else:
            seed = "-" if header.seed is None else header.seed
            label = header.label or "(live)"
            if header.played and label != asked(header):  # by kinds
                label += f" ({asked(header)})"
            what = f"{session.number:4} {label:15} seed {seed:<4} {samples:5} samples"
            where = f"{header.host}, {header.cpus} CPUs, {header.kernel}, {header.scheduler or 'unknown scheduler'}"
            print(plain(f"{what}  {started}  {where}"))
    return 0


def _record(arguments: argparse.Namespace, journal: "Journal") -> int:
    from asa.cli.lab import record_display, record_sessions
    from asa.core.errors import AsaError
    from scenarios.recorder import Result

    if arguments.desktop and not arguments.scenario:
        raise AsaError("--desktop is for programs with windows; name them by --scenario, such as kind:write")
    labels, sessions, seconds = _wanted(arguments)
    show = record_display.Lines(as_json=True) if arguments.json else record_display.display()
    with ExitStack() as stack:
        stack.enter_context(record_sessions.desktop(wanted=arguments.desktop))
        stack.enter_context(record_sessions.under(arguments.scheduler))
        recorder = stack.enter_context(_recorder(arguments, journal))
        stack.enter_context(show)
        if arguments.label is None:
            outcomes = recorder.campaign(
                labels,
                sessions=sessions,
                seconds=seconds,
                seed=arguments.seed,
                on_start=show.start,
                on_outcome=show.outcome,
            )
        else:
            show.start(labels[0], arguments.seed, 1, 1)
            outcomes = [recorder.record(labels[0], seed=arguments.seed, seconds=seconds)]
            show.outcome(outcomes[0])
    counts = {result: sum(outcome.result is result for outcome in outcomes) for result in Result}
    text = ", ".join(f"{count} {result}" for result, count in counts.items())
    print(f"{len(outcomes)} sessions: {text}", file=sys.stderr)
    return 1 if counts[Result.DROPPED] else 0


def _wanted(arguments: argparse.Namespace) -> "tuple[tuple[Workload, ...], int, int]":
    """Labels, sessions of each, and their seconds."""
    from asa.core.mark import SEQUENCE

    if arguments.sequence is not None:
        return (SEQUENCE,), arguments.sequence, arguments.seconds or _STEP_SECONDS
    if arguments.scenario:
        return _scenarios(arguments.scenario), arguments.sessions, arguments.seconds or _SCENARIO_SECONDS
    return _labels(arguments), arguments.sessions, arguments.seconds or _DEFAULT_SECONDS


def _recorder(arguments: argparse.Namespace, journal: "Journal") -> "AbstractContextManager[SessionRecorder]":
    from asa.cli.lab import record_sessions

    if not arguments.scenario and arguments.sequence is None:
        return record_sessions.of_workloads(journal, arguments.ebpf)
    from scenarios.application import Tier

    tier = Tier(arguments.tier) if arguments.tier else None
    drawn = None if arguments.sequence is None else _scenarios(arguments.labels or "everything")
    return record_sessions.of_scenarios(journal, arguments.ebpf, tier, drawn)


def _scenarios(words: str) -> "tuple[Workload, ...]":
    from asa.core.decision import Workload
    from scenarios import catalogue

    return tuple(Workload(scenario.label) for scenario in catalogue.find(words, with_programs=True))


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
