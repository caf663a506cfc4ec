# SPDX-License-Identifier: GPL-2.0-only
"""The processes that scx_loader started by our order: found in /proc as its children, noted in the undo journal.

They are not ours to wait for, so pid and start time name them. Starts nobody; signals them only when told to.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from asa.act.rivals import COMM_CHARACTERS, processes
from asa.act.undo import UndoJournal, start_ticks
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from asa.core.ports import Clock

_SEARCH_NS = 200_000_000  # going through /proc takes 10 ms


class LoaderProcesses:
    """Those that were seen since the last `forget`."""

    def __init__(self, undo: UndoJournal, clock: Clock, proc: Path) -> None:
        self._undo = undo
        self._clock = clock
        self._proc = proc
        self._searched_ns = 0
        self._ticks: dict[int, int] = {}  # pid -> start time

    def find(self, loader: int | None, schedulers: Collection[SchedulerName], *, at_once: bool = False) -> str:
        """Note the children of process `loader` that are these. Gives "" or why one could not be noted."""
        now_ns = self._clock.monotonic_ns()
        if loader is None or not (at_once or now_ns - self._searched_ns > _SEARCH_NS):
            return ""
        self._searched_ns = now_ns
        names = {name.bare[:COMM_CHARACTERS]: name for name in schedulers if name != EEVDF}
        for one in processes(self._proc):
            ticks = start_ticks(one.pid, self._proc) if one.parent == loader and one.name in names else None
            if ticks is not None and self._ticks.get(one.pid) != ticks:
                self._ticks[one.pid] = ticks
                try:
                    self._undo.note(names[one.name], one.pid)
                except AsaError as error:
                    return str(error)
        return ""

    def alive(self) -> bool:
        """Is one of them left?"""
        return any(self._lives(pid) for pid in self._ticks)

    def settle(self) -> None:
        """The newest is in force and has set what it sets; those that have ended were the old one's."""
        for pid in [pid for pid in self._ticks if not self._lives(pid)]:
            del self._ticks[pid]
            self._undo.forget(pid)
        with suppress(AsaError):  # the disk is full: only less is known of what it has set
            for pid in self._ticks:
                self._undo.settled(pid)
                self._undo.apply(pid)

    def end(self, sign: signal.Signals) -> None:
        """Signal all of them."""
        for pid in filter(self._lives, self._ticks):
            with suppress(ProcessLookupError):
                os.kill(pid, sign)

    def forget(self) -> None:
        """None is in force any more: put back what they have set."""
        for pid in self._ticks:
            self._undo.forget(pid)
        self._ticks = {}
        self._undo.put_back()

    def abandon(self) -> None:
        """They cannot be ended: they stay noted for the next start."""
        self._ticks = {}

    def _lives(self, pid: int) -> bool:
        return start_ticks(pid, self._proc) == self._ticks[pid]
