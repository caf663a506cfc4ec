# SPDX-License-Identifier: GPL-2.0-only
"""What all switchers share, and the state machine of those that stop one scheduler before they start the next.

Nothing is believed but sysfs: when a switch counts is said by `asa.act.kernel.came_up`. Does not start, stop or order
anything itself (that is `asa.act.plain`, `loader`, `shadow`, `remote` and `asa.act.gated`).
"""

from enum import Enum, auto
from pathlib import Path
from typing import ClassVar

from asa.act.kernel import CLOSE_LOOK_S, STIR_NS, carries, sched_ext_state, scheduler_in_force
from asa.act.portfolio import Portfolio
from asa.act.undo import UndoJournal
from asa.act.watch import KernelLog, KernelWatch
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerExit, SchedulerName, Standby, SwitchEvent, SwitchOutcome
from asa.core.ports import Clock
from asa.core.sample import SchedExtState

_LOOK_S = 0.02


class Observing:
    """What sysfs says of schedulers, by the manifest's names."""

    def __init__(self, *, portfolio: Portfolio, clock: Clock, sys: Path) -> None:
        self._portfolio = portfolio
        self._clock = clock
        self._sys = sys

    def state(self) -> SchedExtState | None:
        """What sysfs says now."""
        return sched_ext_state(self._sys)

    def current(self) -> SchedulerName | None:
        """The scheduler in force, by the manifest's name or, for a stranger, its own."""
        return scheduler_in_force(self.state(), self._portfolio.name_of_ops, self._brought_up())

    def _brought_up(self) -> SchedulerName | None:
        """What is in force by our doing: sysfs does not know its mode."""
        return None

    def _name(self, ops: str) -> SchedulerName:
        return self._portfolio.name_of_ops(ops) or SchedulerName(ops)

    def _age_s(self, since_ns: int) -> float:
        return (self._clock.monotonic_ns() - since_ns) / 1e9


class Listening(Observing):
    """With the kernel's word on schedulers that come and go, and why."""

    def __init__(
        self, *, portfolio: Portfolio, undo: UndoJournal, clock: Clock, limits: SwitchSettings, sys: Path
    ) -> None:
        super().__init__(portfolio=portfolio, clock=clock, sys=sys)
        self._undo = undo
        self._limits = limits
        self._watch, self._log = KernelWatch(), KernelLog()
        self._stirred_ns = 0
        self._foreign_ops = ""

    def _listen(self) -> None:
        if self._watch.drain():
            self._stirred_ns = self._clock.monotonic_ns()

    def _stirs(self) -> bool:
        return self._clock.monotonic_ns() - self._stirred_ns < STIR_NS

    def _close(self) -> None:
        self._watch.close()
        self._log.close()


class Phase(Enum):
    """RESTING (EEVDF) -> STARTING -> RUNNING -> STOPPING -> RESTING or STARTING."""

    RESTING = auto()
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()


class StopThenStart(Listening):
    """A state machine that never blocks. While one scheduler goes and the next loads, the kernel runs EEVDF.

    Whatever goes wrong ends on EEVDF.
    """

    _TELLS_EXIT: ClassVar[frozenset[SwitchOutcome]] = frozenset()  # outcomes by which the scheduler's end is told

    def __init__(
        self, *, portfolio: Portfolio, undo: UndoJournal, clock: Clock, limits: SwitchSettings, sys: Path
    ) -> None:
        super().__init__(portfolio=portfolio, undo=undo, clock=clock, limits=limits, sys=sys)
        self._phase = Phase.RESTING
        self._ours: SchedulerName = EEVDF
        self._target: SchedulerName = EEVDF
        self._old: SchedulerName = EEVDF
        self._why = ""
        self._ordered_ns = self._phase_since_ns = 0
        self._sequence = 0  # enable_seq before the order
        self._fault: tuple[SwitchOutcome, str] | None = None  # why it is being stopped, when nobody ordered that
        self._exit: SchedulerExit | None = None

    def busy(self) -> bool:
        """True between `begin` and the event that ends the switch, and while what failed is cleared away."""
        return self._phase in (Phase.STARTING, Phase.STOPPING)

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Nothing can wait beside the one in force."""

    def standbys(self) -> tuple[Standby, ...]:
        """None, see `keep_ready`."""
        return ()

    def descriptors(self) -> tuple[int, ...]:
        """The kernel's word on sched_ext, and what `_heard_from` names."""
        found = (self._watch.fileno(), self._heard_from())
        return tuple(descriptor for descriptor in found if descriptor is not None and descriptor >= 0)

    def look_in_s(self) -> float | None:
        """Often while a scheduler comes or goes; else the next tick will do."""
        if self._stirs():
            return CLOSE_LOOK_S
        return _LOOK_S if self.busy() else None

    def poll(self) -> SwitchEvent | None:
        """Advance by what has happened since; report at most one event."""
        self._listen()
        match self._phase:
            case Phase.STOPPING:
                return self._poll_stopping()
            case Phase.STARTING:
                return self._poll_starting()
            case Phase.RUNNING:
                return self._poll_running()
            case Phase.RESTING:
                return self._poll_foreign()

    def _poll_stopping(self) -> SwitchEvent | None:
        raise NotImplementedError

    def _poll_starting(self) -> SwitchEvent | None:
        raise NotImplementedError

    def _poll_running(self) -> SwitchEvent | None:
        raise NotImplementedError

    def _heard_from(self) -> int | None:
        raise NotImplementedError

    def _undo_words(self) -> str:
        raise NotImplementedError

    def _held(self) -> tuple[SchedulerName, ...]:
        """What is in force, comes or goes by our doing."""
        return (self._ours,)

    def _brought_up(self) -> SchedulerName | None:
        return self._ours if self._phase is Phase.RUNNING else None

    def _poll_foreign(self) -> SwitchEvent | None:
        ops = self._attached()
        if ops == self._foreign_ops:
            return None
        self._foreign_ops = ops
        if not ops:
            return None
        self._old, self._target = EEVDF, self._name(ops)
        self._ordered_ns = self._clock.monotonic_ns()
        event = self._event(SwitchOutcome.FOREIGN, f"{ops} was attached by somebody else")
        self._target = EEVDF
        return event

    def _yield(self) -> SwitchEvent | None:
        """Somebody else was faster: they win, and that is the event."""
        self._ours = self._target = EEVDF
        self._enter(Phase.RESTING)
        self._foreign_ops = ""
        return self._poll_foreign()

    def _end(self, outcome: SwitchOutcome, detail: str) -> SwitchEvent:
        event = self._event(outcome, detail)
        self._ours = self._target = EEVDF
        self._enter(Phase.RESTING)
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
            exit=self._exit if outcome in self._TELLS_EXIT else None,
            undo=self._undo_words(),
        )

    def _attached(self) -> str:
        state = self.state()
        return state.ops if state is not None and state.state == "enabled" else ""

    def _ours_attached(self) -> bool:
        """Does the kernel still hold something of ours? A stranger's scheduler is none of our business."""
        ours = {name.bare for name in self._held() if name != EEVDF}
        state = self.state()
        if not ours or state is None or state.state == "disabled":
            return False
        return not state.ops or self._portfolio.name_of_ops(state.ops) in ours

    def _carried(self, state: SchedExtState | None) -> SchedExtState | None:
        return state if carries(state, self._ours, self._portfolio.name_of_ops) else None

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        self._phase_since_ns = self._clock.monotonic_ns()
        self._fault = None

    def _phase_age_s(self) -> float:
        return self._age_s(self._phase_since_ns)
