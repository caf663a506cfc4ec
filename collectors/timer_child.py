# SPDX-License-Identifier: GPL-2.0-only
"""An ordinary task that sleeps to absolute times, as a program that draws frames does, and tells how late it woke.

Run as `python -I -S timer_child.py` by `collectors.timer`. Standard output, a pipe, gets 8 bytes a wake: nanoseconds of
lateness, in the machine's byte order. It ends by itself when nobody reads the pipe any more. It keeps the kernel's
timer slack of ordinary tasks (50 us, prctl(2)), which an idle machine shows as lateness.

It imports what an interpreter has at its start anyway: a module more is private memory for as long as the agent runs.
"""

import sys
import time

TYPE_CHECKING = False  # typing and collections.abc are modules more
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHORTEST_NS = 80_000_000
LONGEST_NS = 240_000_000
"""Sleeps are drawn evenly between these two: a fixed period would keep step with the agent's tick or with frames."""

SUSPEND_NS = 100_000_000
"""A late wake across a suspend of more than this is not told; two clock readings that were interrupted differ by less.

CLOCK_MONOTONIC stands still in a suspend, but runs while tasks are frozen before and thawed after it.
"""

LATE_NS = 1_000_000
"""From here on a wake is looked at: one that is not late was none the later for a suspend."""


def wakes(
    now_ns: "Callable[[], int]", suspended_ns: "Callable[[], int]", sleep: "Callable[[float], None]", seed: int
) -> "Iterator[int]":
    """Lateness of each wake in ns, 0 or more. One that comes after the next was due as well stands for both."""
    due_ns = now_ns()
    before_ns = suspended_ns()
    while True:
        seed = (seed * 1_103_515_245 + 12_345) & 0x7FFF_FFFF  # the C standard's example of rand()
        due_ns += SHORTEST_NS + (seed >> 8) * (LONGEST_NS - SHORTEST_NS) // (0x7FFF_FFFF >> 8)
        left_ns = due_ns - now_ns()
        if left_ns <= 0:
            due_ns = now_ns()
            continue
        sleep(left_ns / 1e9)  # clock_nanosleep with TIMER_ABSTIME from Python 3.11 on
        late_ns = now_ns() - due_ns
        if late_ns >= LATE_NS:
            after_ns = suspended_ns()
            slept, before_ns = after_ns - before_ns > SUSPEND_NS, after_ns
            if slept:
                continue
        yield max(0, late_ns)


def main() -> None:
    """Sleep and tell, until the reader is gone."""
    import posix

    posix.sched_setscheduler(0, posix.SCHED_OTHER, posix.sched_param(0))  # whatever the agent was started with
    try:  # noqa: SIM105  # contextlib is memory
        posix.setpriority(posix.PRIO_PROCESS, 0, 0)
    except PermissionError:  # a user's agent that was started nice: it stays so
        pass
    now_ns, clock_ns, boot = time.monotonic_ns, time.clock_gettime_ns, time.CLOCK_BOOTTIME
    try:
        for late_ns in wakes(now_ns, lambda: clock_ns(boot) - now_ns(), time.sleep, now_ns() ^ posix.getpid()):
            posix.write(1, late_ns.to_bytes(8, sys.byteorder))
    except (OSError, KeyboardInterrupt):
        return


if __name__ == "__main__":
    main()
