# SPDX-License-Identifier: GPL-2.0-only
"""The mapping table: which schedulers serve a class of use best on a machine, best first. Reads YAML, decides nothing.

The table that the settings name stands alone. Else several stand behind each other: this machine's own, then the
shipped one whose machine is nearest to this one (`asa.decide.fingerprint`), then `default.yaml`. A class is looked up
in the first; what it does not rank, the next one does. Within a table a class of several parts (`web+blender`) that is
not listed has the ranking of its first part that is (`web`, then `blender`). A use may be listed by its kinds
(`browse+render`) or by the paper's applications (`web+blender`): both are read as one.

An entry may say `efficient: true`. While the battery is to be saved these alone serve, in their order, and after them
EEVDF: nobody who costs more energy comes before it. Otherwise the word means nothing, and the ranking is as written; an
entry that is for battery saver alone stands after `eevdf`, which is always to be had.

An entry says what it rests on (`asa.decide.grounds`). Who may be chosen is asked in order, and EEVDF serves where
nobody may. All others may only be tried, which a trial does (`asa.decide.trial`).

A figure grows old when the kernel or the scheduler that it was measured with is another one now. Such an entry still
serves; it is named in `stale`.
"""

import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from asa import host, paths
from asa.act.portfolio import Portfolio
from asa.core.decision import EEVDF, SchedulerName, Workload, bar
from asa.core.errors import InputError
from asa.core.kinds import names_of
from asa.decide import fingerprint, grounds, hints
from asa.decide.fingerprint import Machine
from asa.decide.grounds import Evidence, Ground
from asa.decide.tablefile import (
    Cost,
    Entry,
    Measured,
    TableFile,
    check,
    faults,
    put,
    put_keeping,
    read,
    read_checked,
    text,
    write,
    write_keeping,
)
from asa.decide.trial_budget import Offer

__all__ = [  # what a table is made of is found here too
    "Cost",
    "Entry",
    "Evidence",
    "Machine",
    "MappingTable",
    "Measured",
    "Present",
    "TableFile",
    "candidates",
    "check",
    "choose",
    "faults",
    "for_this_machine",
    "load",
    "own",
    "put",
    "put_keeping",
    "read",
    "text",
    "unsafe",
    "write",
    "write_keeping",
]
NAME = "table.yaml"
"""Of a machine's own table, in the folder of the agent's state."""

EVIDENCE, PROGRAMS = "evidence.yaml", "known_programs.yaml"
"""Published figures and well-known programs, which lie beside the shipped tables and are none."""

