# SPDX-License-Identifier: GPL-2.0-only
"""The desktop: what the person has in front of them, and what its processes use.

Asks GNOME's extension first, then KWin, sway, Hyprland, gamescope and the X server (`READERS`); each waits for its
desktop by itself, so a login after the boot, another user, a Shell or server that restarts are all found without a
restart of the agent, 30 s later at most, or 60 s after a flood of messages drove it away. Under sudo it is the
caller's desktop (SUDO_UID) for as long as the agent runs, whoever comes to the screen.

While there is nothing to tell, `read` fails with the reason, and the sample's `desktop` is None. It counts no process
itself (collectors.focus) and knows no protocol.
"""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from asa.core.errors import SourceError
from asa.core.sample import DesktopState
from collectors import session
from collectors.focus import FocusTracker
from collectors.gamescope import GamescopeReader
from collectors.gnome.reader import GnomeReader
from collectors.hyprland import HyprlandReader
from collectors.kwin.reader import KwinReader
from collectors.session import Session
from collectors.sway import SwayReader
from collectors.window import DesktopReader, Window
from collectors.x11 import X11Reader

READERS: tuple[Callable[[Callable[[], Session], Callable[[], int]], DesktopReader], ...] = (
    GnomeReader,
    KwinReader,
    SwayReader,
    HyprlandReader,
    GamescopeReader,
    X11Reader,
)
"""In this order: the first that has something to tell, or claims the screen, is the one."""

_SOURCE = "desktop"
_SETTLE_MS = 500  # what `open` gives a desktop that is there to answer; one does in 5-20 ms
_POLL_S = 0.01


class DesktopCollector:
    """Fills `desktop`. `environment`, `run` (/run) and `now_ns` (CLOCK_MONOTONIC) are those of this process by default.

    `open` never fails: a desktop may come at any time. `lacking` is as of now, and says why there is none meanwhile.
    """

    name = _SOURCE

    def __init__(
        self,
        proc: Path,
        sys: Path,
        *,
        environment: Mapping[str, str] | None = None,
        run: Path = Path("/run"),
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        variables = os.environ if environment is None else environment
        uid = os.geteuid()
        self._readers = [make(lambda: session.find(variables, run, uid), now_ns) for make in READERS]
        self._focus = FocusTracker(proc, sys)
        self._speaker: DesktopReader | None = None
        self._reasons: dict[str, str] = {}

    @property
    def lacking(self) -> dict[str, str]:
        """Why there is no desktop now; or what its reader cannot tell."""
        if self._speaker is None or self._reasons:
            return {_SOURCE: self._why()}
        return self._speaker.lacking

    @property
    def source(self) -> str:
        """The reader that tells now, "" when none does."""
        return "" if self._speaker is None or self._reasons else self._speaker.name

    def open(self) -> None:
        """Look for a desktop, for half a second at most. Never raises."""
        end_ns = time.monotonic_ns() + _SETTLE_MS * 1_000_000
        while self._window() is None and time.monotonic_ns() < end_ns:
            if all(reader.settled() for reader in self._readers):
                break
            time.sleep(_POLL_S)

    def read(self) -> dict[str, object]:
        """The desktop now. Raises SourceError while there is none to be seen."""
        window = self._window()
        if window is None or self._speaker is None:
            self._focus.close()
            raise SourceError(source=_SOURCE, reason=self._why())
        if window.pid is None:
            self._focus.close()
        return {
            _SOURCE: DesktopState(
                source=self._speaker.name,
                app=window.app,
                window_class=window.window_class,
                title_class=window.title_class,
                fullscreen=window.fullscreen,
                overview=window.overview,
                idle_ms=window.idle_ms,
                input_events=window.input_events,
                focus=self._focus.read(window.pid) if window.pid is not None else None,
            )
        }

    def close(self) -> None:
        """Give descriptors back. Never raises."""
        for reader in self._readers:
            reader.close()
        self._focus.close()

    def _window(self) -> Window | None:
        self._reasons = {}
        for reader in self._readers:
            window = reader.poll()
            if window is not None or reader.claims:
                self._change_to(reader)
                self._reasons = {reader.name: reader.reason} if window is None else {}
                return window
            self._reasons[reader.name] = reader.reason
        self._speaker = None
        return None

    def _change_to(self, reader: DesktopReader) -> None:
        if reader is self._speaker:
            return
        self._speaker = reader
        for other in self._readers[self._readers.index(reader) + 1 :]:
            other.close()  # nobody asks it any more

    def _why(self) -> str:
        return "; ".join(f"{name}: {reason}" for name, reason in self._reasons.items()) or "not asked yet"
