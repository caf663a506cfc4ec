# SPDX-License-Identifier: GPL-2.0-only
"""What an application of the benchmark is: a plug-in's declared table, and the values that go with it.

An application is one child process, its driver, which starts whatever it needs, works until SIGTERM, and prints what a
person would feel of it as JSON lines (`scenarios.driving` is the driver's side of that, `scenarios.session` ours). The
real programs are in `scenarios.interactive` and `scenarios.background`, more of their kinds in `scenarios.programs`,
small stand-ins of the same names for emulated guests in `scenarios.standins`; `scenarios.catalogue` lists all. This
module starts nothing, and looks for programs on PATH at most.
"""

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import msgspec

from asa.core.errors import AsaError
from asa.core.kinds import Kind
from scenarios.metric import Metric

SEVEN_ZIP = "7zz|7z"  # the package 7zip of Debian 12, and of 13

Parameters: TypeAlias = Mapping[str, "str | int | float | bool | list[str] | list[int] | list[float] | None"]
"""What a seed decides: file sizes, pages, codecs, thread counts, think times. Plain JSON; a driver gets it whole."""

Report: TypeAlias = Callable[[str], None]


class Tier(StrEnum):
    """Which programs play."""

    REAL = "real"  # the programs themselves, on a host
    LAB = "lab"  # their stand-ins, small enough for an emulated guest


class Role(StrEnum):
    """Who an application of a scenario is for."""

    INTERACTIVE = "interactive"  # the person looks at it
    BACKGROUND = "background"  # the person waits for it


class Failure(StrEnum):
    """What can go wrong with an application; a result carries it."""

    MISSING = "missing"  # a program or a library is not installed
    UNPREPARED = "unprepared"  # what it works on could not be made
    NOT_READY = "not ready"  # it did not come up in its time
    CRASHED = "crashed"  # its driver ended
    SILENT = "silent"  # it has measured nothing for too long: it hangs
    NO_SPACE = "no space"  # the disk is full
    STUCK = "stuck"  # it does not end, even after SIGKILL
    DISTURBED = "disturbed"  # the machine was busy with something else


class ApplicationError(AsaError):
    """An application could not be played. `last_words` are the last lines that it printed itself."""

    def __init__(self, *, application: str, failure: Failure, reason: str, last_words: str = "") -> None:
        words = f"; it said: {last_words!r}" if last_words else ""
        super().__init__(f"{application}: {reason}{words}")
        self.application = application
        self.failure = failure
        self.reason = reason
        self.last_words = last_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an application plays."""

    cache: Path  # what `prepare` made, kept from session to session: CACHE/scenarios/NAME
    cpus: int
    tier: Tier
    crowd: float = 1.0  # times the threads of a background load that is a stand-in
    effort: float = 1.0  # times the work of an interactive application that is one


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of a metric, in the unit that ends its name."""

    at_ns: int  # CLOCK_MONOTONIC
    metric: str
    value: float


def either(names: str) -> str:
    """The first of `a|b` that is on PATH, else the last: releases of Debian name some programs differently."""
    *others, last = names.split("|")
    return next(filter(shutil.which, others), last)


def _nothing(place: Place, report: Report) -> None:  # noqa: ARG001  # most have nothing to prepare
    return


def _no_environment(place: Place) -> Mapping[str, str]:  # noqa: ARG001
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A plug-in. `command` is its driver's argument list; `scenarios.session` adds one word, the driver's orders.

    `draw` makes parameters of a seed's random numbers: the same numbers and place give the same parameters. `prepare`
    makes in `place.cache` what all sessions share, whole or not at all, and returns at once when it is there already;
    it raises ApplicationError (UNPREPARED, NO_SPACE). Both may be called from any thread.
    """

    name: str  # of the label: web, game, audio, ...
    role: Role
    kind: Kind | None = None  # what it is a program of; None: of none, as a machine at rest
    title: str = ""  # for pages; "" is its name
    scored: tuple[Metric, ...] = ()  # of a background load: its metrics with their scoring; the weights add up to 1
    metrics: tuple[str, ...] = ()  # names; those of `scored`, else of `calibration.scoring.table`; a test compares them
    packages: tuple[str, ...]  # of Debian
    programs: tuple[str, ...]  # looked for on PATH before anything is started; `a|b`: one of them will do
    modules: tuple[str, ...] = ()  # Python modules of the extra `bench` that the driver imports
    draw: Callable[[random.Random, Place], Parameters]
    command: Callable[[Place, Parameters], tuple[str, ...]]
    prepare: Callable[[Place, Report], None] = _nothing
    environment: Callable[[Place], Mapping[str, str]] = _no_environment
    ready_limit_s: float = 60.0
    silence_limit_s: float = 60.0  # after which an application that measures nothing is taken for hung

    def __post_init__(self) -> None:
        if not self.metrics:
            object.__setattr__(self, "metrics", tuple(metric.name for metric in self.scored))
