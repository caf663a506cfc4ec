# SPDX-License-Identifier: GPL-2.0-only
"""What a command makes of a journal goes to its file as a whole or not at all, and never over the journal itself."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from asa import files
from asa.core.errors import AsaError


@contextmanager
def whole(out: Path, source: Path) -> Iterator[Path]:
    """The path to write to: it becomes `out` when the block ends well, else `out` stays as it was.

    A pipe or a device is written itself; of a link it is the file that is replaced. Raises AsaError when `out` is
    `source`, or cannot be written.
    """
    try:
        if out.exists() and out.samefile(source):
            raise AsaError(f"{out}: is the journal that is read, and would be lost; name another file")
        if out.exists() and not out.is_file():
            yield out
            return
        target = Path(os.path.realpath(out))  # Path.resolve raises what is no OSError where links go in a circle
        with files.fresh(target) as file:
            yield Path(file.name)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise AsaError(f"{out}: cannot be written: {error.strerror}; name another file") from error
