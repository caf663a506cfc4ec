# SPDX-License-Identifier: GPL-2.0-only
"""/sys/kernel/sched_ext: which scheduler decides now, as the kernel says it (kernel/sched/ext.c, Linux 6.12 on)."""

import errno
from pathlib import Path

from asa.core.errors import SourceError
from asa.core.sample import SchedExtState
from collectors.procfs.reader import KernelFile, OpenFiles, counters, garbled, reason_of

_SOURCE = "sched_ext"
_LONGEST_STATE = 16
_LONGEST_OPS = 127  # SCX_OPS_NAME_LEN less its end


class SchedExtCollector:
    """Fills `sched_ext`."""

    name = _SOURCE

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self._folder = sys / "kernel/sched_ext"
        self._files = OpenFiles(_SOURCE, self._folder)
        self._state: KernelFile | None = None
        self._enable_seq: KernelFile | None = None

    @property
    def lacking(self) -> dict[str, str]:
        """Nothing: both files come with sched_ext itself."""
        return self._files.lacking

    def open(self) -> None:
        """Open what is always there and understand it once. Raises SourceError on a kernel without sched_ext."""
        try:
            self._state = self._files.need("state")
            self._enable_seq = self._files.need("enable_seq")
        except SourceError as error:
            raise SourceError(source=_SOURCE, reason=f"{error.reason}; needs CONFIG_SCHED_CLASS_EXT") from error
        self.read()

    def read(self) -> dict[str, object]:
        """The state now. Raises SourceError."""
        if self._state is None or self._enable_seq is None:
            raise SourceError(source=_SOURCE, reason="not opened")
        # The count comes first: a switch between the reads then shows as a new name with an old count, never as an old
        # name that a new count confirms.
        (enable_seq,) = counters(_SOURCE, "enable_seq", [self._enable_seq.read().strip()])
        state = self._state.read().strip()
        if not (state.isalpha() and state.islower() and len(state) <= _LONGEST_STATE):
            raise garbled(_SOURCE, "state", state)
        ops = "" if state == b"disabled" else self._ops()
        return {"sched_ext": SchedExtState(state=state.decode(), ops=ops, enable_seq=enable_seq)}

    def close(self) -> None:
        """Give the descriptors back."""
        self._files.close()

    def _ops(self) -> str:
        # root/ exists only while a scheduler is attached, and another time it is another file: it cannot be kept open
        path = self._folder / "root/ops"
        try:
            name = path.read_bytes().strip()
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENODEV}:  # not there yet, or gone since
                return ""
            raise SourceError(source=_SOURCE, reason=f"{path}: {reason_of(error)}") from error
        if not name.isascii() or not name.decode().isprintable() or len(name) > _LONGEST_OPS:
            raise garbled(_SOURCE, "root/ops", name)
        return name.decode()
