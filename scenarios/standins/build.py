# SPDX-License-Identifier: GPL-2.0-only
"""Compiles the stand-ins' C sources into one program below the cache, once for each state of the sources.

A guest sees the host's cache but cannot write it: build on the host before the boot.
"""

import errno
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from scenarios.application import ApplicationError, Failure, Place, Report

PACKAGES = ("gcc", "libc6-dev")
SOURCES = Path(__file__).parent / "c"
FLAGS = ("-O2", "-Wall", "-std=gnu11", "-pthread", "-static")
"""Static: a guest starts it without reading libraries through its slow root."""

_COMPILERS = ("gcc", "cc", "clang")
_LIMIT_S = 240.0
_NO_SPACE = "No space left on device"


def program(place: Place) -> Path:
    """Where it is, or will be; all stand-ins share it."""
    return _folder(place) / "stand_in"


def prepare(place: Place, report: Report) -> None:
    """Compile it, unless that was done. Raises ApplicationError."""
    if program(place).exists():
        return
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise _error(place, Failure.MISSING, f"no C compiler; run: apt-get install {' '.join(PACKAGES)}")
    report("the stand-ins are compiled")
    folder = _folder(place)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".building-") as fresh:
            _compile(place, compiler, Path(fresh))
            Path(fresh).chmod(0o755)  # a guest's root is not always the owner
            made = Path(fresh, "whole")
            made.mkdir()
            Path(fresh, "stand_in").rename(made / "stand_in")
            _keep(made, folder)
    except OSError as error:
        failure = Failure.NO_SPACE if error.errno == errno.ENOSPC else Failure.UNPREPARED
        words = f"{folder}: cannot be made: {error.strerror}; for a guest, make it on the host first"
        raise _error(place, failure, words) from error


def _keep(made: Path, folder: Path) -> None:
    try:
        made.rename(folder)
    except OSError:
        if not (folder / "stand_in").exists():  # else somebody was faster
            raise


def _compile(place: Place, compiler: str, folder: Path) -> None:
    sources = sorted(map(str, SOURCES.glob("*.c")))
    command = (compiler, *FLAGS, "-o", str(folder / "stand_in"), *sources)
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_LIMIT_S, env=environment, cwd=folder
        )
    except subprocess.TimeoutExpired as error:
        raise _error(place, Failure.UNPREPARED, f"{compiler} took more than {_LIMIT_S:g} s") from error
    if done.returncode != 0:
        words = " / ".join(done.stderr.splitlines()[-3:])
        failure = Failure.NO_SPACE if _NO_SPACE in done.stderr else Failure.UNPREPARED
        reason = f"{compiler} fails on {SOURCES}: {words!r}; run: apt-get install {' '.join(PACKAGES)}"
        raise _error(place, failure, reason)


def _folder(place: Place) -> Path:
    return place.cache.parent / "stand-ins" / _key()


@cache
def _key() -> str:
    found = hashlib.sha256(" ".join(FLAGS).encode())
    for path in sorted(SOURCES.glob("*.[ch]")):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _error(place: Place, failure: Failure, reason: str) -> ApplicationError:
    return ApplicationError(application=place.cache.name, failure=failure, reason=reason)
