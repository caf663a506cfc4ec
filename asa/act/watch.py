# SPDX-License-Identifier: GPL-2.0-only
"""Hears from the kernel that schedulers came and went, and why: uevents of sched_ext, and the kernel's log.

Neither is needed to be right: sysfs is what counts, these say when to look there and what it was. Where a host does not
let us listen, `lacking` says why and nothing is heard.

Events, because waiting for them costs 0.03 s of processor time an hour, and looking at sysfs each 50 ms 25 s. Seen
after, median and worst in ms, by events and by looks: attached 0.5 and 0.5, 21 and 45; evicted by SysRq-S 65 and 87
(`remove` comes last), 28 and 50; killed 58 and 357, 27 and 340 (one process took long to die). By
`asa lab run --clock parallel -- python -P -m calibration.switch.external_change 6`.
"""

import ctypes
import errno
import os
import re
import socket
import struct
from contextlib import suppress
from pathlib import Path

from asa.act.exits import KERNEL, read_reason
from asa.act.words import one_line
from asa.core.decision import SchedulerExit

_NETLINK_KOBJECT_UEVENT = 15  # include/uapi/linux/netlink.h
_KERNEL_GROUP = 1  # lib/kobject_uevent.c sends to it; udev's own messages go to 2
_SO_ATTACH_FILTER = 26  # include/uapi/asm-generic/socket.h
_MESSAGE_BYTES = 8192  # the kernel's are at most 2,048 and the path
_UCRED = struct.Struct("iII")
_EVENTS_AT_ONCE = 64
_RECORDS_AT_ONCE = 8192  # of the kernel's log: as many as 256 KiB hold, some 15 ms of reading
_RECORD_BYTES = 16384  # more than the longest record (CONSOLE_EXT_LOG_MAX), or reading fails with EINVAL
_KEPT = 16  # schedulers whose end nobody asked about
_OPS_CHARACTERS = 128  # SCX_OPS_NAME_LEN
_LOG_ERROR = 3  # KERN_ERR

# `add@/kernel/sched_ext/root`, `remove@…`
_EVENT = re.compile(rb"(?:add|remove|change|online|offline|move)@/kernel/sched_ext(?:/[^\0]*)?\0")
_PATH_AT = (4, 7)
_ENABLED = re.compile(r'sched_ext: BPF scheduler "([^"]+)" enabled')
_DISABLED = re.compile(r'sched_ext: BPF scheduler "([^"]+)" disabled \((.*)\)')
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def about_sched_ext(message: bytes) -> bool:
    """Is this uevent (`ACTION@DEVPATH`, NUL, `KEY=value`, NUL, …) about a scheduler?"""
    return _EVENT.match(message) is not None


class KernelWatch:
    """The uevents that the kernel sends when a scheduler is attached or gone (kernel/sched/ext.c).

    An event comes a little early: `enable_seq` grows after `add`, `state` becomes `disabled` after `remove`, by the
    kernel's next few statements. Who was woken looks at sysfs again soon.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        """Listen. Never raises: `lacking` is "" or the reason why there is nothing to hear here."""
        self.lacking = ""
        self._socket: socket.socket | None = None
        try:
            if (proc / "self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
                self.lacking = "the kernel sends no events into a user namespace"
                return
            kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            self._socket = socket.socket(socket.AF_NETLINK, kind, _NETLINK_KOBJECT_UEVENT)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            _filter(self._socket)
            self._socket.bind((0, _KERNEL_GROUP))
        except OSError as error:
            self._give_up(f"uevents: {error.strerror}")

    def fileno(self) -> int | None:
        """Readable when `drain` has something to say; None where there is nothing to hear."""
        return None if self._socket is None else self._socket.fileno()

    def drain(self) -> bool:
        """Take what has come, at most 64 events. True when something about sched_ext happened, or may have."""
        seen = False
        for _ in range(_EVENTS_AT_ONCE):
            if self._socket is None:
                break
            try:
                message, ancillary, _, sender = self._socket.recvmsg(_MESSAGE_BYTES, socket.CMSG_SPACE(_UCRED.size))
            except BlockingIOError:
                break
            except OSError as error:
                seen = True  # some were lost: they may have been ours
                if error.errno != errno.ENOBUFS:
                    self._give_up(f"uevents: {error.strerror}")
                continue
            if _from_kernel(sender, ancillary) and about_sched_ext(message):
                seen = True
        return seen

    def close(self) -> None:
        """Stop listening."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _give_up(self, reason: str) -> None:
        self.close()
        self.lacking = reason


