# SPDX-License-Identifier: GPL-2.0-only
"""What an installation is worth in figures: how exposed the helper is, and what an uninstallation leaves."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from asa.core.errors import SetupError
from asa.install.payload import DATA, HELPER_UNIT
from scenarios.lab.box import installed as box_asa
from scenarios.lab.box.machine import Box

_UNIT = DATA / HELPER_UNIT
_FOLDERS = ("etc", "opt", "srv", "usr", "var")
_WITH_TIMES = ("etc", "var")  # where somebody else's file could be changed; asking each file of /usr takes a minute
_BY_ITSELF = re.compile(r"/var/log(/|$)|/run/(?!(asa|scx)(/|$))")  # what comes and goes while a machine runs

Tree: TypeAlias = dict[str, tuple[int, int] | None]
"""Paths, with size and time of change (ns) of the files that are compared by it."""

_NONE = (-1, -1)  # no such path


def helper_security_score() -> float:
    """Exposure of the helper's unit by `systemd-analyze security`: 0 is best, 10 is worst. Raises SetupError."""
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(_UNIT)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SetupError(f"systemd-analyze: {error.strerror}; install systemd") from error
    found = re.search(r"exposure level for \S+: ([0-9.]+)", done.stdout)
    if found is None:
        raise SetupError(f"systemd-analyze gave no score: {done.stderr.strip()!r}")
    return float(found[1])


def uninstall_leftover_files() -> int:
    """How many paths differ on a whole machine after an installation, a start of the helper and an uninstallation.

    In a box, so it needs root. Raises LabError.
    """
    with Box.start() as box:
        before = look(box.path)
        box_asa.install(box)
        box.systemctl("start", HELPER_UNIT)
        box.run(["asa", "uninstall"], check=True)
        return len(leftovers(before, look(box.path)))


def look(root: Path) -> Tree:
    """What there is below `root`, but homes, and what a kernel and its services make while they run."""
    found: Tree = {}
    for name in _FOLDERS:
        found.update(_entries(root / name, f"/{name}", times=name in _WITH_TIMES))
    found.update(_entries(root / "run", "/run", times=False))
    return {path: one for path, one in found.items() if not _BY_ITSELF.match(path)}


def leftovers(before: Tree, after: Tree) -> list[str]:
    """Paths that came, went or changed between two looks."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path, _NONE) != after.get(path, _NONE))


def _entries(folder: Path, path: str, *, times: bool) -> Iterator[tuple[str, tuple[int, int] | None]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        below = f"{path}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield below, None
            yield from _entries(Path(entry.path), below, times=times)
            continue
        try:
            facts = entry.stat(follow_symlinks=False) if times else None
        except OSError:
            continue  # it has gone meanwhile
        yield below, (facts.st_size, facts.st_mtime_ns) if facts else None
