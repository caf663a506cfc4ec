# SPDX-License-Identifier: GPL-2.0-only
"""Starts a scheduler under the gate and answers for it: it loads, is verified, and waits where it would attach.

The process gets a mount namespace of its own, in which /sys/kernel/sched_ext/state reads "disabled" (the Rust
schedulers refuse to start while another one is enabled) and kernel settings are copies (`asa.act.settings`), and the
filter of `asa.act.gate.seccomp`. Auxiliary programs of a scheduler attach at once; the call for its struct_ops map
is the one that waits.
"""

import array
import ctypes
import os
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

from asa import procstat
from asa.act.gate.seccomp import BPF_STRUCT_OPS, Call, Listener, check_readable, install
from asa.act.portfolio import Opened
from asa.act.process import SchedulerProcess
from asa.act.settings import give_copies
from asa.core.decision import LoadCost
from asa.core.errors import AsaError, SchedulerError

_CLONE_NEWNS = 0x00020000  # include/uapi/linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18  # include/uapi/linux/mount.h
_SYS = Path("/sys")
_STATE = _SYS / "kernel/sched_ext/state"
_SAYS_DISABLED = "gate-state"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_libc = ctypes.CDLL(None, use_errno=True)


class Stage(Enum):
    """How far a gated scheduler has come."""

    LOADING = auto()
    PARKED = auto()  # loaded and verified, waits at its attach
    RELEASED = auto()
    DENIED = auto()


class Gated:
    """A scheduler's process, and the say over its attach. Close it when the process has ended, or to let it fail."""

    def __init__(self, process: SchedulerProcess, listener: Listener) -> None:
        self.process = process
        self.stage = Stage.LOADING
        self.load: LoadCost | None = None
        self._listener = listener
        self._waiting: Call | None = None
        self._started_ns = time.monotonic_ns()

    def fileno(self) -> int:
        """Readable when `advance` has something to do; -1 once closed."""
        return self._listener.fileno()

    def advance(self) -> None:
        """Answer what is pending. Never blocks."""
        while (call := self._listener.receive()) is not None:
            if self.stage is Stage.DENIED:
                self._listener.answer(call, refuse=True)
            elif self.stage in (Stage.LOADING, Stage.PARKED) and call.attach_type == BPF_STRUCT_OPS:
                # Again when it waits already: a signal, or the freezer of a suspend, has made it repeat the call.
                if self.load is None:
                    self.load = _cost(self.process.pid, time.monotonic_ns() - self._started_ns)
                self._waiting, self.stage = call, Stage.PARKED
            else:  # an auxiliary program, or one in force that loads itself anew after a CPU came or went
                self._listener.answer(call)

    def waits(self) -> bool:
        """Does it wait at its attach now? One that is parked may be ending already, or be stopped."""
        return self._waiting is not None and self._listener.valid(self._waiting)

    def release(self) -> None:
        """Let it attach; whether it did, sysfs says."""
        self.stage = Stage.RELEASED
        if self._waiting is not None:
            self._listener.answer(self._waiting)
        self._waiting = None

    def deny(self) -> None:
        """Its attach fails with EPERM, and each later one: it ends by itself, with an error."""
        self.stage = Stage.DENIED
        if self._waiting is not None:
            self._listener.answer(self._waiting, refuse=True)
        self._waiting = None

    def close(self) -> None:
        """Give the listener back."""
        self._listener.close()


def launch(
    opened: Opened, log: Path, run: Path, *, urgent: bool = True, values: Mapping[str, str] | None = None
) -> Gated:
    """Start a scheduler behind the gate; closes `opened.fd`. Raises SchedulerError; then nothing is left of it.

    `values` are settings below /sys that it gets copies of, so that what it sets while it loads reaches nobody else.
    """
    try:
        run.mkdir(parents=True, exist_ok=True)
        disabled = run / _SAYS_DISABLED
        disabled.write_text("disabled\n")
    except OSError as error:
        os.close(opened.fd)
        raise SchedulerError(scheduler=opened.argv[0], reason=f"{run}: {error.strerror}") from error
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = SchedulerProcess(opened, log, urgent=urgent, prepare=lambda: _isolate(disabled, theirs, values or {}))
        theirs.close()
        try:
            return Gated(process, Listener(_handed_over(ours)))
        except AsaError as error:
            process.kill()
            process.wait(5.0)
            process.forget()
            raise SchedulerError(scheduler=opened.argv[0], reason=f"the gate cannot be used: {error}") from error


def unusable(run: Path) -> str:
    """Why the gate cannot be used here, "" where it can: tried once, on a child that ends when it was seen."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        try:
            run.mkdir(parents=True, exist_ok=True)
            disabled = run / _SAYS_DISABLED
            disabled.write_text("disabled\n")
            with subprocess.Popen(
                ["cat"],  # until its input ends, which is with this block
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                preexec_fn=lambda: _isolate(disabled, theirs, {}),  # noqa: PLW1509  # one thread
            ) as child:
                theirs.close()
                os.close(_handed_over(ours))
                check_readable(child.pid)
        except (OSError, subprocess.SubprocessError, AsaError) as error:
            return str(error)
    return ""


def _isolate(disabled: Path, to_agent: socket.socket, values: Mapping[str, str]) -> None:
    # In the child, before it becomes the scheduler. What fails is told in words instead of a descriptor.
    try:
        _check(_libc.unshare(_CLONE_NEWNS), "a mount namespace of its own")
        _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts")
        _check(_libc.mount(bytes(disabled), bytes(_STATE), None, _MS_BIND, None), f"a bind mount over {_STATE}")
        give_copies(_SYS, disabled.parent, values)
        listener = install()
    except (OSError, ValueError, AsaError) as error:
        to_agent.send(str(error).encode())
        os._exit(1)
    to_agent.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
    os.close(listener)


def _handed_over(ours: socket.socket) -> int:
    """The listener. Raises AsaError with the child's words."""
    words, control, _, _ = ours.recvmsg(4096, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC)
    for _, kind, body in control:
        if kind == socket.SCM_RIGHTS:
            return array.array("i", body)[0]
    raise AsaError(words.decode(errors="replace") or "the child ended before it was ready")


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _cost(pid: int, wall_ns: int) -> LoadCost:
    user, system, memory_kib = 0, 0, 0
    with suppress(OSError, ValueError, IndexError):
        fields = procstat.fields(Path(f"/proc/{pid}/stat").read_bytes())
        user, system = int(fields[procstat.USER]), int(fields[procstat.SYSTEM])
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                memory_kib = int(line.split()[1])
    tick_ns = 1_000_000_000 // _TICKS_PER_S
    return LoadCost(wall_ns=wall_ns, user_ns=user * tick_ns, system_ns=system * tick_ns, memory_bytes=memory_kib * 1024)
