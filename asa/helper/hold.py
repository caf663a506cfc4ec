# SPDX-License-Identifier: GPL-2.0-only
"""An administrator's word that nothing is switched on this machine, for a time or until told otherwise.

Kept in one file, so that it outlives the helper and the machine's restart. Does not ask polkit and ends no lease.
"""

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from asa import wire
from asa.core.errors import AsaError
from asa.helper import statefile

_Time = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_LONGEST_S = 2**32 - 1  # as the method on the bus takes it


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    until_ns: _Time  # CLOCK_REALTIME; 0: no end


class MachineHold:
    """The hold of this machine. `wall_ns` is CLOCK_REALTIME; `say` takes one line for the log.

    A file that cannot be believed counts as a hold without an end: somebody wanted one.
    """

    def __init__(self, path: Path, wall_ns: Callable[[], int], say: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._wall_ns = wall_ns
        try:
            self._until_ns = self._read()
        except AsaError as error:
            self._until_ns = 0
            (say or _to_the_log)(f"{error}; nothing is switched until `sudo asa machine resume`")

    def set(self, seconds: int) -> None:
        """Hold from now on; 0: without an end.

        Raises AsaError when it cannot be written down: it holds all the same, while this process lives.
        """
        if not 0 <= seconds <= _LONGEST_S:
            raise AsaError(f"{seconds!r} seconds is not accepted; allowed: 0 to {_LONGEST_S}")
        self._until_ns = self._wall_ns() + seconds * 10**9 if seconds else 0
        try:
            statefile.write(self._path, wire.json_bytes(_Kept(until_ns=self._until_ns)) + b"\n")
        except OSError as error:
            raise AsaError(f"{self._path}: the hold will not outlive a restart: {error.strerror}") from error

    def clear(self) -> None:
        """Hold no longer.

        Raises AsaError when the file stays there: nothing is held now, but is again after a restart.
        """
        self._until_ns = None
        try:
            statefile.remove(self._path)
        except OSError as error:
            raise AsaError(f"{self._path}: cannot be removed: {error.strerror}; remove it by hand") from error

    def until_ns(self) -> int | None:
        """CLOCK_REALTIME of its end, 0 without one; None when nothing is held. One that is over is forgotten."""
        if self._until_ns and self._until_ns <= self._wall_ns():
            with suppress(AsaError):  # the file says itself that it is over
                self.clear()
        return self._until_ns

    def active(self) -> bool:
        """Whether nothing may be switched now."""
        return self.until_ns() is not None

    def _read(self) -> int | None:
        body = statefile.read(self._path)
        if body is None:
            return None
        try:
            return wire.from_json(body, _Kept).until_ns
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise AsaError(f"{self._path}: not what `asa machine hold` writes: {error}") from error


def _to_the_log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
