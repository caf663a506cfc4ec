# SPDX-License-Identifier: GPL-2.0-only
"""The scheduler that is in force by our doing: is it still, and if not, why not."""

from collections.abc import Callable
from dataclasses import dataclass

from asa.act.exits import read_exit
from asa.act.gate import Gated, links
from asa.act.gated.exchange import take_out
from asa.act.gated.pool import ended
from asa.act.kernel import DETACH_LIMIT_S, carries
from asa.act.watch import KernelLog
from asa.core.decision import ExitKind, SchedulerExit, SchedulerName
from asa.core.errors import SchedulerError
from asa.core.ports import Clock
from asa.core.sample import SchedExtState


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """That it is no longer in force."""

    since_ns: int  # CLOCK_MONOTONIC, when that was seen first
    detail: str
    exit: SchedulerExit


class Attached:
    """One scheduler, from its release on."""

    def __init__(
        self,
        name: SchedulerName,
        gated: Gated,
        *,
        name_of_ops: Callable[[str], SchedulerName | None],
        log: KernelLog,
        clock: Clock,
        attach_limit_s: float,
    ) -> None:
        self.name = name
        self.gated = gated
        self.link: int | None = None
        self._name_of_ops = name_of_ops
        self._log = log
        self._clock = clock
        self._attach_limit_s = attach_limit_s
        self._ops = ""
        self._lost_ns: int | None = None
        self._why: SchedulerExit | None = None

    @property
    def losing(self) -> bool:
        """The kernel has let go of it, and its process has yet to say why."""
        return self._lost_ns is not None

    def untold(self, state: SchedExtState | None) -> bool:
        """Has the kernel let go of it, by `state`, and is not yet known what for?"""
        return self._why is None and state is not None and state.state != "enabled"

    @property
    def undo(self) -> str:
        """What puts the kernel's own scheduler back."""
        return f"detach link {self.link} of pid {self.gated.process.pid}: back to EEVDF"

    def carried_by(self, state: SchedExtState | None) -> bool:
        """Does sysfs show it in force?"""
        return carries(state, self.name, self._name_of_ops)

    def confirm(self, ops: str) -> None:
        """It is in force, as `ops`; from now on an ordinary process."""
        self._ops = ops
        self.gated.process.settle()
        self.link = links.struct_ops_link(self.gated.process.pid)

    def take_out(self) -> bool:
        """Detach it. False: its process has to be asked to end."""
        return take_out(self.gated, self.link)

    def check(self, state: SchedExtState | None) -> Loss | None:
        """Is it still in force? A loss is told when its process has ended, or has had time to say why."""
        process = self.gated.process
        process.trim_log()
        code = process.exit_code()
        if code is None and self.carried_by(state):
            self._lost_ns = self._why = None
            return None
        now_ns = self._clock.monotonic_ns()
        self._lost_ns = self._lost_ns or now_ns
        stranger = code is None and state is not None and state.state == "enabled" and bool(state.ops)
        patience_s = self._patience_s()
        if code is not None:
            reason = ended(code)
        elif stranger:
            reason = "was taken out by somebody else"
        elif now_ns - self._lost_ns < patience_s * 1e9:
            return None  # it is about to say why, or loads itself anew after a CPU came or went
        else:
            reason = "lost the kernel but did not end; it was stopped" if patience_s else "was taken out by SysRq-S"
        return self._loss(reason, code)

    def failure(self, reason: str) -> Loss:
        """It was released and did not come up."""
        self._lost_ns = self._clock.monotonic_ns()
        return self._loss(reason, self.gated.process.exit_code())

    def _loss(self, reason: str, code: int | None) -> Loss:
        words = self.gated.process.last_words()
        error = SchedulerError(scheduler=self.name, reason=reason, last_words=words)
        why = self._log.why(self._ops or self.name.bare.removeprefix("scx_")) or self._why
        return Loss(since_ns=self._lost_ns or 0, detail=str(error), exit=read_exit(words, why, code))

    def _patience_s(self) -> float:
        self._why = self._log.why(self._ops) or self._why
        kind = self._why.kind if self._why is not None else None
        if kind is ExitKind.SYSRQ:
            return 0.0  # somebody wants none of them, also none that is ready before this one has ended
        return self._attach_limit_s if kind is ExitKind.HOTPLUG else DETACH_LIMIT_S
