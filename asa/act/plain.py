# SPDX-License-Identifier: GPL-2.0-only
"""The plain switcher: stop the running scheduler, start the wanted one. For where the gate cannot be used.

A state machine that never blocks: RESTING (EEVDF) -> STARTING -> RUNNING -> STOPPING -> RESTING or STARTING. While one
scheduler goes and the next loads, the kernel runs EEVDF. A switch counts when `state` is enabled, `ops` carries the
wanted name, and `enable_seq` grew. Whatever goes wrong ends on EEVDF.
"""

import os
import time
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

from asa.act.exits import read_exit
from asa.act.gated.pool import ended
from asa.act.kernel import sched_ext_state, scheduler_in_force
from asa.act.portfolio import Portfolio
from asa.act.process import SchedulerProcess
from asa.act.undo import UndoJournal
from asa.act.watch import KernelLog, KernelWatch
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerExit, SchedulerName, Standby, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, SchedulerError
from asa.core.ports import Clock, Switcher
from asa.core.sample import SchedExtState

_DETACH_LIMIT_S = 5.0  # a scheduler whose process is gone is detached by the kernel's own worker within this
_EXIT_LIMIT_S = 30.0  # on top of the stop limit, for a process that has let go of the kernel
_POLL_S = 0.01
_CLOSE_LOOK_S, _LOOK_S = 0.002, 0.02
_STIR_NS = 50_000_000  # after word from the kernel sysfs follows within this


class _Phase(Enum):
    RESTING = auto()
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()


