# SPDX-License-Identifier: GPL-2.0-only
"""Whether the machine is on battery, and whether that is to be saved (`asa.host`), looked at in every fifth reading.

Several small files of /sys, which a person changes a few times a day: five seconds late is early enough, and most of
the readings cost nothing.
"""

from pathlib import Path

from asa import host
from asa.core.errors import SourceError

EVERY = 5
"""Readings of which one looks."""


class PowerCollector:
    """Fills `battery_saver` and `on_battery`."""

    name = "power"

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self._sys = sys
        self._turn = 0
        self._seen: dict[str, object] = {}

    @property
    def lacking(self) -> dict[str, str]:
        """Nothing: there is more than one way to know, and one is enough."""
        return {}

    def open(self) -> None:
        """Look once. Raises SourceError where nothing here can tell."""
        self._look()
        if all(value is None for value in self._seen.values()):
            reason = "no platform profile, no energy preference of the CPUs and no power supply here"
            raise SourceError(source=self.name, reason=reason)

    def read(self) -> dict[str, object]:
        """What was seen last. Never raises: what cannot be read any more is None."""
        self._turn = (self._turn + 1) % EVERY
        if self._turn == 0:
            self._look()
        return dict(self._seen)

    def close(self) -> None:
        """Nothing is kept open."""

    def _look(self) -> None:
        self._seen = {"battery_saver": host.battery_saver(self._sys), "on_battery": host.on_battery(self._sys)}
