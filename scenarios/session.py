# SPDX-License-Identifier: GPL-2.0-only
"""An application at play: its driver as a child process, followed by the lines that it prints.

Writes one scratch folder, removed at the end with every process that belongs to it. The driver's output goes to a file
that is read when asked for, so that nobody wakes up for each sample.
"""

import json
import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from scenarios.application import Application, ApplicationError, Failure, Measurement, Parameters, Place, Tier
from scenarios.crew import Crew, StuckError, last_words

_LOOK_S = 0.02
_PACKAGES = Path(__file__).resolve().parents[1]  # a driver may run under another Python than ours
_NO_SPACE = "No space left on device"  # strerror(ENOSPC) under LC_ALL=C, in whatever words a program puts it


class _Line(msgspec.Struct, frozen=True):
    ready: dict[str, str] | None = None
    at_ns: int = 0
    metric: str = ""
    value: float = 0.0


def parameters(application: Application, *, seed: int, place: Place) -> Parameters:
    """What a session of this seed is made of; applications of one seed do not share their random numbers."""
    return application.draw(random.Random(_text(application, seed)), place)  # noqa: S311


def check_installed(application: Application) -> None:
    """Raises ApplicationError (MISSING) for the first program or module that is not here."""
    for program in application.programs:
        if shutil.which(program) is None:
            reason = f"{program} is not installed; run: apt-get install {' '.join(application.packages)}"
            raise ApplicationError(application=application.name, failure=Failure.MISSING, reason=reason)
    for module in application.modules:
        if find_spec(module) is None:
            reason = f"the Python module {module} is not installed; run: pip install 'asa[bench]'"
            raise ApplicationError(application=application.name, failure=Failure.MISSING, reason=reason)


class Session:
    """One application at play. Make it with `Session.start`; leaving its context stops it."""

    def __init__(self, *, application: Application, scratch: Path, given: Parameters, crew: Crew) -> None:
        self.application = application
        self.parameters = given
        self.versions: Mapping[str, str] = {}
        """Of its programs, once it is ready."""
        self._crew = crew
        self._scratch = scratch
        self._output = scratch / ".lines"
        self._errors = scratch / ".errors"
        self._offset = 0
        self._ready = False
        self._heard_s = time.monotonic()
        self._fresh: list[Measurement] = []
        self._driver: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, application: Application, *, seed: int, place: Place, folder: Path) -> Self:
        """Start the driver and return at once; the scratch folder is made in `folder`.

        Blocks for `prepare` only, nothing when it was done before. The driver gets SIGTERM when the calling thread
        ends. Raises ApplicationError; nothing is left behind then.
        """
        check_installed(application)
        application.prepare(place, lambda _line: None)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=f"asa-{application.name}-", dir=folder))
        except OSError as error:
            reason = f"{folder}: no scratch folder: {error.strerror}"
            raise ApplicationError(application=application.name, failure=Failure.UNPREPARED, reason=reason) from error
        given = parameters(application, seed=seed, place=place)
        session = cls(application=application, scratch=scratch, given=given, crew=Crew())
        try:
            session._launch(place, seed)
        except BaseException:
            session.stop()
            raise
        return session

    def await_ready(self, *, also: Callable[[], None] = lambda: None) -> None:
        """Block until it works; `also` is called every 20 ms and may raise. Raises ApplicationError."""
        deadline = time.monotonic() + self.application.ready_limit_s
        while not self._ready:
            self.check()
            also()
            if time.monotonic() > deadline:
                reason = f"is not ready after {self.application.ready_limit_s:.0f} s"
                raise self._error(Failure.NOT_READY, reason)
            time.sleep(_LOOK_S)

    def check(self) -> None:
        """Take in what it has said. Raises ApplicationError when it has ended, or hangs."""
        self._listen()
        driver = self._driver
        code = None if driver is None else driver.poll()
        if code is not None:
            self._listen()
            full = _NO_SPACE in last_words(self._errors, 20, 4096)
            ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise self._error(Failure.NO_SPACE if full else Failure.CRASHED, f"its driver {ended}")
        silent_s = time.monotonic() - self._heard_s
        if self._ready and silent_s > self.application.silence_limit_s:
            raise self._error(Failure.SILENT, f"has measured nothing for {silent_s:.0f} s")

    def measurements(self) -> list[Measurement]:
        """Those that have come since the last call, oldest first; never blocks."""
        self._listen()
        fresh, self._fresh = self._fresh, []
        return fresh

    def members(self) -> list[int]:
        """Process ids of driver and programs."""
        return self._crew.members()

    def stop(self) -> None:
        """End the driver and all it started, and remove the scratch folder. May be called again.

        Raises ApplicationError (STUCK) when something survives SIGKILL.
        """
        try:
            self._crew.end()
        except StuckError as error:
            raise ApplicationError(
                application=self.application.name, failure=Failure.STUCK, reason=str(error)
            ) from error
        self._listen()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _launch(self, place: Place, seed: int) -> None:
        application = self.application
        orders = {
            "parameters": self.parameters,
            "scratch": str(self._scratch),
            "cache": str(place.cache),
            "seed": _text(application, seed),
            "cpus": place.cpus,
        }
        scratch = str(self._scratch)
        home = {"HOME": scratch, "TMPDIR": scratch, "XDG_RUNTIME_DIR": scratch, "PYTHONPATH": str(_PACKAGES)}
        try:
            self._driver = self._crew.launch(
                (*application.command(place, self.parameters), json.dumps(orders)),
                cwd=self._scratch,
                output=self._output,
                errors=self._errors,
                env={**home, **application.environment(place)},
            )
        except OSError as error:
            reason = f"its driver cannot be started: {error.strerror}"
            raise ApplicationError(application=application.name, failure=Failure.MISSING, reason=reason) from error

    def _listen(self) -> None:
        with suppress(FileNotFoundError):  # the scratch folder is gone: it was stopped
            with self._output.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            whole = new.rpartition(b"\n")[0]
            if whole:
                self._offset += len(whole) + 1
                self._heard_s = time.monotonic()
                for line in whole.split(b"\n"):
                    self._take(line)

    def _take(self, text: bytes) -> None:
        try:
            line = msgspec.json.decode(text, type=_Line)
        except msgspec.DecodeError as error:
            said = text[:200].decode(errors="replace")
            raise self._error(Failure.CRASHED, f"printed {said!r}, which is no line of a driver") from error
        if line.ready is not None:
            self._ready, self.versions = True, line.ready
        elif line.metric not in self.application.metrics:
            raise self._error(Failure.CRASHED, f"measured {line.metric!r}, which is none of its metrics")
        else:
            self._fresh.append(Measurement(at_ns=line.at_ns, metric=line.metric, value=line.value))

    def _error(self, failure: Failure, reason: str) -> ApplicationError:
        return ApplicationError(
            application=self.application.name, failure=failure, reason=reason, last_words=last_words(self._errors)
        )


def _text(application: Application, seed: int) -> str:
    return f"{application.name} {seed}"


def default_folder(cache: Path, *, lab: bool) -> Path:
    """Where scratch folders are made: a guest's own /tmp, else the cache, which is a real disk."""
    return Path(tempfile.gettempdir()) if lab else cache / "scratch"


def place_for(application: Application, *, cache: Path, tier: Tier) -> Place:
    """Where it plays on this machine; `cache` is asa's."""
    here = cache / "scenarios" / application.name
    return Place(cache=here, cpus=len(os.sched_getaffinity(0)), tier=tier)
