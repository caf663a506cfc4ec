# SPDX-License-Identifier: GPL-2.0-only
"""The kept runs of `asa lab bench run`: every folder with its two tables, read for who compares them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from calibration.scenarios import tables as bench_tables
from calibration.scenarios.scores import Played
from scenarios.conditions import Conditions, time_of_all


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One trial as the table has it. `seed` is of its applications: equal ones played the same."""

    run: str
    trial: str
    label: str
    tier: str
    cpus: int
    scheduler: str
    copy: int
    repeat: int
    seed: int
    outcome: str
    window_s: float | None  # measured; None where it failed before that
    clock: str
    tick_hz: int | None
    machine: str

    @property
    def under(self) -> Conditions:
        """What it was played under."""
        return Conditions(clock=self.clock, tick_hz=self.tick_hz, machine=self.machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A kept run. `played` are its trials that did not fail, with their samples."""

    name: str
    folder: Path
    trials: tuple[Trial, ...]
    played: tuple[Played, ...]

    @property
    def tier(self) -> str:
        """Of all its trials."""
        return self.trials[0].tier if self.trials else ""


def read(folder: Path) -> list[Run]:
    """All runs in a folder's folders, by name; none when it is not there. Raises AsaError for tables that are none."""
    return [_run(path.parent) for path in sorted(folder.glob(f"*/{bench_tables.TRIALS}"))]


def under(runs: Sequence[Run], tier: str) -> Conditions | None:
    """The clock and the tick of a tier's runs; None of none. Raises AsaError where they differ."""
    return time_of_all((run.folder, one.under) for run in runs if run.tier == tier for one in run.trials)


def twins(runs: Sequence[Run], tier: str) -> tuple[Run, Run] | None:
    """The two runs of a tier that share most trials of equal seeds, the first such; None without.

    A copy of a run's folder is no second run.
    """
    chosen = [run for run in runs if run.tier == tier]
    pairs = [(one, other) for place, one in enumerate(chosen) for other in chosen[place + 1 :]]
    shared = [len(keys(one) & keys(other)) if one.trials[0].run != other.trials[0].run else 0 for one, other in pairs]
    most = max(shared, default=0)
    return pairs[shared.index(most)] if most else None


def keys(run: Run) -> set[tuple[str, str, int, int, int, int]]:
    """What was played in it: label, scheduler, copy, seed, CPUs, whole seconds."""
    return {key(one) for one in run.trials}


def key(trial: Trial) -> tuple[str, str, int, int, int, int]:
    """By which a trial is found again in another run."""
    return trial.label, trial.scheduler, trial.copy, trial.seed, trial.cpus, round(trial.window_s or 0.0)


def _run(folder: Path) -> Run:
    names = [one.name for one in fields(Trial)]
    trials = tuple(Trial(**{name: row[name] for name in names}) for row in bench_tables.rows(folder))
    return Run(name=folder.name, folder=folder, trials=trials, played=tuple(bench_tables.read(folder)))
