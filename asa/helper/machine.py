# SPDX-License-Identifier: GPL-2.0-only
"""The host as the helper finds it, and the machine for the time of a lease: lock, undo journal, switcher.

Everything goes back with `Machine.rest`, which says whether the kernel is free of what is ours. Who may do what is
decided elsewhere.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from asa import config, paths
from asa.act import choice
from asa.act.choice import Kind
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Portfolio
from asa.act.priority import go_first
from asa.act.undo import UndoJournal
from asa.bus import Bus
from asa.clock import SystemClock
from asa.core.decision import EEVDF, ExitKind, SchedulerName, Standby, SwitchEvent
from asa.core.errors import AsaError
from asa.core.helper_api import Failure
from asa.core.ports import Switcher
from asa.status import StatusFile

_TICK_S = 1.0  # a switcher loads standbys one after the other, one each time that it is told what to keep
_SHOWN = 80  # characters of a name that is none
_LONG_AGO_S = float("-inf")


class RefusedError(AsaError):
    """A caller does not get what they asked for; `failure` says which way."""

    def __init__(self, failure: Failure, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(slots=True, kw_only=True)
class Host:
    """What is known before anybody asks: places, settings, portfolio."""

    places: paths.Places
    config_path: Path | None
    say: Callable[[str], None]
    connect: Callable[[], Bus]  # one more connection to the bus that the helper is on
    settings: config.Settings
    portfolio: Portfolio

    @classmethod
    def open(
        cls,
        places: paths.Places,
        config_path: Path | None,
        *,
        say: Callable[[str], None],
        connect: Callable[[], Bus] = Bus.system,
    ) -> Self:
        """Raises InputError for settings or a manifest that are wrong."""
        settings, portfolio = _read(places, config_path)
        return cls(
            places=places, config_path=config_path, say=say, connect=connect, settings=settings, portfolio=portfolio
        )

    def reload(self) -> None:
        """Settings and portfolio anew; a lease keeps those that it began with. Raises InputError, and keeps the old."""
        self.settings, self.portfolio = _read(self.places, self.config_path)

    def known(self, name: str) -> SchedulerName:
        """`scx_lavd` or `scx_lavd:performance` as the manifest has it. Raises RefusedError."""
        full = SchedulerName(name)
        if full.mode not in self.portfolio.modes().get(full.bare, ()) or full != SchedulerName.of(full.bare, full.mode):
            shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
            reason = f"{shown!r} is not in the manifest; `asa schedulers list` shows what is"
            raise RefusedError(Failure.UNKNOWN_SCHEDULER, reason)
        if barred := self.portfolio.barred(full):
            raise RefusedError(Failure.NOT_AUTHORIZED, f"{full}: {barred} (the helper's: {self._settings_file()})")
        return full

    def _settings_file(self) -> Path:
        return self.config_path or self.places.config

    def installed(self) -> tuple[str, ...]:
        """Schedulers of the manifest that are recorded as installed, in each mode. Raises InputError.

        Not those that the settings bar, or that lack the token they need.
        """
        modes, records = self.portfolio.modes(), self.portfolio.records()
        found = [SchedulerName.of(name, mode) for name, known in modes.items() if name in records for mode in known]
        return tuple([name for name in found if not self.portfolio.barred(name) and not self.portfolio.untrusted(name)])

    def broke(self, event: SwitchEvent) -> None:
        """A composed or tuned scheduler that the kernel took out has no token any more: it has to be verified anew."""
        name = event.new
        faulty = event.exit is not None and event.exit.kind in (ExitKind.ERROR, ExitKind.STALL)
        if faulty and self.portfolio.tokens is not None and self.portfolio.guarded(name):
            with suppress(AsaError):
                if self.portfolio.tokens.withdraw(name):
                    self.say(f"{name} has lost its token, for the kernel took it out; `asa lab verify {name}`")

    def in_force(self) -> str:
        """What sysfs names as attached, "" when nothing is."""
        state = sched_ext_state(self.places.sys)
        return state.ops if state is not None and state.state == "enabled" else ""

    def kind(self) -> tuple[Kind, str]:
        """How switches are made here, and why not by the gate. Raises RefusedError when somebody else makes them."""
        limits = self.settings.switch
        try:
            by_loader = choice.through_loader(limits, self.places.proc, self.connect)
        except choice.RivalError as rival:
            raise RefusedError(Failure.NOT_POSSIBLE, str(rival)) from rival
        no_gate = choice.why_no_gate(limits, self.places.run, by_loader=by_loader)
        return Kind.LOADER if by_loader else Kind.PLAIN if no_gate else Kind.GATED, no_gate

    def lock(self) -> StatusFile:
        """The run folder's, which an `asa run` of root holds too: never two masters. Raises RefusedError."""
        try:
            return StatusFile(self.places.run)
        except AsaError as error:
            raise RefusedError(Failure.NOT_POSSIBLE, str(error)) from error

    def recovered(self) -> UndoJournal:
        """The undo journal, after what an earlier one left was ended and put back. Only with the lock."""
        undo = UndoJournal(self.places.run / "undo.json", self.places.proc, self.places.sys)
        cleared = undo.recover(self.settings.switch.stop_limit_s)
        if cleared:
            self.say(cleared)
        return undo

    def clear_up(self) -> None:
        """Clear what an earlier helper left behind; while an `asa run` holds the lock, what is there is its own."""
        if not (self.places.run / "undo.json").exists():
            return
        try:
            lock = self.lock()
        except RefusedError:
            return  # whoever wants the lease is told
        try:
            self.recovered()
        finally:
            lock.close()


