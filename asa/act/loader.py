# SPDX-License-Identifier: GPL-2.0-only
"""Switching through scx_loader (org.scx.Loader), where the distribution runs that: one master, told what to load.

The loader is never believed, only sysfs (`asa.act.kernel.came_up`). It stops the old scheduler and starts the next one,
so there are no standbys and there is a gap on EEVDF. It takes binaries from its own PATH, and starts one again that
ended with an error, up to four times; what was lost is therefore stopped by an order, unless somebody else has ordered
something through the loader meanwhile: what they want stays, and the agent holds.
"""

import select
import signal
from contextlib import suppress
from pathlib import Path

from asa.act.exits import read_exit
from asa.act.kernel import DETACH_LIMIT_S, came_up
from asa.act.loader_bus import Heard, LoaderBus, Ordered
from asa.act.loader_processes import LoaderProcesses
from asa.act.portfolio import Portfolio
from asa.act.switching import Phase, StopThenStart
from asa.act.undo import UndoJournal
from asa.bus import BusError, CallError
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, ExitKind, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import SchedulerError
from asa.core.ports import Clock
from asa.core.sample import SchedExtState

_POLL_S = 0.01
_LOOK_S = 0.02
_LEFT = "scx_loader has left the bus"
_STUCK = "cannot be stopped"


