# SPDX-License-Identifier: GPL-2.0-only
"""What the benchmarks' commands share: progress on stderr, a table of figures, documents whole or not there."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from asa import files
from asa.core.errors import AsaError

_PLAIN_WIDTH = 140  # of the table in a file or a log


@contextmanager
def progress() -> Iterator[Callable[[str, float], None]]:
    """Gives what takes the step under way and the share done: a bar, or a line a step where there is no terminal.

    An ordinary kill ends the context as Ctrl-C does.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:48}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, console=console) as shown, _ends_by_sigterm():
        task = shown.add_task("", total=1.0)
        told = ""

        def tell(what: str, share: float) -> None:
            nonlocal told
            if what != told and not console.is_terminal:
                console.print(what, markup=False)  # a log has no bar, but it has steps
            told = what
            shown.update(task, description=what, completed=share)

        yield tell
        shown.update(task, completed=1.0)  # what is left standing in the terminal is a whole bar


@contextmanager
def _ends_by_sigterm() -> Iterator[None]:
    """An ordinary kill ends what was started, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Figures for people; the last column holds the words."""
    from rich.console import Console
    from rich.table import Table

    found = Table()
    for name in names:
        found.add_column(name, justify="right" if name in {"value", "goal"} else "left", no_wrap=bool(name))
    for row in rows:
        found.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH
    console.print(found)


def writable(out: Path) -> None:
    """Raise AsaError when `put` could not write there: said before the half hour, not after it."""
    strange = out.is_symlink() or (out.exists() and not out.is_file())  # it is replaced: no link, folder or device
    if strange or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise AsaError(f"{out}: cannot be written; make its folder, or name another place by --out")


def write(texts: Mapping[Path, str]) -> None:
    """Each file as `put` does; the line on stderr names the last one. Raises AsaError."""
    path = Path()
    try:
        for path, text in texts.items():
            put(path, text)
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror}; name another place by --out") from error
    print(f"wrote {path}", file=sys.stderr)


def put(path: Path, text: str) -> None:
    """The file as a whole or not at all, whatever its name is a link to; in a user's folder it is that user's."""
    folder = path.parent.stat()
    others = os.geteuid() == 0 and folder.st_uid != 0
    owner = (folder.st_uid, folder.st_gid) if others else None
    files.replace(path, text.encode(), mode=0o644, owner=owner)
