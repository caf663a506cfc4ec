# SPDX-License-Identifier: GPL-2.0-only
"""A screen of its own for a program: Xvfb, of which nothing is left when its process is gone.

It listens on an abstract socket alone, takes no lock file, and lets only those in who know the cookie, which lies in
the scratch folder. Its number is far from those of a desktop, so that no other program takes it for one.
"""

import os
import secrets
import select
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from asa.core.errors import AsaError

_FIRST_DISPLAY = 1000
_DISPLAYS = 50_000
_TRIES = 8
_START_LIMIT_S = 40.0
_PRIVATE = ("-nolisten", "tcp", "-nolisten", "unix", "-nolock", "-noreset")
_FAMILY_WILD = 0xFFFF  # a cookie for any display; see Xauth(3)


class ScreenError(AsaError):
    """There is no screen; the text says what Xvfb said."""


class Screen:
    """A running X server. `environment` is what its clients need."""

    def __init__(self, *, process: subprocess.Popen[bytes], environment: Mapping[str, str]) -> None:
        self.process = process
        self.environment = environment

    @classmethod
    def start(cls, scratch: Path, *, width: int, height: int) -> "Screen":
        """Blocks until it takes clients. Raises ScreenError, OSError."""
        authority = scratch / "xauthority"
        authority.write_bytes(_cookie())
        log = scratch / "xvfb.log"
        for step in range(_TRIES):
            display = f":{_FIRST_DISPLAY + (os.getpid() + step * 6007) % _DISPLAYS}"
            process = _launch(display, authority, log, f"{width}x{height}x24")
            if process is not None:
                return cls(process=process, environment={"DISPLAY": display, "XAUTHORITY": str(authority)})
        raise ScreenError(f"Xvfb does not start: {log.read_text(errors='replace').strip()[-200:]}")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


def _launch(display: str, authority: Path, log: Path, size: str) -> subprocess.Popen[bytes] | None:
    """None when it ended at once, for instance since the display is taken."""
    told, tells = os.pipe()
    with os.fdopen(told, "rb") as heard, log.open("wb") as words:
        try:
            process = subprocess.Popen(
                ("Xvfb", display, "-displayfd", str(tells), "-auth", str(authority), "-screen", "0", size, *_PRIVATE),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                pass_fds=(tells,),
            )
        finally:
            os.close(tells)
        readable = select.select([heard], [], [], _START_LIMIT_S)[0]
        if readable and heard.readline():  # it writes its number when it is ready, and closes when it ends
            return process
    process.kill()
    process.wait()
    return None


def _cookie() -> bytes:
    """An authority file with one entry; fields as in Xauth(3)."""
    fields = (b"", b"", b"MIT-MAGIC-COOKIE-1", secrets.token_bytes(16))
    return struct.pack(">H", _FAMILY_WILD) + b"".join(struct.pack(">H", len(field)) + field for field in fields)
