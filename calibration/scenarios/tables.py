# SPDX-License-Identifier: GPL-2.0-only
"""A run's results as two tables: samples.parquet, a row a sample, and trials.parquet, a row a trial with its noise.

Writes both into the run's folder, whole or not at all, and reads them back for who compares runs.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from asa import files
from asa.core.errors import AsaError
from calibration.scenarios.scores import Played
from scenarios import runner_folder
from scenarios.application import Tier
from scenarios.conditions import Conditions, of_old
from scenarios.noise import Noise
from scenarios.runner_plan import Outcome, Plan, Result

SAMPLES, TRIALS = "samples.parquet", "trials.parquet"

_KEYS = [
    ("run", pa.string()),
    ("trial", pa.string()),
    ("scenario", pa.string()),
    ("label", pa.string()),
    ("interactive", pa.string()),
    ("background", pa.string()),
    ("tier", pa.string()),
    ("cpus", pa.int16()),
    ("clock", pa.string()),
    ("tick_hz", pa.int32()),
    ("machine", pa.string()),
    ("scheduler", pa.string()),
    ("scheduler_version", pa.string()),
    ("copy", pa.int16()),
    ("repeat", pa.int16()),
    ("seed", pa.int64()),
    ("order", pa.int32()),
]
_SAMPLE = [("application", pa.string()), ("metric", pa.string()), ("at_s", pa.float64()), ("value", pa.float64())]
_NOISE = [(name, pa.string() if name == "busiest" else pa.float32()) for name in Noise.__struct_fields__]
_TRIAL = [
    ("outcome", pa.string()),
    ("failure", pa.string()),
    ("failed_application", pa.string()),
    ("reason", pa.string()),
    ("last_words", pa.string()),
    ("attempts", pa.int16()),
    ("started_ns", pa.int64()),
    ("took_s", pa.float32()),
    ("window_s", pa.float32()),
    ("host", pa.string()),
    ("kernel", pa.string()),
    ("asa_version", pa.string()),
    ("versions", pa.string()),  # JSON: application -> program -> version
    ("parameters", pa.string()),  # JSON: application -> what the seed drew
    ("energy_j", pa.float32()),  # of the window; with what it is made of: seconds in which each CPU was busy
    ("power_w", pa.float32()),
    ("busy_s", pa.list_(pa.float32())),
    *_NOISE,
]
_SAMPLES = pa.schema([*_KEYS, *_SAMPLE])
_TRIALS = pa.schema([*_KEYS, *_TRIAL])


def check_replaceable(folder: Path) -> None:
    """Raises AsaError when `write` would lose trials: the folder's table has some whose own results are not there."""
    path = folder / TRIALS
    if not path.exists():
        return
    try:
        names = pq.read_table(path, columns=["trial"])["trial"].to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise AsaError(f"{path}: is no table of a run: {error}; remove it, or name another folder by --out") from error
    kept = runner_folder.played(folder)
    lost = sum(name not in kept and name.rpartition(".")[0] not in kept for name in names)  # a phase: ID.1
    if lost:
        why = f"has {lost} trials whose own results are not beside it (trials/), and would be replaced"
        raise AsaError(f"{path}: {why}; name another folder by --out, or remove this one to play all again")


def write(folder: Path, plan: Plan, results: Sequence[Result]) -> None:
    """Both tables, in the plan's order. Raises AsaError when the folder cannot be written."""
    rows = [{**_key(plan, result), **_trial(result)} for result in results]
    _put(folder / TRIALS, _TRIALS, iter([pa.Table.from_pylist(rows, _TRIALS)]))
    _put(folder / SAMPLES, _SAMPLES, (_samples(plan, result) for result in results))


