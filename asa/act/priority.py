# SPDX-License-Identifier: GPL-2.0-only
"""Priorities, so that a switch is not starved by the load it is meant to serve.

The agent decides who schedules, so it must not depend on that scheduler: as a real-time task it is above every
sched_ext scheduler and above EEVDF (sched(7)), also above one that stalls. It needs a few milliseconds a second; the
kernel's throttling of real-time tasks bounds a fault of ours. A scheduler's process is hurried only while it loads or
ends: under a message storm an emulated guest took 20 s to load one, and an agent of ordinary priority got no tick in
35 s (`make run`, phase wakeup). One that loads for a turn which may never come steps back instead: its processor time
is taken from what the user does.
"""

import os
from contextlib import suppress
from enum import IntEnum
from functools import cache
from pathlib import Path

from asa import host


class Pace(IntEnum):
    """Of a scheduler's process: its nice value."""

    HURRIED = -15  # somebody waits for it
    ORDINARY = 0
    PATIENT = 10  # nobody does: a ninth of an ordinary task's weight (sched_prio_to_weight)


_LOWEST = 1  # real-time priority: every other real-time task goes first
_CAP_SYS_NICE = 23  # include/uapi/linux/capability.h


def go_first() -> bool:
    """Make this process a real-time task (SCHED_RR); its children are ordinary ones. False where not allowed."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(_LOWEST))
    except OSError:
        return False  # not root, or a container without the right: ticks then come when they come
    return True


def goes_first() -> bool:
    """Whether it is one."""
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK in (os.SCHED_FIFO, os.SCHED_RR)


def set_pace(pid: int, pace: Pace) -> None:
    """Of all threads of a process. One that leads a session steps back with its autogroup, in which alone nice counts
    under EEVDF (sched(7)); no autogroup is hurried, which would starve the kernel's own threads on that CPU.

    What is not allowed stays undone, and so does what could not be taken back.
    """
    if pace > Pace.ORDINARY and not _may_raise():
        return
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, int(task.name), pace)
        if os.getsid(pid) == pid:
            Path(f"/proc/{pid}/autogroup").write_text(f"{max(pace, Pace.ORDINARY):d}")


@cache
def _may_raise() -> bool:
    found = host.capabilities(Path("/proc/self/status").read_text())
    return found is not None and bool(found >> _CAP_SYS_NICE & 1)
