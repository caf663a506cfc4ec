# SPDX-License-Identifier: GPL-2.0-only
"""All scores of a fleet's kept runs as one Parquet table, a row a run. It scores nothing itself."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from asa import files
from asa.core.errors import AsaError
from calibration.fleet.figures.blocks import PlayedMachine


def write(path: Path, machines: Sequence[PlayedMachine]) -> None:
    """A Parquet table with a row a run: where, under which column, its score, and why there is none.

    Raises AsaError when it cannot be written.
    """
    rows = [
        {
            "machine": machine.facts.name,
            "prototype": machine.facts.prototype,
            "scenario": block.scenario,
            "label": block.label,
            "run": repeat[0],
            "repeat": repeat[1],
            "column": column,
            "score": run.score,
            "held": run.chosen(),
            "trouble": run.trouble,
        }
        for machine in machines
        for block in machine.blocks
        for column, runs in sorted(block.runs.items())
        for repeat, run in sorted(runs.items())
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.fresh(path) as file:
            pq.write_table(pa.Table.from_pylist(rows, _SCORES), file, compression="zstd")
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror or error}; name another place by --page") from error


_SCORES = pa.schema(
    [
        ("machine", pa.string()),
        ("prototype", pa.bool_()),
        ("scenario", pa.string()),
        ("label", pa.string()),
        ("run", pa.string()),
        ("repeat", pa.int16()),
        ("column", pa.string()),
        ("score", pa.float64()),
        ("held", pa.string()),
        ("trouble", pa.string()),
    ]
)
