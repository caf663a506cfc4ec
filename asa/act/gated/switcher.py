# SPDX-License-Identifier: GPL-2.0-only
"""The switcher: the wanted scheduler loads beside the one in force, then takes its place within milliseconds.

A scheduler that would not load changes nothing (REFUSED); one that loads but does not come up leaves the kernel on
EEVDF (FAILED). Nothing is believed but sysfs (`asa.act.kernel.came_up`). Where the gate cannot be used
`asa.act.plain` does the work.
"""

import time
from collections.abc import Callable
from pathlib import Path

from asa.act.gate import Stage
from asa.act.gated.attached import Attached, Loss
from asa.act.gated.exchange import Order, Steps, expedite, notice
from asa.act.gated.leaving import Leaving
from asa.act.gated.pool import Pool, ended
from asa.act.kernel import CLOSE_LOOK_S, DETACH_LIMIT_S, came_up
from asa.act.portfolio import Portfolio
from asa.act.switching import Listening
from asa.act.undo import UndoJournal
from asa.config import SwitchSettings
from asa.core.decision import EEVDF, ExitKind, SchedulerExit, SchedulerName, Standby, SwitchEvent, SwitchOutcome, Way
from asa.core.errors import AsaError, SchedulerError
from asa.core.ports import Clock
from asa.core.sample import SchedExtState

_LOOK_S = 0.2  # while one loads or leaves
_POLL_S = 0.01


