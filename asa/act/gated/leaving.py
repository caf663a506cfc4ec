# SPDX-License-Identifier: GPL-2.0-only
"""Scheduler processes on their way out: given time to put back what they had set, hurried, and killed last."""

import time
from dataclasses import dataclass

from asa.act.gate import Gated
from asa.act.undo import UndoJournal
from asa.config import SwitchSettings
from asa.core.decision import SchedulerName
from asa.core.ports import Clock

_EXIT_LIMIT_S = 30.0  # from the request to end; a killed one leaves behind what it was about to put back
_KILLED_LIMIT_S = 5.0
_POLL_S = 0.01


@dataclass(slots=True)
class _Leaver:
    name: SchedulerName
    gated: Gated
    since_ns: int
    interrupted: bool = False
    killed_ns: int | None = None


class Leaving:
    """Those that were detached, denied, or gave up. One that not even SIGKILL ends stays in the undo journal."""

    def __init__(self, undo: UndoJournal, clock: Clock, limits: SwitchSettings) -> None:
        self._undo = undo
        self._clock = clock
        self._limits = limits
        self._leavers: list[_Leaver] = []
        self.stuck: list[str] = []

    def add(self, name: SchedulerName, gated: Gated, *, interrupt: bool) -> None:
        """Take over a process. `interrupt`: ask it now; else it knows already, and is asked when it takes too long."""
        gated.deny()  # not again, should it be about to load itself anew
        leaver = _Leaver(name, gated, self._clock.monotonic_ns(), interrupted=interrupt)
        if interrupt:
            gated.process.interrupt()
        self._leavers.append(leaver)

    def gated(self) -> list[Gated]:
        """Those that have not ended yet."""
        return [leaver.gated for leaver in self._leavers]

    def names(self) -> set[SchedulerName]:
        """Those that have not ended yet, by name."""
        return {leaver.name for leaver in self._leavers}

    def advance(self) -> bool:
        """Let go of those that have ended, hurry those that do not. True when the last of them has just gone."""
        had = bool(self._leavers)
        self._leavers = [leaver for leaver in self._leavers if not self._ended(leaver)]
        return had and not self._leavers

    def wait(self) -> bool:
        """Until all have ended. False when one does not."""
        while self._leavers:
            self.advance()
            time.sleep(_POLL_S)
        return not self.stuck

    def _ended(self, leaver: _Leaver) -> bool:
        leaver.gated.advance()
        process = leaver.gated.process
        if process.exit_code() is not None:
            self._undo.forget(process.pid)
            self._close(leaver)
            return True
        age_s = (self._clock.monotonic_ns() - leaver.since_ns) / 1e9
        if not leaver.interrupted and age_s > self._limits.stop_limit_s:
            process.interrupt()
            leaver.interrupted, leaver.since_ns = True, self._clock.monotonic_ns()
        elif leaver.interrupted and leaver.killed_ns is None and age_s > _EXIT_LIMIT_S:
            process.kill()  # what it had set stays behind: the undo journal puts it back
            leaver.killed_ns = self._clock.monotonic_ns()
        elif leaver.killed_ns is not None and self._clock.monotonic_ns() - leaver.killed_ns > _KILLED_LIMIT_S * 1e9:
            self.stuck.append(f"{leaver.name} (pid {process.pid}) does not end")
            self._close(leaver)
            return True
        return False

    @staticmethod
    def _close(leaver: _Leaver) -> None:
        leaver.gated.close()
        leaver.gated.process.forget()
