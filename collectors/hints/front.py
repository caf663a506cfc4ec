# SPDX-License-Identifier: GPL-2.0-only
"""The application in front by control groups alone, where no desktop tells it: as far as that goes.

GNOME 41 and newer marks the group of the window that has the focus: its extended attribute `user.xdg.inactive-since` is
"-1", and on all others the time at which they lost the focus (mutter, merge request 1960). So GNOME tells it without an
extension, to whoever may read /sys/fs/cgroup. Elsewhere it is the one application of the session where only one runs:
with two, groups do not tell which has the focus, and nothing is said. What started with the session, and what D-Bus
started, shows no window as a rule and is left out. A window whose process is in no group of its own is not seen.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from asa.core.sample import GroupUsage
from collectors import cgroups
from collectors.hints.units import entry_of

MARK = "user.xdg.inactive-since"
"""An extended attribute of the group's folder."""

_IN_FRONT = b"-1"
_MOST_INNER = 32  # groups in a slice of an application, such as a terminal's


def application(groups: GroupUsage | None, sys: Path, uid: int, is_known: Callable[[str], bool]) -> str:
    """The id of the entry of what is in front, "" where groups do not tell. Never raises.

    `is_known`: whether there is such an entry. Groups of other users than `uid` are not looked at.
    """
    root = cgroups.mounted(sys)
    if groups is None or root is None:
        return ""
    found: list[str] = []
    for path, name in _applications(groups, uid):
        if _is_marked(root / path):
            return name
        if name not in found and not _begins_by_itself(path) and is_known(name):
            found.append(name)
    return found[0] if len(found) == 1 else ""


def _applications(groups: GroupUsage, uid: int) -> Iterator[tuple[str, str]]:
    for path, _ in groups.cpu_us:
        if f"/user@{uid}.service/" in path and (name := entry_of(path)):
            yield path, name


def _begins_by_itself(path: str) -> bool:
    unit = path.rpartition("/")[2]
    return unit.startswith("dbus-") or unit.endswith(("@autostart.service", "-autostart.service"))


def _is_marked(folder: Path) -> bool:
    if _mark(folder) == _IN_FRONT:
        return True
    if folder.suffix != ".slice":
        return False
    try:
        with os.scandir(folder) as entries:
            inner = [entry.path for _, entry in zip(range(_MOST_INNER), entries, strict=False) if entry.is_dir()]
    except OSError:
        return False
    return any(_mark(path) == _IN_FRONT for path in inner)


def _mark(folder: Path | str) -> bytes:
    try:
        return os.getxattr(folder, MARK).strip()
    except (OSError, ValueError):  # it has none, it has gone, or its name was no UTF-8
        return b""
