# SPDX-License-Identifier: GPL-2.0-only
"""What the model sees of one tick: numbers that mean the same on a laptop and in an emulated guest.

Values of the tick (`models.features.table`), and statistics of some of them over the last seconds
(`models.features.window`). `take` takes a sample in, `frame` gives what the model sees; the agent, the journal's replay
and training all go through these two, recordings by `ticks` (`models.features.replay`). Unknown stays unknown. A model
names its columns (`pick`): a new one needs nothing more, any change of one that there is needs another `SCHEMA`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from models.features.column import Column, Source
from models.features.replay import Tick, is_new, take, ticks
from models.features.table import SCHEMA
from models.features.tick import FIELDS
from models.features.window import COLUMNS, Window, frame, push, value_of, vector

__all__ = [
    "FIELDS",
    "NAMES",
    "SCHEMA",
    "SOURCES",
    "TABLE",
    "Column",
    "Source",
    "Tick",
    "Window",
    "columns",
    "fields_of",
    "frame",
    "is_new",
    "pick",
    "push",
    "take",
    "ticks",
    "vector",
]

TABLE: tuple[Column, ...] = COLUMNS
"""All columns, in order."""

NAMES: tuple[str, ...] = tuple(column.name for column in TABLE)
"""Their names, as the artefact records them."""

SOURCES: Mapping[str, frozenset[Source]] = {
    "ebpf": frozenset({Source.PROBES}),
    "gnome": frozenset({Source.DESKTOP}),
    "psi": frozenset({Source.PSI}),
    "processes": frozenset({Source.PROCESSES}),
}
"""What a machine, or an older recording, may be without -> which columns are unknown then."""


_PLACES: Mapping[str, int] = {name: place for place, name in enumerate(NAMES)}


def pick(names: Sequence[str]) -> NDArray[np.intp] | None:
    """Places of these columns in a frame, (F,); None when they are all of them in order. KeyError: no such column."""
    return None if tuple(names) == NAMES else np.array([_PLACES[name] for name in names], dtype=np.intp)


def fields_of(names: Iterable[str]) -> frozenset[str]:
    """The fields of Rates that these columns are made of. KeyError: no such column."""
    made_of = (value_of(_PLACES[name]) for name in names)
    return frozenset(field for value in made_of for one in value.sums for field in one.fields)


def columns(sources: Collection[Source] = (), *, suspect: bool = False) -> NDArray[np.bool_]:
    """Columns of these sources, and with `suspect` those that may tell the machine, bool (F,)."""
    return np.array([column.source in sources or (suspect and column.suspect) for column in TABLE], dtype=bool)
