# SPDX-License-Identifier: GPL-2.0-only
"""Ticks as a flat table: rates derived anew, probabilities, and the decision; written as CSV or Parquet in a stream.

Unknown is an empty cell (CSV) or null (Parquet). Parquet needs pyarrow, an extra.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Self, TextIO, TypeAlias

from asa.core.decision import Decision
from asa.core.errors import AsaError
from asa.core.sample import RawSample
from asa.journal import Journal
from asa.report.reading import ticks
from collectors import rates

_Value: TypeAlias = "int | float | str | None"
_TIMES = ("session", "monotonic_ns", "wall_ns")
_WORDS = ("workload", "regime", "wanted", "current", "switch_to", "reason", "sentence", "trial")
_RATES = tuple(field.name for field in fields(rates.Rates))
_BATCH = 2048  # rows that Parquet takes at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows that can be read once."""

    names: tuple[str, ...]
    rows: Iterator[tuple[_Value, ...]]

    @classmethod
    def of(cls, journal: Journal, session: int | None) -> Self:
        """Of one session, or of all. The classes of all its decisions become columns `p_CLASS`."""
        sessions = [one.number for one in journal.sessions() if session in (None, one.number)]
        classes: dict[str, None] = {}
        for number in sessions:
            known: tuple[str, ...] = ()
            for decision in journal.decisions(number):
                if decision.probabilities is not None and decision.probabilities.classes != known:
                    known = decision.probabilities.classes
                    classes |= dict.fromkeys(known)
        names = (*_TIMES, *_RATES, *(f"p_{name}" for name in classes), "confidence", *_WORDS)
        return cls(names=names, rows=_rows(journal, sessions, tuple(classes)))


def write_csv(table: Table, file: TextIO) -> int:
    """Write all rows below a line of names. Returns how many."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.names)
    count = 0
    for row in table.rows:
        writer.writerow(row)
        count += 1
    return count


def write_parquet(table: Table, path: Path) -> int:
    """Write all rows. Returns how many. Raises AsaError without pyarrow."""
    try:
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise AsaError("Parquet needs pyarrow; install asa's extra `export`, or use --format csv") from error
    kinds = {name: arrow.int64() for name in _TIMES} | {name: arrow.string() for name in _WORDS}
    schema = arrow.schema([(name, kinds.get(name, arrow.float64())) for name in table.names])
    count = 0
    with parquet.ParquetWriter(str(path), schema, compression="zstd") as writer:
        while batch := list(islice(table.rows, _BATCH)):
            columns = dict(zip(table.names, zip(*batch, strict=True), strict=True))
            writer.write_table(arrow.Table.from_pydict(columns, schema=schema))
            count += len(batch)
    return count


def _rows(journal: Journal, sessions: list[int], classes: tuple[str, ...]) -> Iterator[tuple[_Value, ...]]:
    for number in sessions:
        previous: RawSample | None = None
        for tick in ticks(journal, number):
            sample = tick.sample
            derived = None if previous is None else rates.derive(previous, sample)
            previous = sample
            yield (number, sample.monotonic_ns, sample.wall_ns, *_flat(derived), *_decided(tick.decision, classes))


def _flat(derived: rates.Rates | None) -> Iterator[float | None]:
    return (None if derived is None else getattr(derived, name) for name in _RATES)


def _decided(decision: Decision | None, classes: tuple[str, ...]) -> tuple[_Value, ...]:
    if decision is None:
        return (None,) * (len(classes) + 1 + len(_WORDS))
    known: dict[str, float] = {}
    if decision.probabilities is not None:
        known = dict(zip(decision.probabilities.classes, decision.probabilities.values, strict=True))
    schedulers = (decision.wanted, decision.current, decision.switch_to)
    said = (str(decision.reason), decision.sentence, decision.trial)
    words = (decision.workload, decision.vote.regime, *schedulers, *said)
    return (*(known.get(name) for name in classes), decision.vote.confidence, *words)