def _read(places: paths.Places, config_path: Path | None) -> tuple[config.Settings, Portfolio]:
    settings = config.load(config_path or places.config, required=config_path is not None)
    return settings, Portfolio.of_host(settings.switch, places.schedulers, state=places.state)


@dataclass(slots=True, kw_only=True)
class Machine:
    """A switcher, and what it is to keep ready. `release` gives back what `open` took besides."""

    switcher: Switcher
    no_gate: str = ""  # why switches are made the plain way; "" where the gate works
    release: Callable[[], None] = lambda: None
    heard: Callable[[SwitchEvent], None] = lambda _: None  # is told of each event
    _wanted: tuple[SchedulerName, ...] = ()
    _target: SchedulerName = EEVDF
    _kept_s: float = _LONG_AGO_S

    @classmethod
    def open(cls, host: Host) -> Self:
        """Take the lock, clear what an earlier one left, open the switcher. Raises AsaError, then nothing is taken."""
        if sched_ext_state(host.places.sys) is None:
            raise RefusedError(Failure.NOT_POSSIBLE, "this kernel has no sched_ext (no /sys/kernel/sched_ext)")
        with ExitStack() as taken:
            lock = host.lock()
            taken.callback(lock.close)
            undo = host.recovered()
            kind, no_gate = host.kind()
            switcher = choice.switcher(
                kind,
                portfolio=host.portfolio,
                undo=undo,
                clock=SystemClock(),
                limits=host.settings.switch,
                places=host.places,
                connect=host.connect,
            )
            go_first()
            taken.callback(_no_longer_first)
            return cls(switcher=switcher, no_gate=no_gate, release=taken.pop_all().close, heard=host.broke)

    @property
    def way(self) -> str:
        """How switches are made: gated or plain."""
        return "plain" if self.no_gate else "gated"

    def begin(self, target: SchedulerName, why: str) -> None:
        """Order a switch. Raises AsaError when it cannot be started at all; then nothing has changed."""
        self.switcher.begin(target, why)
        self._target = target

    def keep_ready(self, wanted: tuple[SchedulerName, ...]) -> None:
        """Have these loaded and waiting, and no others, from now on."""
        self._wanted = tuple(dict.fromkeys(wanted))
        # What is to go, goes now; what is to load waits for `poll`: one process a second, however often this is called
        there = {one.scheduler for one in self.switcher.standbys()}
        self.switcher.keep_ready(tuple([name for name in self._wanted if name in there]))

    def uses(self, name: str) -> bool:
        """Is it in force, on its way, or to be kept ready? A scheduler without a mode stands for each of its modes."""
        used = (self._target, self.switcher.current() or EEVDF, *self._wanted)
        return any(one.answers_to(name) for one in used)

    def standbys(self) -> tuple[Standby, ...]:
        """What waits, or is loading to wait."""
        return self.switcher.standbys()

    def descriptors(self) -> tuple[int, ...]:
        """Readable when `poll` has something to do."""
        return self.switcher.descriptors()

    def look_in_s(self) -> float:
        """After how long `poll` is wanted at the latest."""
        look_s = self.switcher.look_in_s()
        return _TICK_S if look_s is None else min(look_s, _TICK_S)

    def poll(self) -> SwitchEvent | None:
        """Advance what is under way; report at most one event."""
        event = self.switcher.poll()
        if event is not None:
            self.heard(event)
        now_s = time.monotonic()
        if now_s - self._kept_s >= _TICK_S:
            self._kept_s = now_s
            self.switcher.keep_ready(self._wanted)
        return event

    def rest(self) -> bool:
        """The kernel as it was before the lease. May take long. False: something of ours is left."""
        try:
            return self.switcher.rest()
        finally:
            self.release()


def _no_longer_first() -> None:
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_OTHER:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
