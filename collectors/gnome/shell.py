# SPDX-License-Identifier: GPL-2.0-only
"""One question to a running GNOME Shell, for commands: its version, and what it knows about an extension.

Asks org.gnome.Shell on the session bus (data/dbus-interfaces/org.gnome.Shell.Extensions.xml). Starts nothing, changes
nothing. Waits for answers, which the agent never does: its reader is `collectors.gnome.reader`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from dbus_fast import BusType, DBusFastError, Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus

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
    return asyncio.run(_ask(address or f"unix:path={runtime}/bus", uuid))


async def _ask(address: str, uuid: str) -> Shell | None:
    try:
        async with asyncio.timeout(_LIMIT_S):
            bus = await MessageBus(bus_address=address, bus_type=BusType.SESSION).connect()
    except (OSError, EOFError, DBusFastError, TimeoutError):
        return None  # no session, or one that is not this user's
    try:
        async with asyncio.timeout(_LIMIT_S):
            version = await _call(bus, "org.freedesktop.DBus.Properties", "Get", "ss", _NAME, "ShellVersion")
            if version is None:
                return None
            known = await _call(bus, _EXTENSIONS, "GetExtensionInfo", "s", uuid)
    except TimeoutError as error:
        raise SetupError(f"GNOME Shell did not answer within {_LIMIT_S:g} s; is it standing still?") from error
    finally:
        bus.disconnect()
    if not isinstance(version, Variant) or not isinstance(version.value, str) or not isinstance(known, dict):
        raise SetupError(f"GNOME Shell answered {version!r} and {known!r}; expected a version and a dictionary")
    return Shell(version=version.value, known={key: value.value for key, value in known.items()})


async def _call(bus: MessageBus, interface: str, member: str, signature: str, *body: str) -> Any:
    reply = await bus.call(
        Message(
            destination=_NAME,
            path=_PATH,
            interface=interface,
            member=member,
            signature=signature,
            body=list(body),
            flags=MessageFlag.NO_AUTOSTART,
        )
    )
    if reply is None or reply.message_type is MessageType.ERROR or not reply.body:
        return None
    return reply.body[0]
