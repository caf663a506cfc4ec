# SPDX-License-Identifier: GPL-2.0-only
"""The map `stats` in two processes: a descriptor to read by, made where the programs are, and rows read where it went.

The kernel maps no memory for a descriptor that may only read (do_mmap() takes VM_SHARED away, which bpf_map_mmap()
asks for; so on Linux 6.18), hence rows are copied by bpf(2), all in one call. Since Linux 5.19 that needs no privilege
with kernel.unprivileged_bpf_disabled set either. What was handed out cannot be taken back: it is worth nothing once the
programs are detached. Whoever reads rows sees the pids and the CPU time of processes, as /proc shows them to everybody
(also where it is mounted with hidepid), and no addresses.
"""

import ctypes
import errno
import os
import struct
from pathlib import Path
from typing import Final

from asa.core.errors import SourceError
from collectors.ebpf.reader import SOURCE
from collectors.procfs.reader import reason_of

_BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}  # as asa/act/gate/links.py
# enum bpf_cmd and the flags of BPF_MAP_CREATE, include/uapi/linux/bpf.h
_MAP_GET_FD_BY_ID, _MAP_LOOKUP_BATCH = 14, 24
_READ_ONLY = 1 << 3
_BATCH = "QQQQIIQQ"  # in_batch, out_batch, keys, values, count, map_fd, elem_flags, flags
_COUNT_AT = struct.calcsize("QQQQ")
_KEY_BYTES: Final = 4
_ENOUGH_BYTES = 4096
_libc = ctypes.CDLL(None, use_errno=True)


def read_only(descriptor: int) -> int:
    """Another descriptor of the same map, by which nobody can write it. Needs CAP_SYS_ADMIN. Raises SourceError.

    A duplicate would not do: the right to write belongs to the open file, which duplicates share.
    """
    map_id = _facts(descriptor).get("map_id")
    if map_id is None:
        raise SourceError(source=SOURCE, reason="the kernel does not tell the id of the map stats")
    try:
        return _bpf(_MAP_GET_FD_BY_ID, bytearray(struct.pack("III", map_id, 0, _READ_ONLY)))
    except OSError as error:
        reason = f"no descriptor to read the map stats by: {reason_of(error)}; it needs CAP_SYS_ADMIN"
        raise SourceError(source=SOURCE, reason=reason) from error


class CopiedRows:
    """The rows of a map `stats` of another process, copied when asked. Owns the descriptor."""

    def __init__(self, descriptor: int, *, cpus: int, row_bytes: int) -> None:
        """Take the descriptor over. Raises SourceError when it is no such map; then it is closed, too."""
        try:
            facts = _facts(descriptor)
            wanted = {"key_size": _KEY_BYTES, "value_size": row_bytes, "max_entries": cpus}
            for name, value in wanted.items():  # the kernel writes by these, whatever the memory here holds
                if facts.get(name) != value:
                    reason = f"the map that was handed over has {name} {facts.get(name)!r}, not {value!r}"
                    raise SourceError(source=SOURCE, reason=reason)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        self._cpus = cpus
        self._values = bytearray(cpus * row_bytes)
        self._keys = bytearray(cpus * _KEY_BYTES)
        self._next = bytearray(8)
        self.words = memoryview(self._values).cast("Q")
        self._request = bytearray(
            struct.pack(
                _BATCH, 0, _address(self._next), _address(self._keys), _address(self._values), cpus, descriptor, 0, 0
            )
        )

    def copy(self) -> None:
        """Bring `words` up to date. Raises SourceError."""
        struct.pack_into("I", self._request, _COUNT_AT, self._cpus)
        try:
            _bpf(_MAP_LOOKUP_BATCH, self._request)
        except OSError as error:
            hint = "; it needs Linux 5.19, or CAP_BPF" if error.errno == errno.EPERM else ""
            raise SourceError(
                source=SOURCE, reason=f"the map stats cannot be read: {reason_of(error)}{hint}"
            ) from error
        (count,) = struct.unpack_from("I", self._request, _COUNT_AT)
        if count != self._cpus:
            raise SourceError(source=SOURCE, reason=f"the map stats gave {count!r} rows, not {self._cpus!r}")

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _facts(descriptor: int) -> dict[str, int]:
    """What the kernel says of a map (proc_pid_fdinfo(5)): max_entries, value_size and others; {} for no map."""
    try:
        text = (Path("/proc/self/fdinfo") / str(descriptor)).read_text("ascii")
    except OSError as error:
        raise SourceError(source=SOURCE, reason=f"no such descriptor: {reason_of(error)}") from error
    pairs = (line.partition(":") for line in text.splitlines())
    return {name: int(value) for name, _, value in pairs if value.strip().isdecimal()}


def _address(memory: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _bpf(command: int, attributes: bytearray) -> int:
    call = _BPF_SYSCALL.get(os.uname().machine)
    if call is None:
        raise OSError(errno.ENOSYS, f"bpf(2) has no known number on {os.uname().machine}")
    buffer = ctypes.c_char.from_buffer(attributes)
    result = int(_libc.syscall(call, command, ctypes.byref(buffer), len(attributes)))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
