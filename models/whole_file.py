# SPDX-License-Identifier: GPL-2.0-only
"""Files that are replaced as a whole: a reader, or who comes after a crash, finds the old one or the new one."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def fresh(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends; after an error `path` is as it was.

    Whoever could read the old one can read the new one. Raises OSError, also for what is no regular file.
    """
    part = path.with_name(f".{path.name}-{os.getpid()}")
    old = path.stat() if path.exists() else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        raise OSError(errno.EINVAL, "it is no file")  # a file in the place of /dev/null would be worse than none
    try:
        with part.open("wb") as file:
            if old is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())  # a crash between renaming and writing would leave an empty file under the name
        part.replace(path)
    finally:
        with suppress(OSError):  # it was renamed, or what went wrong is told already
            part.unlink()
