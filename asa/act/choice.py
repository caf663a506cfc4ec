# SPDX-License-Identifier: GPL-2.0-only
"""Which switcher serves on this machine: by the gate, plainly, through scx_loader, in shadow; and who forbids any.

The agent of root (`asa run`) and the helper of users' daemons both choose here.
"""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from asa.act import rivals
from asa.act.gate import unusable
from asa.act.gated.switcher import GatedSwitcher
from asa.act.loader import LoaderSwitcher
from asa.act.loader_bus import LoaderBus
from asa.act.plain import PlainSwitcher
from asa.act.portfolio import Portfolio
from asa.act.shadow import ShadowSwitcher
from asa.act.undo import UndoJournal
from asa.bus import Bus, BusError
from asa.config import Gate, SwitchSettings
from asa.core.errors import AsaError
from asa.core.ports import Clock, Switcher
from asa.paths import Places


class RivalError(AsaError):
    """Somebody else loads schedulers here; never two masters."""


class Kind(StrEnum):
    """How a switcher works."""

    GATED = "gated"
    PLAIN = "plain"
    SHADOW = "shadow"
    LOADER = "loader"


def through_loader(limits: SwitchSettings, proc: Path, connect: Callable[[], Bus] = Bus.system) -> bool:
    """Is it scx_loader that loads schedulers here? Raises RivalError when somebody else does.

    `connect` gives a connection of its own to the system bus: what others send to another one meanwhile would get lost.
    """
    try:
        bus = connect()
    except BusError:
        states: dict[str, str] = {}
    else:
        try:
            states = rivals.unit_states(bus)
        finally:
            bus.close()
    by_loader = rivals.by_loader(limits.backend, states)
    masters = rivals.masters(proc, states, loader_is_ours=by_loader)
    if masters:
        raise RivalError(masters[0].sentence)
    return by_loader


def why_no_gate(limits: SwitchSettings, run: Path, *, by_loader: bool) -> str:
    """Why switches are made without the gate, "" where it works."""
    if by_loader:
        return "scx_loader loads schedulers here"
    return "the setting switch.gate is off" if limits.gate is Gate.OFF else unusable(run)


def switcher(
    kind: Kind,
    *,
    portfolio: Portfolio,
    undo: UndoJournal,
    clock: Clock,
    limits: SwitchSettings,
    places: Places,
    connect: Callable[[], Bus] = Bus.system,
) -> Switcher:
    """A switcher of that kind."""
    sys, logs, run = places.sys, places.run / "logs", places.run
    match kind:
        case Kind.GATED:
            return GatedSwitcher(
                portfolio=portfolio, undo=undo, clock=clock, limits=limits, sys=sys, logs=logs, run=run
            )
        case Kind.SHADOW:
            return ShadowSwitcher(
                portfolio=portfolio, undo=undo, clock=clock, limits=limits, sys=sys, logs=logs, run=run
            )
        case Kind.PLAIN:
            return PlainSwitcher(portfolio=portfolio, undo=undo, clock=clock, limits=limits, sys=sys, logs=logs)
        case Kind.LOADER:
            return LoaderSwitcher(
                portfolio=portfolio,
                undo=undo,
                clock=clock,
                limits=limits,
                sys=sys,
                proc=places.proc,
                loader=LoaderBus(connect),
            )
