# SPDX-License-Identifier: GPL-2.0-only
"""An application of the benchmark at play: its driver as a child process, followed by the lines that it prints.

Writes one scratch folder, removed at the end with every process that belongs to it. The driver's output goes to a file
that is read when asked for, so that nobody wakes up for each sample.
"""

import errno
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

from asa import wire
from scenarios.application import (
    Application,
    ApplicationError,
    Failure,
    Measurement,
    Parameters,
    Place,
    Report,
    Tier,
    either,
)
from scenarios.crew import Crew, StuckError, last_words

_LOOK_S = 0.02
_PACKAGES = Path(__file__).resolve().parents[1]  # a driver may run under another Python than ours
_NO_SPACE = os.strerror(errno.ENOSPC)  # under LC_ALL=C, in whatever words a program puts it
_FULL_BYTES = 1 << 20  # with less than this a program could not even say so
_NOT_THE_USERS = {
    "DBUS_SESSION_BUS_ADDRESS": "disabled:",  # left out, libdbus would start a bus that stays
    **{f"XDG_{kind}_HOME": "" for kind in ("CACHE", "CONFIG", "DATA", "STATE")},  # "": below HOME
}
_NOT_FOUND = 127  # exit code of shells, setpriv(1) and `scenarios.driving.missing`


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
        if shutil.which(either(program)) is None:
            packages = " ".join(application.packages)
            reason = f"{program.replace('|', ' or ')} is not installed; run: apt-get install {packages}"
            raise ApplicationError(application=application.name, failure=Failure.MISSING, reason=reason)
    for module in application.modules:
        if find_spec(module.partition(".")[0]) is None:
            reason = f"the Python module {module} is not installed; run `make setup` in asa's folder"
            raise ApplicationError(application=application.name, failure=Failure.MISSING, reason=reason)


def prepare(application: Application, place: Place, report: Report) -> None:
    """Make what all its sessions share, if it is installed. Raises ApplicationError, whatever goes wrong."""
    check_installed(application)
    try:
        application.prepare(place, report)
    except OSError as error:
        raise _from_system(application, error, Failure.UNPREPARED, "cannot be prepared") from error


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
        self._wrong: str | None = None
        self._driver: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, application: Application, *, seed: int, place: Place, folder: Path) -> Self:
        """Start the driver and return at once; the scratch folder is made in `folder`.

        Blocks for `prepare` only, nothing when it was done before. The driver gets SIGTERM when the calling thread
        ends. Raises ApplicationError; nothing is left behind then.
        """
        prepare(application, place, lambda _line: None)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=f"asa-{application.name}-", dir=folder))
        except OSError as error:
            raise _from_system(application, error, Failure.UNPREPARED, "has no scratch folder") from error
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
        driver = self._driver
        code = None if driver is None else driver.poll()
        self._listen()
        if self._wrong is not None:
            raise self._error(Failure.CRASHED, self._wrong)
        if code is not None:
            ended = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            raise self._error(self._why(code), f"its driver {ended}")
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
            raise self._error(Failure.STUCK, str(error)) from error
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
        home |= _NOT_THE_USERS
        try:
            self._driver = self._crew.launch(
                (*_ordinary(), *application.command(place, self.parameters), json.dumps(orders)),
                cwd=self._scratch,
                output=self._output,
                errors=self._errors,
                env={**home, **application.environment(place)},
            )
        except OSError as error:
            raise _from_system(application, error, Failure.MISSING, "its driver cannot be started") from error

    def _why(self, code: int) -> Failure:
        with suppress(FileNotFoundError):  # it was stopped
            if _NO_SPACE in last_words(self._errors, 20, 4096) or shutil.disk_usage(self._scratch).free < _FULL_BYTES:
                return Failure.NO_SPACE
        return Failure.MISSING if code == _NOT_FOUND else Failure.CRASHED

    def _listen(self) -> None:
        with suppress(FileNotFoundError):  # the scratch folder is gone: it was stopped
            with self._output.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            *whole, rest = new.split(b"\n")
            self._offset += len(new) - len(rest)
            if whole:
                self._heard_s = time.monotonic()
            for line in whole:
                self._take(line)

    def _take(self, text: bytes) -> None:
        try:
            line = wire.from_json(text, _Line)
        except msgspec.DecodeError:
            said = text[:200].decode(errors="replace")
            self._wrong = self._wrong or f"printed {said!r}, which is no line of a driver"
            return
        if line.ready is not None:
            self._ready, self.versions = True, line.ready
        elif line.metric not in self.application.metrics:
            self._wrong = self._wrong or f"measured {line.metric!r}, which is none of its metrics"
        else:
            self._fresh.append(Measurement(at_ns=line.at_ns, metric=line.metric, value=line.value))

    def _error(self, failure: Failure, reason: str) -> ApplicationError:
        return ApplicationError(
            application=self.application.name, failure=failure, reason=reason, last_words=last_words(self._errors)
        )


def _ordinary() -> tuple[str, ...]:
    """A prefix that keeps a program from real-time policies and negative nice, with which browsers and sound servers
    would escape the scheduler under observation. Root may do both by a capability, so that is taken away."""
    caps = ("setpriv", "--inh-caps=-sys_nice", "--bounding-set=-sys_nice") if os.geteuid() == 0 else ()
    return ("prlimit", "--rtprio=0", "--nice=0", "--", *caps)


def _from_system(application: Application, error: OSError, failure: Failure, what: str) -> ApplicationError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = f"{what}: {error.filename or ''}: {error.strerror}"
    return ApplicationError(application=application.name, failure=Failure.NO_SPACE if full else failure, reason=reason)


def _text(application: Application, seed: int) -> str:
    return f"{application.name} {seed}"


def default_folder(cache: Path, *, lab: bool) -> Path:
    """Where scratch folders are made: a guest's own /tmp, else the cache, which is a real disk."""
    return Path(tempfile.gettempdir()) if lab else cache / "scratch"


def place_for(application: Application, *, cache: Path, tier: Tier) -> Place:
    """Where it plays on this machine; `cache` is asa's."""
    here = cache / "scenarios" / application.name
    return Place(cache=here, cpus=len(os.sched_getaffinity(0)), tier=tier)
