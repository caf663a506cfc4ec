# SPDX-License-Identifier: GPL-2.0-only
"""The leases of clients that change something (`asa mcp`): locked files in the agent's run folder.

The client holds the lock (flock(2)) and the kernel lets go of it when the client ends, however it ends. The agent looks
each tick: once the lock is free, what the client had asked for ends. One client at a time: the file says which one. A
hint has a lease of its own, for it may stand while something is tried.
"""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from asa import runfile, wire
from asa.core.errors import AsaError
from asa.requests import Hint, Hold, Request, Switch

NAME, HINT = "lease", "hint-lease"
_LIMIT_BYTES = 4096
_TRIES, _APART_S = 4, 0.05  # the agent has the lock for microseconds when it looks


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Who has the lease."""

    lease: str
    client: str
    what: str  # it does, for people
    pid: int
    since_ns: int  # CLOCK_REALTIME


class BusyError(AsaError):
    """Another client has the lease."""

    def __init__(self, note: Note | None) -> None:
        self.note = note
        who = "another client" if note is None else f"the client {note.client!r} (pid {note.pid})"
        what = "" if note is None else f": {note.what}"
        super().__init__(f"{who} changes something already{what}; nothing was changed, ask again when it has ended")


class Lease:
    """The client's side. It ends with `close`, or with the process."""

    def __init__(self, folder: Path, note: Note, name: str = NAME) -> None:
        """Take it. Raises BusyError when another client has it, AsaError when this user may not."""
        self.lease = note.lease
        path = folder / name
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise AsaError(f"{folder}: only root may ask this agent; nothing was changed") from error
        except OSError as error:
            raise AsaError(f"{path}: cannot be written: {error.strerror}; nothing was changed") from error
        try:
            self._take(path, self._file)
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, wire.json_bytes(note), 0)
        except OSError as error:
            self.close()
            raise AsaError(f"{path}: cannot be written: {error.strerror}; nothing was changed") from error
        except BusyError:
            self.close()
            raise

    def _take(self, path: Path, file: int) -> None:
        for left in reversed(range(_TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not left:
                    raise BusyError(_note(path)) from None
                time.sleep(_APART_S)
            else:
                return

    def close(self) -> None:
        """Give it back; the agent ends what was asked for with it. The file stays, for its lock is what counts."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Watch:
    """The agent's side: are the clients still there whose words are in force?"""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._leases: dict[str, str] = {}  # by the name of the file

    def note(self, request: Request) -> None:
        """An order was taken: look after its lease from now on. One that is kept needs none."""
        match request:
            case Hint():
                self._leases[HINT] = request.lease
            case Switch(kept=True):
                self._leases.pop(NAME, None)
            case Hold() | Switch() if request.lease:
                self._leases[NAME] = request.lease

    def gone(self) -> tuple[str, ...]:
        """The leases that have ended since the last look."""
        gone = [name for name, lease in self._leases.items() if not self._held(name, lease)]
        return tuple(self._leases.pop(name) for name in gone)

    def _held(self, name: str, lease: str) -> bool:
        note = _note(self._folder / name)
        if note is None or note.lease != lease:
            return False  # another client has it by now
        return held(self._folder, name)


def check_free(folder: Path) -> None:
    """Raises BusyError while a client tries something, or holds."""
    if held(folder):
        raise BusyError(_note(folder / NAME))


def held(folder: Path, name: str = NAME) -> bool:
    """Does a client have the lease?"""
    try:
        return runfile.locked(folder / name)
    except OSError:
        return False


def _note(path: Path) -> Note | None:
    body: bytes | None = None
    with suppress(AsaError):
        body = runfile.read_own(path, _LIMIT_BYTES)
    if not body:
        return None
    try:
        return wire.from_json(body, Note)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
