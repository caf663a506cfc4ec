# SPDX-License-Identifier: GPL-2.0-only
"""Switching through scx_loader (org.scx.Loader), where the distribution runs that: one master, told what to load.

The loader is never believed: a switch counts when sysfs shows `state` enabled, `ops` of the wanted scheduler and a
grown `enable_seq`. It stops the old scheduler and starts the next one, so there are no standbys and there is a gap on
EEVDF. It takes binaries from its own PATH, and starts one again that ended with an error, up to four times; what was
lost is therefore stopped by an order, unless somebody else has ordered something through the loader meanwhile: what
they want stays, and the agent holds.
"""

import select
import signal
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

from asa.act.exits import read_exit
from asa.act.kernel import sched_ext_state, scheduler_in_force
from asa.act.loader_bus import Heard, LoaderBus, Ordered
from asa.act.loader_processes import LoaderProcesses
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal
from asa.act.watch import KernelLog, KernelWatch
from asa.bus import BusError, CallError
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, ExitKind, SchedulerExit, SchedulerName, Standby, SwitchEvent, SwitchOutcome
from asa.core.errors import SchedulerError
from asa.core.ports import Clock
from asa.core.sample import SchedExtState

_DETACH_LIMIT_S = 5.0
_POLL_S = 0.01
_CLOSE_LOOK_S, _LOOK_S = 0.002, 0.02
_STIR_NS = 50_000_000  # after word from the kernel sysfs follows within this
_LEFT = "scx_loader has left the bus"
_STUCK = "cannot be stopped"


class _Phase(Enum):
    RESTING = auto()
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()


