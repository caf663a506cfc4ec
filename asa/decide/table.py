# SPDX-License-Identifier: GPL-2.0-only
"""The mapping table: which schedulers serve a class of use best on a machine, best first. Reads YAML, decides nothing.

A table names its machine by a fingerprint; the one that matches this machine most closely is used, else the default.

An entry may say `efficient: true`. While the battery is to be saved these alone serve, in their order, and after them
EEVDF: nobody who costs more energy comes before it. Otherwise the word means nothing, and the ranking is as written; an
entry that is for battery saver alone stands after `eevdf`, which is always to be had.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from asa import host, paths, yamlfile
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.core.errors import InputError

DEFAULT_MODE = "default"
_OWN = "the kernel's own: on battery saver it comes before those that are not for it"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scheduler in a class's ranking, and why it stands there (a measurement or a reason)."""

    scheduler: str
    mode: str = DEFAULT_MODE
    why: Annotated[str, msgspec.Meta(min_length=1)]
    efficient: bool = False  # may serve while the battery is to be saved

    @property
    def name(self) -> SchedulerName:
        """`scx_lavd`, or `scx_lavd:performance` where the mode is not the default."""
        return SchedulerName(self.scheduler if self.mode == DEFAULT_MODE else f"{self.scheduler}:{self.mode}")


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fingerprint: what is given must match. Nothing given: any machine."""

    name: str
    cpu_model: str | None = None  # how "model name" in /proc/cpuinfo begins
    cpus: int | None = None

    def matches(self, cpu_model: str, cpus: int) -> int | None:
        """How many given facts match, None when one does not."""
        if self.cpu_model is not None and not cpu_model.startswith(self.cpu_model):
            return None
        if self.cpus is not None and self.cpus != cpus:
            return None
        return (self.cpu_model is not None) + (self.cpus is not None)


class _TableFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1]
    machine: Machine
    provenance: Annotated[str, msgspec.Meta(min_length=1)]
    classes: dict[str, Annotated[list[Entry], msgspec.Meta(min_length=1)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingTable:
    """A checked table."""

    path: str
    machine: str
    provenance: str
    rankings: Mapping[Workload, tuple[Entry, ...]]

    def wanted(
        self, workload: Workload, set_aside: Collection[SchedulerName], *, saver: bool = False
    ) -> SchedulerName | None:
        """First scheduler of the class's ranking that is not set aside; None for a class without a usable entry.

        When all of a ranking is set aside the kernel's own scheduler serves, which cannot fail. `saver`: the battery is
        to be saved.
        """
        ranking = self.rankings.get(workload)
        if ranking is None:
            return None
        return next(
            (entry.name for entry in ranking if (entry.efficient or not saver) and entry.name not in set_aside), EEVDF
        )

    def allows(self, workload: Workload, name: SchedulerName, *, saver: bool) -> bool:
        """May it serve the class with the battery as it is? EEVDF may always, others always but on battery saver."""
        if not saver or name == EEVDF:
            return True
        return any(entry.efficient and entry.name == name for entry in self.rankings.get(workload, ()))

    def ranked(self, workload: Workload, *, saver: bool) -> tuple[tuple[SchedulerName, str], ...]:
        """The class's schedulers in the order in which they are asked, each with why it stands there; for people."""
        entries = self.rankings.get(workload, ())
        if not saver or not entries:
            return tuple((entry.name, entry.why) for entry in entries)
        found = {entry.name: f"{entry.why}; for battery saver, which is on" for entry in entries if entry.efficient}
        found.setdefault(EEVDF, next((entry.why for entry in entries if entry.name == EEVDF), _OWN))
        for entry in entries:
            found.setdefault(entry.name, f"{entry.why}; not on battery saver")
        return tuple(found.items())


def load(path: Path, known: Mapping[str, Collection[str]]) -> MappingTable:
    """Read and check one table. `known`: each scheduler's modes, from the manifest. Raises InputError."""
    file = yamlfile.load(path, _TableFile)
    for workload, ranking in file.classes.items():
        for place, entry in enumerate(ranking):
            key = f"classes.{workload}[{place}]"
            if entry.scheduler not in known:
                names = ", ".join(sorted(known))
                raise InputError(path=str(path), key=f"{key}.scheduler", value=entry.scheduler, allowed=names)
            if entry.mode not in known[entry.scheduler]:
                modes = ", ".join(sorted(known[entry.scheduler]))
                raise InputError(path=str(path), key=f"{key}.mode", value=entry.mode, allowed=modes)
            if entry.name in {earlier.name for earlier in ranking[:place]}:
                raise InputError(path=str(path), key=key, value=entry.name, allowed="each scheduler once in a ranking")
    return MappingTable(
        path=str(path),
        machine=file.machine.name,
        provenance=file.provenance,
        rankings={Workload(name): tuple(ranking) for name, ranking in file.classes.items()},
    )


def for_this_machine(known: Mapping[str, Collection[str]], override: str | None = None) -> MappingTable:
    """The table that the settings name (`override`), else the shipped one that fits this machine. Raises InputError."""
    if override is not None:
        return load(Path(override), known)
    return load(choose(paths.mapping_tables(), cpu_model=host.cpu_model(), cpus=host.cpus()), known)


def choose(folder: Path, *, cpu_model: str, cpus: int) -> Path:
    """The table in `folder` that fits this machine best: most matching facts, then `default.yaml`.

    Raises InputError for a damaged table, also when another one would have been chosen: it would surprise later.
    """
    best, best_score = folder / "default.yaml", 0
    for path in sorted(folder.glob("*.yaml")):
        score = yamlfile.load(path, _TableFile).machine.matches(cpu_model, cpus)
        if score is not None and score > best_score:
            best, best_score = path, score
    return best
