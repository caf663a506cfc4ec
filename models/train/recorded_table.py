# SPDX-License-Identifier: GPL-2.0-only
"""The dataset of recorded scenarios as a Parquet file: written whole or not at all, read back, and looked through.

The same journals give the same bytes, whatever their order, with one version of pyarrow.
"""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from asa import files
from asa.core.decision import EEVDF
from asa.core.errors import ModelError
from asa.core.mark import Phase
from collectors.sources import SOURCES
from models.train.recorded import VALUES, Rows

SCHEMA = 2
LEAST_SESSIONS, SECONDS = 3, 60
"""Of each label, with different seeds, and how long all of it has to run."""

OTHER_SHARE = 1 / 3
"""Of the lab's sessions: those under another scheduler than the kernel's own."""

_WHOLE = 0.8  # of the rows that a running phase ought to have, as the recorder asks for
_FACTS = (
    ("session", pa.string()),
    ("label", pa.string()),  # of the whole session
    ("interactive", pa.string()),  # what is there in this row, as the next one
    ("background", pa.string()),
    ("phase", pa.string()),
    ("host", pa.string()),
    ("kernel", pa.string()),
    ("cpus", pa.int16()),
    ("tier", pa.string()),
    ("scheduler", pa.string()),
    ("seed", pa.int64()),
    ("asa_version", pa.string()),
    ("programs", pa.string()),  # JSON: program -> version
    ("parameters", pa.string()),  # JSON: application -> what the seed drew
    ("at_s", pa.float32()),
    ("elapsed_s", pa.float32()),
)
_TABLE = pa.schema([*_FACTS, *((name, pa.float32()) for name in VALUES)], metadata={"asa": str(SCHEMA)})
# what every machine has -> a column that is known wherever it was read
_SOURCES: Mapping[str, str] = {name: column for source in SOURCES for name, column in source.tells.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """A session of the dataset. `missing` are sources that told nothing in it."""

    id: str
    label: str
    tier: str
    host: str
    cpus: int
    scheduler: str
    seed: int
    rows: int
    running: int  # of them
    missing: tuple[str, ...]


def write(path: Path, found: Sequence[Rows]) -> str:
    """The file's SHA-256. Raises ModelError when it cannot be written."""
    try:
        with files.fresh(path, mode=0o644) as file:
            with pq.ParquetWriter(file, _TABLE, compression="zstd") as writer:
                writer.write_table(table(found))
            file.flush()
            digest = hashlib.sha256(Path(file.name).read_bytes()).hexdigest()
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror or error}; name another file") from error
    return digest


def read(path: Path) -> list[Facts]:
    """The sessions of a dataset. Raises ModelError for another file, or one cut off."""
    try:
        schema = pq.read_schema(path)
        needed = [name for name, _ in _FACTS]
        if (schema.metadata or {}).get(b"asa") != str(SCHEMA).encode() or not set(needed) <= set(schema.names):
            raise ModelError(f"{path}: not a dataset of this version; make it by `asa lab dataset build`")
        told = [column for column in _SOURCES.values() if column in schema.names]
        rows = pq.read_table(path, columns=needed + told)
        for column in _SOURCES.values():
            if column not in told:  # a metric that came to be after the file was made is unknown in it
                rows = rows.append_column(column, pa.nulls(rows.num_rows, pa.float32()))
        return facts(rows)
    except (OSError, pa.ArrowException) as error:
        raise ModelError(f"{path}: cannot be read as a dataset: {error}; make it by `asa lab dataset build`") from error


def table(found: Sequence[Rows]) -> pa.Table:
    """All rows of these sessions."""
    return pa.concat_tables(_table(one) for one in found)


def facts(rows: pa.Table) -> list[Facts]:
    """The sessions of a table, by label, tier, scheduler and seed."""
    known = ["session", "label", "tier", "host", "cpus", "scheduler", "seed"]
    running = pc.cast(pc.equal(rows["phase"], Phase.RUNNING.value), pa.int64())
    # the scheduler's rows do not differ in a session: one in which it changed was never kept
    sums = [("running", "sum"), ("at_s", "count"), *((column, "count") for column in _SOURCES.values())]
    found = [
        Facts(
            id=row["session"],
            rows=row["at_s_count"],
            running=row["running_sum"],
            missing=tuple(name for name, column in _SOURCES.items() if row[f"{column}_count"] == 0),
            **{name: row[name] for name in known[1:]},
        )
        for row in rows.append_column("running", running).group_by(known, use_threads=False).aggregate(sums).to_pylist()
    ]
    return sorted(found, key=lambda one: (one.label, one.tier, one.scheduler, one.seed, one.id))


def whole(found: Iterable[Facts], seconds: float = SECONDS) -> list[Facts]:
    """Those in which all of the scenario ran as long as it should."""
    return [one for one in found if one.running >= _WHOLE * seconds]


def complete(found: Iterable[Facts], least: int = LEAST_SESSIONS) -> list[str]:
    """The labels with sessions of so many different seeds, sorted."""
    return sorted(label for label, seeds in _seeds(found).items() if len(seeds) >= least)


def lacks(
    found: Sequence[Facts], labels: Sequence[str], *, least: int = LEAST_SESSIONS, seconds: float = SECONDS
) -> list[str]:
    """What is missing of a dataset that can be trained from, a line each; none when nothing is."""
    said = []
    good = whole(found, seconds)
    if len(good) < len(found):
        said.append(f"{len(found) - len(good)} sessions run for less than {seconds:g} s and do not count")
    seeds = _seeds(good)
    said += [
        f"{label}: {len(seeds[label])} seeds of {least}, a session each"
        for label in labels
        if len(seeds[label]) < least
    ]
    for source in _SOURCES:
        without = [one for one in found if source in one.missing]
        if without:
            where = ", ".join(f"{count} {tier}" for tier, count in sorted(Counter(one.tier for one in without).items()))
            said.append(f"{source}: not read in {len(without)} of {len(found)} sessions ({where})")
    lab = [one for one in found if one.tier == "lab"]
    other = sum(one.scheduler != EEVDF for one in lab)
    if not lab:
        said.append("no session of the lab tier")
    elif other < OTHER_SHARE * len(lab):
        said.append(f"{other} of {len(lab)} lab sessions under another scheduler than {EEVDF}, a third is needed")
    return said


def _seeds(found: Iterable[Facts]) -> defaultdict[str, set[int]]:
    seeds = defaultdict[str, set[int]](set)
    for one in found:
        seeds[one.label].add(one.seed)
    return seeds


def _table(one: Rows) -> pa.Table:
    header, count = one.session.header, len(one.rows)
    known = {
        "session": one.session.id,
        "label": header.label,
        "host": header.host,
        "kernel": header.kernel,
        "cpus": header.cpus,
        "tier": header.tier,
        "seed": header.seed,
        "asa_version": header.asa_version,
        "programs": json.dumps(header.programs, sort_keys=True),
        "parameters": header.parameters,
    }
    columns = [
        pa.array([known[name]] * count if name in known else [getattr(row, name) for row in one.rows], kind)
        for name, kind in _FACTS
    ]
    columns += [pa.array(one.values[:, place], pa.float32(), from_pandas=True) for place in range(len(VALUES))]
    return pa.table(columns, schema=_TABLE)