def _from_kernel(sender: tuple[int, int], ancillary: list[tuple[int, int, bytes]]) -> bool:
    """Port 0 is the kernel's; what it repeats for root (uevent_net_broadcast) has that too, but the sender's pid."""
    senders = [
        _UCRED.unpack(data)[:2]
        for level, kind, data in ancillary
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(data) == _UCRED.size
    ]
    return sender[0] == 0 and senders == [(0, 0)]


def _filter(listener: socket.socket) -> None:
    """Have the kernel drop what is about other things, so that no device wakes us and no flood of them hides ours."""
    words = [int.from_bytes(b"/kernel/sche"[at : at + 4], "big") for at in (0, 4, 8)]
    program = []  # classic BPF (linux/filter.h): code, where to go on when equal, and when not, operand
    for start in _PATH_AT:
        for index, word in enumerate(words):
            left = 2 * (len(words) - index - 1)
            program.append((0x20, 0, 0, start + 4 * index))  # load the word there
            program.append((0x15, 0, left + 1, word))  # another word: on to the next path
        program.append((0x06, 0, 0, 0xFFFFFFFF))  # take it whole
    program.append((0x06, 0, 0, 0))  # drop it
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    with suppress(OSError):  # it is an economy: `drain` looks for itself
        header = struct.pack("HP", len(program), ctypes.addressof(code))
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, header)


class KernelTale:
    """What the kernel's log says about schedulers, from records as /dev/kmsg has them. Pure."""

    def __init__(self) -> None:
        self._ends: dict[str, SchedulerExit] = {}
        self._faulty: tuple[str, str] | None = None  # a scheduler and the reason: its message is to come

    def feed(self, record: bytes) -> None:
        """Take one record: `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;text`, newline, ` KEY=value` lines."""
        head, _, body = record.partition(b";")
        try:
            priority = int(head.split(b",", 1)[0])
        except ValueError:
            return
        if priority >> 3:  # a facility but the kernel's own: a program wrote it, and may write anything
            return
        raw = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), body.split(b"\n", 1)[0])
        text = raw.decode(errors="replace")
        if not text.startswith("sched_ext: "):
            return
        if started := _ENABLED.match(text):
            self._ends.pop(started[1], None)
        elif ended := _DISABLED.fullmatch(text):
            fault = priority & 7 <= _LOG_ERROR
            self._keep(ended[1], ended[2], "", fault=fault)
            self._faulty = (ended[1], ended[2]) if fault else None
        elif self._faulty is not None and text.startswith(prefix := f"sched_ext: {self._faulty[0]}: "):
            self._keep(*self._faulty, text.removeprefix(prefix), fault=True)
            self._faulty = None

    def take(self, ops: str) -> SchedulerExit | None:
        """The last end of a scheduler of this name, or whose name goes on after it with `_`; only once."""
        names = [name for name in self._ends if ops and (name == ops or name.startswith(f"{ops}_"))]
        return self._ends.pop(names[-1]) if names else None

    def _keep(self, name: str, reason: str, message: str, *, fault: bool) -> None:
        name = one_line(name)[:_OPS_CHARACTERS]
        self._ends.pop(name, None)  # the newest comes last
        self._ends[name] = read_reason(one_line(reason), one_line(message), KERNEL, fault=fault)
        if len(self._ends) > _KEPT:
            del self._ends[next(iter(self._ends))]


class KernelLog:
    """/dev/kmsg from where it is when opened."""

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        """Open it at its end. Never raises: `lacking` is "" or the reason why it cannot be read."""
        self.lacking = ""
        self._tale = KernelTale()
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self._give_up(f"{path}: {error.strerror}")

    def why(self, ops: str) -> SchedulerExit | None:
        """The kernel's words on the last end of that scheduler, since opened or last asked; None when it has none.

        `ops` as in sysfs, or the manifest's prefix of it. The kernel writes them before sysfs says `disabled`.
        """
        self.follow()
        return self._tale.take(ops)

    def follow(self) -> None:
        """Read what has come, at most 8,192 records; cheap when nothing has. Calling it now and then spares `why`."""
        for _ in range(_RECORDS_AT_ONCE):
            if self._fd is None:
                return
            try:
                record = os.read(self._fd, _RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                # EPIPE: some were overwritten before we came, the next read goes on with the oldest there is
                if error.errno not in (errno.EPIPE, errno.EINVAL):
                    self._give_up(f"the kernel's log: {error.strerror}")
                continue
            if not record:
                return
            self._tale.feed(record)

    def close(self) -> None:
        """Stop reading."""
        if self._fd is not None:
            os.close(self._fd)
        self._fd = None

    def _give_up(self, reason: str) -> None:
        self.close()
        self.lacking = reason
