# SPDX-License-Identifier: GPL-2.0-only
"""What is kept of a fleet, in memory: machines, their blocks (a scenario with all of its runs), and runs. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from calibration.controllers.columns import AGENT, is_controller
from scenarios.catalogue import CHANGE
from scenarios.conditions import Conditions

ABLATION = f"{AGENT}:"  # begins the name of an agent that lacks a part

Repeat: TypeAlias = tuple[str, int]
"""Run and number: what was played in one repeat played the same parameters."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """machine.json: a machine of the fleet. A prototype's runs trained model and table. None is unknown."""

    name: str
    cpus: int
    prototype: bool
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    shape: str = ""  # of machines with a description, in place of the three
    memory_mb: int | None = None
    note: str = ""
    command: str = ""  # that recorded it
    adapt_minutes: float | None = None  # of machine time, that `asa adapt` took
    # what its agent was given, files by their hashes
    table: str | None = None
    model: str | None = None
    shipped_tables: str | None = None
    shipped_model: str | None = None
    settings: dict[str, Any] = {}


class Controlled(msgspec.Struct, frozen=True, kw_only=True):
    """What a controller did in one trial, as its result keeps it. None, and empty, is unknown."""

    held_s: dict[str, float] = {}  # scheduler -> seconds of the measured window
    classes: dict[str, int] = {}  # decided class -> ticks
    switches: int | None = None
    cpu_pct: float | None = None  # of one CPU
    resident_mb: float | None = None
    inference_ms: list[float] = []
    decision_ms: list[float] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A scenario played once under one column. `trouble` says why there is no score, 0 to 1."""

    score: float | None
    trouble: str = ""
    seed: int | None = None  # of its parameters, the same on all machines
    watts: float | None = None  # of the machine in the window; of phases their mean
    controlled: tuple[Controlled, ...] = ()  # one, or one a phase

    def chosen(self) -> str | None:
        """The scheduler that was in force the longest; None when that is not kept."""
        held: dict[str, float] = defaultdict(float)
        for one in self.controlled:
            for name, seconds in one.held_s.items():
                held[name] += seconds
        return max(sorted(held), key=held.__getitem__) if held else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A scenario on a machine: column -> repeat -> run. A column is a scheduler, its copy, or a controller."""

    machine: str
    prototype: bool
    scenario: str  # S16, a label, or P1
    label: str
    phased: bool
    runs: Mapping[str, Mapping[Repeat, Run]]

    def score(self, column: str, repeat: Repeat) -> float | None:
        """None when it was not played, failed, or measured too little."""
        run = self.runs.get(column, {}).get(repeat)
        return None if run is None else run.score

    def drawn(self, repeat: Repeat) -> int | Repeat:
        """By what this repeat's parameters were drawn; the repeat itself where that is not kept."""
        seeds = (runs[repeat].seed for runs in self.runs.values() if repeat in runs)
        return next((seed for seed in seeds if seed is not None), repeat)

    @property
    def repeats(self) -> tuple[Repeat, ...]:
        """All that anything was played in."""
        return tuple(sorted({repeat for runs in self.runs.values() for repeat in runs}))

    @property
    def statics(self) -> tuple[str, ...]:
        """Columns that are one scheduler throughout, the first copies alone."""
        return tuple(sorted(name for name in self.runs if is_static(name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedMachine:
    """A machine's folders, one of each run.

    `planned` is None when there is no plan beside the tables, and others count a trial a phase.
    """

    facts: Facts
    commands: tuple[str, ...]  # that recorded it
    folders: tuple[Path, ...]
    blocks: tuple[Block, ...]
    planned: int | None
    trials: int
    failed: int
    disturbed: int
    again: tuple[int, int]  # trials of more than one attempt; and those of them that are the agent's
    began_ns: int | None  # CLOCK_REALTIME
    took_s: float
    seeds: tuple[int, ...]  # of the plans
    lengths_s: Mapping[str, tuple[float, float]]  # where plans tell, scenario -> window, warm-up
    tiers: tuple[str, ...]
    kernels: tuple[str, ...]
    versions: tuple[str, ...]  # of asa
    programs: tuple[str, ...]  # scheduler, or the agent, with its version
    under: Conditions  # of all trials


def is_static(column: str) -> bool:
    """Is it a scheduler, and the first copy of it?"""
    return not is_controller(column) and not column.endswith(")")


def named(scenario: str, label: str) -> str:
    """A scenario for people: its number and its label, or the label alone where that is its name."""
    return scenario if scenario == label or CHANGE in scenario else f"{scenario} {label}"
