# SPDX-License-Identifier: GPL-2.0-only
"""The text of /proc/PID/stat, split into its fields; proc_pid_stat(5).

The name of a process may hold spaces, brackets and newlines, so that fields are counted from the last bracket on. This
module reads no file and makes no numbers.
"""

STATE, PARENT, _GROUP, SESSION = range(4)
FLAGS, MINOR_FAULTS, MAJOR_FAULTS = 6, 7, 9
USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM = range(11, 15)  # times in ticks
THREADS, STARTED, RESIDENT = 17, 19, 21  # a number, ticks since boot, pages
POLICY = 38  # of sched(7)
"""Places in what `fields` gives: the manual page's number less three."""


def fields(text: bytes, most: int = -1) -> list[bytes]:
    """The fields from the state on; none for a text without a name in brackets.

    `most`: how many are split off, the rest stays in one piece (bytes.split): few are needed, and often.
    """
    end = text.rfind(b")")
    return text[end + 1 :].split(None, most) if end >= 0 else []


def name(text: bytes) -> bytes:
    """The name of the process, 15 bytes at most (TASK_COMM_LEN)."""
    return text[text.find(b"(") + 1 : max(0, text.rfind(b")"))]
