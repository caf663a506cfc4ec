# SPDX-License-Identifier: GPL-2.0-only
"""For how long the agent could run and had no CPU: what passed then is no source's doing, and no tick's."""

import os
import time
from pathlib import Path


class RunDelay:
    """Of the thread that asks: the second word of /proc/thread-self/schedstat, by CONFIG_SCHED_INFO.

    Real-time tasks are counted too, and those that the kernel throttles. Opened when it is first asked.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._path = proc / "thread-self/schedstat"
        self._file: int | None = None

    def waited_ns(self) -> int | None:
        """Nanoseconds since the thread began; None where the kernel does not tell."""
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return int(os.pread(self._file, 96, 0).split()[1])
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            os.close(self._file)
        self._file = None


class Absence:
    """How much of a stretch of work the agent was kept from its CPU.

    Where the kernel does not tell, it is what its own CPU time lacks of the time that passed: between two marks it
    works, and does not sleep.
    """

    def __init__(self, delay: RunDelay) -> None:
        self._delay = delay
        self._waited_ns: int | None = None
        self._cpu_ns = self._now_ns = 0

    def mark(self) -> None:
        """A stretch begins."""
        self._waited_ns = self._delay.waited_ns()
        if self._waited_ns is None:
            self._cpu_ns, self._now_ns = time.thread_time_ns(), time.monotonic_ns()

    def close(self) -> None:
        """Give the descriptor back."""
        self._delay.close()

    def since_ns(self) -> int:
        """Of the stretch so far; another one begins."""
        waited_ns, cpu_ns, now_ns = self._waited_ns, self._cpu_ns, self._now_ns
        self.mark()
        if waited_ns is not None and self._waited_ns is not None:
            return self._waited_ns - waited_ns
        if waited_ns is None and self._waited_ns is None:
            return max(0, (self._now_ns - now_ns) - (self._cpu_ns - cpu_ns))
        return 0