class PlainSwitcher:
    """Stop-then-start, as in the paper's 3.4. Implements `asa.core.ports.Switcher`."""

    def __init__(
        self,
        *,
        portfolio: Portfolio,
        undo: UndoJournal,
        clock: Clock,
        limits: SwitchSettings,
        sys: Path,
        logs: Path,
    ) -> None:
        self._portfolio = portfolio
        self._undo = undo
        self._clock = clock
        self._limits = limits
        self._sys = sys
        self._logs = logs
        self._phase = _Phase.RESTING
        self._process: SchedulerProcess | None = None
        self._ours: SchedulerName = EEVDF  # what runs, is coming up, or is going
        self._target: SchedulerName = EEVDF
        self._old: SchedulerName = EEVDF
        self._ordered_ns = 0
        self._phase_since_ns = 0
        self._sequence = 0
        self._killed_ns: int | None = None  # limits count from what we did, not from the order: we may be starved
        self._gone_ns: int | None = None
        self._fault: tuple[SwitchOutcome, str] | None = None  # why it is being stopped, when nobody ordered that
        self._foreign_ops = ""
        self._why = ""
        self._stirred_ns = 0
        self._exit: SchedulerExit | None = None
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
        """Order a switch to `target`. Raises AsaError when it cannot be started; then nothing has changed."""
        if self.busy():
            raise SchedulerError(scheduler=target, reason=f"a switch to {self._target} is under way")
        if target != EEVDF:
            opened = self._portfolio.open(target)  # checked before the old one is stopped
            os.close(opened.fd)
        self._old = self._ours
        self._target = target
        self._why = why
        self._ordered_ns = self._clock.monotonic_ns()
        if self._process is not None:
            self._process.interrupt()
        self._enter(_Phase.STOPPING)

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Nothing can wait without the gate."""

    def standbys(self) -> tuple[Standby, ...]:
        """None, see `keep_ready`."""
        return ()

    def descriptors(self) -> tuple[int, ...]:
        """The scheduler's process, and the kernel's word on sched_ext."""
        found = (self._watch.fileno(), self._process.fileno() if self._process is not None else None)
        return tuple(descriptor for descriptor in found if descriptor is not None and descriptor >= 0)

    def look_in_s(self) -> float | None:
        """Often while a scheduler comes or goes; else the next tick will do."""
        if self._clock.monotonic_ns() - self._stirred_ns < _STIR_NS:
            return _CLOSE_LOOK_S
        return _LOOK_S if self.busy() else None

    def poll(self) -> SwitchEvent | None:
        """Advance by what has happened since; report at most one event."""
        if self._watch.drain():
            self._stirred_ns = self._clock.monotonic_ns()
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
        """Stop what is ours and wait until the kernel has let go of it. Blocks; False when some of it is left."""
        process = self._process
        if process is not None:
            process.interrupt()
            if not process.wait(self._limits.stop_limit_s):
                process.kill()
                if not process.wait(self._limits.stop_limit_s):
                    self._watch.close()
                    self._log.close()
                    return False  # the undo journal keeps its name for the next start
        deadline_ns = self._clock.monotonic_ns() + int(_DETACH_LIMIT_S * 1e9)
        while self._ours_attached() and self._clock.monotonic_ns() < deadline_ns:
            time.sleep(_POLL_S)
        left = self._ours_attached()
        self._forget_process()
        self._watch.close()
        self._log.close()
        self._enter(_Phase.RESTING)
        return not left

    def _poll_stopping(self) -> SwitchEvent | None:
        process = self._process
        if process is not None and process.exit_code() is None:
            # One that has let go of the kernel only has to end, which under load takes long: killing it would leave
            # behind what it was about to restore.
            patience_s = self._limits.stop_limit_s + (0.0 if self._ours_attached() else _EXIT_LIMIT_S)
            if self._killed_ns is None and self._phase_age_s() > patience_s:
                process.kill()
                self._killed_ns = self._clock.monotonic_ns()
            elif self._killed_ns is not None and self._age_s(self._killed_ns) > _DETACH_LIMIT_S:
                self._process = None  # not even SIGKILL ends it; the undo journal keeps its name
                return self._end(SwitchOutcome.FAILED, f"{self._ours} (pid {process.pid}) does not end")
            return None
        if self._gone_ns is None:
            self._gone_ns = self._clock.monotonic_ns()
        if self._ours_attached():
            if self._age_s(self._gone_ns) < _DETACH_LIMIT_S:
                return None
            return self._end(SwitchOutcome.FAILED, f"the kernel does not let go of {self._ours}")
        fault = self._fault
        words = process.last_words() if process is not None else ""
        left = self._ours
        if fault is not None and process is not None:
            self._exit = read_exit(words, self._log.why(left.bare.removeprefix("scx_")), process.exit_code())
        self._forget_process()
        if fault is not None:
            return self._end(fault[0], str(SchedulerError(scheduler=left, reason=fault[1], last_words=words)))
        if self._attached():  # somebody else was faster
            self._enter(_Phase.RESTING)
            self._foreign_ops = ""
            return self._poll_foreign()
        if self._target == EEVDF:
            return self._end(SwitchOutcome.CONFIRMED, "the kernel's own scheduler")
        return self._start()

    def _start(self) -> SwitchEvent | None:
        state = self.state()
        if state is None:
            return self._end(SwitchOutcome.FAILED, "the kernel has no sched_ext any more")
        if state.state != "disabled":  # the last one is still being cleared away: most would refuse to start
            if self._gone_ns is not None and self._age_s(self._gone_ns) < _DETACH_LIMIT_S:
                return None
            return self._end(SwitchOutcome.FAILED, f"sched_ext stays {state.state!r}, so nothing can be started")
        self._sequence = state.enable_seq
        try:
            self._undo.keep_settings()
            opened = self._portfolio.open(self._target)
            self._process = SchedulerProcess(opened, self._logs / f"{self._target.replace(':', '-')}.log")
        except AsaError as error:
            return self._end(SwitchOutcome.FAILED, str(error))
        self._ours = self._target
        try:
            self._undo.note(self._target, self._process.pid)
        except AsaError as error:
            return self._give_up(SwitchOutcome.FAILED, f"was stopped: {error}")
        self._enter(_Phase.STARTING)
        return None

    def _poll_starting(self) -> SwitchEvent | None:
        process = self._process
        assert process is not None  # noqa: S101  # STARTING is entered with a process only
        state = self.state()
        code = process.exit_code()
        if code is not None:
            return self._give_up(SwitchOutcome.FAILED, ended(code))
        if state is not None and state.enable_seq > self._sequence and self._carries(state, self._target):
            process.settle()
            with suppress(AsaError):  # the disk is full: only less is known of what it has set
                self._undo.settled(process.pid)
                self._undo.apply(process.pid)
            self._enter(_Phase.RUNNING)
            return self._event(SwitchOutcome.CONFIRMED, state.ops)
        if self._phase_age_s() > self._limits.attach_limit_s:
            reason = f"did not attach within {self._limits.attach_limit_s:g} s and was stopped"
            return self._give_up(SwitchOutcome.FAILED, reason)
        return None

    def _poll_running(self) -> SwitchEvent | None:
        process = self._process
        assert process is not None  # noqa: S101  # RUNNING is entered with a process only
        process.trim_log()
        state = self.state()
        code = process.exit_code()
        if code is None and state is not None and self._carries(state, self._ours):
            self._phase_since_ns = self._clock.monotonic_ns()
            return None
        if code is None and self._phase_age_s() < _DETACH_LIMIT_S:
            return None  # evicted by the kernel: its process is about to say why and to end
        self._old = self._target = self._ours
        self._ordered_ns = self._clock.monotonic_ns()
        reason = ended(code) if code is not None else "lost the kernel but did not end; it was stopped"
        return self._give_up(SwitchOutcome.LOST, reason)

    def _give_up(self, outcome: SwitchOutcome, reason: str) -> SwitchEvent | None:
        """Have what is ours stopped; the outcome is reported when it is gone."""
        if self._process is not None:
            self._process.interrupt()
        self._enter(_Phase.STOPPING)
        self._fault = (outcome, reason)
        return self._poll_stopping()

    def _poll_foreign(self) -> SwitchEvent | None:
        ops = self._attached()
        if ops == self._foreign_ops:
            return None
        self._foreign_ops = ops
        if not ops:
            return None
        self._old, self._target = EEVDF, self._portfolio.name_of_ops(ops) or SchedulerName(ops)
        self._ordered_ns = self._clock.monotonic_ns()
        return self._event(SwitchOutcome.FOREIGN, f"{ops} was attached by somebody else")

    def _end(self, outcome: SwitchOutcome, detail: str) -> SwitchEvent:
        self._ours = EEVDF
        self._enter(_Phase.RESTING)
        return self._event(outcome, detail)

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
            exit=self._exit if outcome in (SwitchOutcome.FAILED, SwitchOutcome.LOST) else None,
            undo="nothing to undo" if self._process is None else f"SIGINT to pid {self._process.pid}: back to EEVDF",
        )

    def _forget_process(self) -> None:
        if self._process is not None:
            self._undo.forget(self._process.pid)
            self._process.forget()
            self._undo.put_back()
        self._process = None
        self._ours = EEVDF

    def _attached(self) -> str:
        state = self.state()
        return state.ops if state is not None and state.state == "enabled" else ""

    def _ours_attached(self) -> bool:
        """Does the kernel still hold something of ours? A stranger's scheduler is none of our business."""
        state = self.state()
        if self._ours == EEVDF or state is None or state.state == "disabled":
            return False
        return not state.ops or self._portfolio.name_of_ops(state.ops) == self._ours.bare

    def _carries(self, state: SchedExtState, name: SchedulerName) -> bool:
        return state.state == "enabled" and self._portfolio.name_of_ops(state.ops) == name.bare

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._phase_since_ns = self._clock.monotonic_ns()
        self._killed_ns = self._gone_ns = None
        self._fault = None

    def _phase_age_s(self) -> float:
        return self._age_s(self._phase_since_ns)

    def _age_s(self, since_ns: int) -> float:
        return (self._clock.monotonic_ns() - since_ns) / 1e9


def bring_up(switcher: Switcher, target: SchedulerName) -> SwitchEvent:
    """Switch and wait for the outcome; for offline work, the agent never blocks. Raises SchedulerError on failure."""
    switcher.begin(target)
    while (event := switcher.poll()) is None:
        time.sleep(_POLL_S)
    if event.outcome is not SwitchOutcome.CONFIRMED:
        raise SchedulerError(scheduler=target, reason=event.detail)
    return event
