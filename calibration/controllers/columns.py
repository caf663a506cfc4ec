# SPDX-License-Identifier: GPL-2.0-only
"""Columns of a run that are no scheduler but decide which one is in force: our agent, scx_loader's rule, a die.

`Controllers` stands where a run has `asa.act.forcing.Forcing`: names of schedulers go there, names of controllers to
their own part (`calibration.controllers.agent`, `calibration.controllers.loader`). What a controller did in a trial,
its `Course`, becomes a part of the trial's result. Blocks; for offline work.
"""

import hashlib
import random
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import asa
import collectors
import models
from asa import paths
from asa.act.choice import Kind
from asa.act.forcing import Check, Forcing, version_of
from asa.act.portfolio import Portfolio
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import InputError
from calibration.controllers import agent as controllers_agent
from calibration.controllers import hurried
from calibration.controllers import loader as controllers_loader
from calibration.controllers.course import Course, told
from scenarios import conditions
from scenarios.lab.emulator import Clock
from scenarios.runner import Windows
from scenarios.runner_plan import Trial

AGENT = "agent"
LOADER = "loader-auto"
RANDOM = "random"
ABLATIONS = tuple(controllers_agent.ABLATIONS)
"""Of the agent; `agent:no-guard` is a column."""
FRESH = f"{AGENT}:{controllers_agent.FRESH}"
"""The agent without its machine's table."""
LEARNT = f"{AGENT}:{controllers_agent.LEARNT}"
"""The same, which goes on with a state that is given to it."""
INSIDE = f"{AGENT}:{controllers_agent.INSIDE}"
"""The agent at the speed of its guest."""
NAMES = (AGENT, FRESH, LEARNT, INSIDE, *(f"{AGENT}:{one}" for one in ABLATIONS), LOADER, RANDOM)
"""All that are no scheduler."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What controllers are given: paths where they run; "" for what ASA ships.

    `among` are the schedulers that `random` takes one of; `settings` are the agent's, as in its file of settings;
    `code` is that of its source (`source`), "" unknown. `state` is a folder of what `agent:learnt` has learnt before,
    `keep` one that takes what it has in the end.
    """

    table: str = ""
    model: str = ""
    settings: dict[str, Any] = {}
    among: tuple[str, ...] = (str(EEVDF),)
    code: str = ""
    state: str = ""
    keep: str = ""


def source() -> str:
    """The start of a hash over the Python of all that the agent is made of: one version has many while it is made."""
    found = hashlib.sha256()
    for package in (asa, collectors, models):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            found.update(f"{package.__name__}/{path.relative_to(folder)}\n".encode())
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]


def is_controller(name: str) -> bool:
    """Does it decide in the trial's course?"""
    return SchedulerName(name).bare in (AGENT, LOADER, RANDOM)


def check(names: Iterable[str]) -> None:
    """Raises InputError for the first controller that there is not; names of schedulers are not looked at."""
    for name in names:
        if is_controller(name) and name not in NAMES:
            allowed = f"{', '.join(NAMES)}, or a scheduler"
            raise InputError(path="--scheduler", key="", value=name, allowed=allowed)


def schedulers(names: Iterable[str]) -> tuple[SchedulerName, ...]:
    """Which schedulers these columns need besides those that the agent's table names, each once."""
    needed = (controllers_loader.LAVD if name == LOADER else name for name in names)
    return tuple(dict.fromkeys(SchedulerName(name) for name in needed if not is_controller(name)))


def among(names: Sequence[str]) -> tuple[str, ...]:
    """What `random` takes one of in a run of these columns: the schedulers among them, and the kernel's own."""
    return tuple(dict.fromkeys((str(EEVDF), *(name for name in names if not is_controller(name)))))


class Controllers:
    """Schedulers and controllers at work, one after another. Implements `scenarios.runner.Forces`.

    Between trials no lock is held: the agent that a trial starts needs it.
    """

    def __init__(self, places: paths.Places, given: Given, scratch: Path, owners: Collection[int] = ()) -> None:
        """`owners` are trusted with the schedulers' files, as of `Forcing`; `scratch` is for agents' folders."""
        self._places = places
        self._given = given
        self._scratch = scratch
        self._owners = tuple(owners)
        self._trial: Trial | None = None
        self._course: Course | None = None

    def attend(self, trial: Trial) -> None:
        """The trial that comes next: it decides what `random` takes."""
        self._trial = trial
        self._course = None

    def told(self, windows: Windows) -> dict[str, object]:
        """What the controller of the trial did; {} for a scheduler. As of `scenarios.runner.Told`."""
        return {} if self._course is None else told(self._course, windows)

    def version(self, scheduler: SchedulerName) -> str:
        """Of a program, or of all that decides what a controller does. Raises SchedulerError, InputError."""
        if scheduler.bare == AGENT:
            code = f"code {self._given.code}" if self._given.code else ""
            files = (_digest("table", self._given.table), _digest("model", self._given.model))
            speed = f"at {hurried.SPEED_PCT} % of the guest's speed" if _hurried(scheduler) else ""
            return ", ".join(filter(None, (f"asa {asa.__version__}", code, *files, speed)))
        wanted = {LOADER: controllers_loader.LAVD, RANDOM: self._drawn()}.get(scheduler, scheduler)
        # not by a Forcing: this is asked while the trial's own, or its agent, holds the lock
        portfolio = Portfolio.load(paths.manifest(), self._places.schedulers, owners=self._owners)
        version = version_of(wanted, portfolio)
        return version if wanted == scheduler else f"{wanted} {version}"

    @contextmanager
    def hold(self, scheduler: SchedulerName) -> Iterator[Check]:
        """Inside, it is in force or decides what is; afterwards the kernel's own is. Raises SchedulerError."""
        check((scheduler,))
        kind, _, variant = scheduler.partition(":")
        self._course = Course() if is_controller(scheduler) else None
        if self._course is None:
            with self._forcing() as forcing, forcing.hold(scheduler) as in_force:
                yield in_force
        elif kind == AGENT:
            learnt = scheduler == LEARNT
            job = controllers_agent.Job(
                table="" if learnt or scheduler == FRESH else self._given.table,
                model=self._given.model,
                settings=self._given.settings,
                variant=variant,
                owners=self._owners,
                costs=True,
                state=self._given.state if learnt else "",
                keep=self._given.keep if learnt else "",
                hurried=_hurried(scheduler),
            )
            with controllers_agent.running(job, self._places, self._scratch, self._course) as alive:
                yield alive
        elif kind == LOADER:
            with self._forcing() as forcing:
                forcing.check_usable(controllers_loader.LAVD)
                switcher = forcing.switcher(Kind.GATED)
                with controllers_loader.running(switcher, self._places.proc, self._course) as alive:
                    yield alive
        else:
            drawn = self._drawn()
            with self._forcing() as forcing, forcing.hold(drawn) as in_force:
                self._course.held.append((time.monotonic_ns(), drawn))
                yield in_force

    def _forcing(self) -> Forcing:
        return Forcing(self._places, self._owners)

    def _drawn(self) -> SchedulerName:
        # the same whoever plays the trial, and another one for each scenario and repeat
        trial = self._trial
        words = "" if trial is None else f"{trial.seed} {trial.repeat} {trial.label}"
        return SchedulerName(random.Random(f"{RANDOM} {words}").choice(self._given.among))  # noqa: S311


def _hurried(column: SchedulerName) -> bool:
    # under other clocks a guest is as fast as the host lets it be, or has no speed to give
    return column != INSIDE and conditions.here().clock == Clock.PARALLEL


def _digest(what: str, path: str) -> str:
    return f"{what} {hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]}" if path else ""
