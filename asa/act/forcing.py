# SPDX-License-Identifier: GPL-2.0-only
"""A scheduler in force for as long as something is measured, or recorded, beside it; for offline work.

Holds the agent's lock meanwhile, so that none starts and takes the scheduler for a leftover. Blocks; the agent itself
never comes here.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from asa import config, paths
from asa.act import choice
from asa.act.kernel import sched_ext_state
from asa.act.plain import bring_up
from asa.act.policies import Policy
from asa.act.portfolio import Available, Portfolio
from asa.act.undo import UndoJournal
from asa.clock import SystemClock
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import SchedulerError
from asa.core.ports import Switcher
from asa.status import StatusFile

_ATTACH_LIMIT_S = 120.0  # scx_lavd takes an emulated guest a minute
_EXPLAIN_LIMIT_S = 30.0
_LOOK_S = 0.02

Check = Callable[[], None]
"""Raises SchedulerError once the scheduler is in force no more."""


def check_startable(names: Iterable[str], portfolio: Portfolio) -> None:
    """Is each installed, in safe hands, and has its mode? Raises SchedulerError, InputError for the first without."""
    for name in names:
        if name != EEVDF:
            os.close(portfolio.open(SchedulerName(name)).fd)


def version_of(scheduler: SchedulerName, portfolio: Portfolio) -> str:
    """Of its program, else the start of its hash; of the kernel for the kernel's own. Raises SchedulerError."""
    if scheduler == EEVDF:
        return os.uname().release
    found = portfolio.look(scheduler.bare)
    if not isinstance(found, Available):
        raise SchedulerError(scheduler=scheduler, reason=found.reason)
    return found.version or f"sha256:{(found.sha256 or '')[:12]}"


class Forcing:
    """Brings schedulers into force, one after another. A context: no agent runs inside it.

    Raises AsaError at once when an agent runs already. Where the kernel has no sched_ext there is nothing to lock.
    """

    def __init__(self, places: paths.Places, owners: Collection[int] = (), policies: Iterable[Policy] = ()) -> None:
        """`owners` are trusted with the schedulers' files besides those that the settings name.

        `policies` are there besides those of files. Raises InputError for one with flags that cannot be.
        """
        self._places = places
        self._portfolio = Portfolio.of_host(config.load(places.config).switch, places.schedulers, owners)
        self._portfolio.add(policies)
        self._able = sched_ext_state(places.sys) is not None
        self._lock = StatusFile(places.run) if self._able else None

    def check_usable(self, scheduler: SchedulerName) -> None:
        """Could it be brought into force? Raises SchedulerError."""
        if scheduler == EEVDF:
            return
        if not self._able:
            reason = "this kernel has no sched_ext, only eevdf can be in force; in the lab: --tier lab"
            raise SchedulerError(scheduler=scheduler, reason=reason)
        if os.geteuid() != 0:
            raise SchedulerError(scheduler=scheduler, reason="only root can bring it into force")
        check_startable((scheduler,), self._portfolio)

    def version(self, scheduler: SchedulerName) -> str:
        """As of `version_of`."""
        return version_of(scheduler, self._portfolio)

    @contextmanager
    def hold(self, scheduler: SchedulerName) -> Iterator[Check]:
        """Inside, it is in force; afterwards the kernel's own is. Raises SchedulerError."""
        self.check_usable(scheduler)
        ops = self._foreign()
        if ops:
            raise SchedulerError(scheduler=scheduler, reason=f"{ops} is in force, not by us; stop it first")
        if scheduler == EEVDF:
            yield self._check_own
            return
        switcher = self.switcher()

        def check() -> None:
            event = switcher.poll()
            if event is None and switcher.current() == scheduler:
                return
            end_s = time.monotonic() + _EXPLAIN_LIMIT_S
            while event is None and time.monotonic() < end_s:  # it is lost: what of is told when it is cleared away
                time.sleep(_LOOK_S)
                event = switcher.poll()
            raise SchedulerError(scheduler=scheduler, reason=event.detail if event else "is in force no more")

        try:
            bring_up(switcher, scheduler)
            yield check
        finally:
            left = not switcher.rest()
        if left:
            raise SchedulerError(scheduler=scheduler, reason="does not let go of the kernel")

    def switcher(self, kind: choice.Kind = choice.Kind.PLAIN) -> Switcher:
        """Of its kind (`hold` has the default), for who switches in the course of what is measured.

        They call `check_usable` first.
        """
        return choice.switcher(
            kind,
            portfolio=self._portfolio,
            undo=UndoJournal(self._places.run / "undo.json", self._places.proc),
            clock=SystemClock(),
            limits=config.SwitchSettings(attach_limit_s=_ATTACH_LIMIT_S),
            places=self._places,
        )

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Inside, an agent may run. Nothing is to be in force then. Raises AsaError where it still runs at the end."""
        self.close()
        try:
            yield
        finally:
            if self._able:
                self._lock = StatusFile(self._places.run)

    def close(self) -> None:
        """Let an agent start again."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _foreign(self) -> str:
        state = sched_ext_state(self._places.sys)
        return state.ops if state is not None and state.state == "enabled" else ""

    def _check_own(self) -> None:
        ops = self._foreign()
        if ops:
            raise SchedulerError(scheduler=EEVDF, reason=f"{ops} came into force")
