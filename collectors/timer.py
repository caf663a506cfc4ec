# SPDX-License-Identifier: GPL-2.0-only
"""How late an ordinary task wakes that sleeps to absolute times: what a frame, a sound or a cursor would feel.

The agent is a real-time task, which no sched_ext scheduler schedules, so it cannot feel them itself: a small child
(`collectors.timer_child`), six sleeps a second, does. Its lateness comes through a pipe and is counted here in LATENCY
slots. The child ends with the agent: nobody reads the pipe then. Lateness across a suspend is not counted.

Why a program of its own, at 10 wakes a second on 2 cores with 2 to 10 other tasks able to run (the first word of
/proc/PID/schedstat, and Private_* of smaps_rollup, over 40 s, all at once):

| way | of a core | private memory | |
|---|---|---|---|
| C, the floor | 0.035 % | 0.1 MB | a compiled program in a package of Python |
| this one | 0.065 % | 2.5 MB | six wakes a second: 0.045 %; a bare interpreter has 2.3 MB |
| a fork of the agent | 0.087 % | 9.9 MB | it keeps each page that the agent writes to as it was |
| a thread in sem_wait, timer_create's signals | 0.037 % | 0.02 MB | no single wake, only run_delay's sum |

A thread in Python would hold the interpreter's lock while a scheduler keeps it waiting, and the agent with it.
"""

import os
import subprocess
import sys
import time
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import IO

from asa.core.errors import SourceError
from asa.core.sample import TimerCounters
from collectors.ebpf.layout import LATENCY_SLOTS, LATENCY_STARTS_NS
from collectors.timer_child import LONGEST_NS

SOURCE = "timer"
_PROGRAM = Path(__file__).with_name("timer_child.py")
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2, 600  # before a child that ended is started again; doubles
_SOUND_S = 60  # a child that lived so long starts the doubling anew
_READ_BYTES = 1 << 16  # all that a pipe holds


class TimerCollector:
    """Fills `timer`. A child that ends is started again after a while; the counters go on."""

    name = SOURCE

    def __init__(self, proc: Path, sys: Path, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:  # noqa: ARG002  # every collector is given both roots
        self.lacking: dict[str, str] = {}
        self._monotonic_ns = monotonic_ns
        self._hist = [0] * LATENCY_SLOTS
        self._late_ns = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._started_ns = 0
        self._wait_s = _FIRST_WAIT_S
        self._again_ns: int | None = None  # when to start the next child; None: one runs
        self._heard_ns: int | None = None  # when a read found something last
        self._why = "not opened"

    @property
    def pid(self) -> int | None:
        """The child's, None while there is none."""
        return self._child.pid if self._child is not None else None

    def open(self) -> None:
        """Start the child. Raises SourceError."""
        self._start()

    def read(self) -> dict[str, object]:
        """Lateness since `open`. Raises SourceError while there is no child."""
        if self._again_ns is not None and self._monotonic_ns() >= self._again_ns:
            self._start()
        if self._child is None:
            raise SourceError(source=SOURCE, reason=self._why)
        ended = self._child.poll()  # before reading: what it wrote last is in the pipe then
        self._count(self._child.stdout)
        if ended is not None:
            self._ended(ended)
            raise SourceError(source=SOURCE, reason=self._why)
        counters = TimerCounters(late_ns=self._late_ns, late_hist=tuple(self._hist), overdue_ns=self._overdue_ns())
        return {"timer": counters}

    def close(self) -> None:
        """End the child."""
        self._again_ns = None
        if self._child is not None:
            self._child.kill()
            self._let_go(self._child)

    def _start(self) -> None:
        self._again_ns = None
        self._heard_ns = None
        self._started_ns = self._monotonic_ns()
        try:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,  # a group of its own for the kernel's autogrouping, and no Ctrl-C
            )
        except OSError as error:
            self._later(f"{sys.executable!r} cannot be started: {error.strerror}")
            raise SourceError(source=SOURCE, reason=self._why) from error
        assert child.stdout is not None  # noqa: S101  # it was asked for
        os.set_blocking(child.stdout.fileno(), False)
        self._child = child

    def _count(self, pipe: IO[bytes] | None) -> None:
        assert pipe is not None  # noqa: S101  # as above
        body = pipe.read(_READ_BYTES) or b""  # None: nothing new
        if body:
            self._heard_ns = self._monotonic_ns()
        for late_ns in memoryview(body).cast("q"):
            self._hist[bisect_right(LATENCY_STARTS_NS, late_ns) - 1] += 1
            self._late_ns += late_ns

    def _overdue_ns(self) -> int | None:
        if self._heard_ns is None:
            return None
        return max(0, self._monotonic_ns() - self._heard_ns - LONGEST_NS)

    def _ended(self, code: int) -> None:
        assert self._child is not None  # noqa: S101  # it has just ended
        self._let_go(self._child)
        if self._monotonic_ns() - self._started_ns >= _SOUND_S * 10**9:
            self._wait_s = _FIRST_WAIT_S
        self._later(f"its process ended by signal {-code}" if code < 0 else f"its process ended with code {code}")

    def _later(self, why: str) -> None:
        self._why = f"{why}; started again in {self._wait_s} s"
        self._again_ns = self._monotonic_ns() + self._wait_s * 10**9
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)

    def _let_go(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None  # noqa: S101  # as above
        child.stdout.close()
        child.wait()
        self._child = None
