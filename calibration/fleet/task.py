# SPDX-License-Identifier: GPL-2.0-only
"""A task of a fleet's run: one machine, one scenario, one repeat, all columns of it one after another in one guest.

`play` is what joblib calls, here or on another host: it needs nothing but the task, and gives values back. It makes
ready what that host lacks, writes below asa's state folder there, and removes what it wrote unless a trial failed.
"""

import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa import paths
from asa.core.errors import AsaError
from calibration.controllers.columns import Given, source
from calibration.fleet.guest import command
from scenarios import catalogue, runner_folder
from scenarios.application import ApplicationError, Tier
from scenarios.guests import Boot, booter, power, ready
from scenarios.lab.guest import Lab
from scenarios.lab.machines import Machine
from scenarios.runner_guests import Guests
from scenarios.runner_plan import Outcome, Result, Trial
from scenarios.session import place_for, prepare

FOLDER = "fleet"
"""Below asa's state, on the host that plays."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All that a host has to know. `table` and `model` are the files' contents, b"" for what ASA ships.

    `given` has the rest; its paths are set where the task is played.
    """

    run: str
    machine: Machine
    trials: tuple[Trial, ...]
    seconds: float
    warm_up_s: float
    given: Given
    table: bytes = b""
    model: bytes = b""

    @property
    def name(self) -> str:
        """`vm120 001 web+blender`."""
        return f"{self.machine.name} {self.trials[0].repeat:03} {self.trials[0].label}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What became of a task. `trouble`: why trials of it have no result, "" when all have one."""

    task: str
    machine: str
    host: str
    results: tuple[Result, ...]
    trouble: str = ""


Boots = Callable[[Task], Boot]
"""Makes ready what a task's guests need, and gives how to boot one."""


def play(
    task: Task,
    places: paths.Places | None = None,
    boots: Boots | None = None,
    keep: Callable[[Result], None] = lambda _: None,
) -> Played:
    """Play it. Never raises for what a host lacks or a guest does: that is in the result.

    `keep` is called with each result as it comes; an AsaError of it ends the task.
    """
    places = places or paths.default()
    results: list[Result] = []

    def kept(result: Result) -> None:
        keep(result)
        results.append(result)

    trouble = ""
    out = places.state / FOLDER / f"{task.run}-{task.name.replace(' ', '-').replace(catalogue.CHANGE, '-')}"
    try:
        boot = (boots or _boots(places))(task)
        _play(task, out, boot, kept)
    except AsaError as error:
        trouble = str(error)
    except OSError as error:
        trouble = f"{error.filename or out}: {error.strerror}"
    if not trouble and all(result.outcome is not Outcome.FAILED for result in results):
        shutil.rmtree(out, ignore_errors=True)
    return Played(
        task=task.name,
        machine=task.machine.name,
        host=socket.gethostname(),
        results=tuple(results),
        trouble=trouble,
    )


def make_ready(names: tuple[str, ...], machine: Machine, places: paths.Places, report: Report) -> Lab:
    """What such guests need on this host: stand-ins of these applications, kernel, QEMU. Raises AsaError."""
    for name in names:
        application = catalogue.applications(Tier.LAB)[name]
        report(f"{name} is prepared")
        try:
            prepare(application, place_for(application, cache=places.cache, tier=Tier.LAB), report)
        except ApplicationError as error:
            raise AsaError(str(error)) from error
    report("the lab is made ready")
    return ready(places.cache, report, machine)


def _boots(places: paths.Places) -> Boots:
    def boots(task: Task) -> Boot:
        names = dict.fromkeys(name for trial in task.trials for name in trial.applications)
        lab = make_ready(tuple(names), task.machine, places, lambda _line: None)
        return booter(lab, task.machine)

    return boots


def _play(task: Task, out: Path, boot: Boot, keep: Callable[[Result], None]) -> None:
    given = _given(task, out)
    with Guests(
        boot=boot,
        out=out,
        seconds=task.seconds,
        warm_up_s=task.warm_up_s,
        power=power(task.machine),
        keep=keep,
        begin=lambda _: None,
        command=lambda orders: command(orders, given),
    ) as guests:
        guests.play(task.trials, 1)


def _given(task: Task, out: Path) -> Path:
    """Written where guests can read it: the host's files are theirs, read-only."""
    out.mkdir(parents=True, exist_ok=True)
    made = msgspec.structs.replace(task.given, code=source())
    for name, content in (("table", task.table), ("model", task.model)):
        if content:
            path = out / f"given.{'yaml' if name == 'table' else 'npz'}"
            path.write_bytes(content)
            made = msgspec.structs.replace(made, **{name: str(path)})
    path = out / "given.json"
    runner_folder.write(path, made)
    return path