_OWN = "the kernel's own: on battery saver it comes before those that are not for it"
_HASH_DIGITS = 64
_LEAST_DIGITS = 12  # of a hash, to name a file by


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The kernel and the schedulers of this machine now, to compare with those that were measured."""

    kernel: str  # release
    schedulers: Mapping[str, tuple[str, ...]]  # without a mode -> its version, if it tells one, and its SHA-256

    @classmethod
    def of(cls, portfolio: Portfolio, kernel: str | None = None) -> Self:
        """What `portfolio` has installed; `kernel` is the running one when it is not given. Raises InputError."""
        told = {
            str(name): (*((one.version,) if one.version else ()), one.sha256)
            for name, one in portfolio.records().items()
        }
        return cls(kernel=os.uname().release if kernel is None else kernel, schedulers=told)

    def stamp(self, name: SchedulerName) -> str | None:
        """What a measurement keeps of a scheduler: its version, else its file's hash; None when it is not here."""
        told = self.schedulers.get(name.bare)
        return told[0] if told else None

    def changed(self, name: SchedulerName, measured: Measured) -> str:
        """Why a figure of `name` is of another time, "" when it is not.

        A scheduler that is not installed here is not compared. The kernel's own changes with the kernel alone.
        """
        if fingerprint.series(measured.kernel) != fingerprint.series(self.kernel):
            return f"measured on kernel {measured.kernel}, this is {self.kernel}"
        scheduler = name.bare
        then, now = measured.schedulers.get(scheduler), self.schedulers.get(scheduler, ())
        if scheduler == EEVDF or not now:
            return ""
        if then is None:
            return f"the table does not say which {scheduler} was measured"
        same = then in now or (len(then) >= _LEAST_DIGITS and now[-1].startswith(then))
        return "" if same else f"measured with {scheduler} {_short(then)}, here is {_short(now[0])}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingTable:
    """A checked table, with those that stand behind it."""

    path: str
    machine: str
    provenance: str
    rankings: Mapping[Workload, tuple[Entry, ...]]
    costs: Mapping[SchedulerName, Cost] = field(default_factory=dict)
    measured: Measured | None = None
    elsewhere: str = ""  # why it is no measurement of this machine, "" when it is one
    where: Ground = Ground.HERE  # what its measured entries count as here
    stale: Mapping[SchedulerName, str] = field(default_factory=dict)  # measured once -> what has changed since
    rest: "MappingTable | None" = None  # asked for what this one does not rank
    never: frozenset[str] = frozenset()  # schedulers, or modes of them, that the settings bar
    canaries: frozenset[SchedulerName] = frozenset()  # composed or tuned: may only be tried
    limited: frozenset[str] = frozenset()  # schedulers that would lift limits of control groups that are in force

    def ranking(self, workload: Workload) -> tuple[Entry, ...]:
        """The class's, else that of its parts, else what the next table says; empty for a class that none ranks."""
        _, _, found = self.source(workload)
        return found

    def source(self, workload: Workload) -> tuple["MappingTable", Workload, tuple[Entry, ...]]:
        """The table that ranks a class, the name under which it does, and the ranking; empty when none does."""
        for part in dict.fromkeys((workload, *workload.split("+"))):
            for name in map(Workload, names_of(part)):
                if name in self.rankings:
                    return self, name, self.rankings[name]
        return (self, workload, ()) if self.rest is None else self.rest.source(workload)

    @property
    def listed(self) -> tuple[Workload, ...]:
        """The classes that this table and those behind it rank, this one's first."""
        behind = () if self.rest is None else self.rest.listed
        return tuple(dict.fromkeys((*self.rankings, *behind)))

    def check(self, classes: Iterable[Workload]) -> None:
        """Raises InputError for a class of a model that no table ranks: the agent would not know what serves it."""
        unserved = [name for name in classes if not self.ranking(name)]
        if unserved:
            allowed = f"a ranking for each class of the model; without one: {', '.join(unserved)}"
            raise InputError(path=self.path, key="classes", value=sorted(self.rankings), allowed=allowed)

    def wanted(
        self,
        workload: Workload,
        set_aside: Collection[SchedulerName],
        *,
        saver: bool = False,
        proved: Sequence[SchedulerName] = (),
    ) -> SchedulerName | None:
        """First scheduler of the ranking that may be chosen and is not set aside; None for a class that is not ranked.

        Without one the kernel's own scheduler serves, which cannot fail. `saver`: the battery is to be saved. `proved`
        are those that a trial here found better than what would be chosen without it, the best first.
        """
        table, _, ranking = self.source(workload)
        if not ranking:
            return None
        chosen = [entry for entry in ranking if table.choosable(entry) and entry.name not in self.canaries]
        ranked = tuple(entry.name for entry in chosen if entry.efficient or not saver)
        names = ranked if saver else (*proved, *ranked)
        return next((name for name in names if name not in set_aside and not self._is_out(name)), EEVDF)

    def ground(self, entry: Entry) -> Ground:
        """What an entry of this table (not of those behind it) rests on."""
        return grounds.of(entry.evidence, self.where)

    def choosable(self, entry: Entry) -> bool:
        """May an entry of this table be switched to as a choice? Else it may only be tried. EEVDF always may."""
        return entry.name == EEVDF or grounds.choosable(entry.evidence, self.ground(entry))

    def offers(self, workload: Workload, set_aside: Collection[SchedulerName] = ()) -> tuple[Offer, ...]:
        """What may be tried for a class, each with what speaks for it, in the table's order; EEVDF where it is listed.

        Not who is for battery saver alone: that is `efficient` and stands after EEVDF.
        """
        table, _, ranking = self.source(workload)
        names = [entry.name for entry in ranking]
        own = names.index(EEVDF) if EEVDF in names else len(names)
        return tuple(
            Offer(name=entry.name, ground=table.ground(entry))
            for place, entry in enumerate(ranking)
            if not (entry.efficient and place > own) and entry.name not in set_aside and not self._is_out(entry.name)
        )

    def allows(self, workload: Workload, name: SchedulerName, *, saver: bool) -> bool:
        """May it serve the class with the battery as it is? EEVDF may always, others unless barred or on saver."""
        if self._is_out(name):
            return False
        if not saver or name == EEVDF:
            return True
        return any(entry.efficient and entry.name == name for entry in self.ranking(workload))

    def expected(self, workload: Workload, name: SchedulerName) -> Entry | None:
        """What was measured for a scheduler in a class; None where the class itself is not listed.

        Scores of a part are not scores of the whole.
        """
        _, listed, ranking = self.source(workload)
        return next((entry for entry in ranking if listed in names_of(workload) and entry.name == name), None)

    def evidence(self, workload: Workload, name: SchedulerName) -> Evidence | None:
        """What its entry for the class, or for a part of it, rests on; None where there is none."""
        return next((entry.evidence for entry in self.ranking(workload) if entry.name == name), None)

    def cost(self, name: SchedulerName) -> Cost | None:
        """Of a scheduler in its mode, else of the scheduler; of this table, not of those behind it."""
        return self.costs.get(name) or self.costs.get(name.bare)

    def ranked(self, workload: Workload, *, saver: bool) -> tuple[tuple[SchedulerName, str], ...]:
        """The class's schedulers in the order in which they are asked, each with why it stands there; for people."""
        table, listed, entries = self.source(workload)
        of = "" if listed in names_of(workload) else f" (of {listed})"
        whys = {entry.name: f"{table.told(entry, of)}{self._never(entry.name)}" for entry in entries}
        if not saver or not entries:
            return tuple(whys.items())
        frugal = (entry.name for entry in entries if entry.efficient)
        found = {name: f"{whys[name]}; for battery saver, which is on" for name in frugal}
        found.setdefault(EEVDF, whys.get(EEVDF, _OWN))
        for entry in entries:
            found.setdefault(entry.name, f"{whys[entry.name]}; not on battery saver")
        return tuple(found.items())

    def told(self, entry: Entry, of: str = "") -> str:
        """Why an entry of this table stands where it does, what it rests on, and that it is stale, if so."""
        stale = f" (stale: {why})" if (why := self.aged(entry)) else ""
        ground = self.grounds(entry)
        return f"{entry.why}{of}{stale}{f'; {ground}' if ground else ''}"

    def grounds(self, entry: Entry) -> str:
        """What an entry of this table rests on, and whether it may only be tried; "" of EEVDF, which needs nothing."""
        if entry.name == EEVDF and entry.evidence is None:
            return ""
        only = "" if self.choosable(entry) else "; may only be tried"
        return f"{grounds.words(entry.evidence, self.ground(entry))}{only}"

    def _never(self, name: SchedulerName) -> str:
        if bar(name, self.never):
            return "; barred by switch.never"
        if name in self.canaries:
            return "; composed or tuned, so that only a trial here may choose it"
        return "; not while limits of CPU time are in force, which it ignores" if name.bare in self.limited else ""

    def _is_out(self, name: SchedulerName) -> bool:
        return bool(bar(name, self.never)) or name.bare in self.limited

    def aged(self, entry: Entry) -> str:
        """Why the entry's figures are stale, "" when they are not or when it has none."""
        return self.stale.get(entry.name, "") if _measured(entry) else ""