class LoaderSwitcher:
    """Orders to scx_loader, and what came of them. Implements `asa.core.ports.Switcher`."""

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
        self._portfolio = portfolio
        self._undo = undo
        self._clock = clock
        self._limits = limits
        self._sys = sys
        self._loader = loader or LoaderBus()
        self._phase = _Phase.RESTING
        self._ours: SchedulerName = EEVDF  # what was confirmed last
        self._target: SchedulerName = EEVDF  # what was ordered last; else as `_ours`
        self._old: SchedulerName = EEVDF
        self._why = ""
        self._ordered_ns = self._phase_since_ns = self._stirred_ns = 0
        self._sequence = 0  # enable_seq before the order, then that of what is in force
        self._order = self._departures = 0
        self._answered = True  # the last order, by yes or no
        self._refusal: CallError | None = None
        self._fault: tuple[SwitchOutcome, str] | None = None  # why it is being stopped, when nobody ordered that
        self._signals: list[signal.Signals] = []  # still to be sent to what does not go
        self._lost_ns: int | None = None
        self._exit: SchedulerExit | None = None
        self._answers: list[Ordered | None] | None = None  # None: not asked since it was lost
        self._processes = LoaderProcesses(undo, clock, proc)
        self._ops = self._foreign_ops = ""
        self._watch, self._log = KernelWatch(), KernelLog()

    def state(self) -> SchedExtState | None:
        """What sysfs says now."""
        return sched_ext_state(self._sys)

    def current(self) -> SchedulerName | None:
        """The scheduler in force, by the manifest's name or, for a stranger, its own."""
        running = self._ours if self._phase is _Phase.RUNNING else None
        return scheduler_in_force(self.state(), self._portfolio.name_of_ops, running)

    def busy(self) -> bool:
        """True between `begin` and the event that ends the switch, and while what failed is cleared away."""
        return self._phase in (_Phase.STARTING, _Phase.STOPPING)

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
        self._enter(_Phase.STOPPING if target == EEVDF else _Phase.STARTING)
        self._answered = target == EEVDF and self._ours == EEVDF

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """The loader keeps none."""

    def standbys(self) -> tuple[Standby, ...]:
        """None, see `keep_ready`."""
        return ()

    def descriptors(self) -> tuple[int, ...]:
        """The kernel's word on sched_ext, and the bus."""
        found = (self._watch.fileno(), self._loader.fileno())
        return tuple(descriptor for descriptor in found if descriptor is not None and descriptor >= 0)

    def look_in_s(self) -> float | None:
        """Often while a scheduler comes or goes; else the next tick will do."""
        if self._clock.monotonic_ns() - self._stirred_ns < _STIR_NS:
            return _CLOSE_LOOK_S
        soon = _LOOK_S if self.busy() or self._lost_ns is not None else None
        return min((time for time in (soon, self._loader.due_in_s()) if time is not None), default=None)

    def poll(self) -> SwitchEvent | None:
        """Advance by what has happened since; report at most one event."""
        if self._watch.drain():
            self._stirred_ns = self._clock.monotonic_ns()
        self._loader.advance()
        match self._phase:
            case _Phase.STOPPING:
                return self._poll_stopping()
            case _Phase.STARTING:
                return self._poll_starting()
            case _Phase.RUNNING:
                return self._poll_running()
            case _Phase.RESTING:
                return self._poll_foreign()

    def rest(self) -> bool:
        """Have what is ours stopped and wait until the kernel has let go of it. Blocks; False when it has not."""
        if self._phase in (_Phase.STARTING, _Phase.RUNNING):
            self._give_up(SwitchOutcome.FAILED, "was stopped")
        if self._phase is _Phase.STOPPING and self._fault is None:
            self._fault = (SwitchOutcome.FAILED, "was stopped")  # a refusal does not count now
        stuck = False
        while self._phase is _Phase.STOPPING:  # the limits in there end it
            bus = self._loader.fileno()
            select.select([] if bus is None else [bus], [], [], _POLL_S)
            self._loader.advance()
            event = self._poll_stopping()
            stuck = event is not None and _STUCK in event.detail
        self._loader.close()
        self._watch.close()
        self._log.close()
        return not stuck

    def _poll_starting(self) -> SwitchEvent | None:
        wrong = self._processes.find(self._loader.pid, (self._ours, self._target))
        if wrong:
            return self._give_up(SwitchOutcome.FAILED, f"was stopped: {wrong}")
        state = self.state()
        if state is not None and state.enable_seq > self._sequence and self._carries(state, self._target):
            return self._confirm(state)
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
        self._enter(_Phase.RUNNING)
        return self._event(SwitchOutcome.CONFIRMED, state.ops)

    def _refused(self, refusal: CallError) -> SwitchEvent:
        detail = f"{self._target}: scx_loader refuses: {refusal}"
        event = self._event(SwitchOutcome.REFUSED, detail)
        self._target = self._ours
        self._enter(_Phase.RESTING if self._ours == EEVDF else _Phase.RUNNING)
        return event

    def _poll_running(self) -> SwitchEvent | None:
        state = self.state()
        there = self._loader.departures == self._departures
        carried = state if state is not None and self._carries(state, self._ours) else None
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
        self._enter(_Phase.STOPPING)
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
        if self._attached():  # somebody else was faster
            self._ours = self._target = EEVDF
            self._enter(_Phase.RESTING)
            self._foreign_ops = ""
            return self._poll_foreign()
        return self._end(SwitchOutcome.CONFIRMED, "the kernel's own scheduler")

    def _press(self) -> SwitchEvent | None:
        """End the process, politely first, when the loader does not; it may have gone, and systemd not cleared up."""
        patient = self._signals and self._loader.present
        if self._phase_age_s() < (self._limits.stop_limit_s if patient else _DETACH_LIMIT_S):
            return None
        if not self._signals:
            name = self._ours if self._ours != EEVDF else self._target
            self._processes.abandon()
            return self._end(SwitchOutcome.FAILED, f"{name} {_STUCK}")
        self._processes.end(self._signals.pop(0))
        self._phase_since_ns = self._clock.monotonic_ns()
        return None

    def _poll_foreign(self) -> SwitchEvent | None:
        ops = self._attached()
        if ops == self._foreign_ops:
            return None
        self._foreign_ops = ops
        if not ops:
            return None
        self._old, self._target = EEVDF, self._portfolio.name_of_ops(ops) or SchedulerName(ops)
        self._ordered_ns = self._clock.monotonic_ns()
        event = self._event(SwitchOutcome.FOREIGN, f"{ops} was attached by somebody else")
        self._target = EEVDF
        return event

    def _end(self, outcome: SwitchOutcome, detail: str) -> SwitchEvent:
        event = self._event(outcome, detail)
        self._ours = self._target = EEVDF
        self._enter(_Phase.RESTING)
        return event

    def _event(self, outcome: SwitchOutcome, detail: str) -> SwitchEvent:
        now_ns = self._clock.monotonic_ns()
        return SwitchEvent(
            monotonic_ns=now_ns,
            outcome=outcome,
            old=self._old,
            new=self._target,
            elapsed_ns=now_ns - self._ordered_ns,
            detail=detail,
            why=self._why,
            exit=self._exit if outcome is SwitchOutcome.LOST else None,
            undo="StopScheduler to org.scx.Loader: back to EEVDF",
        )

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._phase_since_ns = self._clock.monotonic_ns()
        self._departures = self._loader.departures
        self._refusal = self._fault = self._lost_ns = self._answers = None
        self._answered = True
        self._signals = [signal.SIGINT, signal.SIGKILL]
        if phase is not _Phase.STOPPING:
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
        bare, mode = name.bare, name.mode
        modes = self._portfolio.entry(bare).modes
        if barred := self._portfolio.barred(name):
            raise SchedulerError(scheduler=name, reason=barred)
        if mode not in modes:
            raise SchedulerError(scheduler=bare, reason=f"has no mode {mode!r}, only {', '.join(modes)}")
        return str(bare), modes[mode]

    def _attached(self) -> str:
        state = self.state()
        return state.ops if state is not None and state.state == "enabled" else ""

    def _ours_attached(self) -> bool:
        """Does the kernel still hold something of ours? A stranger's scheduler is none of our business."""
        ours = {name.bare for name in (self._ours, self._target) if name != EEVDF}
        state = self.state()
        if not ours or state is None or state.state == "disabled":
            return False
        return not state.ops or self._portfolio.name_of_ops(state.ops) in ours

    def _carries(self, state: SchedExtState, name: SchedulerName) -> bool:
        return state.state == "enabled" and self._portfolio.name_of_ops(state.ops) == name.bare

    def _patience_s(self) -> float:
        hotplug = self._exit is not None and self._exit.kind is ExitKind.HOTPLUG
        return self._limits.attach_limit_s if hotplug else _DETACH_LIMIT_S

    def _phase_age_s(self) -> float:
        return self._age_s(self._phase_since_ns)

    def _age_s(self, since_ns: int) -> float:
        return (self._clock.monotonic_ns() - since_ns) / 1e9
