# SPDX-License-Identifier: GPL-2.0-only
"""The shadow switcher: each chosen scheduler loads and is verified, and its attach is denied (paper, 4.3.2, stage 2).

What a switch costs is paid and measured, and no scheduler takes effect: whatever runs goes on, also one that is
somebody else's, and what changes there is not reported. One scheduler at a time: LOADING under the gate, LEAVING once
it was denied (or gave up), then the event. Nothing is kept ready.

A scheduler may change settings of the CPUs before it attaches, and leave them when it cannot (scx_flash 1.1.4 does:
pm_qos_resume_latency_us). It gets copies to write to; what it changes all the same is put back when it has ended.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asa.act.exits import read_exit
from asa.act.gate import Gated, Stage, launch
from asa.act.gated.exchange import Steps
from asa.act.gated.leaving import Leaving
from asa.act.gated.pool import ended
from asa.act.portfolio import Portfolio
from asa.act.switching import Observing
from asa.act.undo import UndoJournal
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, SchedulerExit, SchedulerName, Standby, SwitchEvent, SwitchOutcome, Way
from asa.core.errors import AsaError, SchedulerError
from asa.core.ports import Clock

_LEAVING_LOOK_S = 0.5  # a process that was asked to end; that it has ended shows at a descriptor


@dataclass(slots=True)
class _Order:
    target: SchedulerName
    why: str
    steps: Steps
    gated: Gated | None  # None: the kernel's own, there is nothing to load
    leaves: bool = False
    fault: str = ""  # why it did not get as far as its attach
    words: str = ""  # its own, once it has ended


class ShadowSwitcher(Observing):
    """Implements `asa.core.ports.Switcher` without ever switching: a good order ends as SHADOWED, with its load cost.

    A target that does not load is REFUSED, as by the switcher proper. EEVDF costs nothing and is SHADOWED at once.
    Orders are told from what was chosen last (`old`), EEVDF at first; `current` is what the kernel really runs, never
    one of ours.
    """

    def __init__(
        self,
        *,
        portfolio: Portfolio,
        undo: UndoJournal,
        clock: Clock,
        limits: SwitchSettings,
        sys: Path,
        logs: Path,
        run: Path,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(portfolio=portfolio, clock=clock, sys=sys)
        self._undo = undo
        self._limits = limits
        self._logs = logs
        self._run = run
        self._on_step = on_step
        self._leaving = Leaving(undo, clock, limits)
        self._order: _Order | None = None
        self._chosen: SchedulerName = EEVDF

    def busy(self) -> bool:
        """True between `begin` and the event."""
        return self._order is not None

    def begin(self, target: SchedulerName, why: str = "") -> None:
        """Have `target` load. Raises AsaError when it cannot be started at all."""
        if self._order is not None:
            raise SchedulerError(scheduler=target, reason=f"{self._order.target} is still being tried")
        steps = Steps(self._clock, self._on_step)
        gated = None
        if target != EEVDF:
            opened = self._portfolio.open(target)
            try:
                self._undo.keep_settings()
            except AsaError:
                os.close(opened.fd)
                raise
            log = self._logs / f"{target.replace(':', '-')}.log"
            copies = self._undo.remembered()
            gated = launch(opened, log, self._run, values=copies)
            try:
                self._undo.note(target, gated.process.pid, copies)
            except AsaError:
                gated.deny()
                self._leaving.add(target, gated, interrupt=True)
                raise
            steps.done("launched")
        self._order = _Order(target, why, steps, gated)

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Nothing is kept ready: each choice is to pay for its load."""

    def standbys(self) -> tuple[Standby, ...]:
        """None, see `keep_ready`."""
        return ()

    def descriptors(self) -> tuple[int, ...]:
        """Listener and process of what loads, and of what has yet to end."""
        alive = self._leaving.gated()
        if self._order is not None and self._order.gated is not None and not self._order.leaves:
            alive.append(self._order.gated)
        return tuple(fd for gated in alive for fd in (gated.fileno(), gated.process.fileno()) if fd >= 0)

    def look_in_s(self) -> float | None:
        """At once for what costs nothing, else when a limit passes."""
        if self._order is None:
            return _LEAVING_LOOK_S if self._leaving.gated() else None
        if self._order.gated is None:
            return 0.0
        if self._order.leaves:
            return _LEAVING_LOOK_S
        return max(0.0, self._limits.attach_limit_s - self._order.steps.age_s())

    def poll(self) -> SwitchEvent | None:
        """Advance by what has happened since; report the end of an order."""
        order = self._order
        if order is None:
            if self._leaving.advance():
                self._undo.put_back()
            return None
        if order.gated is None:
            return self._end(order, SwitchOutcome.SHADOWED, "the kernel's own scheduler: nothing to load")
        if not order.leaves:
            self._poll_loading(order, order.gated)
        return self._poll_leaving(order, order.gated) if order.leaves else None

    def rest(self) -> bool:
        """Have what loads end, and wait until it has. Blocks; False when it does not end."""
        order, self._order = self._order, None
        if order is not None and order.gated is not None and not order.leaves:
            order.gated.deny()
            self._leaving.add(order.target, order.gated, interrupt=True)
        rested = self._leaving.wait()
        self._undo.put_back()
        return rested

    def _poll_loading(self, order: _Order, gated: Gated) -> None:
        gated.advance()
        if gated.stage is Stage.PARKED:
            order.steps.done("parked")
            with suppress(AsaError):  # then what it has set is found when it has ended
                self._undo.settled(gated.process.pid)
            gated.deny()
            order.steps.done("denied")
            self._leave(order, gated, interrupt=False)
            return
        code = gated.process.exit_code()
        if code is not None:
            order.fault = ended(code)
            self._leave(order, gated, interrupt=False)
        elif order.steps.age_s() > self._limits.attach_limit_s:
            order.fault = f"was not ready to attach within {self._limits.attach_limit_s:g} s and was stopped"
            gated.deny()  # should it get there after all
            self._leave(order, gated, interrupt=True)

    def _leave(self, order: _Order, gated: Gated, *, interrupt: bool) -> None:
        order.leaves = True
        self._leaving.add(order.target, gated, interrupt=interrupt)

    def _poll_leaving(self, order: _Order, gated: Gated) -> SwitchEvent | None:
        code = gated.process.exit_code()
        if code is not None:
            order.words = gated.process.last_words()  # before its log is given back
        if not self._leaving.advance():
            return None
        self._undo.put_back()
        if code is None:
            code = gated.process.exit_code()
        if code is None:
            order.fault = "does not end, not even by SIGKILL"
        if order.fault:
            error = SchedulerError(scheduler=order.target, reason=order.fault, last_words=order.words)
            return self._end(order, SwitchOutcome.REFUSED, str(error), read_exit(order.words, None, code))
        order.steps.done("ended")
        assert code is not None  # noqa: S101  # else there is a fault
        return self._end(order, SwitchOutcome.SHADOWED, f"loaded and verified, not attached; then {ended(code)}")

    def _end(
        self, order: _Order, outcome: SwitchOutcome, detail: str, left: SchedulerExit | None = None
    ) -> SwitchEvent:
        old, self._order = self._chosen, None
        if outcome is SwitchOutcome.SHADOWED:
            self._chosen = order.target
        now_ns = self._clock.monotonic_ns()
        return SwitchEvent(
            monotonic_ns=now_ns,
            outcome=outcome,
            old=old,
            new=order.target,
            elapsed_ns=now_ns - order.steps.ordered_ns,
            detail=detail,
            undo="nothing to undo",
            why=order.why,
            way=Way.GATED,
            steps=order.steps.all(),
            exit=left,
            load=order.gated.load if order.gated is not None else None,
        )
