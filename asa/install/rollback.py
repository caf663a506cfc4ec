# SPDX-License-Identifier: GPL-2.0-only
"""Takes back what was done to a machine's files when something fails midway: all of an installation, or nothing."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from asa import files


class Rollback:
    """Notes each change before it is made. Keeps in memory what is replaced: some tens of MB at most."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def folder(self, path: Path) -> None:
        """It is about to be made, unless it is there."""
        if not path.is_dir():
            self._steps.append(path.rmdir)

    def file(self, path: Path) -> None:
        """It is about to be made, replaced or removed. Raises OSError for one that could not be put back."""
        try:
            facts = path.lstat()
        except FileNotFoundError:
            self._steps.append(lambda: path.unlink(missing_ok=True))
            return
        if path.is_symlink():
            target = path.readlink()
            self._steps.append(lambda: _link(path, target))
        else:
            body = path.read_bytes()
            self._steps.append(lambda: _write(path, body, facts))

    def undo(self) -> None:
        """Put everything back, the last change first; goes on where one fails."""
        while self._steps:
            step = self._steps.pop()
            with suppress(OSError):
                step()


@contextmanager
def whole() -> Iterator[Rollback]:
    """What is noted inside is taken back on any way out but the orderly one."""
    rollback = Rollback()
    try:
        yield rollback
    except BaseException:  # also KeyboardInterrupt
        rollback.undo()
        raise


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _write(path: Path, body: bytes, facts: os.stat_result) -> None:
    files.replace(path, body, mode=facts.st_mode & 0o7777, owner=(facts.st_uid, facts.st_gid))
