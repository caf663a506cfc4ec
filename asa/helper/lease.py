# SPDX-License-Identifier: GPL-2.0-only
"""The lease: one connection at a time may switch, and with its end the kernel is as it was before.

Does not know why it ends or who may have it; that is the desk's and the loop's.
"""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from asa import wire
from asa.bus import BusError
from asa.core.decision import SwitchEvent
from asa.core.helper_api import INTERFACE, PATH, Failure
from asa.helper.machine import Machine, RefusedError

_Result = TypeVar("_Result")
_SLOW_S = 60.0  # for the kernel and for processes that do not end; the settings' limits come on top


class _Emits(Protocol):
    def emit(
        self, path: str, interface: str, member: str, signature: str, body: tuple[object, ...], to: str = ""
    ) -> None: ...


@dataclass(slots=True, kw_only=True)
class Lease:
    """Who has it, and the machine it is about. `patience`: what is done now may take so long (None: it is done)."""

    bus: _Emits
    open_machine: Callable[[], Machine]
    say: Callable[[str], None]
    patience: Callable[[float | None], None] = lambda _: None
    stop_limit_s: float = 10.0
    holder: str = ""  # unique name of its connection; "": nobody
    uid: int = -1
    machine: Machine | None = None
    way: str = ""  # how switches are made here, as last known
    clean: bool = True  # nothing of ours was left in the kernel
    _process: int = -1  # pidfd of the holder

    def take(self, holder: str, uid: int) -> Machine:
        """For this connection. Raises RefusedError when somebody has it, AsaError when this machine cannot."""
        if self.machine is not None:
            raise RefusedError(Failure.BUSY, f"user {self.uid} has the lease")
        machine = self._slowly(self.open_machine)
        self.machine, self.holder, self.uid, self.way = machine, holder, uid, machine.way
        self.say(f"user {uid} ({holder}) has the lease; switches are {machine.way}")
        return machine

    def of(self, caller: str) -> Machine:
        """The machine, for its holder alone. Raises RefusedError."""
        if self.machine is None or self.holder != caller:
            raise RefusedError(Failure.NO_LEASE, "only who has the lease may do this; call Acquire first")
        return self.machine

    def follow(self, holder: str, pid: int) -> None:
        """End with that process too: what others send may stand before the bus's word that the holder has gone."""
        if self.machine is not None and holder == self.holder and self._process < 0:
            with suppress(OSError):  # it has ended, which the bus tells
                self._process = os.pidfd_open(pid)

    def end(self, reason: str, *, tell: bool = True) -> None:
        """The kernel back on what was there before, then word to the holder. Nothing when there is no lease."""
        machine, holder, uid = self.machine, self.holder, self.uid
        if machine is None:
            return
        self.machine, self.holder, self.uid = None, "", -1
        if self._process >= 0:
            os.close(self._process)
            self._process = -1
        self.clean = self._slowly(machine.rest) and self.clean
        said = "the kernel is as it was" if self.clean else "a scheduler of ours is still in force"
        self.say(f"the lease of user {uid} ({holder}) has ended: {reason}; {said}")
        if tell:
            self._tell(holder, "LeaseLost", reason)

    def look_in_s(self) -> float | None:
        """After how long `advance` is wanted at the latest."""
        return None if self.machine is None else self.machine.look_in_s()

    def descriptors(self) -> tuple[int, ...]:
        """Readable when `advance` has something to do."""
        if self.machine is None:
            return ()
        return self.machine.descriptors() if self._process < 0 else (*self.machine.descriptors(), self._process)

    def advance(self) -> None:
        """Advance the switch under way, and tell the holder what has come of it."""
        if self._process >= 0 and select.select([self._process], [], [], 0)[0]:
            self.end("its process has ended", tell=False)
        event = None if self.machine is None else self.machine.poll()
        if event is not None:
            self.say(_line(event))
            self._tell(self.holder, "Event", wire.json_text(event))

    def _tell(self, holder: str, member: str, text: str) -> None:
        with suppress(BusError):  # the loop finds out by itself
            self.bus.emit(PATH, INTERFACE, member, "s", (text,), to=holder)

    def _slowly(self, do: Callable[[], _Result]) -> _Result:
        self.patience(_SLOW_S + 4 * self.stop_limit_s)
        try:
            return do()
        finally:
            self.patience(None)


def _line(event: SwitchEvent) -> str:
    left = f" ({event.exit.kind}: {event.exit.reason})" if event.exit is not None else ""
    why = f", because {event.why}" if event.why else ""
    return (
        f"{event.old} -> {event.new} {event.outcome} after {event.elapsed_ns / 1e6:.1f} ms: {event.detail}{left}{why}"
    )