def load(
    path: Path,
    known: Mapping[str, Collection[str]],
    *,
    present: Present | None = None,
    here: host.Facts | None = None,
    rest: MappingTable | None = None,
) -> MappingTable:
    """Read and check one table. `known`: each scheduler's modes, from the manifest. Raises InputError.

    Without `present` nothing is stale, and without `here` a measured table is taken as this machine's.
    """
    file = read_checked(path, known)
    names = {entry.name for ranking in file.classes.values() for entry in ranking if _measured(entry)}
    stale = {}
    if present is not None and file.measured is not None:
        names |= {SchedulerName(name) for name in file.costs}
        stale = {name: why for name in sorted(names) if (why := present.changed(name, file.measured))}
    return MappingTable(
        path=str(path),
        machine=file.machine.name,
        provenance=file.provenance,
        rankings={Workload(name): tuple(ranking) for name, ranking in file.classes.items()},
        costs={SchedulerName(name): cost for name, cost in file.costs.items()},
        measured=file.measured,
        elsewhere=elsewhere(file, here),
        where=grounds.where(file.machine, here, lab=file.measured is not None and file.measured.tier == "lab"),
        stale=stale,
        rest=rest,
    )


def unsafe(path: Path) -> str:
    """Who but root and this user may change a table and so steer the agent, "" when nobody; by file and folder."""
    trusted = {0, os.geteuid()}
    for place in (path, path.parent):
        try:
            facts = place.stat()
        except OSError:
            return ""  # reading it says more
        if facts.st_uid not in trusted:
            return f"{place} belongs to user {facts.st_uid}"
        others = facts.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if facts.st_gid not in {0, os.getegid()} else 0))
        if others and not (place != path and facts.st_mode & stat.S_ISVTX):  # in /tmp nobody moves another's file
            return f"{place} can be written to by other users"
    return ""


