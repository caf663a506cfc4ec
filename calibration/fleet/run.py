# SPDX-License-Identifier: GPL-2.0-only
"""A run of the fleet: what is left of it as tasks, who plays them, and what is kept of it.

FOLDER/MACHINE has what a run of the benchmark has (`scenarios.runner_folder`, `calibration.scenarios.tables`), and
machine.json, which says what the machine is and what its agent was given. Results are kept as they come,
so that a kill costs the trials under way, on a cluster the tasks. Who plays: `calibration.hosts`.
"""

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from asa import paths, wire
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from asa.decide.table import shipped as shipped_tables
from calibration.controllers import agent as controllers_agent
from calibration.controllers import columns as controllers
from calibration.controllers.columns import Given
from calibration.fleet import task as fleet_task
from calibration.fleet.task import Played, Task
from calibration.hosts import Where, in_parallel
from calibration.scenarios import tables as bench_tables
from calibration.stages import adapted
from scenarios import runner_folder
from scenarios.application import Tier
from scenarios.catalogue import Scenario
from scenarios.guests import conditions
from scenarios.lab.machines import Machine
from scenarios.runner_folder import Folder
from scenarios.runner_plan import Asked, Outcome, Plan, Result, Trial, make, split

MACHINE = "machine.json"
_TROUBLES = 3  # tasks in a row that no host could play: then the rest could not be played either
_TOLD = ("command", "note")  # in machine.json, and may differ when a run goes on
_ADAPT = "adapt_minutes"  # there, too, and may become known when a run goes on
_SHIPPED = "shipped_tables"  # there where an agent was played
_OF_AGENT = (_SHIPPED, "shipped_model", "settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is played. `tables` and `models` are the agent's files by the machine's name; none: what ASA ships."""

    machines: tuple[Machine, ...]
    scenarios: tuple[Scenario, ...]
    columns: tuple[str, ...]
    repeats: int
    seed: int
    seconds: float
    warm_up_s: float
    tables: Mapping[str, Path] = field(default_factory=dict)
    models: Mapping[str, Path] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def asked(self, machine: Machine) -> Asked:
        """Its part of the run."""
        under = conditions(machine)
        return Asked(
            tier=Tier.LAB,
            scenarios=tuple(one.label for one in self.scenarios),
            schedulers=self.columns,
            repeats=self.repeats,
            seed=self.seed,
            seconds=self.seconds,
            warm_up_s=self.warm_up_s,
            cpus=machine.cpus,
            clock=under.clock,
            tick_hz=under.tick_hz,
            machine=under.machine,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Of a machine's trials."""

    machine: str
    planned: int
    done: int
    failed: int

    @property
    def left(self) -> int:
        """Not played yet."""
        return self.planned - self.done - self.failed


class Fleet:
    """The folders of a run, locked. A context."""

    def __init__(self, out: Path, request: Request, command: str = "") -> None:
        """Begin a run, or go on with the one that is there.

        Raises AsaError when `out` holds another run or tables alone, another one works there, or it cannot be written.
        """
        self._request = request
        self._command = command
        self._folders: dict[str, Folder] = {}
        self._contents: dict[str, tuple[bytes, bytes]] = {}
        self._described: dict[str, Mapping[str, object]] = {}  # machine.json as it is with the first result that comes
        self._one = threading.Lock()
        self._over = False
        self._open = ExitStack()
        for machine in request.machines:
            bench_tables.check_replaceable(out / machine.name)
        try:
            for machine in request.machines:
                folder = self._open.enter_context(
                    Folder(out / machine.name, request.asked(machine), self._plan(machine))
                )
                self._folders[machine.name] = folder
                self._contents[machine.name] = _content(request.tables, machine), _content(request.models, machine)
                self._described[machine.name] = _describe(folder.path / MACHINE, self._facts(machine))
        except BaseException:
            self._open.close()
            raise

    def tasks(self) -> list[Task]:
        """What is left, failed trials again: repeat by repeat and scenario by scenario, each on all machines, so that
        what was played is a small picture of the whole wherever it ends.
        """
        found = [
            (trials[0].repeat, place, self._task(machine, trials))
            for machine in self._request.machines
            for place, trials in enumerate(_together(self._folders[machine.name].left()))
        ]
        return [task for *_, task in sorted(found, key=lambda one: one[:2])]

    def keep(self, machine: str, results: Iterable[Result]) -> None:
        """From any thread; what is kept already stays. Raises AsaError when the disk is full, or the run is over."""
        with self._one:
            if self._over:
                raise AsaError("the run has ended; the same command goes on from here")
            folder = self._folders[machine]
            for result in results:
                folder.keep(result)
            described = self._described.pop(machine, None)
            if described is not None:
                runner_folder.write(folder.path / MACHINE, described)

    def finish(self) -> list[Count]:
        """Write the tables of all machines. Raises AsaError."""
        counts = []
        for name, folder in self._folders.items():
            results = folder.results()
            outcomes = Counter(result.outcome is Outcome.FAILED for result in results.values())
            plan, parts = split(folder.plan, results)
            bench_tables.write(folder.path, plan, list(parts.values()))
            counts.append(
                Count(machine=name, planned=len(folder.plan.trials), done=outcomes[False], failed=outcomes[True])
            )
        return counts

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._one:  # a thread of a run that was interrupted may play on
            self._over = True
        self._open.close()

    def _plan(self, machine: Machine) -> Callable[[str], Plan]:
        return lambda run: make(self._request.asked(machine), self._request.scenarios, run)

    def _task(self, machine: Machine, trials: tuple[Trial, ...]) -> Task:
        request = self._request
        table, model = self._contents[machine.name]
        return Task(
            run=self._folders[machine.name].plan.run,
            machine=machine,
            trials=trials,
            seconds=request.seconds,
            warm_up_s=request.warm_up_s,
            given=Given(settings=dict(request.settings), among=controllers.among(request.columns)),
            table=table,
            model=model,
        )

    def _facts(self, machine: Machine) -> dict[str, object]:
        table, model = self._contents[machine.name]
        path = self._request.tables.get(machine.name)
        minutes = None if path is None else adapted.read(path, table)
        known = {} if minutes is None else {_ADAPT: minutes}
        agents = any(SchedulerName(name).bare == controllers.AGENT for name in self._request.columns)
        shipped = _shipped(given_model=bool(model)) if agents else {}
        return {
            **known,
            "name": machine.name,
            "cpus": machine.cpus,
            "prototype": machine.prototype,
            "shape": machine.shape,
            "memory_mb": machine.memory_mb,
            "note": machine.note,
            "described": wire.from_json(wire.json_bytes(machine), dict[str, object]),
            "command": self._command,
            "table": hashlib.sha256(table).hexdigest() if table else None,
            "model": hashlib.sha256(model).hexdigest() if model else None,
            **shipped,
            "settings": dict(self._request.settings or (controllers_agent.DEFAULTS if agents else {})),
        }


def run(
    fleet: Fleet, where: Where, heard: Callable[[Played], None], play: Callable[[Task], Played] | None = None
) -> None:
    """Play all that is left and keep it; `heard` is called with each task that is done.

    On this host each trial is kept when it is done, from a cluster those of a task come together. `play` is for tests.

    Raises AsaError when no host can play, the cluster is not there, or the disk is full.
    """
    lost: list[AsaError] = []

    def here(task: Task) -> Played:
        def keep(result: Result) -> None:
            try:
                fleet.keep(task.machine.name, (result,))
            except AsaError as error:
                lost.append(error)
                raise

        return fleet_task.play(task, keep=keep)

    troubles = 0
    play = play or (fleet_task.play if where.cluster else here)
    with in_parallel(where) as together:
        for played in together(play, fleet.tasks()):
            if lost:
                raise lost[0]
            if play is not here:
                fleet.keep(played.machine, played.results)
            heard(played)
            troubles = troubles + 1 if played.trouble else 0
            if troubles >= _TROUBLES:
                raise AsaError(f"{troubles} tasks in a row could not be played: {played.host}: {played.trouble}")


def _together(trials: Sequence[Trial]) -> list[tuple[Trial, ...]]:
    """Those of one repeat and scenario, in the plan's order. Applications alone are together, since each is one trial,
    and first, since others are compared with them.
    """
    found: dict[tuple[int, str], list[Trial]] = {}
    for trial in trials:
        pair = trial.interactive and trial.background
        found.setdefault((trial.repeat, trial.label if pair else ""), []).append(trial)
    ordered = sorted(found, key=lambda key: (key[0], key[1] != ""))
    return [tuple(found[key]) for key in ordered]


def _content(files: Mapping[str, Path], machine: Machine) -> bytes:
    path = files.get(machine.name)
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError as error:
        raise AsaError(f"{path}: {error.strerror}; it is to be given to the agent on {machine.name}") from error


def _shipped(*, given_model: bool) -> dict[str, str]:
    """What the agent has behind or instead of what it is given, by hashes."""
    tables = hashlib.sha256()
    for path in shipped_tables(paths.mapping_tables()):
        tables.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    model = {} if given_model else {"shipped_model": hashlib.sha256(paths.base_model().read_bytes()).hexdigest()}
    return {_SHIPPED: tables.hexdigest(), **model}


def _describe(path: Path, facts: Mapping[str, object]) -> Mapping[str, object]:
    """Write machine.json, or see that the one that is there says the same. What others have added to it stays.

    Gives what it is to say once more is kept: by another command, and of an agent where none was played so far.
    """
    try:
        known = wire.from_json(path.read_bytes(), dict[str, object])
    except FileNotFoundError:
        runner_folder.write(path, facts)
        return facts
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: describes no machine: {error}; name another folder by --out") from error
    told = (*_TOLD, _ADAPT, *(() if _SHIPPED in known else _OF_AGENT))
    differing = [f"{key} {known.get(key)!r}" for key in facts if key not in told and known.get(key) != facts[key]]
    if differing:
        raise AsaError(f"{path}: holds a run of {', '.join(differing)}; name another folder by --out")
    if known.get(_ADAPT) != facts.get(_ADAPT, known.get(_ADAPT)):
        known[_ADAPT] = facts[_ADAPT]
        runner_folder.write(path, known)
    return known | {key: value for key, value in facts.items() if key != "note"}
