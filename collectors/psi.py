# SPDX-License-Identifier: GPL-2.0-only
"""/proc/pressure: how long tasks have been stalled for want of CPU, memory, I/O and for interrupts.

Only the totals since boot are taken; the kernel's own averages over 10 s and more are too slow for us. The system's
"full" for cpu is always zero (Documentation/accounting/psi.rst), so there is no field for it.
"""

from pathlib import Path

from asa.core.errors import SourceError
from asa.core.sample import PressureCounters
from collectors.procfs.reader import KernelFile, OpenFiles, after, counters, garbled

_SOURCE = "pressure"
_FOLDER = "pressure"
_FIELDS: tuple[tuple[str, bytes, str], ...] = (  # file, line, field of PressureCounters
    ("cpu", b"some", "cpu_some_us"),
    ("io", b"some", "io_some_us"),
    ("io", b"full", "io_full_us"),
    ("memory", b"some", "memory_some_us"),
    ("memory", b"full", "memory_full_us"),
    ("irq", b"full", "irq_full_us"),
)


class PressureCollector:
    """Fills `pressure`; a resource this kernel does not watch (irq needs CONFIG_IRQ_TIME_ACCOUNTING) stays None."""

    name = _SOURCE

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self._files = OpenFiles(_SOURCE, proc)
        self._open: dict[str, KernelFile] = {}

    @property
    def lacking(self) -> dict[str, str]:
        """Files this host does not have, and why."""
        return self._files.lacking

    def open(self) -> None:
        """Open the files and understand them once. Raises SourceError when there is none."""
        for name in dict.fromkeys(file for file, _, _ in _FIELDS):
            file = self._files.may_have(f"{_FOLDER}/{name}")
            if file is not None:
                self._open[name] = file
        if not self._open:
            reason = self.lacking[f"{_FOLDER}/cpu"]
            self.lacking.clear()  # one reason for all of them is enough
            raise SourceError(source=_SOURCE, reason=f"{reason}; needs CONFIG_PSI, and psi=1 where it is off at boot")
        self.read()

    def read(self) -> dict[str, object]:
        """Microseconds since boot. Raises SourceError."""
        texts = {name: b"\n" + file.read() for name, file in self._open.items()}
        values = {field: stalled_us(name, texts[name], line) for name, line, field in _FIELDS if name in texts}
        return {"pressure": PressureCounters(**{**_UNKNOWN, **values})}

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
