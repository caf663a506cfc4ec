# SPDX-License-Identifier: GPL-2.0-only
"""What a reader of a desktop tells about the window in front, and the seam such a reader fills.

GNOME, KWin, sway, Hyprland, gamescope and X11 have one, listed in `collectors.desktop`. It holds no logic of any of
them.
"""

from dataclasses import dataclass
from typing import Protocol

LONGEST_NAME = 255  # a D-Bus name and a file name end there too

TITLE_CLASSES = ("browser", "document", "terminal", "other", "")
"""All that is ever known of a title, as the Shell's extension and the X11 reader say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The window that has the focus, if any, and how its desktop is used. As DesktopState, without the processes."""

    pid: int | None  # None: no window has the focus, or nobody knows whose it is
    app: str = ""
    window_class: str = ""
    title_class: str = ""
    fullscreen: bool | None = None
    overview: bool | None = None
    idle_ms: int | None = None
    input_events: int | None = None


class DesktopReader(Protocol):
    """One kind of desktop. It starts by itself when its desktop comes, and waits again when it goes."""

    name: str
    reason: str  # why `poll` had nothing to tell, "" when it had

    @property
    def claims(self) -> bool:
        """True while this desktop is the one at the screen, even if it tells nothing: no other may speak for it."""
        ...

    @property
    def lacking(self) -> dict[str, str]:
        """What it cannot tell while it serves -> why."""
        ...

    def poll(self) -> Window | None:
        """The newest state, None with a `reason`. Never raises, never waits for longer than two milliseconds."""
        ...

    def settled(self) -> bool:
        """False while a question is under way whose answer may change the next `poll`."""
        ...

    def close(self) -> None:
        """Give descriptors back. Never raises; `poll` begins anew."""
        ...


def name_of(text: str) -> str:
    """`text` if it can be an application's name: short and printable; else "", unknown."""
    return text if len(text) <= LONGEST_NAME and text.isprintable() else ""
