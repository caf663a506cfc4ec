# SPDX-License-Identifier: GPL-2.0-only
"""Keeps schedulers from being chosen that would lift limits of CPU time, while such limits are in force."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from asa.act import limits
from asa.act.manifest import SchedulerEntry
from asa.config import Settings
from asa.pipeline import Setup


class Heed:
    """Looks at the control groups of this machine; says once when limits come and when they have gone."""

    def __init__(
        self, sys: Path, manifest: Callable[[Settings], tuple[SchedulerEntry, ...]], say: Callable[[str], None]
    ) -> None:
        self.words = ""  # what is in force, and who is not chosen for it
        self.out: frozenset[str] = frozenset()
        self._sys = sys
        self._manifest = manifest
        self._say = say
        self._settings: Settings | None = None
        self._entries: tuple[SchedulerEntry, ...] = ()

    def apply(self, setup: Setup, settings: Settings) -> Setup:
        """The setup for now. It is the same object when nothing has changed."""
        if settings is not self._settings:  # read anew, and the manifest with them
            self._settings, self._entries = settings, self._manifest(settings)
        there = limits.found(self._sys) if settings.switch.respect_limits else ()
        out = limits.heedless(there, self._entries) if there else frozenset[str]()
        self.words = limits.sentence(there, out) if out else ""
        if out != self.out:
            self._say(self.words or "limits of CPU time are in force no longer: all schedulers may be chosen")
            self.out = out
        return setup if out == setup.table.limited else replace(setup, table=replace(setup.table, limited=out))