class GatedSwitcher(Listening):
    """Implements `asa.core.ports.Switcher`. `on_step` hears of each step of a switch when it is done."""

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
        super().__init__(portfolio=portfolio, undo=undo, clock=clock, limits=limits, sys=sys)
        self._on_step = on_step
        self._leaving = Leaving(undo, clock, limits)
        self._pool = Pool(
            portfolio=portfolio,
            undo=undo,
            clock=clock,
            limits=limits,
            leaving=self._leaving,
            logs=logs,
            run=run,
            sys=sys,
            on_step=self._heard,
        )
        self._order: Order | None = None
        self._running: Attached | None = None
        self._ahead: SwitchEvent | None = None  # came up in `begin`

    def busy(self) -> bool:
        """True between `begin` and the event that ends the switch."""
        return self._order is not None or self._ahead is not None

    def begin(self, target: SchedulerName, why: str = "") -> None:
        """Order a switch to `target`. Raises AsaError when it cannot be started; then nothing has changed."""
        if self.busy():
            raise SchedulerError(scheduler=target, reason="another switch is under way")
        order = self._order = Order(target, self._ours(), why, Steps(self._clock, self._on_step))
        if target in (EEVDF, self._ours()):
            return
        self._pool.drop_stale()
        waiting = self._pool.get(target)
        if waiting is None:
            try:
                self._pool.start(target)
            except AsaError:
                self._order = None
                raise
        elif waiting.stage is Stage.PARKED:
            order.way = Way.STANDBY
            if waiting.process.exit_code() is None:
                self._ahead = self._pursue(order)  # now and not with the next look: it is a matter of milliseconds
        else:
            self._pool.urge(target)

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Have these loaded and waiting, and no others; not while a switch is under way."""
        if self._order is None:
            self._pool.keep(tuple(name for name in wanted if name != self._ours()))

    def standbys(self) -> tuple[Standby, ...]:
        """What waits, or is loading to wait."""
        return self._pool.standbys(self._order.target if self._order is not None else None)

    def descriptors(self) -> tuple[int, ...]:
        """Listeners, processes, and the kernel's word on sched_ext; in the gap those of the one that attaches alone."""
        gated = [] if self._in_gap() else [*self._pool.gated(), *self._leaving.gated()]
        if self._running is not None:
            gated.append(self._running.gated)
        found = [descriptor for one in gated for descriptor in (one.fileno(), one.process.fileno())]
        found.append(-1 if (kernel := self._watch.fileno()) is None else kernel)
        return tuple(descriptor for descriptor in found if descriptor >= 0)

    def look_in_s(self) -> float | None:
        """Soon while something is under way; else the next tick will do."""
        if self._ahead is not None:
            return 0.0
        if self._order is not None and self._order.out_ns is not None:
            return self._order.look_in_s(self._stirred_ns, hears=self._watch.fileno() is not None)
        if self._stirs():
            return CLOSE_LOOK_S
        loading = any(one.stage is Stage.LOADING for one in self._pool.gated())
        losing = self._running is not None and self._running.losing
        return _LOOK_S if self._order is not None or loading or losing or self._leaving.gated() else None

    def poll(self) -> SwitchEvent | None:
        """Advance by what has happened since; report at most one event."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return ahead
        event = self._await_attach(self._order) if self._order is not None and self._in_gap() else None
        if event is not None:
            return event
        self._listen()
        if self._running is not None and self._in_gap():
            self._running.gated.advance()
            return None  # and nothing else: each millisecond counts
        self._pool.advance()
        if self._leaving.advance() and self._order is None:
            self._settings_again()
        if self._running is not None:
            self._running.gated.advance()
        if self._order is not None:
            return self._overtaken(self._order) or self._pursue(self._order)
        return self._supervise() or self._failed_standby()

    def _in_gap(self) -> bool:
        return self._order is not None and self._order.attaches(self._clock.monotonic_ns())

    def rest(self) -> bool:
        """Stop what is ours and wait until the kernel has let go of it. Blocks; False when some of it is left."""
        self._order = self._ahead = None
        self._pool.clear()
        running = self._running
        if running is not None:
            expedite(self._undo)
            self._take_out(running)
        self._undo.relax()
        clean = self._leaving.wait()
        deadline_ns = self._clock.monotonic_ns() + int(DETACH_LIMIT_S * 1e9)
        while running is not None and running.carried_by(self.state()) and self._clock.monotonic_ns() < deadline_ns:
            time.sleep(_POLL_S)
        clean = clean and not (running is not None and running.carried_by(self.state()))
        self._undo.put_back()
        if clean:
            self._undo.clear()
        self._close()
        return clean

    def _pursue(self, order: Order) -> SwitchEvent | None:
        if order.released_ns is not None:
            return self._await_attach(order)
        if self._running is not None and order.target == self._running.name:
            if self._running.losing:
                return None
            return self._end(order, SwitchOutcome.CONFIRMED, "it is in force already")
        if order.target != EEVDF:
            waiting = self._pool.get(order.target)
            if waiting is None:
                return self._load_again(order)
            if waiting.stage is Stage.LOADING:
                return None
            if not waiting.waits():
                return self._miss(order)
            order.load = waiting.load
        return self._take_its_place(order) if order.out_ns is not None else self._exchange(order)

    def _miss(self, order: Order) -> SwitchEvent | None:
        # The new one is ending, which will be seen in a moment, or it was stopped.
        order.missed_ns = order.missed_ns or self._clock.monotonic_ns()
        if self._age_s(order.missed_ns) <= self._limits.attach_limit_s:
            return None
        outcome = SwitchOutcome.REFUSED if order.out_ns is None else SwitchOutcome.FAILED
        return self._end(order, outcome, f"{order.target} was ready, and no longer waits at its attach")

    def _overtaken(self, order: Order) -> SwitchEvent | None:
        # While the target loads, what is in force may end, or a stranger come.
        if order.out_ns is not None:
            return None
        state = self.state()
        if self._stranger(state):
            return self._yield_to(state, order)
        name, loss = order.old, self._running.check(state) if self._running is not None else None
        if loss is None:
            return None
        self._give_up(loss)
        lost = self._lost(name, loss)
        order.old = EEVDF
        if order.target == name:
            self._order = None
        elif loss.exit.kind is ExitKind.SYSRQ:  # somebody wants none of them: this one does not come either
            self._ahead = lost
            return self._end(order, SwitchOutcome.REFUSED, f"not now: {loss.detail}", loss.exit)
        return lost

    def _load_again(self, order: Order) -> SwitchEvent | None:
        # A standby may have died just before it was wanted: then it loads once more, as if it had not been one.
        failure = self._pool.failure(order.target)
        reason = str(failure or SchedulerError(scheduler=order.target, reason="ended before it could attach"))
        if order.way is not Way.STANDBY or order.tries or order.out_ns is not None:
            outcome = SwitchOutcome.REFUSED if order.out_ns is None else SwitchOutcome.FAILED
            return self._end(order, outcome, reason)
        order.tries, order.way = 1, Way.GATED
        try:
            self._pool.start(order.target)
        except AsaError as error:
            return self._end(order, SwitchOutcome.REFUSED, str(error))
        return None

    def _exchange(self, order: Order) -> SwitchEvent | None:
        state = self.state()
        if state is None:
            return self._end(order, SwitchOutcome.REFUSED, "the kernel has no sched_ext any more")
        if self._stranger(state):
            return self._yield_to(state, order)
        if self._running is not None and self._running.untold(state):
            return None  # it has just been lost: `_overtaken` hears what of, and whether another may come
        expedite(self._undo)
        order.steps.done("expedited")
        order.out_ns = self._clock.monotonic_ns()
        if self._running is not None:
            self._take_out(self._running)
            order.steps.done("detached")
        return self._take_its_place(order)

    def _take_its_place(self, order: Order) -> SwitchEvent | None:
        state = self.state()
        assert order.out_ns is not None  # noqa: S101  # what was in force is out
        if state is None or state.state != "disabled":
            if self._stranger(state):
                return self._yield_to(state, order)
            if self._age_s(order.out_ns) > self._limits.stop_limit_s + DETACH_LIMIT_S:
                said = "the kernel does not let go of the last scheduler"
                return self._end(order, SwitchOutcome.FAILED, said)
            return None
        if order.target == EEVDF:
            return self._end(order, SwitchOutcome.CONFIRMED, "the kernel's own scheduler")
        order.sequence = state.enable_seq
        self._running = Attached(
            order.target,
            self._pool.take(order.target),
            name_of_ops=self._portfolio.name_of_ops,
            log=self._log,
            clock=self._clock,
            attach_limit_s=self._limits.attach_limit_s,
        )
        self._watch.drain()  # word of the old one's end: what comes from now on is of the new one
        order.released_ns = self._clock.monotonic_ns()
        self._running.gated.release()
        order.steps.done("released")
        return None

    def _await_attach(self, order: Order) -> SwitchEvent | None:
        running = self._running
        assert running is not None and order.released_ns is not None  # noqa: PT018, S101  # set together
        up = came_up(self.state(), running.name, order.sequence, self._portfolio.name_of_ops)
        if up is not None:
            order.steps.done("attached")
            return self._end(order, SwitchOutcome.CONFIRMED, up.ops)
        code = running.gated.process.exit_code()
        if code is None and self._age_s(order.released_ns) <= self._limits.attach_limit_s:
            return None
        reason = ended(code) if code is not None else f"did not attach within {self._limits.attach_limit_s:g} s"
        loss = running.failure(reason)
        self._leaving.add(order.target, running.gated, interrupt=True)
        self._running = None
        return self._end(order, SwitchOutcome.FAILED, loss.detail, loss.exit)

    def _yield_to(self, state: SchedExtState | None, order: Order) -> SwitchEvent | None:
        # A stranger came while the target was loading: they win, and that is the event.
        self._pool.drop(order.target)
        self._undo.relax()
        self._order = None
        loss = self._running.check(state) if self._running is not None else None
        self._give_up(loss)
        self._foreign_ops = ""
        return self._look_for_strangers(state)

    def _end(self, order: Order, outcome: SwitchOutcome, detail: str, left: SchedulerExit | None = None) -> SwitchEvent:
        now_ns = self._clock.monotonic_ns()
        self._undo.relax()
        self._order = None
        if outcome is SwitchOutcome.CONFIRMED:
            if self._running is not None and order.released_ns is not None:
                self._running.confirm(detail)
            self._settings_again()
        else:
            self._pool.drop(order.target)
        order.steps.done("settled")
        self._foreign_ops = ""
        return order.event(
            outcome,
            detail,
            now_ns=now_ns,
            undo=self._running.undo if self._running is not None else "nothing to undo",
            left=left,
        )

    def _supervise(self) -> SwitchEvent | None:
        state = self.state()
        if self._running is None:
            return self._look_for_strangers(state)
        name, loss = self._running.name, self._running.check(state)
        if loss is None:
            return None
        self._give_up(loss)
        return self._lost(name, loss)

    def _lost(self, name: SchedulerName, loss: Loss) -> SwitchEvent:
        return notice(
            SwitchOutcome.LOST, name, name, loss.detail, clock=self._clock, since_ns=loss.since_ns, left=loss.exit
        )

    def _give_up(self, loss: Loss | None) -> None:
        if loss is not None and self._running is not None:
            self._leaving.add(self._running.name, self._running.gated, interrupt=True)
            self._running = None

    def _failed_standby(self) -> SwitchEvent | None:
        failure = self._pool.failure()
        if failure is None:
            return None
        name, current = SchedulerName(failure.scheduler), self.current() or EEVDF
        return notice(SwitchOutcome.REFUSED, current, name, f"as a standby, {failure}", clock=self._clock)

    def _stranger(self, state: SchedExtState | None) -> bool:
        # One that is enabled and not ours; one of ours that is leaving may be, until the kernel has let go of it.
        if state is None or state.state != "enabled" or not state.ops:  # without a name: it is just going
            return False
        old = self._order.old if self._order is not None else EEVDF
        ours = {name.bare for name in (*self._leaving.names(), self._ours(), old)}
        return self._portfolio.name_of_ops(state.ops) not in ours

    def _look_for_strangers(self, state: SchedExtState | None) -> SwitchEvent | None:
        ops = state.ops if state is not None and self._stranger(state) else ""
        if ops == self._foreign_ops:
            return None
        self._foreign_ops = ops
        if not ops:
            return None
        return notice(
            SwitchOutcome.FOREIGN, EEVDF, self._name(ops), f"{ops} was attached by somebody else", clock=self._clock
        )

    def _take_out(self, running: Attached) -> None:
        told = running.take_out()
        self._leaving.add(running.name, running.gated, interrupt=not told)
        self._running = None

    def _settings_again(self) -> None:
        # What the one in force wants set, else what was there before; one that has just ended may have meddled.
        self._undo.put_back() if self._running is None else self._undo.apply(self._running.gated.process.pid)

    def _heard(self, name: SchedulerName, step: str) -> None:
        # Of the pool: a step of the switch under way, or of a standby.
        if self._order is not None and self._order.target == name:
            self._order.steps.done(step)
        else:
            self._on_step(step)

    def _brought_up(self) -> SchedulerName | None:
        return self._running.name if self._running is not None else None

    def _ours(self) -> SchedulerName:
        return self._brought_up() or EEVDF
