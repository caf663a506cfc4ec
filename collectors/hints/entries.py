# SPDX-License-Identifier: GPL-2.0-only
"""Categories of desktop entries: files below the data folders, each read once in ten minutes at most.

Desktop Entry Specification, "Basic format of the file", "Desktop File ID"; XDG Base Directory Specification. The first
folder that has the id wins. Of a file the group [Desktop Entry] is read, as far as `_LARGEST_BYTES`. A file that lies
can only name other categories; one that is no entry, too large, a pipe, hidden or missing tells none.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from collectors.session import acting_as, home_of

MOST_A_TICK = 4
"""Entries that are looked for in one tick; each takes some hundred microseconds. Others wait for the next."""

_AGAIN_NS = 600_000_000_000  # an application that is installed or changed meanwhile is known after so long
_MOST_KEPT = 512
_MOST_CATEGORIES, _LONGEST_CATEGORY = 16, 64
_LARGEST_BYTES = 1 << 18  # with its translations, the largest of a usual desktop has 30 KB
_DEFAULT = "/usr/local/share:/usr/share"
_MORE = (Path("/var/lib/flatpak/exports/share"), Path("/var/lib/snapd/desktop"))  # a daemon's environment lacks them
_MOST_FOLDERS = 32


class Entries:
    """A cache of entries in `folders`, the first choice first; read as user `uid`, whose files some of them are."""

    def __init__(
        self, folders: Sequence[Path], uid: int | None = None, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._folders = tuple(folders)
        self._uid = os.geteuid() if uid is None else uid
        self._now_ns = now_ns
        self._known: dict[str, tuple[int, tuple[str, ...] | None]] = {}  # by id: until when, and what
        self._left = MOST_A_TICK

    def begin(self) -> None:
        """A tick begins."""
        self._left = MOST_A_TICK

    def categories(self, name: str) -> tuple[str, ...] | None:
        """Of the entry with this id; None when there is none, or its turn has not come. Never raises."""
        until_ns, known = self._known.get(name, (0, None))
        now_ns = self._now_ns()
        if now_ns < until_ns or not self._left or not _may_be_name(name):
            return known
        self._left -= 1
        if name not in self._known and len(self._known) >= _MOST_KEPT:
            del self._known[next(iter(self._known))]  # the oldest
        found = self._look(name)
        self._known[name] = now_ns + _AGAIN_NS, found
        return found

    def _look(self, name: str) -> tuple[str, ...] | None:
        # of applications/kde/one.desktop the id is kde-one
        files = dict.fromkeys((f"{name}.desktop", f"{name.replace('-', '/', 1)}.desktop"))
        try:
            with acting_as(self._uid):
                for folder in self._folders:
                    for file in files:
                        if (text := _text(f"{folder}/applications/{file}")) is not None:
                            return categories_of(text)
        except OSError:  # the kernel does not let us be that user
            return None
        return None


def folders_of(environment: Mapping[str, str], uid: int, own_uid: int) -> tuple[Path, ...]:
    """The data folders of a user, the first choice first. `environment` is that of this process, `own_uid`'s."""
    home = environment.get("HOME") if uid == own_uid else home_of(uid)
    given = environment.get("XDG_DATA_HOME") if uid == own_uid else None
    own = [Path(given)] if given else [Path(home) / ".local/share"] if home else []
    if home:
        own.append(Path(home) / ".local/share/flatpak/exports/share")
    shared = [Path(one) for one in (environment.get("XDG_DATA_DIRS") or _DEFAULT).split(":") if one]
    found = dict.fromkeys(one for one in (*own, *shared, *_MORE) if one.is_absolute())
    return tuple(found)[:_MOST_FOLDERS]


def categories_of(text: str) -> tuple[str, ...] | None:
    """`Categories` of the text of an entry, () without; None for what is no application's, or is said to be deleted."""
    values = dict(_values(text))
    if values.get("Type", "Application") != "Application" or values.get("Hidden") == "true":
        return None
    given = (one.strip() for one in values.get("Categories", "").split(";"))
    found = dict.fromkeys(one for one in given if one and one.isprintable() and len(one) <= _LONGEST_CATEGORY)
    return tuple(found)[:_MOST_CATEGORIES]


def _values(text: str) -> Iterator[tuple[str, str]]:
    # of the first group that is called so; configparser takes 20 times as long for all the translations
    inside = False
    for line in text.split("\n"):
        if line.startswith("["):
            if inside:
                return
            inside = line.rstrip() == "[Desktop Entry]"
        elif inside and not line.startswith("#"):
            key, equals, value = line.partition("=")
            if equals:
                yield key.strip(), value.strip()


def _may_be_name(name: str) -> bool:
    return bool(name) and len(name) < 248 and "/" not in name and "\0" not in name and not name.startswith(".")


def _text(path: str) -> str | None:
    # None: there is nothing of this name; "" for what is no file to read
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        return os.read(descriptor, _LARGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    finally:
        os.close(descriptor)
