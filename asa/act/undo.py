# SPDX-License-Identifier: GPL-2.0-only
"""The undo journal: what of ours is in force, on disk before it matters, so that the next start can clear it away.

It lives in /run (gone with a reboot, as the processes are). It names the scheduler process by pid and start time, so
that a recycled pid is never mistaken for it.
"""

import os
import select
import signal
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from asa.core.errors import AsaError


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler process that we started."""

    scheduler: str
    pid: int
    start_ticks: int  # field 22 of /proc/PID/stat: when it started, which tells recycled pids apart


class UndoJournal:
    """One file, written whole and renamed into place."""

    def __init__(self, path: Path, proc: Path = Path("/proc")) -> None:
        self._path = path
        self._proc = proc

    def note(self, scheduler: str, pid: int) -> None:
        """Remember that `pid` is a scheduler of ours. Raises AsaError when that cannot be written down."""
        ticks = start_ticks(pid, self._proc)
        if ticks is None:
            return  # already gone: nothing to undo
        body = msgspec.json.encode(Running(scheduler=scheduler, pid=pid, start_ticks=ticks))
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            fresh.write_bytes(body)
            fresh.replace(self._path)
        except OSError as error:
            raise AsaError(f"{self._path}: cannot write the undo journal: {error.strerror}") from error

    def clear(self) -> None:
        """Nothing of ours is in force any more."""
        with suppress(OSError):  # an entry left behind does no harm: it names a process by its start time
            self._path.unlink(missing_ok=True)

    def leftover(self) -> Running | None:
        """What an earlier agent left running, None when nothing of it lives. A damaged file counts as nothing."""
        try:
            left = msgspec.json.decode(self._path.read_bytes(), type=Running)
        except (OSError, msgspec.DecodeError):
            return None
        return left if start_ticks(left.pid, self._proc) == left.start_ticks else None

    def recover(self, limit_s: float) -> str | None:
        """End what an earlier agent left behind: SIGINT, wait, SIGKILL last. A sentence if there was something."""
        left = self.leftover()
        if left is None:
            self.clear()
            return None
        try:
            pidfd = os.pidfd_open(left.pid)
        except OSError:
            self.clear()
            return None
        with os.fdopen(pidfd, "rb", buffering=0) as handle:
            ended = start_ticks(left.pid, self._proc) != left.start_ticks  # again: now the descriptor pins the process
            for sign in (signal.SIGINT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    ended = ended or _stopped(handle, sign, limit_s)
        what = f"an earlier agent had left {left.scheduler} (pid {left.pid}) running"
        if not ended:
            return f"{what}; it does not end, not even by SIGKILL"
        self.clear()
        return f"{what}; it was stopped"


def _stopped(handle: IO[bytes], sign: int, limit_s: float) -> bool:
    signal.pidfd_send_signal(handle.fileno(), sign)
    return bool(select.select([handle], [], [], limit_s)[0])


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Start time of a process in ticks since boot (proc_pid_stat(5), field 22); None when it is gone or a zombie."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])
