# SPDX-License-Identifier: GPL-2.0-only
"""The kernel's side of an attached scheduler: its struct_ops link, found by the process that holds it, and detached.

A link is remembered by its id and opened for the length of the detach only: a descriptor kept here would keep a
scheduler attached whose process has died.
"""

import ctypes
import os
import struct
from contextlib import suppress
from pathlib import Path

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
_LINK_GET_FD_BY_ID, _LINK_DETACH, _OBJ_GET_INFO_BY_FD = 30, 34, 15  # enum bpf_cmd, include/uapi/linux/bpf.h
_LINK_TYPE_STRUCT_OPS = 9
_ATTRIBUTES = 16
_libc = ctypes.CDLL(None, use_errno=True)


def struct_ops_link(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Id of the struct_ops link that process `pid` holds (proc_pid_fdinfo(5)); the newest of several, None of none."""
    found = []
    with suppress(OSError):
        for entry in os.scandir(proc / str(pid) / "fdinfo"):
            with suppress(OSError, ValueError), open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123
                text = file.read(512)
                if b"link_type:\tstruct_ops" in text:
                    found.append(int(text.partition(b"link_id:\t")[2].split(None, 1)[0]))
    return max(found, default=None)


def detach(link_id: int) -> None:
    """Detach a struct_ops link; returns when the kernel's own scheduler is back. Its process goes on, and is told.

    Raises OSError: ENOENT or ENOLINK when the link is gone already, EINVAL or EOPNOTSUPP on kernels that cannot
    (BPF_LINK_DETACH works for struct_ops since Linux 6.10).
    """
    descriptor = _bpf(_LINK_GET_FD_BY_ID, struct.pack("IIII", link_id, 0, 0, 0))
    try:
        information = ctypes.create_string_buffer(256)
        _bpf(_OBJ_GET_INFO_BY_FD, struct.pack("IIQ", descriptor, len(information), ctypes.addressof(information)))
        if struct.unpack_from("I", information)[0] != _LINK_TYPE_STRUCT_OPS:
            raise FileNotFoundError(2, f"link {link_id} is no longer a scheduler's")
        _bpf(_LINK_DETACH, struct.pack("IIII", descriptor, 0, 0, 0))
    finally:
        os.close(descriptor)


def _bpf(command: int, attributes: bytes) -> int:
    buffer = ctypes.create_string_buffer(attributes, _ATTRIBUTES)
    result = int(_libc.syscall(BPF_SYSCALL[os.uname().machine], command, buffer, _ATTRIBUTES))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"bpf: {os.strerror(number)}")
    return result
