# SPDX-License-Identifier: GPL-2.0-only
"""The switch benchmark's small C programs: compiled on the host, run in a guest.

`Floor` exchanges loaded schedulers without anything of ours; `beside` has the 1 ms probe and the reader of sysfs run,
and gives what they wrote. Nothing is judged here.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from asa.core.errors import AsaError
from calibration.programs import compiled
from calibration.switch.samples import Swap

_FOLDER = Path(__file__).parent
_NAMES = ("switch_floor", "switch_probe")
_END_LIMIT_S = 30.0
_MAP_TYPE_STRUCT_OPS = "26"  # enum bpf_map_type, include/uapi/linux/bpf.h


def build(folder: Path) -> None:
    """All programs, in `folder`. Raises AsaError without a C compiler."""
    for name in _NAMES:
        compiled(_FOLDER / f"{name}.c", folder)


def struct_ops_map(pid: int, proc: Path = Path("/proc")) -> int:
    """Id of the one struct_ops map that `pid` holds (proc_pid_fdinfo(5)). Raises AsaError."""
    found = set()
    for entry in (proc / str(pid) / "fdinfo").iterdir():
        try:
            lines = [line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line]
        except OSError:
            continue  # closed meanwhile
        facts = {key: value.strip() for key, value in lines}
        if facts.get("map_type") == _MAP_TYPE_STRUCT_OPS:
            found.add(int(facts["map_id"]))
    if len(found) != 1:
        raise AsaError(f"process {pid} holds {len(found)} struct_ops maps, not one")
    return found.pop()


class Floor:
    """The program that detaches and attaches. Close it, and the kernel is back on its own scheduler."""

    def __init__(self, programs: Path) -> None:
        self._running = ""
        self._process = subprocess.Popen(
            (str(programs / "switch_floor"),),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # as urgent as the agent, which makes the switches that this is compared with
        os.sched_setscheduler(self._process.pid, os.SCHED_RR, os.sched_param(1))

    def swap(self, new: str, map_id: int) -> Swap:
        """Attach a map in place of what this program has attached. Raises AsaError when the kernel refuses."""
        detached, attached, confirmed = self._ask(f"swap {map_id}")
        old, self._running = self._running or "eevdf", new
        return Swap(old=old, new=new, detached_ns=detached, attached_ns=attached, confirmed_ns=confirmed)

    def leave(self) -> None:
        """Back to the kernel's own scheduler."""
        self._ask("leave")
        self._running = ""

    def close(self) -> None:
        """End it; what it had attached goes with it."""
        try:
            self._process.communicate(timeout=_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _ask(self, line: str) -> list[int]:
        assert self._process.stdin is not None  # noqa: S101  # pipes, see above
        assert self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            words = self._process.stdout.readline().split()
        except BrokenPipeError:
            words = []
        if not words:
            said = self._process.stderr.read().strip() if self._process.stderr is not None else ""
            raise AsaError(f"switch_floor ended at {line!r}: {said!r}")
        return [int(word) for word in words]


@dataclass(slots=True)
class Seen:
    """What the probes wrote, once their context has ended."""

    late: list[tuple[int, int]] = field(default_factory=list)  # when a wakeup was due, and by how much it was late
    states: list[tuple[int, str]] = field(default_factory=list)  # when, and the ops in force from then on, "" for none

    def worst_ns(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """The number of wakeups due between two times, and the latest of them. A late one counts by when it was due."""
        within = [late_ns for due_ns, late_ns in self.late if start_ns <= due_ns <= end_ns]
        return len(within), max(within, default=0)

    def gap_ns(self, start_ns: int, end_ns: int) -> int | None:
        """Time between two times in which sysfs named no scheduler; None when something ran before and there was none.

        Read once a millisecond: right to about one.
        """
        points = [(max(at_ns, start_ns), ops) for at_ns, ops in self.states if at_ns <= end_ns]
        if not points:
            return None
        ends = [at_ns for at_ns, _ in points[1:]] + [end_ns]
        return sum(max(0, end - at_ns) for (at_ns, ops), end in zip(points, ends, strict=True) if not ops)


@contextmanager
def beside(programs: Path, folder: Path) -> Iterator[Seen]:
    """Both probes run as long as the context lasts; then the value is filled. Raises AsaError when one does not run."""
    seen = Seen()
    files = {name: folder / f"probe-{name}" for name in ("late", "state")}
    running = [_started(programs, name, path) for name, path in files.items()]
    try:
        yield seen
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        said = [process.communicate(timeout=_END_LIMIT_S)[1] for process in running]
    if any(process.returncode for process in running):
        raise AsaError(f"switch_probe: {' '.join(said).strip()!r}")
    seen.late = [(int(due), int(late)) for due, late in map(str.split, files["late"].read_text().splitlines())]
    for line in files["state"].read_text().splitlines():
        at_ns, state, ops = line.split(" ", 2)
        seen.states.append((int(at_ns), ops if state == "enabled" else ""))


def _started(programs: Path, name: str, path: Path) -> "subprocess.Popen[str]":
    command = (str(programs / "switch_probe"), name, str(path))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None  # noqa: S101  # a pipe
    if not process.stdout.readline():
        raise AsaError(f"switch_probe: {process.communicate()[1].strip()!r}")
    return process
