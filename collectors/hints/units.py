# SPDX-License-Identifier: GPL-2.0-only
"""Which desktop entry a control group is of, by its name alone. Pure.

systemd, "Desktop Environment Integration" (https://systemd.io/DESKTOP_ENVIRONMENTS): an application's unit is named
`app[-<launcher>]-<ApplicationID>[@<RANDOM>].service`, `-<RANDOM>.scope` or `-<RANDOM>.slice`; a dash in the id is
written `\\x2d`. Applications that D-Bus starts are `dbus-:<bus>-<name>@<number>.service`, and the name is mostly the
entry's id. Snaps are `snap.<snap>.<application>-<UUID>.scope`, and their entries `<snap>_<application>`.
"""

import re
from functools import lru_cache

_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")  # systemd.unit(5), "String Escaping for Inclusion in Unit Names"
_BY_BUS = re.compile(r"dbus-:[0-9.]+-(?P<id>.+?)(@[^@]*)?\.service")
_SNAP = re.compile(r"snap\.(?P<snap>[^.]+)\.(?P<app>[^.]+?)[-.][0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.scope")
_LONGEST = 255  # of a file's name, which a unit and an entry both have


@lru_cache(maxsize=1024)  # the same groups come in each tick
def entry_of(path: str) -> str:
    """The id of the entry, without ".desktop"; "" for a group that is no application's by its name."""
    unit = path.rpartition("/")[2]
    if not unit.isprintable() or len(unit) > _LONGEST:
        return ""
    if unit.startswith("app-"):
        return _unescaped(_application(unit.removeprefix("app-")))
    if found := _BY_BUS.fullmatch(unit):
        return _unescaped(found["id"])
    if found := _SNAP.fullmatch(unit):
        return f"{found['snap']}_{found['app']}"
    return ""


def _application(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    if suffix == "service":
        return stem.partition("@")[0].removesuffix("-autostart").rpartition("-")[2]
    parts = stem.split("-")
    if suffix == "scope":
        return parts[-2] if len(parts) > 1 else ""
    if suffix != "slice":
        return ""
    # a slice of several scopes may stand without a random part, as app-org.gnome.Terminal.slice does
    return parts[-2] if len(parts) > 1 and parts[-1].isdecimal() else parts[-1]


def _unescaped(name: str) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), name)
    return text if text.isprintable() and "/" not in text else ""
