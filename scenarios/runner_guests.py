# SPDX-License-Identifier: GPL-2.0-only
"""Plays the trials of a plan in guests of the lab: the same runner inside, under the clock that counts instructions.

One loop follows all guests. A guest that crashes, hangs or ends early costs the trial under way, which gets one more
chance in a new guest; the rest of its part goes on there too.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

import msgspec

from asa.core.errors import LabError
from scenarios import runner_folder
from scenarios.lab.emulator import Clock, Topology
from scenarios.lab.guest import BOOT_LIMIT_S, Guest, GuestResult, Lab
from scenarios.runner import Orders
from scenarios.runner_plan import Outcome, Result, Trial

GUEST = "guest"
"""The failure of a trial whose guest crashed or hung."""

_MOST_TRIALS = 16  # of a guest: what one may cost when it does not even boot any more, or leaks
_LOOK_S = 0.05
_CHANCES = 2
_BOOTS = 3  # in a row that may fail
_MEMORY_MB = 3072
_STARTS_S = 420.0  # of a scheduler and two applications, emulated on a busy host
_SLOWER = 20.0  # most that guest time passes slower than the host's


class Guesting(Protocol):
    """What is followed of a guest."""

    def poll(self) -> GuestResult | None:
        """None while it runs."""
        ...

    def output(self) -> tuple[list[str], list[str]]:
        """Its new lines."""
        ...

    def stop(self) -> None:
        """Kill it."""
        ...


Boot = Callable[[Sequence[str], Path, float], Guesting]
"""Boot a guest that runs a command, with a shared folder and a limit in seconds for the command."""


def runner_command(orders: Path) -> Sequence[str]:
    """The benchmark's own runner."""
    return (sys.executable, "-P", "-m", "scenarios.runner", str(orders))  # -P: root imports nothing from the folder


def booter(
    lab: Lab, cpus: int, disk_mb: int = 0, *, memory_mb: int = _MEMORY_MB, topology: Topology | None = None
) -> Boot:
    """The real one; `disk_mb` and `topology` as of Guest.start."""

    def boot(command: Sequence[str], out: Path, limit_s: float) -> Guesting:
        return Guest.start(
            command,
            kernel=lab.kernel,
            emulator=lab.emulator,
            out=out,
            cpus=cpus,
            memory_mb=memory_mb,
            clock=Clock.ICOUNT,
            disk_mb=disk_mb,
            limit_s=limit_s,
            topology=topology,
        )

    return boot


@dataclass(slots=True, kw_only=True)
class _Part:
    """A guest at work on its part of the plan."""

    guest: Guesting
    out: Path
    left: deque[Trial]
    since_s: float
    current: Trial | None = None
    booted: bool = False
    words: deque[str] = field(default_factory=lambda: deque(maxlen=3))  # the last on stderr


