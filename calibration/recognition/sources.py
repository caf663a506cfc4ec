# SPDX-License-Identifier: GPL-2.0-only
"""What recognition is learnt from and judged by: packed recordings, and which classes ask for the same scheduler."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from asa import paths
from asa.act.portfolio import Portfolio
from asa.core.decision import EEVDF, Workload
from asa.core.errors import AsaError, JournalError, ModelError
from asa.core.mark import SEQUENCE
from asa.decide import table
from asa.journal import Journal
from models.artefact import Array
from models.train import dataset, programs
from models.train.dataset import Dataset, Recording

_SUFFIX = ".journal.xz"
_FOLDERS = ("scenarios", "programs")  # below the others: the benchmark's, and of programs of kinds
_MACHINES = "machines"  # played in the lab's guests; the shipped model is not trained on them


def recordings(directory: Path, *, machines: bool = False) -> Iterator[Recording]:
    """All sessions of all packed recordings in a folder, its scenarios/ and its programs/, by file name, or of one
    journal. `machines`: of its machines/, too.

    Sequences of scenarios are left out: they are no class. Raises JournalError or ModelError.
    """
    folders = ("", *_FOLDERS, *([_MACHINES] if machines else ()))
    inside = [path for below in folders for path in sorted((directory / below).glob(f"*{_SUFFIX}"))]
    found = [directory] if directory.is_file() else inside
    if not found:
        raise ModelError(f"{directory}: no *{_SUFFIX} in it; make one with `asa lab record --campaign --pack FILE`")
    for path in found:
        with Journal.unpack(path) if path.suffix == ".xz" else Journal.look(path) as journal:
            try:
                for session in journal.sessions():
                    header = session.header
                    if header.label == SEQUENCE:
                        continue
                    yield Recording(
                        source=str(path),
                        label=header.label,
                        place=f"{header.host}, {header.cpus} CPUs",  # guests are told apart by them
                        seed=header.seed,
                        started_ns=header.started_ns,
                        parameters=header.parameters,
                        samples=tuple(journal.samples(session.number)),
                        marks=tuple(journal.marks(session.number)),
                        tier=header.tier,
                        scheduler=header.scheduler,
                    )
            except JournalError as error:
                raise JournalError(f"{path}: {error}; record it again") from error


def of_kinds(directory: Path, *, other: bool = False, machines: bool = False) -> Dataset:
    """Rows of these recordings, their labels those of kinds; `other`: and of no kind, which is a class of its own.

    `machines`: of other machines, too. Raises JournalError or ModelError.
    """
    known, none = programs.of_kinds(recordings(directory, machines=machines))
    return dataset.assemble([*known, *none] if other else known, least_sessions=1)


SERVED = Path(__file__).with_name("served.yaml")
"""A scheduler for each class, for the cost of a wrong class alone. The shipped table stays on EEVDF for nearly all."""


def served(path: Path | None, classes: Sequence[str]) -> tuple[Mapping[str, str] | None, str]:
    """The scheduler that a table (None: `SERVED`) has first for each class, or why there is none."""

    where = path or SERVED
    try:
        modes = Portfolio.load(paths.manifest(), paths.default().schedulers).modes()
        mapping = table.load(where, modes)
    except AsaError as error:
        if path is not None:
            raise
        return None, str(error)
    ranked = {name: mapping.ranking(Workload(name)) for name in classes}
    return {name: str(ranking[0].name) for name, ranking in ranked.items() if ranking}, ""


def with_served(data: Dataset) -> Dataset:
    """With the scheduler that `SERVED` has for each class. Raises AsaError when it cannot be read."""
    found, why = served(None, data.classes)
    if found is None:
        raise AsaError(why)
    return replace(data, served=tuple(first(data.classes, found).tolist()))


def first(classes: Sequence[str], table: Mapping[str, str]) -> Array:
    """Of each class the scheduler that the table has first for it; EEVDF where it ranks none: then nothing is done."""
    return np.array([table.get(name) or str(EEVDF) for name in classes])
