# SPDX-License-Identifier: GPL-2.0-only
"""Small files in which the helper keeps what outlives it.

They are believed only when they are root's, and are on the disk once they are written. Does not know what is in them.
"""

import stat
from contextlib import suppress
from pathlib import Path

from asa import files, runfile
from asa.core.errors import InputError

_LIMIT_BYTES = 65_536
_MODE = 0o644  # everybody may know; root alone may say
_OTHERS_MAY_WRITE = 0o022


def read(path: Path) -> bytes | None:
    """The file's bytes, None when there is none.

    Raises AsaError unless it is a regular file of root (or of this user) that nobody else may write.
    """
    with suppress(OSError):  # what it is that cannot be read, `read_own` says
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and mode & _OTHERS_MAY_WRITE:
            raise InputError(path=str(path), key="", value=f"mode {mode & 0o7777:o}", allowed="644, root's alone")
    return runfile.read_own(path, _LIMIT_BYTES)


def write(path: Path, body: bytes) -> None:
    """The old file or the new one is there, whatever happens; the new one for certain on return. Raises OSError."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    files.replace(path, body, mode=_MODE, durable=True)


def remove(path: Path) -> None:
    """The file is gone for certain on return, or was not there. Raises OSError."""
    path.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        files.sync_folder(path.parent)
