# SPDX-License-Identifier: GPL-2.0-only
"""Hyprland: the window in front, by its request socket: `j/activewindow`, one question a connection (hyprctl's own).

Of the answer the process, the class and whether it fills the screen are kept; of the title its class alone.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from collectors import titles
from collectors.ipc import IpcReader
from collectors.window import Window, name_of

_MAXIMIZED = 1  # fills the workspace, with bars and gaps; 2 is full screen, and before 0.42 it is a boolean


class _Active(msgspec.Struct, rename={"window_class": "class"}):
    pid: int = 0
    window_class: str = ""
    title: str = ""
    fullscreen: Any = 0


_ANSWER = msgspec.json.Decoder(_Active)


class HyprlandReader(IpcReader):
    """The DesktopReader for Hyprland."""

    name = "hyprland"
    compositor = "Hyprland"

    def sockets(self, runtime: Path) -> Iterable[Path]:
        """hypr/SIGNATURE/.socket.sock, since 0.40."""
        return runtime.glob("hypr/*/.socket.sock")

    def question(self) -> bytes:
        """In JSON, the active window."""
        return b"j/activewindow"

    def answer(self, heard: bytes, *, ended: bool) -> Window | None:
        """It hangs up after the answer. Raises ValueError."""
        return window_of(heard) if ended else None


def window_of(answer: bytes) -> Window:
    """The window of an answer; `{}` stands for none. Raises ValueError (msgspec's is one)."""
    active = _ANSWER.decode(answer)
    if active.pid <= 0:
        return Window(pid=None, fullscreen=False)
    full = active.fullscreen
    return Window(
        pid=active.pid,
        window_class=name_of(active.window_class),
        title_class=titles.class_of(active.title),
        fullscreen=full if isinstance(full, bool) else isinstance(full, int) and full > _MAXIMIZED,
    )
