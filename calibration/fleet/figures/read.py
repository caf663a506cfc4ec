# SPDX-License-Identifier: GPL-2.0-only
"""The kept runs of `asa lab fleet run`: each machine's folder as blocks, a block being a scenario with all of its runs.

Reads machine.json, the two tables and plan.json, and scores the trials. Compares nothing.

A scenario that changes its phases in the course of a run is kept as a trial a phase, named `P1/1`, `P1/2` and so on;
here it is one scenario, P1, whose score is the mean of its phases'.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from asa import wire
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from calibration.controllers.columns import AGENT
from calibration.fleet.figures.blocks import Block, Controlled, Facts, PlayedMachine, Repeat, Run, is_static
from calibration.scenarios import scores as bench_scores
from calibration.scenarios import tables as bench_tables
from calibration.scenarios.scores import Played, Score
from scenarios.catalogue import IDLE
from scenarios.conditions import Conditions, time_of_all
from scenarios.runner_plan import CONTROLLER, Outcome

MACHINE, PLAN = "machine.json", "plan.json"
_PHASE = "/"
_COMMAND = "`asa lab fleet run --out` makes them"


def read(folder: Path) -> list[PlayedMachine]:
    """All machines below it, by name: of one run, or of runs that each have a folder there; what several runs have of a
    machine is one. Without those that are `unfinished`. Raises AsaError for what is there and cannot be read, when
    nothing is, and where runs are of several clocks or ticks.
    """
    found: dict[str, PlayedMachine] = {}
    left = unfinished(folder)
    for run in _runs(folder):
        here = [_machine(path.parent) for path in sorted(run.glob(f"*/{MACHINE}")) if path.parent not in left]
        names = [one.facts.name for one in here]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise AsaError(f"{run}: more than one folder is of machine {twice[0]!r}; keep one of them")
        for one in here:
            known = found.get(one.facts.name)
            time_of_all([(kept.folders[0], kept.under) for kept in (*found.values(), one)])
            found[one.facts.name] = one if known is None else _both(known, one)
    if not found and left:
        raise AsaError(f"{left[0]}: holds no tables of a run; `asa lab fleet run` makes them at its end")
    if not found:
        raise AsaError(f"{folder}: holds no machine of a fleet (no */{MACHINE}); {_COMMAND}")
    return [machine for _, machine in sorted(found.items())]


def unfinished(folder: Path) -> list[Path]:
    """Folders of machines that are being played, or whose run was killed: without tables, which come at its end."""
    known = (path.parent for run in _runs(folder) for path in sorted(run.glob(f"*/{MACHINE}")))
    return [one for one in known if not (one / bench_tables.TRIALS).exists()]


def _runs(folder: Path) -> list[Path]:
    return [folder, *(path for path in sorted(folder.glob("*")) if path.is_dir() and not (path / MACHINE).exists())]


def _both(one: PlayedMachine, other: PlayedMachine) -> PlayedMachine:
    """A machine of two runs. Raises AsaError when they are of two machines of one name, of two agents, or have trials
    of two lengths of one scenario.
    """
    first, second = one.facts, other.facts
    folders = f"{one.folders[0]} and {other.folders[0]}"
    longest = max((facts.adapt_minutes for facts in (first, second) if facts.adapt_minutes is not None), default=None)
    facts = msgspec.structs.replace(first, adapt_minutes=longest)
    if facts != msgspec.structs.replace(second, adapt_minutes=longest, command=first.command, note=first.note):
        raise AsaError(f"{folders}: are of two machines of the name {first.name!r}, or of two agents; name one of them")
    if any(other.lengths_s.get(name, lengths) != lengths for name, lengths in one.lengths_s.items()):
        raise AsaError(f"{folders}: their trials have other windows, or other warm-ups; name one of them")
    planned = None if one.planned is None or other.planned is None else one.planned + other.planned
    return PlayedMachine(
        facts=facts,
        commands=(*one.commands, *other.commands),
        folders=(*one.folders, *other.folders),
        blocks=_merged(one.blocks, other.blocks),
        planned=planned,
        trials=one.trials + other.trials,
        failed=one.failed + other.failed,
        disturbed=one.disturbed + other.disturbed,
        again=(one.again[0] + other.again[0], one.again[1] + other.again[1]),
        began_ns=min((began for began in (one.began_ns, other.began_ns) if began is not None), default=None),
        took_s=one.took_s + other.took_s,
        seeds=(*one.seeds, *other.seeds),
        lengths_s={**one.lengths_s, **other.lengths_s},
        tiers=tuple(sorted({*one.tiers, *other.tiers})),
        kernels=tuple(sorted({*one.kernels, *other.kernels})),
        versions=tuple(sorted({*one.versions, *other.versions})),
        programs=tuple(sorted({*one.programs, *other.programs})),
        under=one.under,
    )


def _merged(one: Sequence[Block], other: Sequence[Block]) -> tuple[Block, ...]:
    """Runs of one scenario together: repeats of different runs are different ones."""
    found = {(block.scenario, block.label): block for block in one}
    for block in other:
        known = found.setdefault((block.scenario, block.label), block)
        if known is not block:
            columns = dict.fromkeys((*known.runs, *block.runs))
            runs = {column: {**known.runs.get(column, {}), **block.runs.get(column, {})} for column in columns}
            found[block.scenario, block.label] = replace(known, runs=runs)
    return tuple(sorted(found.values(), key=lambda block: _place(block.scenario)))


def _machine(folder: Path) -> PlayedMachine:
    facts = _decoded(folder / MACHINE, Facts)
    played = bench_tables.read(folder)
    rows = _rows(folder / bench_tables.TRIALS)
    try:
        blocks = _blocks(facts, rows, _scores(rows, played))
        under = time_of_all((row["trial"], bench_tables.under(row)) for row in rows) or Conditions()
    except AsaError as error:
        raise AsaError(f"{folder}: {error}") from error
    outcomes = [row["outcome"] for row in rows]
    plan = _plan(folder / PLAN)
    asked = plan.asked
    columns = sorted({(_column(row), row["scheduler_version"]) for row in rows if row["scheduler_version"]})
    again = [row for row in rows if row["attempts"] > 1]
    return PlayedMachine(
        facts=facts,
        commands=(facts.command,) if facts.command else (),
        folders=(folder,),
        blocks=blocks,
        planned=sum(1 if trial.get("then") is None else 2 for trial in plan.trials) or None,
        trials=len(rows),
        failed=outcomes.count(Outcome.FAILED),
        disturbed=outcomes.count(Outcome.DISTURBED),
        again=(len(again), sum(SchedulerName(row["scheduler"]).bare == AGENT for row in again)),
        began_ns=min((row["started_ns"] for row in rows if row["started_ns"]), default=None),
        took_s=sum(row["took_s"] or 0.0 for row in rows),
        seeds=() if asked.seed is None else (asked.seed,),
        lengths_s=_lengths(asked, blocks),
        tiers=_distinct(rows, "tier"),
        kernels=_distinct(rows, "kernel"),
        versions=_distinct(rows, "asa_version"),
        programs=tuple(f"{name} {version}" for name, version in columns if name == AGENT or is_static(name)),
        under=under,
    )


_COLUMNS = (
    *("run", "trial", "scenario", "interactive", "background", "tier", "scheduler", "scheduler_version", "copy"),
    *("repeat", "outcome", "failure", "failed_application", "reason", "started_ns", "took_s", "kernel", "asa_version"),
    *("seed", "attempts", "parameters"),
)


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        lacking = [name for name in _COLUMNS if name not in pq.read_schema(path).names]
        if lacking:
            raise AsaError(f"{path}: lacks {', '.join(lacking)}; {_COMMAND}")
    except (OSError, pa.ArrowException) as error:
        raise AsaError(f"{path}: cannot be read: {error}; {_COMMAND}") from error
    return bench_tables.rows(path.parent)


def _scores(rows: Sequence[Mapping[str, Any]], played: Sequence[Played]) -> dict[tuple[str, str], Score]:
    """(run, trial) -> score. A phase is compared with the same phase of other columns, never with the scenario."""
    scenario = {(row["run"], row["trial"]): str(row["scenario"]) for row in rows}
    phases: dict[str, list[Played]] = defaultdict(list)
    for one in played:
        name = scenario.get((one.run, one.trial), "")
        phases[name if _PHASE in name else ""].append(one)
    whole = phases.pop("", [])
    found = bench_scores.scores(whole)
    alone = [one for one in whole if not (one.interactive and one.background) and one.scheduler == EEVDF]
    for part in phases.values():
        # what was played alone comes last: of two trials with one application it is the one to compare with
        of_part = bench_scores.scores([*part, *alone])
        found |= {(one.run, one.trial): of_part[one.run, one.trial] for one in part}
    return found


def _blocks(
    facts: Facts, rows: Sequence[Mapping[str, Any]], scored: Mapping[tuple[str, str], Score]
) -> tuple[Block, ...]:
    parts: dict[str, dict[str, str]] = defaultdict(dict)  # scenario -> phase -> label
    runs: dict[str, dict[str, dict[Repeat, dict[str, Run]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for row in rows:
        scenario, _, phase = row["scenario"].partition(_PHASE)
        parts[scenario][phase] = _label(row)
        run = _run(row, scored.get((row["run"], row["trial"])))
        runs[scenario][_column(row)][row["run"], row["repeat"]][phase] = run
    return tuple(
        Block(
            machine=facts.name,
            prototype=facts.prototype,
            scenario=scenario,
            label=", ".join(label for _, label in sorted(parts[scenario].items())),
            phased="" not in parts[scenario],
            runs={
                column: {repeat: _joined(found, parts[scenario]) for repeat, found in of_column.items()}
                for column, of_column in columns.items()
            },
        )
        for scenario, columns in sorted(runs.items(), key=lambda item: _place(item[0]))
    )


def _run(row: Mapping[str, Any], score: Score | None) -> Run:
    lines = _controlled(row)
    if row["outcome"] == Outcome.FAILED:
        who = f"{row['failed_application']}: " if row["failed_application"] else ""
        trouble = f"{row['failure']}: {who}{row['reason']}"
        return Run(score=None, trouble=trouble, seed=row["seed"], controlled=lines)
    known = None if score is None else score.score
    trouble = "" if known is not None else "measured too little"
    return Run(score=known, trouble=trouble, seed=row["seed"], controlled=lines, watts=row["power_w"])


def _joined(found: Mapping[str, Run], parts: Mapping[str, str]) -> Run:
    """The phases of a run as one; a run of one part as it is."""
    missing = [phase for phase in sorted(parts) if phase not in found]
    troubles = [run.trouble for _, run in sorted(found.items()) if run.trouble]
    troubles += [f"phase {phase} was not played" for phase in missing]
    scores = [run.score for run in found.values() if run.score is not None]
    whole = len(scores) == len(parts)
    watts = [run.watts for run in found.values() if run.watts is not None]
    lines: list[Controlled] = []
    for _, run in sorted(found.items()):
        lines += [_new(line, lines) for line in run.controlled]
    return Run(
        score=statistics.fmean(scores) if whole else None,
        trouble="" if whole else "; ".join(dict.fromkeys(troubles)),
        seed=next((run.seed for run in found.values()), None),
        controlled=tuple(lines),
        watts=statistics.fmean(watts) if whole and len(watts) == len(parts) else None,
    )


def _new(line: Controlled, before: Sequence[Controlled]) -> Controlled:
    """Without the times that an earlier phase has too: those of the whole run stand in each."""
    again = line.inference_ms in [one.inference_ms for one in before]
    return msgspec.structs.replace(line, inference_ms=[], decision_ms=[]) if again else line


def _controlled(row: Mapping[str, Any]) -> tuple[Controlled, ...]:
    if is_static(_column(row)) or not row["parameters"]:
        return ()
    try:
        kept = wire.from_json(row["parameters"], dict[str, dict[str, Any]]).get(CONTROLLER)
        return () if kept is None else (wire.shaped(kept, Controlled),)
    except msgspec.DecodeError as error:
        raise AsaError(f"trial {row['trial']}: no record of a controller: {error}; {_COMMAND}") from error


class _Asked(msgspec.Struct, frozen=True):
    seed: int | None = None
    seconds: float | None = None
    warm_up_s: float | None = None


class _Plan(msgspec.Struct, frozen=True):
    trials: list[dict[str, Any]] = []
    asked: _Asked = _Asked()


def _plan(path: Path) -> _Plan:
    plan: _Plan = _decoded(path, _Plan) if path.exists() else _Plan()
    return plan


def _lengths(asked: _Asked, blocks: Sequence[Block]) -> dict[str, tuple[float, float]]:
    if asked.seconds is None or asked.warm_up_s is None:
        return {}
    # an application alone, under EEVDF, is there for relative metrics of its own run
    told = [block.scenario for block in blocks if set(block.runs) != {EEVDF} or "+" in block.label]
    return dict.fromkeys(told, (asked.seconds, asked.warm_up_s))


def _decoded(path: Path, kind: type[Any]) -> Any:
    try:
        return wire.from_json(path.read_bytes(), kind)
    except OSError as error:
        raise AsaError(f"{path}: cannot be read: {error.strerror}; {_COMMAND}") from error
    except msgspec.DecodeError as error:
        raise AsaError(f"{path}: {error}; {_COMMAND}") from error


def _column(row: Mapping[str, Any]) -> str:
    return str(row["scheduler"]) if row["copy"] == 1 else f"{row['scheduler']} ({row['copy']})"


def _label(row: Mapping[str, Any]) -> str:
    return "+".join(part for part in (row["interactive"], row["background"]) if part) or IDLE


def _place(scenario: str) -> tuple[str, int, str]:
    number = scenario[1:]
    return (scenario[0], int(number), "") if number.isdigit() else ("~", 0, scenario)


def _distinct(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[str, ...]:
    return tuple(sorted({row[name] for row in rows if row[name]}))
