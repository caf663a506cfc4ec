# SPDX-License-Identifier: GPL-2.0-only
"""A program that a driver runs, and what it prints, read now and then: nobody wakes up for each line, nobody waits."""

import fcntl
import os
import subprocess
from collections.abc import Mapping, Sequence
from enum import Enum

_PIPE_BYTES = 1 << 20  # a driver that gets no CPU for seconds must not make the program wait


class Voice(Enum):
    """Which of a program's outputs is listened to; standard error is else the driver's, standard output is dropped."""

    OUTPUT = "output"
    ERRORS = "errors"


class Child:
    """A running program. End it with `end`, whatever happened."""

    def __init__(self, argv: Sequence[str], *, voice: Voice, env: Mapping[str, str]) -> None:
        """`env` is added to ours. Raises OSError."""
        heard, told = os.pipe()
        self._heard = os.fdopen(heard, "rb", buffering=0)
        self._rest = b""
        try:
            os.set_blocking(heard, False)
            fcntl.fcntl(heard, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=told if voice is Voice.OUTPUT else subprocess.DEVNULL,
                stderr=told if voice is Voice.ERRORS else None,
                env={**os.environ, **env},
            )
        except OSError:
            self._heard.close()
            raise
        finally:
            os.close(told)

    def lines(self) -> list[str]:
        """Those that are whole and new; never blocks."""
        while new := self._heard.read(_PIPE_BYTES):
            self._rest += new
        *whole, self._rest = self._rest.split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    @property
    def ended(self) -> bool:
        """True once it has ended; `lines` may still have more."""
        return self.process.poll() is not None

    def end(self, limit_s: float) -> None:
        """SIGTERM, and SIGKILL to what is still there after so long."""
        self.process.terminate()
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._heard.close()
