# SPDX-License-Identifier: GPL-2.0-only
"""The plain switcher: stop the running scheduler, start the wanted one. For where the gate cannot be used.

The state machine is that of `asa.act.switching`; here are the scheduler's process and its undo.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from asa.act.exits import read_exit
from asa.act.gated.pool import ended
from asa.act.kernel import DETACH_LIMIT_S, came_up
from asa.act.portfolio import Portfolio
from asa.act.process import SchedulerProcess
from asa.act.switching import Phase, StopThenStart
from asa.act.undo import UndoJournal
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerName, SwitchEvent, SwitchOutcome
from asa.core.errors import AsaError, SchedulerError
from asa.core.ports import Clock, Switcher

_EXIT_LIMIT_S = 30.0  # on top of the stop limit, for a process that has let go of the kernel
_POLL_S = 0.01


class PlainSwitcher(StopThenStart):
    """Stop-then-start, as in the paper's 3.4. Implements `asa.core.ports.Switcher`."""

    _TELLS_EXIT = frozenset({SwitchOutcome.FAILED, SwitchOutcome.LOST})

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
        super().__init__(portfolio=portfolio, undo=undo, clock=clock, limits=limits, sys=sys)
        self._logs = logs
        self._process: SchedulerProcess | None = None
        self._killed_ns: int | None = None  # limits count from what we did, not from the order: we may be starved
        self._gone_ns: int | None = None

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
        self._enter(Phase.STOPPING)

    def rest(self) -> bool:
        """Stop what is ours and wait until the kernel has let go of it. Blocks; False when some of it is left."""
        process = self._process
        if process is not None:
            process.interrupt()
            if not process.wait(self._limits.stop_limit_s):
                process.kill()
                if not process.wait(self._limits.stop_limit_s):
                    self._close()
                    return False  # the undo journal keeps its name for the next start
        deadline_ns = self._clock.monotonic_ns() + int(DETACH_LIMIT_S * 1e9)
        while self._ours_attached() and self._clock.monotonic_ns() < deadline_ns:
            time.sleep(_POLL_S)
        left = self._ours_attached()
        self._forget_process()
        self._close()
        self._enter(Phase.RESTING)
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
            elif self._killed_ns is not None and self._age_s(self._killed_ns) > DETACH_LIMIT_S:
                self._process = None  # not even SIGKILL ends it; the undo journal keeps its name
                return self._end(SwitchOutcome.FAILED, f"{self._ours} (pid {process.pid}) does not end")
            return None
        if self._gone_ns is None:
            self._gone_ns = self._clock.monotonic_ns()
        if self._ours_attached():
            if self._age_s(self._gone_ns) < DETACH_LIMIT_S:
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
        if self._attached():
            return self._yield()
        if self._target == EEVDF:
            return self._end(SwitchOutcome.CONFIRMED, "the kernel's own scheduler")
        return self._start()

    def _start(self) -> SwitchEvent | None:
        state = self.state()
        if state is None:
            return self._end(SwitchOutcome.FAILED, "the kernel has no sched_ext any more")
        if state.state != "disabled":  # the last one is still being cleared away: most would refuse to start
            if self._gone_ns is not None and self._age_s(self._gone_ns) < DETACH_LIMIT_S:
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
        self._enter(Phase.STARTING)
        return None

    def _poll_starting(self) -> SwitchEvent | None:
        process = self._process
        assert process is not None  # noqa: S101  # STARTING is entered with a process only
        state = self.state()
        code = process.exit_code()
        if code is not None:
            return self._give_up(SwitchOutcome.FAILED, ended(code))
        up = came_up(state, self._target, self._sequence, self._portfolio.name_of_ops)
        if up is not None:
            process.settle()
            with suppress(AsaError):  # the disk is full: only less is known of what it has set
                self._undo.settled(process.pid)
                self._undo.apply(process.pid)
            self._enter(Phase.RUNNING)
            return self._event(SwitchOutcome.CONFIRMED, up.ops)
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
        if code is None and self._carried(state):
            self._phase_since_ns = self._clock.monotonic_ns()
            return None
        if code is None and self._phase_age_s() < DETACH_LIMIT_S:
            return None  # evicted by the kernel: its process is about to say why and to end
        self._old = self._target = self._ours
        self._ordered_ns = self._clock.monotonic_ns()
        reason = ended(code) if code is not None else "lost the kernel but did not end; it was stopped"
        return self._give_up(SwitchOutcome.LOST, reason)

    def _give_up(self, outcome: SwitchOutcome, reason: str) -> SwitchEvent | None:
        """Have what is ours stopped; the outcome is reported when it is gone."""
        if self._process is not None:
            self._process.interrupt()
        self._enter(Phase.STOPPING)
        self._fault = (outcome, reason)
        return self._poll_stopping()

    def _forget_process(self) -> None:
        if self._process is not None:
            self._undo.forget(self._process.pid)
            self._process.forget()
            self._undo.put_back()
        self._process = None
        self._ours = EEVDF

    def _heard_from(self) -> int | None:
        return None if self._process is None else self._process.fileno()

    def _undo_words(self) -> str:
        return "nothing to undo" if self._process is None else f"SIGINT to pid {self._process.pid}: back to EEVDF"

    def _enter(self, phase: Phase) -> None:
        super()._enter(phase)
        self._killed_ns = self._gone_ns = None


def bring_up(switcher: Switcher, target: SchedulerName) -> SwitchEvent:
    """Switch and wait for the outcome; for offline work, the agent never blocks. Raises SchedulerError on failure."""
    switcher.begin(target)
    while (event := switcher.poll()) is None:
        time.sleep(_POLL_S)
    if event.outcome is not SwitchOutcome.CONFIRMED:
        raise SchedulerError(scheduler=target, reason=event.detail)
    return event
