# SPDX-License-Identifier: GPL-2.0-only
"""Follows guests of the lab that each do a piece of work, so many at once, in one loop.

What a piece is, what a line of its guest means, and what happens when a guest ends is for the classes made of `Loop`.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from asa.core.errors import LabError
from scenarios.conditions import Conditions
from scenarios.energy import Core, Power
from scenarios.lab import guest
from scenarios.lab.emulator import Clock
from scenarios.lab.guest import Guest, GuestResult, Lab
from scenarios.lab.machines import Machine

_LOOK_S = 0.05
_CLOCK = Clock.PARALLEL
_WORDS = 300  # characters at most
_Work = TypeVar("_Work")


class Guesting(Protocol):
    """What is followed of a guest."""

    def poll(self) -> GuestResult | None:
        """None while it runs. Raises LabError when it crashed."""
        ...

    def output(self) -> tuple[list[str], list[str]]:
        """Its new lines."""
        ...

    def stop(self) -> None:
        """Kill it."""
        ...


Boot = Callable[[Sequence[str], Path, float], Guesting]
"""Boot a guest that runs a command, with a shared folder and a limit in seconds for the command."""


def conditions(machine: Machine) -> Conditions:
    """What guests of `booter` are under."""
    return Conditions(clock=_CLOCK, tick_hz=machine.tick_hz, machine=machine.name)


def power(machine: Machine) -> Power:
    """What such a machine draws."""
    cores = tuple(Core(cpus=one.cpus, busy_w=one.kind.watts) for one in machine.cores)
    return Power(idle_w=machine.idle_watts, cores=cores)


def ready(cache: Path, report: Callable[[str], None], machine: Machine) -> Lab:
    """What guests of `booter` need, made when it is not there: minutes. Raises LabError, SetupError."""
    return guest.ready(cache, report, measuring=True, tick_hz=machine.tick_hz)


def booter(lab: Lab, machine: Machine, disk_mb: int = 0) -> Boot:
    """The real one; `disk_mb` as of Guest.start."""

    def boot(command: Sequence[str], out: Path, limit_s: float) -> Guesting:
        return Guest.start(
            command,
            kernel=lab.kernel,
            emulator=lab.emulator,
            out=out,
            clock=_CLOCK,
            disk_mb=disk_mb,
            limit_s=limit_s,
            machine=machine,
        )

    return boot


@dataclass(slots=True, kw_only=True)
class AtWork(Generic[_Work]):
    """A guest with its piece of work."""

    guest: Guesting
    work: _Work
    out: Path
    since_s: float = field(default_factory=time.monotonic)  # when it was booted, or told something
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=3))  # the last on stderr

    @property
    def words(self) -> str:
        """The last that it said on stderr, in one line."""
        return " / ".join(self.errors)[-_WORDS:]


class Loop(ABC, Generic[_Work]):
    """All guests of a run. Leaving the context kills them."""

    def __init__(self) -> None:
        self._queue: deque[_Work] = deque()
        self._running: list[AtWork[_Work]] = []

    def follow(self, at_once: int) -> None:
        """Until all that is queued is done. Raises LabError when a guest cannot even be started."""
        while self._queue or self._running:
            while self._queue and len(self._running) < at_once:
                self._running.append(self._start(self._queue.popleft()))
            for one in list(self._running):
                self._look(one)
            time.sleep(_LOOK_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._running:
            one.guest.stop()
        self._running.clear()

    @abstractmethod
    def _start(self, work: _Work) -> AtWork[_Work]:
        """Boot a guest for it."""

    @abstractmethod
    def _hear(self, one: AtWork[_Work], line: str) -> None:
        """A line of its output."""

    @abstractmethod
    def _ended(self, one: AtWork[_Work], result: GuestResult | None, trouble: str) -> None:
        """It is stopped, and followed no more; without a result `trouble` says why."""

    def _overdue(self, _one: AtWork[_Work]) -> str:
        """What to say of a guest that takes too long, "" while it does not."""
        return ""

    def _look(self, one: AtWork[_Work]) -> None:
        result, trouble = None, ""
        try:
            result = one.guest.poll()
        except LabError as error:
            trouble = str(error)
        normal, errors = one.guest.output()
        one.errors.extend(line for line in errors if line.strip())
        for line in normal:
            self._hear(one, line)
        if result is None and not trouble:
            trouble = self._overdue(one)
        if result is not None or trouble:
            one.guest.stop()
            self._running.remove(one)
            self._ended(one, result, trouble)
