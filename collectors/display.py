# SPDX-License-Identifier: GPL-2.0-only
"""Which screens are connected, and which GPU drives them, by sysfs: connectors of DRM cards. Wakes and probes nothing.

Names of connectors are the kernel's (drivers/gpu/drm/drm_connector.c, drm_connector_enum_list): a panel of the machine
itself is eDP, LVDS or DSI.
"""

import re
from dataclasses import dataclass
from pathlib import Path

_CONNECTOR = re.compile(r"(card\d+)-([A-Za-z]+(?:-[A-Z])?)-(\d+)")  # card0-eDP-1, card1-DVI-I-1, card1-HDMI-A-1
_OWN = frozenset({"eDP", "LVDS", "DSI", "DPI"})
_NO_SCREEN = frozenset({"Virtual", "Writeback", "Unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """One that is connected."""

    connector: str  # eDP-1
    card: str  # card0
    driver: str  # of that GPU: i915, amdgpu, nvidia; "" when sysfs does not tell
    own: bool  # a panel of the machine itself


def screens(sys: Path) -> tuple[Screen, ...] | None:
    """Those that are connected, sorted; None where no GPU has a connector. Never raises."""
    try:
        names = sorted(path.name for path in (sys / "class/drm").iterdir())
    except OSError:
        return None
    known = [(name, found) for name in names if (found := _CONNECTOR.fullmatch(name)) and found[2] not in _NO_SCREEN]
    if not known:
        return None
    return tuple(
        Screen(
            connector=f"{found[2]}-{found[3]}",
            card=found[1],
            driver=_driver(sys / "class/drm" / found[1]),
            own=found[2] in _OWN,
        )
        for name, found in known
        if _text(sys / "class/drm" / name / "status") == "connected"
    )


def external(sys: Path) -> bool | None:
    """Is a screen connected that is not the machine's own? None where that cannot be told."""
    found = screens(sys)
    return None if found is None else any(not screen.own for screen in found)


def words(found: tuple[Screen, ...]) -> str:
    """For people: who drives which screens."""
    drivers = dict.fromkeys((screen.card, screen.driver) for screen in found)
    parts = []
    for card, driver in drivers:
        theirs = ", ".join(screen.connector for screen in found if screen.card == card)
        parts.append(f"{card} ({driver or 'driver unknown'}) drives {theirs}")
    return "; ".join(parts) or "no screen is connected"


def _driver(card: Path) -> str:
    try:
        return (card / "device/driver").readlink().name
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
