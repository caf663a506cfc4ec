# SPDX-License-Identifier: GPL-2.0-only
"""Processes that belong together: started by us, found again wherever their descendants went, ended as a whole.

Each started program leads its own session and carries a mark in its environment; a process is ours by the session, by
the mark or by a parent that is ours, so it is found after `setsid`, after a double fork, and after an exec that
cleared the environment (unless it did all of these). Reads /proc; knows nothing of workloads.
"""

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from asa import procstat
from asa.core.errors import AsaError

MARK = "ASA_PLAYER"
"""Environment variable that names the crew a process belongs to."""

_LOOK_S = 0.02
_TERM_LIMIT_S = 10.0  # an emulated fio needs seconds to sum up
_KILL_LIMIT_S = 20.0


class StuckError(AsaError):
    """Processes do not end, even after SIGKILL: a task stuck in the kernel."""

    def __init__(self, pids: Sequence[int]) -> None:
        super().__init__(f"processes {list(pids)}: do not end, even after SIGKILL; see dmesg")
        self.pids = tuple(pids)


class Crew:
    """The processes of one workload. End it with `end`, whatever happened."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        self._leaders: list[subprocess.Popen[bytes]] = []

    def launch(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        output: Path,
        errors: Path | None = None,
        stdin: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program as leader of its own session; both files are added to, errors go to `output` without one.

        Call it in a thread that outlives the crew: the program gets SIGTERM when that thread ends (prctl(2),
        PR_SET_PDEATHSIG). `env` is added to ours. Raises OSError.
        """
        name, _, value = self._mark.partition("=")
        with (
            output.open("ab") as out,
            (errors or output).open("ab") as err,
            (stdin or Path(os.devnull)).open("rb") as given,
        ):
            leader = subprocess.Popen(
                ("setpriv", "--pdeathsig", "TERM", *argv),
                stdin=given,
                stdout=out,
                stderr=err,
                cwd=cwd,
                env={**os.environ, "LC_ALL": "C", **(env or {}), name: value},
                start_new_session=True,
            )
        self._leaders.append(leader)
        return leader

    def members(self) -> list[int]:
        """Process ids of the programs and all their living descendants (zombies left out)."""
        sessions = {leader.pid for leader in self._leaders}
        mark = self._mark.encode()
        ours, parents = set(), {}
        for entry in self._proc.iterdir():
            if not entry.name.isdecimal():
                continue
            with suppress(OSError):  # it ended meanwhile, or is not ours to look into
                fields = procstat.fields((entry / "stat").read_bytes())
                if fields[procstat.STATE] in b"ZX":
                    continue
                pid = int(entry.name)
                parents[pid] = int(fields[procstat.PARENT])
                if int(fields[procstat.SESSION]) in sessions or mark in (entry / "environ").read_bytes().split(b"\0"):
                    ours.add(pid)
        while more := {pid for pid, parent in parents.items() if parent in ours and pid not in ours}:
            ours |= more
        return sorted(ours)

    def end(self) -> None:
        """End all programs with everything they started. May be called again.

        The programs get SIGTERM and 10 s to clean up, what is left then gets SIGKILL. Raises StuckError when
        something survives that.
        """
        for leader in self._leaders:
            leader.terminate()
        deadline = time.monotonic() + _TERM_LIMIT_S
        while any(leader.poll() is None for leader in self._leaders) and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
        deadline = time.monotonic() + _KILL_LIMIT_S
        while left := self.members():
            if time.monotonic() > deadline:
                raise StuckError(left)
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for leader in self._leaders:
                leader.poll()
            time.sleep(_LOOK_S)
        for leader in self._leaders:
            leader.wait()
        self._leaders.clear()


def last_words(log: Path, lines: int = 2, characters: int = 300) -> str:
    """The end of what a program has printed into a file, on one line; "" for nothing."""
    with suppress(OSError):
        text = log.read_bytes()[-4096:].decode(errors="replace")
        return " / ".join([line.strip() for line in text.splitlines() if line.strip()][-lines:])[-characters:]
    return ""
