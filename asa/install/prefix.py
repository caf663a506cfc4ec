# SPDX-License-Identifier: GPL-2.0-only
"""Where an installation goes: below /usr, or below /usr/local and /etc where /usr cannot be written to.

Image-based systems (Fedora Silverblue and its kin, SteamOS, openSUSE MicroOS) mount /usr read-only. What systemd, the
bus and polkit read in /usr they read below /etc and /usr/local as well (polkit since version 124).
"""

import os
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from asa import paths
from asa.core.errors import SetupError
from asa.install.payload import LAUNCHER, PROGRAM, Item


class Prefix(StrEnum):
    """Below which folder programs go."""

    USR = "/usr"
    LOCAL = "/usr/local"


_LOCAL = (  # the first that fits
    ("/usr/lib/systemd/", "/etc/systemd/"),
    ("/usr/share/dbus-1/system.d/", "/etc/dbus-1/system.d/"),
    ("/usr/share/polkit-1/", "/etc/polkit-1/"),
    ("/usr/share/zsh/vendor-completions/", "/usr/local/share/zsh/site-functions/"),
    ("/usr/", "/usr/local/"),
)
_VENDOR, _SITE = PurePosixPath("/usr/share/zsh/vendor-completions"), PurePosixPath("/usr/share/zsh/site-functions")
_OF_DEBIAN = ("etc/debian_version", "usr/share/zsh/vendor-completions", "var/lib/dpkg/status")
_MENTIONED = (str(LAUNCHER), str(PROGRAM))  # in units and in the launcher; the latter with what begins so


def program(prefix: Prefix) -> PurePosixPath:
    """The folder of the program."""
    return PurePosixPath(paths.PROGRAM_LOCAL) if prefix is Prefix.LOCAL else PROGRAM


def below(items: Iterable[Item], prefix: Prefix, root: Path = Path("/")) -> tuple[Item, ...]:
    """The same files at their places for this prefix, with these places in their texts.

    zsh looks in vendor-completions on Debian and its kin alone: elsewhere its file goes to site-functions.
    """
    if prefix is Prefix.USR:
        debian = any((root / name).exists() for name in _OF_DEBIAN)
        return tuple(items if debian else sorted(map(_site_functions, items), key=lambda item: item.path))
    return tuple(sorted((_item(item) for item in items), key=lambda item: item.path))


def choose(root: Path, wanted: Prefix | None, installed: PurePosixPath | None) -> Prefix:
    """The one that was asked for; else where it is installed; else the first that can be written to.

    Raises SetupError where it is installed elsewhere.
    """
    there = next((one for one in Prefix if installed is not None and program(one) == installed), None)
    if there is not None and wanted is not None and wanted is not there:
        raise SetupError(f"it is installed below {there}; run `sudo asa uninstall` first")
    return there or wanted or (Prefix.LOCAL if read_only(root / "usr") else Prefix.USR)


def read_only(folder: Path) -> bool:
    """Is it on a file system that is mounted read-only? The nearest folder above counts where it is not there."""
    while not folder.exists():
        folder = folder.parent
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _site_functions(item: Item) -> Item:
    if not item.path.is_relative_to(_VENDOR):
        return item
    return replace(item, path=_SITE / item.path.relative_to(_VENDOR))


def _moved(path: PurePosixPath) -> PurePosixPath:
    text = str(path)
    for old, new in _LOCAL:
        if text.startswith(old):
            return PurePosixPath(new + text.removeprefix(old))
    return path


def _item(item: Item) -> Item:
    body = item.body
    if not item.path.is_relative_to(PROGRAM) and item.path.suffix != ".gz":
        for place in _MENTIONED:
            body = body.replace(place.encode(), str(_moved(PurePosixPath(place))).encode())
    return replace(item, path=_moved(item.path), body=body)