def read(folder: Path) -> list[Played]:
    """The trials of a run that did not fail, with their samples. Raises AsaError when the tables are not there."""
    trials = rows(folder)
    try:
        table = pq.read_table(folder / SAMPLES, columns=["run", "trial", "application", "metric", "value"])
    except (OSError, pa.ArrowException) as error:
        raise _no_tables(folder, error) from error
    samples: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    keys = ("run", "trial", "application", "metric")
    for row in table.group_by(list(keys), use_threads=False).aggregate([("value", "list")]).to_pylist():
        samples[row["run"], row["trial"]][row["application"]][row["metric"]] = row["value_list"]
    return [
        Played(
            trial=row["trial"],
            run=row["run"],
            repeat=row["repeat"],
            interactive=row["interactive"],
            background=row["background"],
            scheduler=row["scheduler"],
            copy=row["copy"],
            samples=samples.get((row["run"], row["trial"]), {}),
        )
        for row in trials
        if row["outcome"] != Outcome.FAILED
    ]


def rows(folder: Path) -> list[dict[str, Any]]:
    """The trials as the table has them; what was kept before a column was there has None in it, and its clock.

    Raises AsaError when the table is not there.
    """
    try:
        found: list[dict[str, Any]] = pq.read_table(folder / TRIALS, schema=_TRIALS).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise _no_tables(folder, error) from error
    for row in found:
        if row["clock"] is None:
            row.update(msgspec.structs.asdict(of_old(lab=row["tier"] == Tier.LAB)))
    return found


def under(row: Mapping[str, Any]) -> Conditions:
    """What a row of `rows` was played under."""
    return Conditions(clock=row["clock"], tick_hz=row["tick_hz"], machine=row["machine"])


def _no_tables(folder: Path, error: Exception) -> AsaError:
    return AsaError(f"{folder}: holds no tables of a run: {error}; `asa lab bench run --out` makes them")


def _key(plan: Plan, result: Result) -> dict[str, Any]:
    trial, under = result.trial, result.under or plan.asked.under
    return {
        "run": plan.run,
        "trial": trial.id,
        "scenario": trial.scenario,
        "label": trial.label,
        "interactive": trial.interactive,
        "background": trial.background,
        "tier": plan.asked.tier,
        "cpus": plan.asked.cpus,
        "clock": under.clock,
        "tick_hz": under.tick_hz,
        "machine": under.machine,
        "scheduler": trial.scheduler,
        "scheduler_version": result.scheduler_version,
        "copy": trial.copy,
        "repeat": trial.repeat,
        "seed": trial.seed,
        "order": trial.order,
    }


def _trial(result: Result) -> dict[str, Any]:
    noise = {name: getattr(result.noise, name, None) for name in Noise.__struct_fields__}
    plain = {name: getattr(result, name) for name, _ in _TRIAL if hasattr(result, name)}
    energy = next(iter(result.energy), None)  # of a phase: `split` has made a trial of each
    return {
        **plain,
        "energy_j": None if energy is None else energy.joules,
        "power_w": None if energy is None else energy.watts,
        "busy_s": None if energy is None else energy.busy_s,
        "failed_application": result.application,
        "versions": json.dumps(result.versions, sort_keys=True),
        "parameters": json.dumps(result.parameters, sort_keys=True),
        **noise,
    }


def _samples(plan: Plan, result: Result) -> pa.Table:
    series = result.series
    counts = [len(one.values) for one in series]
    rows = sum(counts)
    columns = {
        name: pa.repeat(pa.scalar(value, _SAMPLES.field(name).type), rows) for name, value in _key(plan, result).items()
    }
    for name in ("application", "metric"):
        columns[name] = pa.array(
            [getattr(one, name) for one, count in zip(series, counts, strict=True) for _ in range(count)], pa.string()
        )
    columns["at_s"] = pa.array([at for one in series for at in one.at_s], pa.float64())
    columns["value"] = pa.array([value for one in series for value in one.values], pa.float64())
    return pa.table(columns, schema=_SAMPLES)


def _put(path: Path, schema: pa.Schema, tables: Iterator[pa.Table]) -> None:
    try:
        with files.fresh(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table)
    except OSError as error:
        raise AsaError(
            f"{path}: cannot be written: {error.strerror or error}; the same command goes on from here"
        ) from error
