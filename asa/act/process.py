# SPDX-License-Identifier: GPL-2.0-only
"""A scheduler's process: started from an opened and checked file, ended politely, and quoted in its own words."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from asa.act import words
from asa.act.portfolio import Opened
from asa.act.priority import Pace, set_pace
from asa.core.errors import SchedulerError

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h
_TAIL_BYTES = 1 << 17  # a dump or a verifier's log may stand between the reason and the end
_LOG_BYTES = 1 << 20
_libc = ctypes.CDLL(None, use_errno=True)


class SchedulerProcess:
    """One running scx binary.

    It gets SIGINT when the agent dies, however the agent dies (PR_SET_PDEATHSIG), so that the kernel is back on EEVDF
    and the scheduler has restored what it had set (flash and bpfland set pm_qos_resume_latency_us).
    """

    def __init__(
        self, opened: Opened, log: Path, *, urgent: bool = True, prepare: Callable[[], None] | None = None
    ) -> None:
        """Start it; closes `opened.fd`. Raises SchedulerError when the kernel refuses to run the file.

        `prepare` runs in the child, last before it becomes the scheduler. `urgent`: it loads ahead of
        others; else behind them. It leads a session.
        """
        self._log = self._pidfd = -1
        agent = os.getpid()

        def tie_to_agent() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where the agent is a shell's background job
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
            if os.getppid() != agent:  # it died before the line above took hold
                os._exit(1)
            if prepare is not None:
                prepare()

        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.unlink(missing_ok=True)  # an earlier process of this name may still write to its own
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC  # appending: it can be cut while it is written
            self._log = os.open(log, flags, 0o644)
            self._child = subprocess.Popen(
                opened.argv,
                executable=f"/proc/self/fd/{opened.fd}",
                pass_fds=(opened.fd,),
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
                start_new_session=True,  # Ctrl-C at the terminal is for the agent, which then stops us in order
                preexec_fn=tie_to_agent,  # noqa: PLW1509  # the agent has one thread of its own
            )
        except (OSError, subprocess.SubprocessError) as error:
            self.forget()
            said = error.strerror if isinstance(error, OSError) else error
            raise SchedulerError(scheduler=opened.argv[0], reason=f"cannot be run: {said}") from error
        finally:
            os.close(opened.fd)
        self._pidfd = os.pidfd_open(self._child.pid)
        set_pace(self._child.pid, Pace.HURRIED if urgent else Pace.PATIENT)

    def fileno(self) -> int:
        """Readable once the process has ended; -1 when that is known (`exit_code`): it stays readable for good."""
        return self._pidfd if self._child.returncode is None else -1

    def forget(self) -> None:
        """Give the descriptors back; for a process that has ended, or that nothing can end."""
        for descriptor in (self._pidfd, self._log):
            if descriptor >= 0:
                os.close(descriptor)
        self._pidfd = self._log = -1

    @property
    def pid(self) -> int:
        """Process id."""
        return self._child.pid

    def settle(self) -> None:
        """It has loaded: from now on an ordinary process."""
        set_pace(self._child.pid, Pace.ORDINARY)

    def urge(self) -> None:
        """It is wanted now: ahead of others until it settles."""
        set_pace(self._child.pid, Pace.HURRIED)

    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._child.poll()

    def interrupt(self) -> None:
        """Ask it to end (SIGINT): it detaches, restores what it had set, and exits; hurried, or it may take long."""
        set_pace(self._child.pid, Pace.HURRIED)
        self._signal(self._child.send_signal, signal.SIGINT)

    def kill(self) -> None:
        """End it at once. The kernel detaches the scheduler; what it had set elsewhere stays behind."""
        self._signal(lambda sign: os.killpg(self._child.pid, sign), signal.SIGKILL)

    def wait(self, limit_s: float) -> bool:
        """True when it ended within the limit."""
        try:
            self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def trim_log(self) -> None:
        """Cut the log when it has grown too large: it lies in /run, which is memory."""
        with suppress(OSError):
            if os.fstat(self._log).st_size > _LOG_BYTES:
                os.truncate(self._log, 0)

    def last_words(self) -> str:
        """The line that says why it ended, as `asa.act.words` finds it; "" when it said nothing."""
        try:
            start = max(0, os.fstat(self._log).st_size - _TAIL_BYTES)
            text = os.pread(self._log, _TAIL_BYTES, start).decode(errors="replace")
        except OSError:
            return ""
        return words.last_words(text)

    @staticmethod
    def _signal(send: Callable[[int], None], sign: int) -> None:
        with suppress(ProcessLookupError):  # it ended in the meantime, which is what was wanted
            send(sign)
