# SPDX-License-Identifier: GPL-2.0-only
"""Switchback runs as three tables: runs.parquet, a row a run; blocks.parquet, a row a block; samples.parquet.

What is kept in the repository, and read by whoever has pandas alone. Block 0 of a run's samples is each application
alone; blocks count from 1 in the order in which they were played. Lists and mappings of a run are JSON.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from asa import files, wire
from asa.core.errors import AsaError
from calibration.switchback import samples as kept
from calibration.switchback.samples import Block, Run, Samples

RUNS, BLOCKS, SAMPLES = "runs.parquet", "blocks.parquet", "samples.parquet"
_RUNS = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "machine", "label", "interactive", "background", "kernel", "clock")),
        *(("tick_hz", pa.int32()), ("seed", pa.int64()), ("cpus", pa.int16()), ("rounds", pa.int16())),
        *((name, pa.float64()) for name in ("crowd", "effort", "settle_s", "window_s")),
        *((name, pa.float64()) for name in ("guest_s", "host_s", "host_cpu_s")),
        ("whole", pa.string()),  # JSON: the run without blocks and samples
    ]
)
_BLOCKS = pa.schema(
    [
        *(("run", pa.string()), ("block", pa.int32()), ("round", pa.int16()), ("place", pa.int16())),
        *(("scheduler", pa.string()), ("copy", pa.int16()), ("after", pa.string()), ("window_s", pa.float64())),
        *(("switch_ms", pa.float64()), ("gap_ms", pa.float64()), ("way", pa.string()), ("power_w", pa.float64())),
        *(("energy", pa.string()), ("told", pa.string()), ("trouble", pa.string())),
    ]
)
_SAMPLES = pa.schema(
    [
        *(("run", pa.string()), ("block", pa.int32()), ("application", pa.string()), ("metric", pa.string())),
        *(("at_s", pa.float32()), ("value", pa.float64())),
    ]
)


def write(folder: Path, runs: Sequence[Run]) -> None:
    """All three, each whole or not at all. Raises AsaError when the folder cannot be written."""
    _put(folder / RUNS, _RUNS, [_run(one) for one in runs])
    _put(folder / BLOCKS, _BLOCKS, [row for one in runs for row in _blocks(one)])
    _put(folder / SAMPLES, _SAMPLES, [row for one in runs for row in _samples(one)])


def read(folder: Path) -> list[Run]:
    """The runs of a folder's tables, by name. Raises AsaError where they are not there."""
    try:
        rows, blocks, samples = (pq.read_table(folder / name) for name in (RUNS, BLOCKS, SAMPLES))
    except (OSError, pa.ArrowException) as error:
        words = "`asa lab bench switchback --out` makes them"
        raise AsaError(f"{folder}: holds no tables of switchback runs: {error}; {words}") from error
    series: dict[tuple[str, int], list[Samples]] = defaultdict(list)
    keys = ["run", "block", "application", "metric"]
    lists = samples.group_by(keys, use_threads=False).aggregate([("at_s", "list"), ("value", "list")])
    for row in lists.to_pylist():
        series[row["run"], row["block"]].append(
            Samples(
                application=row["application"], metric=row["metric"], at_s=row["at_s_list"], values=row["value_list"]
            )
        )
    by_run: dict[str, list[Block]] = defaultdict(list)
    names = [name for name in Block.__struct_fields__ if name not in {"energy", "series", "told"}]
    for row in blocks.to_pylist():
        made = {name: row[name] for name in names} | {"energy": wire.from_json(row["energy"], Any)}
        made["told"] = wire.from_json(row.get("told") or "{}", Any)  # older tables have none
        found = wire.shaped(made | {"series": []}, Block)
        by_run[row["run"]].append(msgspec.structs.replace(found, series=series[row["run"], row["block"]]))
    return [
        msgspec.structs.replace(
            wire.from_json(row["whole"], Run), blocks=tuple(by_run[row["run"]]), alone=series[row["run"], 0]
        )
        for row in rows.to_pylist()
    ]


def known(folder: Path) -> list[Run]:
    """Runs of the tables and of files beside them; a file is newer than its row. Raises AsaError for what is none."""
    found = {one.id: one for one in (read(folder) if (folder / RUNS).exists() else ())}
    found.update({one.id: one for one in kept.files(folder)})
    return [found[name] for name in sorted(found)]


def _run(run: Run) -> dict[str, Any]:
    orders = run.orders
    plain = msgspec.structs.replace(run, blocks=(), alone=[])
    row = {name: getattr(run, name) for name in _RUNS.names if hasattr(run, name)}
    row |= {name: getattr(orders, name) for name in ("label", "seed", "rounds", "crowd", "effort", "settle_s")}
    under = {"clock": run.under.clock, "tick_hz": run.under.tick_hz}
    return row | under | {"run": run.id, "whole": wire.json_text(plain)}


def _blocks(run: Run) -> Iterator[dict[str, Any]]:
    for number, block in enumerate(run.blocks, 1):
        row = {name: getattr(block, name) for name in _BLOCKS.names if hasattr(block, name)}
        watts = None if block.energy is None else block.energy.watts
        words = {"energy": wire.json_text(block.energy), "told": wire.json_text(block.told)}
        yield row | {"run": run.id, "block": number, "power_w": watts} | words


def _samples(run: Run) -> Iterator[dict[str, Any]]:
    every: Iterable[tuple[int, Sequence[Samples]]] = enumerate([run.alone, *(block.series for block in run.blocks)])
    for number, series in every:
        for one in series:
            for at_s, value in zip(one.at_s, one.values, strict=True):
                yield {
                    "run": run.id,
                    "block": number,
                    "application": one.application,
                    "metric": one.metric,
                    "at_s": at_s,
                    "value": value,
                }


def _put(path: Path, schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.fresh(path) as file:
            pq.write_table(pa.Table.from_pylist(rows, schema), file, compression="zstd")
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror or error}; the same command goes on") from error
