# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers that are loaded but not attached: the standbys, and the one that a switch waits for.

Standbys load one after the other, behind ordinary tasks, so that keeping them costs no switch its time.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asa.act.gate import Gated, Stage, launch
from asa.act.gated.leaving import Leaving
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, Standby
from asa.core.errors import AsaError, SchedulerError
from asa.core.ports import Clock

_RETRY_NS = 60_000_000_000  # a standby that died or would not load is tried again after this
_PATIENCE = 10  # times the limit for one that loads behind ordinary tasks: about what `Pace.PATIENT` is slower by


@dataclass(slots=True)
class _Loaded:
    gated: Gated
    since_ns: int
    processors: str  # the count of processors that came or went, when it began to load
    urgent: bool  # a switch waits for it
    memory_bytes: int = 0


class Pool:
    """Gated schedulers by name."""

    def __init__(
        self,
        *,
        portfolio: Portfolio,
        undo: UndoJournal,
        clock: Clock,
        limits: SwitchSettings,
        leaving: Leaving,
        logs: Path,
        run: Path,
        sys: Path,
        on_step: Callable[[SchedulerName, str], None],
    ) -> None:
        self._portfolio = portfolio
        self._undo = undo
        self._clock = clock
        self._limits = limits
        self._leaving = leaving
        self._logs = logs
        self._run = run
        self._hotplugs = f"{sys}/kernel/sched_ext/hotplug_seq"
        self._on_step = on_step
        self._loaded: dict[SchedulerName, _Loaded] = {}
        self._not_before_ns: dict[SchedulerName, int] = {}
        self._died_ns: dict[SchedulerName, int] = {}
        self._failures: dict[SchedulerName, SchedulerError] = {}

    def gated(self) -> list[Gated]:
        """All of them."""
        return [loaded.gated for loaded in self._loaded.values()]

    def get(self, name: SchedulerName) -> Gated | None:
        """One of them; None when it is not here, or no longer."""
        loaded = self._loaded.get(name)
        return loaded.gated if loaded is not None else None

    def start(self, name: SchedulerName, *, urgent: bool = True) -> Gated:
        """Have `name` load. Raises AsaError when it cannot be started at all."""
        opened, processors = self._portfolio.open(name), self._processors()
        log = self._logs / f"{name.replace(':', '-')}.log"
        try:
            self._undo.keep_settings()
        except AsaError:
            os.close(opened.fd)
            raise
        copies = self._undo.remembered()
        gated = launch(opened, log, self._run, urgent=urgent, values=copies)
        try:
            self._undo.note(name, gated.process.pid, copies)
        except AsaError:
            self._leaving.add(name, gated, interrupt=True)
            raise
        self._loaded[name] = _Loaded(gated, self._clock.monotonic_ns(), processors, urgent)
        self._on_step(name, "launched")
        return gated

    def take(self, name: SchedulerName) -> Gated:
        """Hand over one that is about to attach."""
        return self._loaded.pop(name).gated

    def drop(self, name: SchedulerName) -> None:
        """Have one end without attaching."""
        loaded = self._loaded.pop(name, None)
        if loaded is not None:
            self._leaving.add(name, loaded.gated, interrupt=loaded.gated.load is None)

    def drop_stale(self) -> None:
        """Have those end that wait and know of other processors than there are: they would start over when attached."""
        processors = self._processors()
        for name, loaded in list(self._loaded.items()):
            if loaded.gated.stage is Stage.PARKED and loaded.processors != processors:
                self.drop(name)

    def failure(self, name: SchedulerName | None = None) -> SchedulerError | None:
        """Why an attempt to load `name` (None: any) came to nothing; told once."""
        if name is None:
            name = next(iter(self._failures), SchedulerName(""))
        return self._failures.pop(name, None)

    def keep(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Have `wanted` and nothing else loaded. Never raises."""
        for name in [name for name in self._loaded if name not in wanted]:
            self.drop(name)
        self.drop_stale()
        if any(loaded.gated.stage is Stage.LOADING for loaded in self._loaded.values()):
            return
        now_ns = self._clock.monotonic_ns()
        for name in wanted:
            if name != EEVDF and name not in self._loaded and self._not_before_ns.get(name, 0) <= now_ns:
                try:
                    self.start(name, urgent=False)
                except AsaError:
                    self._not_before_ns[name] = now_ns + _RETRY_NS  # what is wrong is told when it is ordered
                    continue
                return

    def urge(self, name: SchedulerName) -> None:
        """A switch waits for one that loads: ahead of others from now on, and with all of its time before it."""
        loaded = self._loaded[name]
        loaded.urgent, loaded.since_ns = True, self._clock.monotonic_ns()
        loaded.gated.process.urge()

    def advance(self) -> None:
        """Serve those that load; forget those that have died."""
        for name, loaded in list(self._loaded.items()):
            gated = loaded.gated
            was = gated.stage
            gated.advance()
            now_ns = self._clock.monotonic_ns()
            code = gated.process.exit_code()
            if code is not None:
                reason = ended(code)
            elif gated.stage is Stage.LOADING and now_ns - loaded.since_ns > self._limit_s(loaded) * 1e9:
                reason = f"was not ready to attach within {self._limit_s(loaded):g} s and was stopped"
            else:
                if was is Stage.LOADING and gated.stage is Stage.PARKED:
                    self._park(name, loaded)
                continue
            words = gated.process.last_words()
            if was is Stage.LOADING:
                self._failures[name] = SchedulerError(scheduler=name, reason=reason, last_words=words)
                self._not_before_ns[name] = now_ns + _RETRY_NS
            else:  # one that was ready and died is replaced without a word, but not again and again
                self._not_before_ns[name] = self._died_ns.get(name, -_RETRY_NS) + _RETRY_NS
                self._died_ns[name] = now_ns
            del self._loaded[name]
            self._leaving.add(name, gated, interrupt=code is None)

    def _limit_s(self, loaded: _Loaded) -> float:
        return self._limits.attach_limit_s * (1 if loaded.urgent else _PATIENCE)

    def _park(self, name: SchedulerName, loaded: _Loaded) -> None:
        process = loaded.gated.process
        loaded.since_ns, loaded.memory_bytes = self._clock.monotonic_ns(), share_bytes(process.pid)
        process.urge()  # for its attach; it does nothing until then
        with suppress(AsaError):  # the disk is full: only less is known of what it has set
            self._undo.settled(process.pid)
        self._on_step(name, "parked")

    def _processors(self) -> str:
        try:
            with open(self._hotplugs, "rb", buffering=0) as file:  # noqa: PTH123  # beside a switch
                return file.read(32).decode()
        except OSError:
            return ""  # a kernel before 6.12

    def standbys(self, spare: SchedulerName | None) -> tuple[Standby, ...]:
        """What waits or loads, but for `spare`."""
        return tuple(
            Standby(
                scheduler=name,
                ready=loaded.gated.stage is Stage.PARKED,
                memory_bytes=loaded.memory_bytes,
                since_ns=loaded.since_ns,
            )
            for name, loaded in self._loaded.items()
            if name != spare
        )

    def clear(self) -> None:
        """Have all of them end."""
        for name in list(self._loaded):
            self.drop(name)


def ended(code: int) -> str:
    """How a process ended, in words."""
    return f"was ended by signal {-code}" if code < 0 else f"ended by itself with code {code}"


def share_bytes(pid: int) -> int:
    """Proportional share of memory of a process (proc_pid_smaps_rollup), 0 when it is gone."""
    try:
        with open(os.path.join("/proc", str(pid), "smaps_rollup"), "rb") as file:  # noqa: PTH118, PTH123  # beside a switch
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 0
