# SPDX-License-Identifier: GPL-2.0-only
"""Small files in the agent's run folder: written whole, read with suspicion.

The folder is memory (tmpfs) and gone with a reboot, so nothing here waits for a disk. Does not know what is in them.
"""

import fcntl
import os
import stat
from pathlib import Path

from asa import files
from asa.core.errors import AsaError


def write_whole(path: Path, body: bytes, mode: int = 0o600) -> None:
    """Readers see the old file or the new one, never a part; the folder is made when missing. Raises OSError."""
    try:
        files.replace(path, body, mode=mode)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, body, mode=mode)


def read_own(path: Path, limit_bytes: int, never: int = 0) -> bytes | None:
    """The file's bytes, None when there is none.

    Raises AsaError unless it is a regular file of this user or root, no symlink, no longer than the limit, and has no
    bit of the mode that is in `never`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise AsaError(f"{path}: not a regular file")
        if facts.st_uid not in (0, os.geteuid()):
            raise AsaError(f"{path}: belongs to user {facts.st_uid}, which is neither this one nor root")
        if facts.st_mode & never:
            mode = stat.S_IMODE(facts.st_mode)
            raise AsaError(f"{path}: has mode {mode:04o}, of which {mode & never:04o} is too much (chmod)")
        body = os.read(descriptor, limit_bytes + 1)
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if len(body) > limit_bytes:
        raise AsaError(f"{path}: longer than {limit_bytes} bytes")
    return body


def locked(path: Path) -> bool:
    """Does somebody hold the lock (flock(2)) of this file? Raises OSError where it cannot be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)
