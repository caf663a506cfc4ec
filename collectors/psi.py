# SPDX-License-Identifier: GPL-2.0-only
"""/proc/pressure: how long tasks have been stalled for want of CPU, memory, I/O and for interrupts.

Only the totals since boot are taken; the kernel's own averages over 10 s and more are too slow for us. The system's
"full" for cpu is always zero (Documentation/accounting/psi.rst), so there is no field for it.
"""

from pathlib import Path

from asa.core.errors import SourceError
from asa.core.sample import PressureCounters
from collectors.procfs.reader import OpenFiles, Part, after, counters, garbled

_SOURCE = "pressure"
_FOLDER = "pressure"
_NEEDS = "; needs CONFIG_PSI, and psi=1 where it is off at boot"
_FIELDS: tuple[tuple[str, bytes, str], ...] = (  # file, line, field of PressureCounters
    ("cpu", b"some", "cpu_some_us"),
    ("io", b"some", "io_some_us"),
    ("io", b"full", "io_full_us"),
    ("memory", b"some", "memory_some_us"),
    ("memory", b"full", "memory_full_us"),
    ("irq", b"full", "irq_full_us"),
)


class PressureCollector:
    """Fills `pressure`. A resource that this kernel does not watch, or cannot tell now, stays None.

    irq needs CONFIG_IRQ_TIME_ACCOUNTING; kernels since 6.14 may refuse to read it (EOPNOTSUPP).
    """

    name = _SOURCE

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self._files = OpenFiles(_SOURCE, proc)
        self._parts: dict[str, Part] = {}

    @property
    def lacking(self) -> dict[str, str]:
        """Files that tell nothing here or now, and why."""
        return self._files.lacking

    def open(self) -> None:
        """Open the files and understand them once. Raises SourceError when none can be read."""
        self._parts = {name: self._files.may_have(f"{_FOLDER}/{name}") for name, _, _ in _FIELDS}
        try:
            self.read()
        except SourceError as error:
            needs = "" if any(part.there for part in self._parts.values()) else _NEEDS
            raise SourceError(source=_SOURCE, reason=f"{error.reason}{needs}") from error

    def read(self) -> dict[str, object]:
        """Microseconds since boot. Raises SourceError when no file tells anything."""
        texts = {name: part.text() for name, part in self._parts.items()}
        values: dict[str, int | None] = dict(_UNKNOWN)
        for name, line, field in _FIELDS:
            text = texts.get(name)
            if text is None:
                continue
            try:
                values[field] = stalled_us(name, b"\n" + text, line)
            except SourceError as error:
                self._parts[name].fault(error)
        if values == _UNKNOWN:
            raise SourceError(source=_SOURCE, reason=next(iter(self.lacking.values()), "not opened"))
        return {"pressure": PressureCounters(**values)}

    def close(self) -> None:
        """Give the descriptors back."""
        self._files.close()


def stalled_us(file: str, text: bytes, kind: bytes) -> int:
    r"""`total` of the line `kind` (some, full) in a pressure file's text with b"\n" on top. Raises SourceError."""
    path = f"{_FOLDER}/{file}"
    line = after(_SOURCE, path, text, b"\n" + kind + b" ")
    _, found, total = line.partition(b"total=")
    if not found:
        raise garbled(_SOURCE, path, line)
    return counters(_SOURCE, path, [total])[0]


_UNKNOWN: dict[str, int | None] = {field: None for _, _, field in _FIELDS}
