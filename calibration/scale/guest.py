# SPDX-License-Identifier: GPL-2.0-only
"""The part of the scale benchmark that runs in a guest, as root: `python -m calibration.scale.guest`.

Has the schedulers take turns, in a new random order each round, and runs modes of scale.c some times under each.
Writes one JSON file, anew after each turn: a run that was interrupted goes on from it. Judges nothing. A turn that
cannot be finished is noted with its reason, and the next one follows. Leaves the kernel on its own scheduler.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from asa import host, paths, wire
from asa.act.forcing import Forcing
from asa.act.policies import Policy
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from calibration.scale.samples import USUAL, Found, Mode, Turn, read, write
from scenarios import conditions

_CALM_S = 1.0  # after a scheduler has come into force
_WARM_S = 0.1  # each mode once before the first turn: the program's pages come from the host
_EXTRA_S = 120.0  # beyond a mode's own time: emulated, and some schedulers let tasks wait long


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(line, flush=True)


def parsed(text: str) -> dict[str, int]:
    """The lines "NAME VALUE" of scale.c. Raises ValueError."""
    return {name: int(value) for name, value in (line.split() for line in text.splitlines())}


def mode_run(program: Path, mode: Mode, seconds: float) -> dict[str, int]:
    """One mode of scale.c. All that it started is gone afterwards. Raises AsaError with its last words."""
    command = (str(program), mode, f"{seconds:g}")
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        said, words = process.communicate(timeout=seconds + _EXTRA_S)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise AsaError(f"{mode} was not done {_EXTRA_S:g} s after its {seconds:g} s") from None
        raise
    if process.returncode != 0:
        raise AsaError(f"{mode} ended with code {process.returncode}: {words.strip()!r}")
    try:
        return parsed(said)
    except ValueError:
        raise AsaError(f"{mode} said {said!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How often each scheduler is brought into force, how often it plays the modes then, and the seconds of a mode."""

    schedulers: Sequence[str]
    repeats: int = 1
    plays: int = 1
    seconds: float = 1.0
    modes: Sequence[Mode] = USUAL


def turns(forcing: Forcing, program: Path, scheduler: SchedulerName, number: int, plan: Plan) -> Iterator[Turn]:
    """Its modes, `plan.plays` times, under one scheduler that is brought into force once.

    Raises AsaError, also when it was not in force until the end.
    """
    with forcing.hold(scheduler) as check:
        time.sleep(_CALM_S)
        for play in range(1, plan.plays + 1):
            readings = {}
            for mode in plan.modes:
                readings[mode] = mode_run(program, mode, plan.seconds)
                check()
            yield Turn(scheduler=scheduler, round=number, play=play, readings=readings)


def measure(forcing: Forcing, program: Path, plan: Plan, begun: Found | None, keep: Callable[[Found], None]) -> Found:
    """All rounds that `begun` does not have. Raises AsaError when not even a scheduler's name is good."""
    names = [SchedulerName(name) for name in plan.schedulers]
    found = Found(
        kernel=os.uname().release,
        cpus=host.cpus(),
        under=conditions.here(),
        program=hashlib.sha256(program.read_bytes()).hexdigest(),
        seconds=plan.seconds,
        versions={str(name): forcing.version(name) for name in names},
    )
    if begun is not None and begun.continues(found) and begun.played(plan.modes):
        found = msgspec.structs.replace(found, turns=begun.turns)
    say("warming up")
    for mode in plan.modes:
        mode_run(program, mode, _WARM_S)
    order = random.Random(f"{host.cpus()} CPUs")  # noqa: S311  # the same each time, and another one for each count
    for number in range(1, plan.repeats + 1):
        for scheduler in order.sample(names, len(names)):
            say(f"round {number} of {plan.repeats}: {scheduler}")
            if any((one.scheduler, one.round) == (scheduler, number) for one in found.turns):
                continue
            try:
                made = (*found.turns, *turns(forcing, program, scheduler, number, plan))
                found = msgspec.structs.replace(found, turns=made)
            except AsaError as error:
                say(f"failed: {error}")
                words = f"round {number}: {scheduler}: {error}"
                found = msgspec.structs.replace(found, troubles=(*found.troubles, words))
            keep(found)
    return found


def _begun(path: Path) -> Found | None:
    try:
        return read(path)
    except AsaError:  # none yet, or of another version
        return None


def _policies(path: Path) -> list[Policy]:
    try:
        return wire.from_json(path.read_bytes(), list[Policy])
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: no policies: {error}") from error


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr when nothing could be measured."""
    parser = argparse.ArgumentParser(prog="python -m calibration.scale.guest")
    parser.add_argument("--program", type=Path, required=True, help="the compiled scale.c")
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    parser.add_argument("--scheduler", default=str(EEVDF), help="names, with commas between")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--plays", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--modes", default=",".join(USUAL), help="names, with commas between")
    parser.add_argument("--policies", type=Path, help="JSON file of policies besides those that are shipped")
    arguments = parser.parse_args(words)
    places = paths.default()
    owner = places.cache.stat().st_uid  # who built the schedulers on the host
    try:
        places.run.mkdir(parents=True, exist_ok=True)
        program = Path(
            shutil.copy(arguments.program, places.run / "scale")
        )  # launched often: not from the host's files
        policies = [] if arguments.policies is None else _policies(arguments.policies)
        with Forcing(places, owners=[owner], policies=policies) as forcing:
            plan = Plan(
                schedulers=arguments.scheduler.split(","),
                repeats=arguments.repeat,
                plays=arguments.plays,
                seconds=arguments.seconds,
                modes=[Mode(name) for name in arguments.modes.split(",")],
            )
            begun = _begun(arguments.json)
            measure(forcing, program, plan, begun, lambda found: write(found, arguments.json))
    except AsaError as error:
        print(f"scale_guest: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
