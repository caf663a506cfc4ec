# SPDX-License-Identifier: GPL-2.0-only
"""What all is judged by: rounds.parquet, a row for each scheduler in each round of each switchback run.

A row has the scheduler's block beside the two of the kernel's own that open and close the round: score, wait, rate and
power. Small enough to be kept in the repository; whoever has pandas needs nothing else. Judges nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from asa import files
from asa.core.decision import EEVDF
from asa.core.errors import AsaError
from calibration.controllers.columns import is_controller
from calibration.oracle import shapes
from calibration.scoring.fusion import measured
from calibration.scoring.table import APPLICATIONS
from calibration.switchback.probes import PROBES, judged
from calibration.switchback.samples import Block, Run, Samples
from calibration.switchback.scored import by_application, score_all
from scenarios.metric import Direction

ROUNDS = "rounds.parquet"
_OWN = (1, 2)  # copies of the kernel's own that open and close a round


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One scheduler in one round. None is what was not measured.

    `wait` is the figure, as it is scored, of the interactive application's main metric (`wait_of`: ms, or per cent of a
    period of sound); `rate` is the mean of the load's first rate (`rate_of`). Of a single one of the two is None.
    `own_*` are the kernel's own, the mean of its two blocks; `own_busiest_pct` is how busy its busiest CPU was. `held`
    is the scheduler that a controller had in force for most of the window, "" where that is unknown or none decided.
    """

    run: str
    machine: str
    cpus: int
    hybrid: bool  # cores of more than one speed
    tick_hz: int
    clock: str
    kernel: str  # release
    date: str  # ISO
    version: str  # of the scheduler
    label: str
    seed: int
    part: str
    round: int
    scheduler: str
    copy: int
    wait_of: str
    rate_of: str
    score: float | None = None
    own_score: float | None = None
    wait: float | None = None
    own_wait: float | None = None
    rate: float | None = None
    own_rate: float | None = None
    power_w: float | None = None
    own_power_w: float | None = None
    own_busiest_pct: float | None = None
    held: str = ""

    @property
    def decides(self) -> bool:
        """Is it no scheduler, but an agent or a rule that has one in force?"""
        return is_controller(self.scheduler)

    @property
    def against_itself(self) -> bool:
        """Is it the kernel's own between its two blocks?"""
        return self.scheduler == EEVDF


_TYPES: Mapping[str, pa.DataType] = {"int": pa.int64(), "bool": pa.bool_(), "str": pa.string()}
_SCHEMA = pa.schema([(one.name, _TYPES.get(getattr(one.type, "__name__", ""), pa.float64())) for one in fields(Round)])


def of_runs(runs: Iterable[Run]) -> list[Round]:
    """Of rounds in which both blocks of the kernel's own went well; blocks with a trouble are left out.

    Runs in which nobody takes turns have no such round.
    """
    return [row for run in runs if run.orders.in_turns for row in _of_run(run)]


def write(path: Path, rows: Sequence[Round]) -> None:
    """The file whole or not at all. Raises AsaError when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.fresh(path, mode=0o644) as file:
            pq.write_table(pa.Table.from_pylist([asdict(one) for one in rows], _SCHEMA), file, compression="zstd")
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror or error}; name another place by --out") from error


def read(path: Path) -> list[Round]:
    """Raises AsaError where there is no such table."""
    try:
        rows = pq.read_table(path, schema=_SCHEMA).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise AsaError(f"{path}: holds no rounds of switchback runs; `asa lab bench matrix` makes them") from error
    # what an older table lacks is not known
    return [Round(**{name: value for name, value in row.items() if value is not None}) for row in rows]


def _of_run(run: Run) -> Iterator[Round]:
    turns: dict[int, list[Block]] = defaultdict(list)
    for block in run.blocks:
        if not block.trouble:
            turns[block.round].append(block)
    hybrid = shapes.hybrid(shapes.machine(run.machine))
    for number, blocks in turns.items():
        own = [one for one in blocks if one.scheduler == EEVDF and one.copy in _OWN]
        if len(own) < len(_OWN):
            continue
        marks = score_all(run.interactive, run.background, run.alone, [one.series for one in blocks])
        figures = [_figures(run, block, mark) for block, mark in zip(blocks, marks, strict=True)]
        base = _mean([figures[blocks.index(one)] | {"busiest_pct": _busiest_pct(one)} for one in own])
        for block, figure in zip(blocks, figures, strict=True):
            if block not in own:
                yield Round(
                    run=run.id,
                    machine=run.machine,
                    cpus=run.cpus,
                    hybrid=hybrid,
                    tick_hz=run.under.tick_hz or 0,
                    clock=run.under.clock,
                    kernel=run.kernel,
                    date=run.date,
                    version=run.versions.get(block.scheduler, ""),
                    label=run.orders.label,
                    seed=run.orders.seed,
                    part=run.orders.part,
                    round=number,
                    scheduler=block.scheduler,
                    copy=block.copy,
                    wait_of=_name(run.interactive, _wait),
                    rate_of=_name(run.background, _rate),
                    held=_held(block),
                    **figure,
                    **{f"own_{name}": value for name, value in base.items()},
                )


def _figures(run: Run, block: Block, score: float | None) -> dict[str, Any]:
    watts = None if block.energy is None else block.energy.watts
    waits, rates = _metric(block.series, run.interactive, _wait), _metric(block.series, run.background, _rate)
    return {"score": score, "wait": waits, "rate": rates, "power_w": watts}


def _held(block: Block) -> str:
    held_s = block.told.get("held_s")
    return max(held_s, key=lambda name: held_s[name]) if isinstance(held_s, dict) and held_s else ""


def _busiest_pct(block: Block) -> float | None:
    if block.energy is None or not block.energy.busy_s or not block.window_s:
        return None
    return min(100.0 * max(block.energy.busy_s) / block.window_s, 100.0)


def _mean(found: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Of what all of them have."""
    known = {name: [value for one in found if (value := one[name]) is not None] for name in found[0]}
    return {name: sum(values) / len(values) if len(values) == len(found) else None for name, values in known.items()}


def _wait(application: str) -> str:
    return judged(application)[0]


def _rate(application: str) -> str:
    return next(one.metric for one in PROBES[application] if one.better is Direction.LARGER)


def _name(application: str, of: Any) -> str:  # one of the two above
    return f"{application}.{of(application)}" if application else ""


def _metric(series: Sequence[Samples], application: str, of: Any) -> float | None:  # as above
    if not application:
        return None
    metric = next(one for one in APPLICATIONS[application].metrics if one.name == of(application))
    found = measured(metric, by_application(series).get(application, {}).get(metric.name, ()))
    return None if found is None else found.value