class Guests:
    """All guests of a run. Leaving the context kills them."""

    def __init__(
        self,
        *,
        boot: Boot,
        out: Path,
        seconds: float,
        warm_up_s: float,
        keep: Callable[[Result], None],
        begin: Callable[[Trial], None],
        command: Callable[[Path], Sequence[str]] = runner_command,
    ) -> None:
        """`out` is for the folders that are shared with guests; `keep` and `begin` as of `runner.play_all`.

        `command` plays in a guest what a file of orders says.
        """
        self._boot = boot
        self._out = out
        self._seconds = seconds
        self._warm_up_s = warm_up_s
        self._keep = keep
        self._begin = begin
        self._command = command
        self._windows = 1  # most that a trial has
        self._queue: deque[list[Trial]] = deque()
        self._running: list[_Part] = []
        self._chances: Counter[str] = Counter()
        self._failed_boots = 0
        self._number = 0

    @property
    def trial_limit_s(self) -> float:
        """Of the host's time, for one trial."""
        return self._windows * (_STARTS_S + _SLOWER * self._seconds) + _SLOWER * self._warm_up_s

    def play(self, trials: Sequence[Trial], at_once: int) -> None:
        """All of them, so many guests at once. Raises LabError when guests do not boot, AsaError for a full disk."""
        self._queue.extend(parts(trials, at_once))
        self._windows = max((len(trial.phases) for trial in trials), default=1)
        while self._queue or self._running:
            while self._queue and len(self._running) < at_once:
                self._start(self._queue.popleft())
            for part in list(self._running):
                self._look(part)
            time.sleep(_LOOK_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for part in self._running:
            part.guest.stop()
        self._running.clear()

    def _start(self, trials: list[Trial]) -> None:
        self._number += 1
        out = self._out / str(self._number)
        out.mkdir(parents=True, exist_ok=True)
        for stale in out.glob("*.json"):
            stale.unlink()
        orders = out / "orders"
        runner_folder.write(
            orders, Orders(trials=tuple(trials), seconds=self._seconds, warm_up_s=self._warm_up_s, out=str(out))
        )
        guest = self._boot(self._command(orders), out, len(trials) * self.trial_limit_s)
        self._running.append(_Part(guest=guest, out=out, left=deque(trials), since_s=time.monotonic()))

    def _look(self, part: _Part) -> None:
        trouble, ended = "", False
        try:
            result = part.guest.poll()
            if result is not None:
                ended = True
                trouble = f"the guest's part ended with code {result.exit_code}" if part.left else ""
        except LabError as error:
            ended, trouble = True, str(error)
        normal, errors = part.guest.output()
        part.words.extend(line for line in errors if line.strip())
        for line in normal:
            self._hear(part, line)
        limit_s = self.trial_limit_s if part.booted else BOOT_LIMIT_S + self.trial_limit_s
        if not ended and time.monotonic() - part.since_s > limit_s:
            ended, trouble = True, f"did not end within {limit_s:.0f} s"
        if ended:
            self._end(part, trouble)

    def _hear(self, part: _Part, line: str) -> None:
        word, _, name = line.partition(" ")
        if not part.left or name != part.left[0].id:
            return  # a program's own words
        part.since_s = time.monotonic()
        if word == "begin":
            part.booted, self._failed_boots = True, 0
            part.current = part.left[0]
            self._begin(part.current)
        elif word == "end":
            result = runner_folder.read_result(part.out / f"{name}.json")
            if result is not None:
                part.left.popleft()
                part.current = None
                # also those that a guest was lost with
                self._keep(msgspec.structs.replace(result, attempts=result.attempts + self._chances[name]))
                (part.out / f"{name}.json").unlink()

    def _end(self, part: _Part, trouble: str) -> None:
        part.guest.stop()
        self._running.remove(part)
        if not part.left:
            return
        words = " / ".join(part.words)[-300:]
        reason = trouble or "the guest ended early"
        trial = part.current
        if trial is None and not part.booted:
            self._failed_boots += 1
            if self._failed_boots >= _BOOTS:
                said = f"; it said: {words!r}" if words else ""
                raise LabError(f"{_BOOTS} guests in a row did not get to work: {reason}{said}")
        if trial is not None:
            self._chances[trial.id] += 1
            if self._chances[trial.id] >= _CHANCES:
                part.left.popleft()
                self._keep(_failed(trial, self._chances[trial.id], reason, words))
        if part.left:
            self._queue.appendleft(list(part.left))


def parts(trials: Sequence[Trial], at_once: int) -> Iterable[list[Trial]]:
    """What each guest plays, in the plan's order: equal shares for all at once, none too long."""
    size = max(1, min(_MOST_TRIALS, -(-len(trials) // at_once)))
    for first in range(0, len(trials), size):
        yield list(trials[first : first + size])


def _failed(trial: Trial, attempts: int, reason: str, words: str) -> Result:
    return Result(
        trial=trial,
        outcome=Outcome.FAILED,
        attempts=attempts,
        started_ns=time.time_ns(),
        took_s=0.0,
        failure=GUEST,
        reason=reason,
        last_words=words,
    )
