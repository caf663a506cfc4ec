# SPDX-License-Identifier: GPL-2.0-only
"""A window system of its own for a session, and hands at it: they type, click and scroll as a person would.

`Desk` is what drivers know. `XDesk` is Xvfb with Openbox, its hands one xdotool that reads what to do from a pipe. A
desktop that is driven another way has the same few methods.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from scenarios.interactive.game_screen import Screen, ScreenError

PACKAGES = ("xvfb", "openbox", "xdotool", "fonts-dejavu-core")
PROGRAMS = ("Xvfb", "openbox", "xdotool")

_LOOK_S = 0.2
_MANAGER_LIMIT_S = 60.0  # it takes a tenth of a second where nothing else runs
_HANDS_LIMIT_S = 2.0
_LEAST_PIXELS = 100  # a side of a window that a person could look at

_OPENBOX = """\
<?xml version="1.0"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
<focus><focusNew>yes</focusNew></focus><placement><policy>Smart</policy></placement>
<desktops><number>1</number></desktops>
<applications><application type="normal"><maximized>{maximized}</maximized></application></applications>
</openbox_config>
"""


class Desk(Protocol):
    """A place with windows, the one in front of which gets what the hands do."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What its clients need."""

    def focus(self, limit_s: float) -> bool:
        """Wait until a window is in front; False after the limit."""

    def title(self) -> str:
        """Of the window in front; "" without one."""

    def type(self, text: str) -> None:
        """Press the keys of a text, one after the other without pauses."""

    def key(self, name: str) -> None:
        """Press a key by its keysym, with modifiers before it: `Return`, `ctrl+Home`."""

    def click(self, x: float, y: float) -> None:
        """Click at a place of the screen, both shares of 1."""

    def scroll(self, notches: int) -> None:
        """Turn the wheel where the pointer is; down, when positive."""

    def stop(self) -> None:
        """End it."""


class XDesk:
    """An X server in memory with a window manager."""

    def __init__(self, scratch: Path, *, size: str, maximized: bool) -> None:
        """Blocks until windows are managed. `size` is as `1280x720`. Raises ScreenError, OSError."""
        self._width, self._height = (int(part) for part in size.split("x"))
        self._screen = Screen.start(scratch, width=self._width, height=self._height)
        self.environment: Mapping[str, str] = self._screen.environment
        settings, log = scratch / "openbox.xml", scratch / "desk.log"
        settings.write_text(_OPENBOX.format(maximized="yes" if maximized else "no"))
        self._running: list[subprocess.Popen[bytes]] = []
        try:
            with log.open("wb") as said:
                for argv in (("openbox", "--sm-disable", "--config-file", str(settings)), ("xdotool", "-")):
                    self._running.append(
                        subprocess.Popen(
                            argv,
                            stdin=subprocess.PIPE,
                            stdout=subprocess.DEVNULL,
                            stderr=said,
                            env=self._variables(),
                        )
                    )
            self._await_manager()
        except (OSError, ScreenError):
            self.stop()
            raise

    def _await_manager(self) -> None:
        # who maps a window before is never in front: Openbox takes it in at its start and gives it no focus
        begin_s, asked = time.monotonic(), ("xdotool", "get_num_desktops")
        while subprocess.run(asked, capture_output=True, check=False, env=self._variables()).returncode:
            waited_s = time.monotonic() - begin_s
            if self._running[0].poll() is not None or waited_s > _MANAGER_LIMIT_S:
                raise ScreenError(f"openbox: manages no windows after {waited_s:.0f} s")
            time.sleep(_LOOK_S / 4)

    def _variables(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def focus(self, limit_s: float) -> bool:
        """Wait until a window of some size is in front; False after the limit."""
        begin_s = time.monotonic()
        while time.monotonic() - begin_s < limit_s:
            said = dict(
                line.split("=", 1) for line in self._ask("getwindowgeometry", "--shell").splitlines() if "=" in line
            )
            if min(int(said.get("WIDTH", 0)), int(said.get("HEIGHT", 0))) >= _LEAST_PIXELS:
                return True
            time.sleep(_LOOK_S)
        return False

    def title(self) -> str:
        """Of the window in front."""
        return self._ask("getwindowname").strip()

    def _ask(self, *what: str) -> str:
        asked = ("xdotool", "getactivewindow", *what)
        return subprocess.run(
            asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=self._variables()
        ).stdout

    def type(self, text: str) -> None:
        """Press the keys of a text."""
        self._do("key --delay 0 " + " ".join("Return" if sign == "\n" else f"U{ord(sign):04X}" for sign in text))

    def key(self, name: str) -> None:
        """Press one key."""
        self._do(f"key {name}")

    def click(self, x: float, y: float) -> None:
        """Move there, and click."""
        self._do(f"mousemove {round(x * self._width)} {round(y * self._height)} click 1")

    def scroll(self, notches: int) -> None:
        """Turn the wheel."""
        self._do(f"click --repeat {abs(notches)} --delay 20 {5 if notches > 0 else 4}")

    def _do(self, words: str) -> None:
        hands = self._running[-1]
        if hands.stdin is None or hands.poll() is not None:
            raise ScreenError("xdotool has ended; the screen is gone")
        hands.stdin.write(f"{words}\n".encode())
        hands.stdin.flush()

    def stop(self) -> None:
        """End hands, window manager and server."""
        for process in reversed(self._running):
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self._screen.stop()
