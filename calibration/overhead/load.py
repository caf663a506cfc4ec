# SPDX-License-Identifier: GPL-2.0-only
"""Known loads for the overhead benchmark: switches one after another to be timed, or a steady rate of them.

Compiles `pingpong.c`, which lies beside, and runs it. Interprets no results.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from asa.core.errors import AsaError
from calibration.programs import compiled

_SOURCE = Path(__file__).with_name("pingpong.c")
_END_LIMIT_S = 10.0


class Load(Protocol):
    """A load that plays; ending its context ends it."""

    pid: int


class PingPong:
    """Two processes under SCHED_FIFO on one CPU; `time_ns` lets them hand a byte to and fro. Needs root."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def time_ns(self, batches: int) -> float:
        """Median nanoseconds of one hand-over (a wakeup and a switch) over `batches` of 1,000. Raises AsaError."""
        assert self._process.stdin is not None  # noqa: S101  # both are pipes, see _started
        assert self._process.stdout is not None  # noqa: S101
        try:
            self._process.stdin.write(f"{batches}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise _ended(self._process)
        return float(line)


def build(folder: Path) -> Path:
    """The compiled program, in `folder`. Raises AsaError without a C compiler."""
    return compiled(_SOURCE, folder)


@contextmanager
def ping_pong(program: Path, cpu: int) -> Iterator[PingPong]:
    """The two processes, waiting for work. Raises AsaError where SCHED_FIFO or the CPU is not allowed."""
    with _started(program, "time", str(cpu)) as process:
        yield PingPong(process)


@contextmanager
def switches_per_s(program: Path, cpu: int, rate: int) -> Iterator[Load]:
    """An ordinary task that makes `rate` context switches a second on `cpu` as long as the context lasts."""
    with _started(program, "pace", str(cpu), str(rate)) as process:
        assert process.stdout is not None  # noqa: S101  # a pipe, see _started
        if not process.stdout.readline():
            raise _ended(process)
        yield process


def last_cpu() -> int:
    """The last CPU this process may run on: the first ones serve most interrupts."""
    return max(os.sched_getaffinity(0))


@contextmanager
def _started(program: Path, *words: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        (str(program), *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()  # its partner goes with it (PR_SET_PDEATHSIG)
        process.communicate(timeout=_END_LIMIT_S)


def _ended(process: "subprocess.Popen[str]") -> AsaError:
    process.wait(_END_LIMIT_S)
    words = process.stderr.read().strip() if process.stderr is not None else ""
    remedy = "; run as root" if "SCHED_FIFO" in words else ""
    return AsaError(f"pingpong: ended with code {process.returncode}: {words!r}{remedy}")
