# SPDX-License-Identifier: GPL-2.0-only
"""Under what something was measured: the clock of its guest, the tick of its kernel, the description of its machine.

Results carry them, and what reads results refuses to mix them. A lab's result that says nothing of them was kept before
there was another clock than `icount`, which runs all CPUs of a guest in turn.
"""

import os
from collections.abc import Iterable, Mapping

import msgspec

from asa import host, wire
from asa.core.errors import AsaError

SERIAL = "icount"
"""The clock of kept results alone: each instruction of any CPU took 4 ns of the time of all."""

WALL = "wall"
"""The host's own time."""

SERIAL_SAYS = (
    f"Measured under the serial clock (`{SERIAL}`), at 250 Hz: all CPUs of a guest took turns on one stream of "
    "instructions. So these figures say nothing of several CPUs at the same time."
)
"""The sentence on each page that is made of such results."""


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """As above. `machine` is a description's name, "" for alike CPUs without one; a tick of None is unknown."""

    clock: str = SERIAL
    tick_hz: int | None = 250
    machine: str = ""

    @property
    def words(self) -> str:
        """`clock parallel, 1000 Hz, machine vm120`, for people."""
        tick = "tick unknown" if self.tick_hz is None else f"{self.tick_hz} Hz"
        return ", ".join((f"clock {self.clock}", tick, *((f"machine {self.machine}",) if self.machine else ())))


TOLD = "ASA_LAB_UNDER"
"""In a guest, the variable that says what it is under: `told`."""


def told(conditions: Conditions) -> dict[str, str]:
    """Environment of a guest's command."""
    return {TOLD: wire.json_text(conditions)}


def here(environment: Mapping[str, str] = os.environ) -> Conditions:
    """Of what is measured on this machine: as a guest was told, else by its kernel's configuration."""
    if TOLD in environment:
        return wire.from_json(environment[TOLD], Conditions)
    tick = host.kernel_option("CONFIG_HZ") or ""
    return Conditions(clock=WALL, tick_hz=int(tick) if tick.isdecimal() else None)


def of_old(*, lab: bool) -> Conditions:
    """What a result that does not say was measured under."""
    return Conditions() if lab else Conditions(clock=WALL, tick_hz=None)


def time_of_all(found: Iterable[tuple[object, Conditions]]) -> Conditions | None:
    """The clock and the tick that all have, each named by where it is from; None of none.

    Raises AsaError where they differ: figures of two clocks, or of two ticks, cannot be compared. Machines may differ.
    """
    first: tuple[object, Conditions] | None = None
    for place, one in found:
        timed = Conditions(clock=one.clock, tick_hz=one.tick_hz)
        if first is None:
            first = place, timed
        elif timed != first[1]:
            raise AsaError(
                f"{place}: was measured under {timed.words}, and {first[0]} under {first[1].words}; "
                "name results of one clock and one tick"
            )
    return None if first is None else first[1]


def said(conditions: Conditions | None) -> tuple[str, ...]:
    """What a page says of the clock of what it shows; nothing where nothing was measured."""
    if conditions is None:
        return ()
    return (SERIAL_SAYS if conditions.clock == SERIAL else f"Measured under {conditions.words}.",)
