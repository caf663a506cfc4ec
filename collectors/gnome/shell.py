# SPDX-License-Identifier: GPL-2.0-only
"""One question to a running GNOME Shell, for commands: its version, and what it knows about an extension.

Asks org.gnome.Shell on the session bus (data/dbus-interfaces/org.gnome.Shell.Extensions.xml). Starts nothing, changes
nothing. Waits for answers, which the agent never does: its reader is `collectors.gnome.reader`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from asa.bus import BUS, NO_REPLY, Bus, BusError, CallError
from asa.core.errors import SetupError

_NAME, _PATH, _EXTENSIONS = "org.gnome.Shell", "/org/gnome/Shell", "org.gnome.Shell.Extensions"
_LIMIT_S = 5.0  # a Shell that draws answers within 20 ms


class State(IntEnum):
    """ExtensionState of js/misc/extensionUtils.js, as far as we tell them apart."""

    ACTIVE = 1
    INACTIVE = 2
    ERROR = 3
    OUT_OF_DATE = 4  # its metadata does not name the Shell's version
    INITIALIZED = 6  # seen, never enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A running GNOME Shell. `known`: the extension's metadata as loaded, `state` and `error`; empty when unknown."""

    version: str
    known: Mapping[str, object]

    @property
    def state(self) -> State | None:
        """Of the extension; None for one that is unknown, or in a state that passes by itself."""
        number = self.known.get("state")
        return State(int(number)) if isinstance(number, int | float) and int(number) in list(State) else None


def major(version: str) -> int:
    """43 for `43.9`, 47 for `47.beta`. Raises SetupError for what is no version."""
    first = version.partition(".")[0]
    if not first.isdecimal():
        raise SetupError(f"GNOME Shell says its version is {version!r}; expected one such as '43.9'")
    return int(first)


def ask(environment: Mapping[str, str], uuid: str) -> Shell | None:
    """The Shell on the session bus of `environment`, None when there is no bus or no Shell on it.

    Raises SetupError when there is one that does not answer sensibly.
    """
    address = environment.get("DBUS_SESSION_BUS_ADDRESS")
    runtime = environment.get("XDG_RUNTIME_DIR")
    if not address and not runtime:
        return None
    try:
        bus = Bus.open(address or f"unix:path={runtime}/bus", _LIMIT_S)
    except BusError:
        return None  # no session, or one that is not this user's
    try:
        if not _answer(bus, *BUS, "NameHasOwner", _NAME):
            return None  # a call to it would start one
        version = _answer(bus, _NAME, _PATH, "org.freedesktop.DBus.Properties", "Get", _NAME, "ShellVersion")
        known = None if version is None else _answer(bus, _NAME, _PATH, _EXTENSIONS, "GetExtensionInfo", uuid)
    finally:
        bus.close()
    if version is None:
        return None
    try:
        (kind, text), found = version, {key: value for key, (_, value) in (known or {}).items()}
    except (AttributeError, TypeError, ValueError):
        kind, text, found = "", "", {}
    if kind != "s":
        raise SetupError(f"GNOME Shell answered {version!r} and {known!r}; expected a version and a dictionary")
    return Shell(version=text, known=found)


def _answer(bus: Bus, name: str, path: str, interface: str, member: str, *body: str) -> Any:
    """The answer's first value, None for an error."""
    try:
        values = bus.ask(name, path, interface, member, "s" * len(body), body, limit_s=_LIMIT_S)
    except CallError as error:
        if error.name == NO_REPLY:
            raise SetupError(f"GNOME Shell did not answer within {_LIMIT_S:g} s; is it standing still?") from error
        return None
    except BusError:
        return None
    return values[0] if values else None