class LoaderSwitcher(StopThenStart):
    """Orders to scx_loader, and what came of them. Implements `asa.core.ports.Switcher`."""

    _TELLS_EXIT = frozenset({SwitchOutcome.LOST})

    def __init__(
        self,
        *,
        portfolio: Portfolio,
        undo: UndoJournal,
        clock: Clock,
        limits: SwitchSettings,
        sys: Path,
        proc: Path = Path("/proc"),
        loader: LoaderBus | None = None,
    ) -> None:
        super().__init__(portfolio=portfolio, undo=undo, clock=clock, limits=limits, sys=sys)
        self._loader = loader or LoaderBus()
        self._order = self._departures = 0
        self._answered = True  # the last order, by yes or no
        self._refusal: CallError | None = None
        self._signals: list[signal.Signals] = []  # still to be sent to what does not go
        self._lost_ns: int | None = None
        self._answers: list[Ordered | None] | None = None  # None: not asked since it was lost
        self._processes = LoaderProcesses(undo, clock, proc)
        self._ops = ""

    def begin(self, target: SchedulerName, why: str = "") -> None:
        """Order a switch to `target`. Raises AsaError when it cannot be ordered; then nothing has changed."""
        if self.busy():
            raise SchedulerError(scheduler=target, reason=f"a switch to {self._target} is under way")
        stranger = self._attached() if self._ours == EEVDF else ""
        if stranger:
            raise SchedulerError(scheduler=target, reason=f"{stranger} of somebody else is in force")
        state = self.state()
        if state is None:
            raise SchedulerError(scheduler=target, reason="the kernel has no sched_ext")
        try:
            if target != EEVDF:
                name, arguments = self._arguments(target)
                self._undo.keep_settings()
                self._loader.switch(name, arguments, self._answer())
            elif self._ours != EEVDF:
                self._loader.stop(self._answer())
        except BusError as error:
            raise SchedulerError(scheduler=target, reason=f"scx_loader cannot be told: {error}") from error
        self._old, self._target, self._why = self._ours, target, why
        self._ordered_ns = self._clock.monotonic_ns()
        self._sequence = state.enable_seq
        self._enter(Phase.STOPPING if target == EEVDF else Phase.STARTING)
        self._answered = target == EEVDF and self._ours == EEVDF

    def look_in_s(self) -> float | None:
        """Also while a loss is looked into, and when the bus is due."""
        soon = _LOOK_S if self._lost_ns is not None else None
        found = (super().look_in_s(), soon, self._loader.due_in_s())
        return min((time for time in found if time is not None), default=None)

    def rest(self) -> bool:
        """Have what is ours stopped and wait until the kernel has let go of it. Blocks; False when it has not."""
        if self._phase in (Phase.STARTING, Phase.RUNNING):
            self._give_up(SwitchOutcome.FAILED, "was stopped")
        if self._phase is Phase.STOPPING and self._fault is None:
            self._fault = (SwitchOutcome.FAILED, "was stopped")  # a refusal does not count now
        stuck = False
        while self._phase is Phase.STOPPING:  # the limits in there end it
            bus = self._loader.fileno()
            select.select([] if bus is None else [bus], [], [], _POLL_S)
            self._loader.advance()
            event = self._poll_stopping()
            stuck = event is not None and _STUCK in event.detail
        self._loader.close()
        self._close()
        return not stuck

    def _poll_starting(self) -> SwitchEvent | None:
        wrong = self._processes.find(self._loader.pid, (self._ours, self._target))
        if wrong:
            return self._give_up(SwitchOutcome.FAILED, f"was stopped: {wrong}")
        up = came_up(self.state(), self._target, self._sequence, self._portfolio.name_of_ops)
        if up is not None:
            return self._confirm(up)
        if self._refusal is not None:
            return self._refused(self._refusal)
        if self._loader.departures != self._departures:
            return self._give_up(SwitchOutcome.FAILED, _LEFT)
        if self._phase_age_s() > self._limits.attach_limit_s:
            reason = f"scx_loader has not brought it up within {self._limits.attach_limit_s:g} s"
            return self._give_up(SwitchOutcome.FAILED, f"{reason}; `journalctl -u scx_loader` may say why")
        return None

    def _confirm(self, state: SchedExtState) -> SwitchEvent:
        self._processes.find(self._loader.pid, (self._target,), at_once=True)
        self._processes.settle()
        self._ours, self._sequence, self._ops = self._target, state.enable_seq, state.ops
        self._enter(Phase.RUNNING)
        return self._event(SwitchOutcome.CONFIRMED, state.ops)

    def _refused(self, refusal: CallError) -> SwitchEvent:
        detail = f"{self._target}: scx_loader refuses: {refusal}"
        event = self._event(SwitchOutcome.REFUSED, detail)
        self._target = self._ours
        self._enter(Phase.RESTING if self._ours == EEVDF else Phase.RUNNING)
        return event

    def _poll_running(self) -> SwitchEvent | None:
        state = self.state()
        there = self._loader.departures == self._departures
        carried = self._carried(state)
        # the count of a scheduler that lives grows when it loads itself anew after a CPU came or went
        if there and carried and (carried.enable_seq == self._sequence or self._processes.alive()):
            self._sequence = carried.enable_seq
            self._lost_ns = self._answers = self._exit = None
            return None
        self._lost_ns = self._lost_ns or self._clock.monotonic_ns()
        self._exit = self._log.why(self._ops) or self._exit
        if not there:
            return self._lose(_LEFT)
        if not self._attached() and self._processes.alive() and self._age_s(self._lost_ns) < self._patience_s():
            return None  # its process is about to end, or to load itself anew
        if self._answers is None:
            self._answers = []
            self._loader.ordered(self._answers.append)
        return self._judge(self._answers[0]) if self._answers else None

    def _judge(self, ordered: Ordered | None) -> SwitchEvent | None:
        """Has it ended, or did somebody tell the loader something else? By what the loader was told last."""
        name, arguments = self._arguments(self._ours)
        if ordered is None or (ordered.scheduler == name and ordered.arguments in (None, arguments)):
            taken = self._attached() and not self._ours_attached()
            return self._lose("was taken out by somebody else" if taken else "has ended, and scx_loader did not say so")
        self._old, self._target = self._ours, ordered.scheduler
        self._ordered_ns = self._lost_ns or self._clock.monotonic_ns()
        self._foreign_ops = self._attached()
        self._processes.forget()
        return self._end(SwitchOutcome.FOREIGN, f"somebody else told scx_loader to run {ordered.scheduler}")

    def _lose(self, reason: str) -> SwitchEvent | None:
        self._old = self._ours
        self._ordered_ns = self._lost_ns or self._clock.monotonic_ns()
        self._exit = read_exit("", self._exit, None)
        return self._give_up(SwitchOutcome.LOST, reason)

    def _give_up(self, outcome: SwitchOutcome, reason: str) -> SwitchEvent | None:
        """Have what is ours stopped; the outcome is reported when it is gone."""
        self._enter(Phase.STOPPING)
        if self._loader.present:  # an order would start it again, and with it what it loads by itself
            with suppress(BusError):
                self._loader.stop(self._answer())
                self._answered = False
        self._fault = (outcome, reason)
        return None

    def _poll_stopping(self) -> SwitchEvent | None:
        self._processes.find(self._loader.pid, (self._ours, self._target))
        fault = self._fault
        if self._ours_attached() or self._processes.alive():
            if self._refusal is not None and fault is None:
                return self._refused(self._refusal)
            return self._press()
        if not self._answered and self._phase_age_s() < self._limits.stop_limit_s:
            return None  # it may just be starting one again
        self._processes.find(self._loader.pid, (self._ours, self._target), at_once=True)
        if self._processes.alive():
            return None
        self._processes.forget()
        if fault is not None:
            return self._end(fault[0], str(SchedulerError(scheduler=self._target, reason=fault[1])))
        if self._attached():
            return self._yield()
        return self._end(SwitchOutcome.CONFIRMED, "the kernel's own scheduler")

    def _press(self) -> SwitchEvent | None:
        """End the process, politely first, when the loader does not; it may have gone, and systemd not cleared up."""
        patient = self._signals and self._loader.present
        if self._phase_age_s() < (self._limits.stop_limit_s if patient else DETACH_LIMIT_S):
            return None
        if not self._signals:
            name = self._ours if self._ours != EEVDF else self._target
            self._processes.abandon()
            return self._end(SwitchOutcome.FAILED, f"{name} {_STUCK}")
        self._processes.end(self._signals.pop(0))
        self._phase_since_ns = self._clock.monotonic_ns()
        return None

    def _heard_from(self) -> int | None:
        return self._loader.fileno()

    def _undo_words(self) -> str:
        return "StopScheduler to org.scx.Loader: back to EEVDF"

    def _listen(self) -> None:
        super()._listen()
        self._loader.advance()

    def _held(self) -> tuple[SchedulerName, ...]:
        return self._ours, self._target

    def _enter(self, phase: Phase) -> None:
        super()._enter(phase)
        self._departures = self._loader.departures
        self._refusal = self._lost_ns = self._answers = None
        self._answered = True
        self._signals = [signal.SIGINT, signal.SIGKILL]
        if phase is not Phase.STOPPING:
            self._exit = None

    def _answer(self) -> Heard:
        self._order += 1
        order = self._order

        def hear(refusal: CallError | None) -> None:
            if order == self._order:  # else it is an answer to what has been given up
                self._answered = True
                self._refusal = refusal

        return hear

    def _arguments(self, name: SchedulerName) -> tuple[str, tuple[str, ...]]:
        if self._portfolio.guarded(name):
            reason = "composed or tuned, and scx_loader starts what file it finds; set `switch.backend: own`"
            raise SchedulerError(scheduler=name, reason=reason)
        return str(name.bare), self._portfolio.arguments(name)

    def _patience_s(self) -> float:
        hotplug = self._exit is not None and self._exit.kind is ExitKind.HOTPLUG
        return self._limits.attach_limit_s if hotplug else DETACH_LIMIT_S
