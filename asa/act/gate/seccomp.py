# SPDX-License-Identifier: GPL-2.0-only
"""A seccomp filter that hands every bpf(BPF_LINK_CREATE) of a process to its supervisor: seccomp_unotify(2).

What the supervisor reads of the call is read from the caller's memory and could have been changed by it since; that is
no boundary against a hostile program. Schedulers are trusted files (their hash is checked), and the filter is there to
choose the moment, not to contain them.
"""

import ctypes
import errno
import fcntl
import os
import select
import struct
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO

from asa.core.errors import AsaError

BPF_STRUCT_OPS = 44  # enum bpf_attach_type, include/uapi/linux/bpf.h
_BPF_LINK_CREATE = 28  # enum bpf_cmd
_SET_MODE_FILTER, _NEW_LISTENER = 1, 1 << 3  # include/uapi/linux/seccomp.h
_RET_USER_NOTIF, _RET_ALLOW = 0x7FC00000, 0x7FFF0000
_RECV, _SEND, _ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTIFICATION, _RESPONSE = struct.Struct("QII iIQ6Q"), struct.Struct("QqiI")  # struct seccomp_notif, .._resp
_CONTINUE = 1  # SECCOMP_USER_NOTIF_FLAG_CONTINUE, Linux 5.5
_PR_SET_NO_NEW_PRIVS = 38
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K: classic BPF
_AT_NR, _AT_ARCH, _AT_COMMAND = 0, 4, 16  # struct seccomp_data, little endian
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class _Architecture:
    audit: int  # AUDIT_ARCH_*, include/uapi/linux/audit.h
    bpf: int  # system call numbers
    seccomp: int


_ARCHITECTURES = {
    "x86_64": _Architecture(0xC000003E, 321, 317),  # arch/x86/entry/syscalls/syscall_64.tbl
    "aarch64": _Architecture(0xC00000B7, 280, 277),  # include/uapi/asm-generic/unistd.h
}


class _Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_uint16), ("filter", ctypes.POINTER(_Filter))]


def program(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter for `machine` (uname -m) as classic BPF instructions. Raises AsaError for an unknown machine."""
    numbers = _numbers(machine)
    return [
        (_LOAD, 0, 0, _AT_ARCH),
        (_EQUAL, 0, 5, numbers.audit),  # another architecture: allow
        (_LOAD, 0, 0, _AT_NR),
        (_EQUAL, 0, 3, numbers.bpf),  # another system call: allow
        (_LOAD, 0, 0, _AT_COMMAND),
        (_EQUAL, 0, 1, _BPF_LINK_CREATE),  # another command of bpf(2): allow
        (_RETURN, 0, 0, _RET_USER_NOTIF),
        (_RETURN, 0, 0, _RET_ALLOW),
    ]


def install() -> int:
    """Put the filter on this process, for good. Returns its listener (close-on-exec). Raises AsaError, OSError."""
    machine = os.uname().machine
    words = program(machine)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filters = (_Filter * len(words))(*(_Filter(*word) for word in words))
    code = ctypes.byref(_Program(len(words), filters))
    descriptor = int(_libc.syscall(_numbers(machine).seccomp, _SET_MODE_FILTER, _NEW_LISTENER, code))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    return descriptor


def check_readable(pid: int) -> None:
    """Raises AsaError where the calls of that process could be caught and not read (PTRACE_MODE_ATTACH, ptrace(2))."""
    try:
        _memory(pid).close()
    except OSError as error:
        said = f"/proc/{pid}/mem: {error.strerror}; a kernel.yama.ptrace_scope above 1 forbids it, set it to 1"
        raise AsaError(said) from error


def _memory(task: int) -> FileIO:
    return open(f"/proc/{task}/mem", "rb", buffering=0)  # noqa: PTH123  # one read at an offset


@dataclass(frozen=True, slots=True)
class Call:
    """A caught call that waits for its answer."""

    cookie: int
    attach_type: int  # enum bpf_attach_type


class Listener:
    """The supervisor's end of one filter. Owns the descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def fileno(self) -> int:
        """Readable when `receive` has a call, or when the process is ending; -1 once that was seen."""
        return self._descriptor

    def receive(self) -> Call | None:
        """The next caught call, None when none waits. Never blocks."""
        while self._descriptor >= 0:
            flags = dict(self._poll.poll(0)).get(self._descriptor, 0)
            if not flags & select.POLLIN:
                # Nobody is left behind the filter: readable for good, and a real-time agent that waits for it would
                # starve the process that is ending.
                if flags & (select.POLLHUP | select.POLLERR):
                    self.close()
                return None
            buffer = bytearray(_NOTIFICATION.size)
            try:
                fcntl.ioctl(self._descriptor, _RECV, buffer)
                fields = _NOTIFICATION.unpack(buffer)
                call = Call(fields[0], self._attach_type(fields[1], fields[7]))
                fcntl.ioctl(self._descriptor, _ID_VALID, struct.pack("Q", call.cookie))
            except OSError:
                continue  # the caller was killed meanwhile
            return call
        return None

    def valid(self, call: Call) -> bool:
        """Does its caller still wait?"""
        if self._descriptor < 0:
            return False
        try:
            fcntl.ioctl(self._descriptor, _ID_VALID, struct.pack("Q", call.cookie))
        except OSError:
            return False
        return True

    def answer(self, call: Call, *, refuse: bool = False) -> bool:
        """Let the call go on, or fail with EPERM. False when the caller is gone."""
        if self._descriptor < 0:
            return False
        error = errno.EPERM if refuse else 0
        response = bytearray(_RESPONSE.pack(call.cookie, 0, -error, 0 if refuse else _CONTINUE))
        try:
            fcntl.ioctl(self._descriptor, _SEND, response)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Calls that wait, and later ones, fail with ENOSYS from now on."""
        if self._descriptor >= 0:
            with suppress(KeyError):
                self._poll.unregister(self._descriptor)
            os.close(self._descriptor)
        self._descriptor = -1

    @staticmethod
    def _attach_type(task: int, attributes: int) -> int:
        # union bpf_attr, link_create: prog_fd or map_fd, target_fd, attach_type
        with _memory(task) as memory:
            memory.seek(attributes)
            return int.from_bytes(memory.read(12)[8:12], "little")


def _numbers(machine: str) -> _Architecture:
    try:
        return _ARCHITECTURES[machine]
    except KeyError:
        known = ", ".join(_ARCHITECTURES)
        raise AsaError(f"the gate knows the system calls of {known}, not of {machine!r}") from None
