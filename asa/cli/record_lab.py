# SPDX-License-Identifier: GPL-2.0-only
"""`asa record --in-lab`: the same recording inside guests of the lab, several at once, under several schedulers."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.cli.record_display import Display
    from asa.core.decision import Workload
    from scenarios.lab.guest import Lab
    from scenarios.recorder import Outcome
    from scenarios.recorder_guests import Part
    from scenarios.runner_guests import Boot, Guesting

_CPUS, _MEMORY_MB = 4, 3072
_DISK_MB = 64  # or there is no disk to count the requests of


def run(arguments: argparse.Namespace, labels: "tuple[Workload, ...]", seconds: int, show: "Display") -> int:
    """Exit code 1 when a session was not recorded. Raises AsaError."""
    from asa import paths
    from asa.cli.run import killed_like_interrupted
    from scenarios import recorder_guests
    from scenarios.lab import guest
    from scenarios.recorder_guests import Guests

    folder, cpus = arguments.in_lab, arguments.cpus or _CPUS
    schedulers = (arguments.scheduler or "eevdf").split(",")
    places = paths.default()
    done = recorder_guests.present(folder, cpus)
    parts = recorder_guests.plan(
        labels, sessions=arguments.sessions, seed=arguments.seed, schedulers=schedulers, done=done
    )
    tally = _Tally(show, sum(len(part.labels) for part in parts))
    if parts:
        _check(schedulers)
        _prepare(labels, places.cache)
        lab = guest.ready(places.cache, _tell)
        guests = Guests(
            boot=_booter(lab, cpus),
            command=lambda part, packed: _command(arguments, part, packed, seconds),
            folder=folder,
            seconds=seconds,
            begun=tally.begun,
            heard=tally.heard,
            lost=tally.lost,
        )
        with killed_like_interrupted(), show:
            guests.play(parts, arguments.jobs)
    missing = tally.total - tally.kept
    there = len(labels) * arguments.sessions - tally.total
    print(f"{tally.kept} sessions kept, {missing} not, {there} were in {folder} already", file=sys.stderr)
    return 1 if missing else 0


class _Tally:
    """What came of the sessions; the guests' own numbers are of their parts."""

    def __init__(self, show: "Display", total: int) -> None:
        self.total, self.kept = total, 0
        self._show = show
        self._heard = 0

    def begun(self, part: "Part") -> None:
        from asa.core.decision import Workload

        self._show.start(Workload(part.labels[0]), part.seed, self._heard + 1, self.total)

    def heard(self, outcome: "Outcome") -> None:
        from scenarios.recorder import Result

        self._heard += 1
        self._show.start(outcome.workload, outcome.seed, self._heard, self.total)
        self._show.outcome(outcome)
        self.kept += outcome.result is Result.KEPT

    def lost(self, part: "Part", reason: str) -> None:
        _tell(f"{part.scheduler}, seed {part.seed}, {', '.join(part.labels)}: {reason}; run it again")


def _booter(lab: "Lab", cpus: int) -> "Boot":
    from scenarios.lab.emulator import Clock
    from scenarios.lab.guest import Guest

    def boot(command: "Sequence[str]", out: Path, limit_s: float) -> "Guesting":
        return Guest.start(
            command,
            kernel=lab.kernel,
            emulator=lab.emulator,
            out=out,
            cpus=cpus,
            memory_mb=_MEMORY_MB,
            clock=Clock.ICOUNT,
            disk_mb=_DISK_MB,
            limit_s=limit_s,
        )

    return boot


def _command(arguments: argparse.Namespace, part: "Part", packed: Path, seconds: int) -> list[str]:
    words = [word if "+" in word or word == "idle" else f"alone:{word}" for word in part.labels]
    scheduler = ["--scheduler", part.scheduler] if part.scheduler != "eevdf" else []
    ebpf = ["--ebpf", str(arguments.ebpf)] if arguments.ebpf is not None else []
    # -P: root imports nothing from the current folder; SQLite's WAL does not work on a shared one
    command = [sys.executable, "-P", "-m", "asa.cli", "record", "--scenario", ",".join(words), "--tier", "lab"]
    given = ["--sessions", "1", "--seed", str(part.seed), "--for", str(seconds), *scheduler, *ebpf]
    return [*command, *given, "--journal", "/tmp/asa-recorded.journal", "--pack", str(packed), "--json"]  # noqa: S108


def _check(schedulers: list[str]) -> None:
    """Before any guest boots. Raises SchedulerError."""
    import os

    from asa import paths
    from asa.act.pool import split
    from asa.act.portfolio import Portfolio
    from asa.core.decision import EEVDF, SchedulerName

    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    for name in schedulers:
        if name != EEVDF:
            os.close(portfolio.open(*split(SchedulerName(name))).fd)


def _prepare(labels: "tuple[Workload, ...]", cache: Path) -> None:
    """Here: a guest sees the cache, but cannot write to it. Raises ApplicationError."""
    from scenarios import catalogue
    from scenarios.application import Tier
    from scenarios.session import check_installed, place_for

    for scenario in catalogue.SCENARIOS:
        for application in catalogue.parts(scenario, Tier.LAB) if scenario.label in labels else ():
            check_installed(application)
            application.prepare(place_for(application, cache=cache, tier=Tier.LAB), _tell)


def _tell(line: str) -> None:
    print(f"asa: {line}", file=sys.stderr, flush=True)
