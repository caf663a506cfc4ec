# SPDX-License-Identifier: GPL-2.0-only
"""Whether the battery is to be saved (`asa.host.battery_saver`), looked at in every fifth reading.

Several small files of /sys, which a person changes a few times a day: five seconds late is early enough, and most of
the readings cost nothing.
"""

from pathlib import Path

from asa import host
from asa.core.errors import SourceError

EVERY = 5
"""Readings of which one looks."""


class PowerCollector:
    """Fills `battery_saver`."""

    name = "power"

    def __init__(self, proc: Path, sys: Path) -> None:  # noqa: ARG002  # every collector is given both roots
        self._sys = sys
        self._turn = 0
        self._saver: bool | None = None

    @property
    def lacking(self) -> dict[str, str]:
        """Nothing: there is more than one way to know, and one is enough."""
        return {}

    def open(self) -> None:
        """Look once. Raises SourceError where nothing here can tell."""
        self._saver = host.battery_saver(self._sys)
        if self._saver is None:
            raise SourceError(source=self.name, reason="no platform profile and no energy preference of the CPUs here")

    def read(self) -> dict[str, object]:
        """What was seen last. Never raises: what cannot be read any more is None."""
        self._turn = (self._turn + 1) % EVERY
        if self._turn == 0:
            self._saver = host.battery_saver(self._sys)
        return {"battery_saver": self._saver}

    def close(self) -> None:
        """Nothing is kept open."""
