# SPDX-License-Identifier: GPL-2.0-only
"""gamescope: the window in front where it is the session's compositor, as on handhelds, by properties of its X server.

steamcompmgr.cpp publishes on the root window of the first of its X servers: GAMESCOPE_FOCUSED_WINDOW, which is without
a value where no window has the focus; GAMESCOPE_FOCUSED_APP, Steam's number of the game, in Steam's mode alone;
GAMESCOPE_FOCUS_DISPLAY, the server that the window is on (games are on another one than Steam); and
GAMESCOPE_INPUT_COUNTER, which grows with each input. Whatever has the focus fills the screen; of Steam's own window
that says nothing.

A gamescope that runs as a window of another desktop is one of that desktop's windows, and is not asked.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from asa.core.errors import SourceError
from collectors import x11
from collectors import xprotocol as x
from collectors.session import Session
from collectors.window import Window
from collectors.x11 import ATOMS, X11Reader

STEAM = 769
"""The number by which gamescope knows Steam's own window (steamcompmgr.cpp, window_is_steam)."""

_SOURCE = "desktop"
_WINDOW, _APP, _DISPLAY, _INPUT = (
    "GAMESCOPE_FOCUSED_WINDOW",
    "GAMESCOPE_FOCUSED_APP",
    "GAMESCOPE_FOCUS_DISPLAY",
    "GAMESCOPE_INPUT_COUNTER",
)
_PUBLISHED = (_WINDOW, _APP, _DISPLAY, _INPUT)


class GamescopeReader(X11Reader):
    """The DesktopReader for gamescope. `find` tells the session, `now_ns` is CLOCK_MONOTONIC."""

    name = "gamescope"

    def __init__(self, find: Callable[[], Session], now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._beside = _Beside(find, now_ns)
        self._inputs: int | None = None
        self._input_ns = 0  # when the counter was last seen to grow
        super().__init__(find, now_ns)

    @property
    def lacking(self) -> dict[str, str]:
        """Nothing; the idle time begins with the agent."""
        return {}

    def poll(self) -> Window | None:
        """The newest state. Never raises. Two servers that both stand still take twice as long."""
        window = super().poll()
        if window is None or not self._beside.sought:
            self._beside.close()
            return window
        told = self._beside.poll()
        if told is None:
            return window
        return replace(told, fullscreen=window.fullscreen, idle_ms=window.idle_ms, input_events=window.input_events)

    def settled(self) -> bool:
        """False while an answer is awaited."""
        return super().settled() and self._beside.settled()

    def close(self) -> None:
        """Hang up."""
        super().close()
        self._beside.close()

    def _display(self, session: Session) -> int:
        if session.runtime is None or not any(session.runtime.glob("gamescope-*")):
            raise SourceError(source=_SOURCE, reason="gamescope does not run")
        return x11.display_number(session.display or ":0")

    def _talk(self) -> x11.Conversation:
        (setup,) = yield []
        root = x.setup_root(setup or b"\0" * 8)
        (opcode,) = yield [x.query_extension("X-Resource")]
        names = (*ATOMS, *_PUBLISHED)
        replies = yield [x.intern_atom(name) for name in names]
        atoms = dict(zip(names, map(x.atom_of, replies), strict=True))
        while True:
            replies = yield [x.get_property(root, atoms[name]) for name in _PUBLISHED]
            if not any(map(x.is_there, replies)):
                raise SourceError(source=_SOURCE, reason="gamescope: the X display of this session is another's")
            focused, app, _, inputs = (x.first_of(reply) for reply in replies)
            shown = Window(
                pid=None, fullscreen=bool(focused) and app != STEAM, idle_ms=self._idle(inputs), input_events=inputs
            )
            number = _number(replies[2])
            here = number is None or number == self._number
            self._beside.seek(focused or 0, -1 if here or number is None else number)
            if focused and here:
                told = yield x11.about(focused, atoms, x.opcode_of(opcode))
                found = x11.window_of(told, atoms, shown.idle_ms)
                shown = replace(found, fullscreen=shown.fullscreen, input_events=inputs)
            self._window = shown
            yield []

    def _idle(self, inputs: int | None) -> int | None:
        if inputs is None:
            return None
        now_ns = self._now_ns()
        if inputs != self._inputs:
            self._inputs, self._input_ns = inputs, now_ns
        return (now_ns - self._input_ns) // 1_000_000


class _Beside(X11Reader):
    """Asks another of gamescope's servers about one window."""

    sought = 0  # 0: nothing is asked
    _server = -1

    def seek(self, window: int, server: int) -> None:
        """Ask about this one from now on; `server` below 0: about none."""
        if server != self._server:
            self.close()
        self.sought, self._server = (window, server) if server >= 0 else (0, -1)

    def _display(self, session: Session) -> int:  # noqa: ARG002  # it is on no session's display
        return self._server

    def _talk(self) -> x11.Conversation:
        (setup,) = yield []
        x.setup_root(setup or b"\0" * 8)
        (opcode,) = yield [x.query_extension("X-Resource")]
        replies = yield [x.intern_atom(name) for name in ATOMS]
        atoms = dict(zip(ATOMS, map(x.atom_of, replies), strict=True))
        while True:
            told = yield x11.about(self.sought, atoms, x.opcode_of(opcode))
            self._window = x11.window_of(told, atoms, None)
            yield []


def _number(reply: bytes | None) -> int | None:
    # a text that was given to XChangeProperty as numbers of 32 bits: its first four bytes are in the first
    first = x.first_of(reply)
    if first is None:
        return None
    text = first.to_bytes(4, "little").partition(b"\0")[0].decode("ascii", errors="replace")
    try:
        return x11.display_number(text)
    except SourceError:
        return None
