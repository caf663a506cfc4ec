# SPDX-License-Identifier: GPL-2.0-only
"""Files that are replaced as a whole: a reader, also after a crash, finds the old file or the new one, never a part.

The new file is written beside the old one and renamed over it (rename(2)). Its name begins with a dot and ends with
`.part` meanwhile; after an error it is gone. Does not know what is in a file.
"""

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC  # not through a link that somebody laid
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def replace(
    path: Path, body: bytes, *, mode: int | None = None, durable: bool = False, owner: tuple[int, int] | None = None
) -> None:
    """Put `body` into the file. As `fresh`, whose arguments these are. Raises OSError."""
    with fresh(path, mode=mode, durable=durable, owner=owner) as file:
        file.write(body)


@contextmanager
def fresh(
    path: Path,
    *,
    mode: int | None = None,
    durable: bool = False,
    owner: tuple[int, int] | None = None,
) -> Iterator[BinaryIO]:
    """A file to write, which takes the place of `path` when the block ends; after an error `path` is as it was.

    The folder has to be there. `mode`: permissions whatever the umask (None: those of the old file, else what the umask
    leaves of 0666). `durable`: the file and its name are on the disk when this returns (fsync(2)). `owner`: user and
    group. A symbolic link is replaced, not followed. The file's `name` is its whole path, for who writes to a path.
    Raises OSError, also when `path` is no regular file: a file in the place of /dev/null would be worse than none.
    """
    old = _regular(path)
    part = f".{path.name}.{os.getpid()}-{threading.get_native_id()}.part"
    folder = os.open(path.parent, _FOLDER)  # names in it stay where they are when somebody moves the folder
    try:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)  # of one that was killed and had these numbers

        def opener(_: str, __: int) -> int:
            return os.open(part, _NEW, 0o666, dir_fd=folder)

        try:
            with open(path.parent / part, "wb", opener=opener) as file:  # Path.open takes no opener
                yield file
                _settle(file, mode if mode is not None or old is None else stat.S_IMODE(old.st_mode), owner, durable)
            os.rename(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):  # what went wrong is told already
                os.unlink(part, dir_fd=folder)
            raise
        if durable:
            os.fsync(folder)
    finally:
        os.close(folder)


def move(made: Path, path: Path) -> None:
    """Put a file or folder that was made elsewhere on the same file system into its place. Raises OSError."""
    os.replace(made, path)  # noqa: PTH105  # Path.replace costs three times as much


def sync_folder(folder: Path) -> None:
    """The names in it are on the disk when this returns (fsync(2)). Raises OSError."""
    descriptor = os.open(folder, _FOLDER)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _regular(path: Path) -> os.stat_result | None:
    try:
        facts = os.stat(path)  # noqa: PTH116  # a third of what Path.stat takes, and this stands beside a switch
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return facts


def _settle(file: BinaryIO, mode: int | None, owner: tuple[int, int] | None, durable: bool) -> None:  # two lines above
    file.flush()
    if owner is not None:
        os.fchown(file.fileno(), *owner)
    if mode is not None:
        os.fchmod(file.fileno(), mode)
    if durable:
        os.fsync(file.fileno())
