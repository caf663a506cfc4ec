# SPDX-License-Identifier: GPL-2.0-only
"""What tools look at: settings, schedulers and tables of this machine, its agent's status, processes by name."""

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from asa import config, paths, procstat, status
from asa.act.portfolio import Available, Portfolio, Unavailable
from asa.config import Settings
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import InputError
from asa.decide import table
from asa.decide.table import MappingTable

_KEPT_S = 5.0  # reading manifest and tables takes some 100 ms
_MOST_PROCESSES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Settings, schedulers and mapping table, as the agent of this user has them."""

    settings: Settings
    portfolio: Portfolio
    table: MappingTable

    @classmethod
    def read(cls, places: paths.Places) -> "Host":
        """Raises InputError for a file that is damaged."""
        settings = config.load(places.config)
        portfolio = Portfolio.of_host(settings.switch, places.schedulers)
        present = table.Present.of(portfolio)
        found = table.for_this_machine(portfolio.modes(), settings.table, places=places, present=present)
        return cls(settings=settings, portfolio=portfolio, table=found)

    def names(self) -> list[SchedulerName]:
        """All schedulers in all modes, in the manifest's order."""
        return [SchedulerName.of(bare, mode) for bare, modes in self.portfolio.modes().items() for mode in modes]

    def known(self, policy: str) -> SchedulerName:
        """The name of a scheduler and a mode that the manifest has. Raises InputError."""
        name = SchedulerName(policy)
        full = SchedulerName.of(name.bare, name.mode)
        if full not in self.names():
            raise InputError(path="id", key="", value=policy, allowed="an id that `policies` lists")
        return full

    def look(self, name: SchedulerName) -> tuple[Available | Unavailable, str]:
        """Where it comes from, and why it cannot be loaded now ("": it can)."""
        found = self.portfolio.look(name.bare)
        barred = self.portfolio.barred(name) if name != EEVDF else ""
        return found, found.reason if isinstance(found, Unavailable) else barred


class Machine:
    """This machine, as this user may see it. What takes long to read is kept for some seconds."""

    def __init__(self) -> None:
        self._host: Host | None = None
        self._read_s = 0.0

    @property
    def places(self) -> paths.Places:
        """Of this user."""
        return paths.default()

    def host(self) -> Host:
        """Raises InputError."""
        if self._host is None or time.monotonic() - self._read_s > _KEPT_S:
            self._host, self._read_s = Host.read(self.places), time.monotonic()
        return self._host

    def agent(self) -> status.Status | None:
        """The status of this user's agent, else of the system's. Raises AsaError for a damaged file."""
        return status.read(self.places.run) or status.read(paths.Places().run)

    def processes(self, seconds: float) -> list[tuple[str, int, float]]:
        """Names of processes, how many have that name, and the cores that they used over so many seconds.

        The busiest first. No command line is read.
        """
        before, began_s = _used(self.places.proc), time.monotonic()
        time.sleep(seconds)
        after, passed_s = _used(self.places.proc), time.monotonic() - began_s
        counts, ticks = Counter[str](), Counter[str]()
        for key, (name, used) in after.items():
            grown = used - before.get(key, (name, 0))[1]
            if grown > 0:
                counts[name] += 1
                ticks[name] += grown
        per_core = passed_s * os.sysconf("SC_CLK_TCK")
        return [(name, counts[name], used / per_core) for name, used in ticks.most_common(_MOST_PROCESSES)]


def _used(proc: Path) -> dict[tuple[str, bytes], tuple[str, int]]:
    """Each process, by its number and its start, with its name and the ticks that it has used."""
    found = {}
    for number in filter(str.isdigit, os.listdir(proc)):  # noqa: PTH208  # names alone, of thousands
        try:
            text = Path(proc, number, "stat").read_bytes()
        except OSError:
            continue  # it has ended, or is hidden from us
        fields = procstat.fields(text)
        if len(fields) > procstat.STARTED:
            used = int(fields[procstat.USER]) + int(fields[procstat.SYSTEM])
            name = procstat.name(text).decode(errors="replace")
            found[number, fields[procstat.STARTED]] = (name, used)
    return found
