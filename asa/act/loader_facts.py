# SPDX-License-Identifier: GPL-2.0-only
"""What a running scx_loader says of itself, for people: whom it knows, what it was told, what its modes stand for.

Never starts it, and changes nothing. `SchedulerModeArgs` is there since scx_loader 1.1.3; older ones tell less.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from asa.bus import BUS, Bus, BusError, CallError

_LOADER = ("org.scx.Loader", "/org/scx/Loader")
_NOTHING = "unknown"  # where no scheduler was ordered, or none is configured
_MODES = ("auto", "gaming", "powersave", "lowlatency", "server")  # enum SchedMode of scx_loader's lib.rs
_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderFacts:
    """Its properties. What is in force, only sysfs knows."""

    knows: tuple[str, ...]  # schedulers, by the names of their programs
    told: str = ""  # the one that was ordered last, "" for none
    mode: str = ""  # of that one
    arguments: tuple[str, ...] = ()  # of that one, where they were ordered instead of a mode
    default: str = ""  # what its configuration has it start by itself
    stands_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # arguments of each mode of `told`

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        words = [f"knows {len(self.knows)} schedulers"]
        if self.told:
            arguments = self.arguments or self.stands_for.get(self.mode, ())
            by = "with" if self.arguments else f"in mode {self.mode}:" if arguments else f"in mode {self.mode}"
            words.append(f"was told {self.told} {' '.join((by, *arguments))}".rstrip())
        if self.default:
            words.append(f"starts {self.default} by its configuration")
        return "; ".join(words)

    def unknown(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of `names` that it cannot load: it refuses such an order."""
        return tuple(sorted(set(names) - set(self.knows))) if self.knows else ()


def ask(bus: Bus) -> LoaderFacts | None:
    """Ask the one that is on this bus; None where none is, or what answers is none. Waits for some seconds at most."""
    try:
        if bus.ask(*BUS, "NameHasOwner", "s", (_LOADER[0],), limit_s=_LIMIT_S) != (True,):
            return None
        properties = (*_LOADER, "org.freedesktop.DBus.Properties")
        (given,) = bus.ask(*properties, "GetAll", "s", (_LOADER[0],), limit_s=_LIMIT_S)
        values = {str(key): value[1] for key, value in given.items()}
        told = _named(values.get("CurrentScheduler"))
        return LoaderFacts(
            knows=tuple(map(str, values.get("SupportedSchedulers", ()))),
            told=told,
            mode=_mode(values.get("SchedulerMode")) if told else "",
            arguments=tuple(map(str, values.get("CurrentSchedulerArgs", ()))) if told else (),
            default=_named(values.get("DefaultScheduler")),
            stands_for=_modes(bus, told) if told else {},
        )
    except (BusError, ValueError, LookupError, TypeError, AttributeError):  # what answers is no loader as we know it
        return None


def _modes(bus: Bus, scheduler: str) -> dict[str, tuple[str, ...]]:
    try:
        (rows,) = bus.ask(*_LOADER, _LOADER[0], "SchedulerModeArgs", "s", (scheduler,), limit_s=_LIMIT_S)
    except CallError:
        return {}  # of a version before 1.1.3
    return {_mode(number): tuple(map(str, arguments)) for number, arguments in rows}


def _mode(number: Any) -> str:
    known = isinstance(number, int) and 0 <= number < len(_MODES)
    return _MODES[number] if known else str(number)


def _named(value: Any) -> str:
    return value if isinstance(value, str) and value != _NOTHING else ""
