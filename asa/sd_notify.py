# SPDX-License-Identifier: GPL-2.0-only
"""What a service tells systemd about itself: sd_notify(3), sd_watchdog_enabled(3). Without systemd nothing happens."""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress


class ServiceManager:
    """The socket of NOTIFY_SOCKET. Nothing here raises: a service manager that does not listen is no reason to end."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Takes its variables out of the environment, so that no child speaks for us."""
        self._address = environment.pop("NOTIFY_SOCKET", "")
        pid = environment.pop("WATCHDOG_PID", str(os.getpid()))
        text = environment.pop("WATCHDOG_USEC", "")
        usec = int(text) if text.isdigit() and pid == str(os.getpid()) else 0
        self.watchdog_s: float | None = usec / 1e6 if usec and self._address else None
        """How long `alive` may be silent before we are ended; None: for ever."""

    def ready(self) -> None:
        """Started, and able to serve."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """About to end: who wants us from now on is to have a new one started."""
        self._tell("STOPPING=1")

    def alive(self) -> None:
        """The loop goes round."""
        if self.watchdog_s is not None:
            self._tell("WATCHDOG=1")

    def patience(self, limit_s: float | None) -> None:
        """Bear with silence of `limit_s` from now on; None: as it is set in the unit."""
        if self.watchdog_s is not None:
            lasting_s = self.watchdog_s if limit_s is None else max(limit_s, self.watchdog_s)
            self._tell(f"WATCHDOG_USEC={int(lasting_s * 1e6)}\nWATCHDOG=1")

    def _tell(self, text: str) -> None:
        if not self._address.startswith(("/", "@")):
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as notify:
            notify.sendto(text.encode(), address)
