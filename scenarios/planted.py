# SPDX-License-Identifier: GPL-2.0-only
"""Mapping tables that have to switch: their figures are planted, and count as measured here. For tests and the lab.

An agent switches to nothing on an opinion (`asa.decide.grounds`). Where one is to be seen switching, it is given such a
table. Nothing in it was measured, and every entry says so.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from asa import host
from asa.core.decision import EEVDF, SchedulerName, Workload
from asa.decide import tablefile
from asa.decide.fingerprint import Machine
from asa.decide.grounds import Evidence
from asa.decide.table import MappingTable
from asa.decide.tablefile import VERSION, Entry, TableFile
from asa.host import Facts

SOURCE = "planted"
_EFFECT, _LOW, _HIGH, _RUNS = 0.1, 0.05, 0.15, 12  # sure enough also on a like machine


def evidence() -> Evidence:
    """That a scheduler is better than EEVDF on this machine, which nobody measured."""
    return Evidence(
        ground="measured", effect=_EFFECT, low=_LOW, high=_HIGH, runs=_RUNS, source=SOURCE, kernel=os.uname().release
    )


def entry(name: str, *, why: str = SOURCE, efficient: bool = False) -> Entry:
    """One that may be chosen: `scx_lavd`, or `scx_lavd:performance`."""
    told = SchedulerName(name)
    found = None if name == EEVDF else evidence()
    return Entry(scheduler=told.bare, mode=told.mode, why=why, efficient=efficient, evidence=found)


def table(classes: Mapping[str, Sequence[Entry | str]], here: Facts | None = None) -> TableFile:
    """One of the machine `here` (None: this one): each class's schedulers, best first, all of whom may be chosen."""
    facts = host.facts() if here is None else here
    return TableFile(
        version=VERSION,
        machine=Machine(name="planted", cpu_model=facts.cpu_model, cpus=facts.cpus),
        provenance="Planted, so that the agent switches: measured nowhere.",
        classes={name: list(map(_entry, ranking)) for name, ranking in classes.items()},
    )


def into(mapping: MappingTable, classes: Mapping[str, Sequence[Entry | str]]) -> MappingTable:
    """A table that was read, with these rankings in place of its own."""
    rankings = {Workload(name): tuple(map(_entry, ranking)) for name, ranking in classes.items()}
    return replace(mapping, rankings={**mapping.rankings, **rankings})


def write(path: Path, classes: Mapping[str, Sequence[Entry | str]], here: Facts | None = None) -> None:
    """`table` as a file, as a whole. Raises AsaError."""
    tablefile.write(path, table(classes, here))


def _entry(one: Entry | str) -> Entry:
    return one if isinstance(one, Entry) else entry(one)