def elsewhere(file: TableFile, here: host.Facts | None) -> str:
    """Why a table is no measurement of the machine `here`, "" when it is one."""
    if file.measured is None:
        return "measured on no machine"
    if here is None:
        return ""
    if fingerprint.same(file.machine, here):
        return ""
    other = fingerprint.differences(file.machine, here)
    if not other:
        return "measured on a machine that the table does not describe so that it can be compared"
    return f"measured on another machine: {'; '.join(other)}"


def for_this_machine(
    known: Mapping[str, Collection[str]],
    override: str | None = None,
    *,
    places: paths.Places | None = None,
    present: Present | None = None,
    first: Path | None = None,
) -> MappingTable:
    """The table that the settings name (`override`), else this machine's own and the shipped ones behind it.

    `places` are this user's when they are not given. `first`, such as the table of a recording, stands before all that
    were behind it. Raises InputError.
    """
    places = places or paths.default()
    here = host.facts(places.proc, places.sys)
    if override is not None:
        return load(Path(override), known, present=present, here=here)
    found = candidates(places, here)
    if first is not None:
        found = found[found.index(first) :] if first in found else (first, found[-1])
    return chain(found, known, present=present, here=here)


def chain(
    found: tuple[Path, ...],
    known: Mapping[str, Collection[str]],
    *,
    present: Present | None = None,
    here: host.Facts | None = None,
) -> MappingTable:
    """The first of several tables, each with the next one behind it. Raises InputError."""
    last, *others = reversed(found)
    table = load(last, known, present=present, here=here)
    for path in others:
        table = replace(load(path, known, present=present, here=here), rest=table)
    return table


def candidates(places: paths.Places, here: host.Facts) -> tuple[Path, ...]:
    """The tables of this machine, the first choice first; the last one is `default.yaml`. Raises InputError."""
    folder = paths.mapping_tables()
    mine = next((path for path in (places.state / NAME, _everybodys()) if _is_there(path)), None)
    shipped = (choose(folder, here), folder / "default.yaml")
    return tuple(dict.fromkeys(shipped if mine is None else (mine, *shipped)))


def own(places: paths.Places) -> Path:
    """Where this machine's own table is put: with root of an installed ASA, where everybody's agent finds it."""
    return _everybodys() if places.shared is not None and os.geteuid() == 0 else places.state / NAME


def shipped(folder: Path) -> list[Path]:
    """The tables in `folder`, by name."""
    return [path for path in sorted(folder.glob("*.yaml")) if path.name not in (EVIDENCE, PROGRAMS, hints.NAME)]


def choose(folder: Path, here: host.Facts) -> Path:
    """The table in `folder` whose machine is nearest to `here`, else `default.yaml`.

    Raises InputError for a damaged table, also when another one would have been chosen: it would surprise later.
    """
    tables = ((read(path).machine, path) for path in shipped(folder))
    return fingerprint.nearest(tables, here) or folder / "default.yaml"


def _measured(entry: Entry) -> bool:
    return entry.score is not None or (entry.evidence is not None and entry.evidence.ground == "measured")


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that this user may not look into has nothing for us
        return False


def _everybodys() -> Path:
    return paths.installed().state / NAME


def _short(told: str) -> str:
    return told if len(told) != _HASH_DIGITS else told[:_LEAST_DIGITS]
