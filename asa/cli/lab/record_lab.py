# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab record --in-lab`: the same recording inside guests of the lab, several at once, under several schedulers.

Other machines are guests of another description: a session's header names it. Fewer CPUs for the programs alone would
be none, since the collectors see all that the kernel has.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.lab.record_display import Display
    from asa.core.decision import Workload
    from scenarios.recorder import Outcome
    from scenarios.recorder_guests import Part

_CPUS = 4
_DISK_MB = 256  # sparse; none, and there were no requests to count: the stand-in `disk` uses up to 144 of it


def run(arguments: argparse.Namespace, labels: "tuple[Workload, ...]", seconds: int, show: "Display") -> int:
    """Exit code 1 when a session was not recorded. Raises AsaError."""
    from asa import paths
    from asa.act.forcing import check_startable
    from asa.act.portfolio import Portfolio
    from asa.cli.run import killed_like_interrupted
    from scenarios import recorder_guests
    from scenarios.guests import booter, conditions, ready
    from scenarios.lab.machines import alike, load
    from scenarios.recorder_guests import Guests

    folder = arguments.in_lab
    machine = alike(arguments.cpus or _CPUS) if arguments.machine is None else load(arguments.machine)
    place = machine.cpus, conditions(machine)
    schedulers = (arguments.scheduler or "eevdf").split(",")
    places = paths.default()
    wanted = {(label, arguments.seed + number) for label in labels for number in range(arguments.sessions)}
    done = recorder_guests.present(folder, *place)
    there = len(wanted & done)
    parts = recorder_guests.plan(
        labels, sessions=arguments.sessions, seed=arguments.seed, schedulers=schedulers, done=done
    )
    tally = _Tally(show, len(wanted) - there)
    if parts:
        check_startable(schedulers, Portfolio.load(paths.manifest(), places.schedulers))
        _prepare(labels, places.cache)
        lab = ready(places.cache, _tell, machine)
        guests = Guests(
            boot=booter(lab, machine, disk_mb=_DISK_MB),
            command=lambda part, packed: _command(arguments, part, packed, seconds),
            folder=folder,
            seconds=seconds,
            begun=tally.begun,
            heard=tally.heard,
            lost=tally.lost,
        )
        with killed_like_interrupted(), show:
            guests.play(parts, arguments.jobs)
    # not by what was heard: a guest that crashes takes with it what it had recorded
    kept = len(wanted & recorder_guests.present(folder, *place)) - there
    missing = tally.total - kept
    print(f"{kept} sessions kept, {missing} not, {there} were in {folder} already", file=sys.stderr)
    return 1 if missing else 0


class _Tally:
    """Shows the sessions as they are heard of; the guests' own numbers are of their parts."""

    def __init__(self, show: "Display", total: int) -> None:
        self.total = total
        self._show = show
        self._heard = 0

    def begun(self, part: "Part") -> None:
        from asa.core.decision import Workload

        self._show.start(Workload(part.labels[0]), part.seed, self._heard + 1, self.total)

    def heard(self, outcome: "Outcome") -> None:
        self._heard += 1
        self._show.start(outcome.workload, outcome.seed, self._heard, self.total)
        self._show.outcome(outcome)

    def lost(self, part: "Part", reason: str) -> None:
        _tell(f"{part.scheduler}, seed {part.seed}, {', '.join(part.labels)}: {reason}; run it again")


def _command(arguments: argparse.Namespace, part: "Part", packed: Path, seconds: int) -> list[str]:
    words = [word if "+" in word or word == "idle" else f"alone:{word}" for word in part.labels]
    scheduler = ["--scheduler", part.scheduler] if part.scheduler != "eevdf" else []
    ebpf = ["--ebpf", str(arguments.ebpf)] if arguments.ebpf is not None else []
    # -P: root imports nothing from the current folder; SQLite's WAL does not work on a shared one
    command = [sys.executable, "-P", "-m", "asa.cli", "lab", "record", "--scenario", ",".join(words), "--tier", "lab"]
    given = ["--sessions", "1", "--seed", str(part.seed), "--for", str(seconds), *scheduler, *ebpf]
    return [*command, *given, "--journal", "/tmp/asa-recorded.journal", "--pack", str(packed), "--json"]  # noqa: S108


def _prepare(labels: "tuple[Workload, ...]", cache: Path) -> None:
    """Here: a guest sees the cache, but cannot write to it. Raises ApplicationError."""
    from scenarios import catalogue
    from scenarios.application import Tier
    from scenarios.session import place_for, prepare

    for label in labels:
        for application in catalogue.parts(catalogue.labelled(label), Tier.LAB):
            prepare(application, place_for(application, cache=cache, tier=Tier.LAB), _tell)


def _tell(line: str) -> None:
    print(f"asa: {line}", file=sys.stderr, flush=True)
