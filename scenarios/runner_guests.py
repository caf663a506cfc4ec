# SPDX-License-Identifier: GPL-2.0-only
"""Plays the trials of a plan in guests of the lab: the same runner inside, under the lab's clock for measuring.

A guest that crashes, hangs or ends early costs the trial under way, which gets one more
chance in a new guest; the rest of its part goes on there too.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa.core.errors import LabError
from scenarios import runner_folder
from scenarios.energy import Power
from scenarios.guests import AtWork, Boot, Loop
from scenarios.lab.guest import BOOT_LIMIT_S, GuestResult
from scenarios.runner import Orders
from scenarios.runner_plan import Outcome, Result, Trial

GUEST = "guest"
"""The failure of a trial whose guest crashed or hung."""

_MOST_TRIALS = 16  # of a guest: what one may cost when it does not even boot any more, or leaks
_CHANCES = 2
_BOOTS = 3  # in a row that may fail
_STARTS_S = 420.0  # of a scheduler and two applications, emulated on a busy host
_SLOWER = 20.0  # most that guest time passes slower than the host's


def runner_command(orders: Path) -> Sequence[str]:
    """The benchmark's own runner."""
    return (sys.executable, "-P", "-m", "scenarios.runner", str(orders))  # -P: root imports nothing from the folder


@dataclass(slots=True, kw_only=True)
class _Part:
    """Of the plan, for one guest."""

    left: deque[Trial]
    current: Trial | None = None
    booted: bool = False


class Guests(Loop[_Part]):
    """Guests that play the trials of a plan. Leaving the context kills them."""

    def __init__(
        self,
        *,
        boot: Boot,
        out: Path,
        seconds: float,
        warm_up_s: float,
        keep: Callable[[Result], None],
        begin: Callable[[Trial], None],
        power: Power | None = None,
        command: Callable[[Path], Sequence[str]] = runner_command,
    ) -> None:
        """`out` is for the folders that are shared with guests; `keep` and `begin` as of `runner.play_all`.

        `power` is of the guests that `boot` boots. `command` plays in one what a file of orders says.
        """
        super().__init__()
        self._boot = boot
        self._out = out
        self._seconds = seconds
        self._warm_up_s = warm_up_s
        self._power = power
        self._keep = keep
        self._begin = begin
        self._command = command
        self._windows = 1  # most that a trial has
        self._chances: Counter[str] = Counter()
        self._failed_boots = 0
        self._number = 0

    @property
    def trial_limit_s(self) -> float:
        """Of the host's time, for one trial."""
        return self._windows * (_STARTS_S + _SLOWER * self._seconds) + _SLOWER * self._warm_up_s

    def play(self, trials: Sequence[Trial], at_once: int) -> None:
        """All of them, so many guests at once. Raises LabError when guests do not boot, AsaError for a full disk."""
        self._queue.extend(_Part(left=deque(part)) for part in parts(trials, at_once))
        self._windows = max((len(trial.phases) for trial in trials), default=1)
        self.follow(at_once)

    def _start(self, work: _Part) -> AtWork[_Part]:
        self._number += 1
        out = self._out / str(self._number)
        out.mkdir(parents=True, exist_ok=True)
        for stale in out.glob("*.json"):
            stale.unlink()
        orders = out / "orders"
        runner_folder.write(
            orders,
            Orders(
                trials=tuple(work.left),
                seconds=self._seconds,
                warm_up_s=self._warm_up_s,
                out=str(out),
                power=self._power,
            ),
        )
        guest = self._boot(self._command(orders), out, len(work.left) * self.trial_limit_s)
        return AtWork(guest=guest, work=work, out=out)

    def _overdue(self, one: AtWork[_Part]) -> str:
        limit_s = self.trial_limit_s if one.work.booted else BOOT_LIMIT_S + self.trial_limit_s
        return f"did not end within {limit_s:.0f} s" if time.monotonic() - one.since_s > limit_s else ""

    def _hear(self, one: AtWork[_Part], line: str) -> None:
        part = one.work
        word, _, name = line.partition(" ")
        if not part.left or name != part.left[0].id:
            return  # a program's own words
        one.since_s = time.monotonic()
        if word == "begin":
            part.booted, self._failed_boots = True, 0
            part.current = part.left[0]
            self._begin(part.current)
        elif word == "end":
            result = runner_folder.read_result(one.out / f"{name}.json")
            if result is not None:
                part.left.popleft()
                part.current = None
                # also those that a guest was lost with
                self._keep(msgspec.structs.replace(result, attempts=result.attempts + self._chances[name]))
                (one.out / f"{name}.json").unlink()

    def _ended(self, one: AtWork[_Part], result: GuestResult | None, trouble: str) -> None:
        part = one.work
        if not part.left:
            return
        reason = trouble if result is None else f"the guest's part ended with code {result.exit_code}"
        trial = part.current
        if trial is None and not part.booted:
            self._failed_boots += 1
            if self._failed_boots >= _BOOTS:
                said = f"; it said: {one.words!r}" if one.words else ""
                raise LabError(f"{_BOOTS} guests in a row did not get to work: {reason}{said}")
        if trial is not None:
            self._chances[trial.id] += 1
            if self._chances[trial.id] >= _CHANCES:
                part.left.popleft()
                self._keep(_failed(trial, self._chances[trial.id], reason, one.words))
        if part.left:
            self._queue.appendleft(_Part(left=part.left))


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
