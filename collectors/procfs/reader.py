# SPDX-License-Identifier: GPL-2.0-only
"""Reads small kernel text files again and again from one descriptor, and takes unsigned numbers out of them.

Text that is cut short, garbled or over-long becomes a SourceError. It knows no file format.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from asa.core.errors import SourceError

T = TypeVar("T")

RETRY_READS = 180
"""Reads after which a file that is absent or fails is opened again: three minutes at one tick a second."""

_PIECE_BYTES = 1 << 16
_LARGEST_BYTES = 1 << 20  # /proc/stat of 256 CPUs with all their interrupts stays below a fifth of this
_COUNTER_LIMIT = 1 << 64  # no kernel counter is wider, and neither is an integer in the journal


class KernelFile:
    """One file of /proc or /sys, kept open; each `read` makes the kernel write it anew (seq_file restarts at 0)."""

    def __init__(self, source: str, path: Path) -> None:
        """Open `path`. Raises SourceError, in the name of the collector `source`, when it cannot be opened."""
        self._source = source
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise SourceError(source=source, reason=f"{path}: {reason_of(error)}") from error

    def read(self, enough: bytes | None = None) -> bytes:
        """Whole lines of the present content: all of them, or those up to the piece that contains `enough`.

        A seq_file hands out a page at a time, so only an empty piece says that there is no more. Raises SourceError
        for an empty or over-long file and for a last line without its end.
        """
        try:
            data = os.pread(self._descriptor, _PIECE_BYTES, 0)
            while enough is None or enough not in data:
                piece = os.pread(self._descriptor, _PIECE_BYTES, len(data))
                if not piece:
                    break
                data += piece
                if len(data) > _LARGEST_BYTES:
                    raise SourceError(source=self._source, reason=f"{self._path}: longer than {_LARGEST_BYTES} bytes")
        except OSError as error:
            raise SourceError(source=self._source, reason=f"{self._path}: {reason_of(error)}") from error
        if not data:
            raise SourceError(source=self._source, reason=f"{self._path}: empty")
        if not data.endswith(b"\n"):
            raise SourceError(source=self._source, reason=f"{self._path}: cut short: {data[-40:]!r}")
        return data

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Part:
    """A file that a collector can do without: while it cannot be opened, read or understood, `lacking` says why.

    A failure lasts for one read. Every RETRY_READS failures the file is opened again, so one that appears is found.
    """

    def __init__(self, source: str, root: Path, name: str, lacking: dict[str, str]) -> None:
        """Open `name` below `root`. Never raises."""
        self._source = source
        self._path = root / name
        self._name = name
        self._lacking = lacking
        self._file: KernelFile | None = None
        self._failures = 0
        self._open()

    @property
    def there(self) -> bool:
        """Whether it could be opened."""
        return self._file is not None

    def text(self) -> bytes | None:
        """The present content; None when it cannot be read."""
        if self._failures >= RETRY_READS:
            self._failures = 0
            self.close()
            self._open()
        if self._file is None:
            self._failures += 1
            return None
        try:
            text = self._file.read()
        except SourceError as error:
            self.fault(error)
            return None
        if self._lacking:
            self._lacking.pop(self._name, None)
        return text

    def fault(self, error: SourceError) -> None:
        """Note why this read gave nothing, or not all."""
        self._failures += 1
        self._lacking[self._name] = error.reason

    def take(self, parse: Callable[[bytes], T]) -> T | None:
        """What `parse` makes of the present content; None when it cannot be read, or `parse` raises SourceError."""
        text = self.text()
        if text is None:
            return None
        try:
            return parse(text)
        except SourceError as error:
            self.fault(error)
            return None

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _open(self) -> None:
        try:
            self._file = KernelFile(self._source, self._path)
        except SourceError as error:
            self._lacking[self._name] = error.reason


class OpenFiles:
    """The files of a collector that has several, closed together. `lacking`: file name -> why nothing is read of it."""

    def __init__(self, source: str, root: Path) -> None:
        self._source = source
        self._root = root
        self._files: list[KernelFile | Part] = []
        self.lacking: dict[str, str] = {}

    def need(self, name: str) -> KernelFile:
        """Open `name` below the root. Raises SourceError."""
        file = KernelFile(self._source, self._root / name)
        self._files.append(file)
        return file

    def may_have(self, name: str) -> Part:
        """The same for a file that the collector can do without. Never raises."""
        part = Part(self._source, self._root, name, self.lacking)
        self._files.append(part)
        return part

    def close(self) -> None:
        """Close what was opened."""
        for file in self._files:
            file.close()
        self._files.clear()
        self.lacking.clear()


class OneFileCollector(ABC):
    """A Collector over one file: a subclass names it and turns its text into fields of RawSample."""

    name: str  # of the source, in errors
    file: str  # below the root of /proc
    enough: bytes | None = None  # where reading may stop

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self.lacking: dict[str, str] = {}
        self._proc = proc
        self._text: KernelFile | None = None

    def open(self) -> None:
        """Open the file and understand it once. Raises SourceError."""
        self._text = KernelFile(self.name, self._proc / self.file)
        self.read()

    def read(self) -> dict[str, object]:
        """Fields of RawSample. Raises SourceError."""
        if self._text is None:
            raise SourceError(source=self.name, reason="not opened")
        return self.parse(self._text.read(self.enough))

    @abstractmethod
    def parse(self, text: bytes) -> dict[str, object]:
        """Fields of RawSample out of the file's whole lines. Raises SourceError."""

    def close(self) -> None:
        """Give the descriptor back."""
        if self._text is not None:
            self._text.close()


def reason_of(error: OSError) -> str:
    """The system's words for an OSError, without the path that the message names already."""
    return (error.strerror or type(error).__name__).lower()


def garbled(source: str, file: str, text: bytes) -> SourceError:
    """A SourceError that shows the beginning of what could not be understood."""
    return SourceError(source=source, reason=f"{file}: not understood: {text[:60]!r}")


def counters(source: str, file: str, fields: list[bytes]) -> list[int]:
    """Unsigned decimal numbers below 2**64, at least one. Raises SourceError for anything else.

    int() alone would take signs, underscores and blanks, so the digits are checked first, in one call for all.
    """
    if not b"".join(fields).isdigit():
        raise garbled(source, file, b" ".join(fields))
    try:
        values = list(map(int, fields))
    except ValueError as error:  # more digits than Python converts
        raise garbled(source, file, b" ".join(fields)) from error
    if max(values) >= _COUNTER_LIMIT:
        raise garbled(source, file, b" ".join(fields))
    return values


def bounded(source: str, file: str, **sums: int) -> dict[str, int]:
    """The same sums or products when each is below 2**64. Raises SourceError: the journal could not hold them."""
    for name, value in sums.items():
        if value >= _COUNTER_LIMIT:
            raise SourceError(source=source, reason=f"{file}: {name} is {value!r}, wider than any counter")
    return sums


def after(source: str, file: str, text: bytes, key: bytes) -> bytes:
    r"""What follows `key` up to the end of its line; `key` begins with b"\n", and so does a `text` with it on top.

    Raises SourceError when the key or the end of the line is not there.
    """
    start = text.find(key)
    end = text.find(b"\n", start + len(key))
    if start < 0 or end < 0:
        raise SourceError(source=source, reason=f"{file}: no {key.strip().decode()!r} in it")
    return text[start + len(key) : end]
