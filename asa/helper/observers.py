# SPDX-License-Identifier: GPL-2.0-only
"""Who reads the probes' counters: the programs are loaded for the first of them and go with the last.

A descriptor that was handed out cannot be taken back. When one who got it for sitting at the machine no longer does,
the programs go for everybody; the others are told, and ask again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from asa.bus import Bus, BusError
from asa.core.helper_api import INTERFACE, PATH, PROBES_LIMIT_S
from asa.helper.probes import ProbeHandover, Probes


@dataclass(slots=True, kw_only=True)
class Observers:
    """By connection. `patience`: what is done now may take so long (None: it is done)."""

    bus: Bus
    probes: Probes
    patience: Callable[[float | None], None] = lambda _: None
    _seats: dict[str, int | None] = field(default_factory=dict)  # the user for whose seat it was given; None: for more
    _given: set[int] = field(default_factory=set)  # all of these since the programs were loaded, also who has left

    def __len__(self) -> int:
        return len(self._seats)

    def add(self, sender: str, at_seat: int | None) -> ProbeHandover:
        """The counters for this connection. Raises SourceError when this machine has none."""
        self.patience(PROBES_LIMIT_S)
        try:
            handover = self.probes.open()
        finally:
            self.patience(None)
        self._seats[sender] = at_seat
        if at_seat is not None:
            self._given.add(at_seat)
        return handover

    def drop(self, sender: str) -> None:
        """That connection has ended."""
        if sender in self._seats:
            del self._seats[sender]
            if not self._seats:
                self._unload()

    def seats_changed(self, active: frozenset[int] | None) -> None:
        """These sit at the machine now; None: nobody knows."""
        if active is not None and not self._given <= active:
            self.close("who sits at the machine has changed")

    def close(self, reason: str) -> None:
        """Detach the programs and tell everybody."""
        left, self._seats = list(self._seats), {}
        self._unload()
        for sender in left:
            with suppress(BusError):  # the loop finds out by itself
                self.bus.emit(PATH, INTERFACE, "ProbesLost", "s", (reason,), to=sender)

    def _unload(self) -> None:
        self._given.clear()
        self.probes.close()
