# SPDX-License-Identifier: GPL-2.0-only
"""One question to a server at a time, in a child process, at most so many an hour, and less often after faults."""

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Protocol

import msgspec

from asa import wire
from asa.adviser import child

_PROGRAM = Path(child.__file__)
_LONGEST_NS = int(2e9 * child.LONGEST_S)  # after which a child is killed that its own alarm has not ended
_FIRST_WAIT_NS, _LONGEST_WAIT_NS = 60 * 10**9, 3600 * 10**9  # after a fault; doubles
_HOUR_NS = 3600 * 10**9
_MOST_BYTES = 4096


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a child is told: the name of a program, and where to ask."""

    url: str
    model: str  # "": the first that the server names
    way: str  # by which it answered before, "" for unknown
    remote: bool
    program: str


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a child says: `error` alone, with the model where it is known, or all others."""

    kind: Annotated[str, msgspec.Meta(max_length=20)] = ""
    sure: Annotated[str, msgspec.Meta(max_length=20)] = ""
    way: Annotated[str, msgspec.Meta(max_length=20)] = ""
    model: Annotated[str, msgspec.Meta(max_length=80)] = ""
    error: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Running(Protocol):
    """A question that is under way."""

    def poll(self) -> bytes | None:
        """What was answered, b"" for nothing; None while it goes on. Never raises."""
        ...

    def end(self) -> None:
        """Give up. Never raises."""
        ...


class Child:
    """A process that asks. Raises OSError where none can be started."""

    def __init__(self, question: bytes) -> None:
        # files, not pipes: nobody waits for the other
        with tempfile.TemporaryFile() as given:
            given.write(question)
            given.seek(0)
            self._answer = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the child has ended
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_PROGRAM)],
                    stdin=given,
                    stdout=self._answer,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                )
            except OSError:
                self._answer.close()
                raise

    def poll(self) -> bytes | None:
        """See `Running`."""
        code = self._process.poll()
        if code is None:
            return None
        with self._answer:
            self._answer.seek(0)
            return self._answer.read(_MOST_BYTES) if code == 0 else b""

    def end(self) -> None:
        """See `Running`."""
        self._process.kill()
        self._process.wait()
        self._answer.close()


class Asker:
    """Begins questions where the budget has one, and hears of them. Times are CLOCK_MONOTONIC in ns."""

    def __init__(self, per_hour: int, begin: Callable[[bytes], Running] = Child) -> None:
        self._begin, self._asked = begin, deque[int](maxlen=per_hour)
        self._running: Running | None = None
        self._again_ns = 0
        self._wait_ns = _FIRST_WAIT_NS

    @property
    def busy(self) -> bool:
        """Whether a question is under way."""
        return self._running is not None

    def may(self, now_ns: int) -> bool:
        """Whether one may begin now."""
        spent = len(self._asked) == self._asked.maxlen and now_ns - self._asked[0] < _HOUR_NS
        return not self.busy and not spent and now_ns >= self._again_ns

    def begin(self, question: Question, now_ns: int) -> str:
        """Why it cannot be asked, "" where it is."""
        self._asked.append(now_ns)
        try:
            self._running = self._begin(wire.json_bytes(question))
        except OSError as error:
            self._fault(now_ns)
            return f"{os.fspath(sys.executable)!r} cannot be started: {error.strerror}"
        return ""

    def heard(self, now_ns: int) -> Answer | None:
        """The answer, or the fault, once; None while there is none."""
        if self._running is None:
            return None
        text = self._running.poll()
        if text is None and now_ns - self._asked[-1] < _LONGEST_NS:
            return None
        if text is None:
            self._running.end()
        self._running = None
        try:
            found = wire.from_json(text or b"", Answer)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = Answer(error="no answer in time")
        if found.error:
            self._fault(now_ns)
        else:
            self._wait_ns = _FIRST_WAIT_NS
        return found

    def end(self) -> None:
        """Give up what is under way."""
        if self._running is not None:
            self._running.end()
            self._running = None

    def _fault(self, now_ns: int) -> None:
        self._again_ns = now_ns + self._wait_ns
        self._wait_ns = min(2 * self._wait_ns, _LONGEST_WAIT_NS)
