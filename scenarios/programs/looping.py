# SPDX-License-Identifier: GPL-2.0-only
"""Programs that do a piece of work and end, run again and again: the driver of most of `scenarios.programs`.

    python -m scenarios.programs.looping MODULE NAME ORDERS

It makes the input, runs the command lines of `PROGRAMS` of that module one after the other, and says `passes` each time
they are through. Input and output are in the scratch folder. `play` is the loop alone, for drivers that do the work.
"""

import importlib
import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from asa.core.kinds import Kind
from scenarios.application import Application, Parameters, Place, Report, Role
from scenarios.driving import Driver, fail

PASSES = "passes"
"""The metric: how many times the work was done."""

Argv: TypeAlias = Sequence[str]
_LONGEST_PAUSE_S = 3.0  # a sample a second should seldom see nothing at all


class Degree(StrEnum):
    """How much of the machine a program may take."""

    LIGHT = "light"  # one thread, pauses up to as long as passes
    HALF = "half"  # some threads, short pauses
    FULL = "full"  # all threads, no pauses


def draw_degree(rng: random.Random, place: Place) -> dict[str, str | int | float]:
    """Degree, threads, the seconds that a pass should take on an idle machine, and pauses as a multiple of a pass.

    A pass is a piece of work as people give it to a program: seconds. Many small ones look like a loop that forks.
    """
    degree = rng.choice(tuple(Degree))
    if degree is Degree.FULL:
        threads, pass_s, rest = rng.randint(place.cpus, 2 * place.cpus), rng.uniform(3.0, 12.0), 0.0
    elif degree is Degree.HALF:
        threads, pass_s, rest = rng.randint(1, place.cpus), rng.uniform(3.0, 10.0), rng.uniform(0.05, 0.25)
    else:
        threads, pass_s, rest = 1, rng.uniform(1.5, 5.0), rng.uniform(0.3, 1.0)
    return {"degree": degree.value, "threads": threads, "pass_s": round(pass_s, 2), "rest": round(rest, 2)}


def _nothing(driver: Driver) -> None:  # noqa: ARG001  # most of those without input need nothing
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Looping(Application):
    """An application whose driver is this module. `make` is called once, in the driver, before the first pass."""

    steps: Callable[[Driver], Iterable[Argv]]  # of one pass; asked for each anew
    make: Callable[[Driver], None] = _nothing  # raises OSError
    version: Argv = ("--version",)  # arguments of the first program


def program(
    module: str,
    *,
    name: str,
    kind: Kind | None,
    packages: tuple[str, ...],
    draw: Callable[[random.Random, Place], Parameters],
    steps: Callable[[Driver], Iterable[Argv]],
    programs: tuple[str, ...] = (),
    make: Callable[[Driver], None] = _nothing,
    version: Argv = ("--version",),
    prepare: Callable[[Place, Report], None] = lambda _place, _report: None,
) -> Looping:
    """One of the `PROGRAMS` of `module` (its `__name__`). Without `programs` it is what the name says."""
    return Looping(
        name=name,
        role=Role.BACKGROUND,
        kind=kind,
        metrics=(PASSES,),
        packages=packages,
        programs=programs or (name,),
        draw=draw,
        command=lambda _place, _parameters: (sys.executable, "-m", "scenarios.programs.looping", module, name),
        prepare=prepare,
        ready_limit_s=120.0,
        silence_limit_s=math.inf,  # a pass takes as long as it takes
        steps=steps,
        make=make,
        version=version,
    )


def drawn(driver: Driver) -> random.Random:
    """The random numbers that make a session's input, the same each time."""
    return random.Random(driver.seed)  # noqa: S311


def play(driver: Driver, work: Callable[[], None]) -> None:
    """Pass after pass until asked to end, with the pauses that the parameter `rest` says."""
    passes = 0
    while not driver.ending:
        begin_s = time.monotonic()
        work()
        passes += 1
        driver.measured(PASSES, passes)
        driver.pause(min(_LONGEST_PAUSE_S, (time.monotonic() - begin_s) * float(driver.parameters["rest"])))


def play_steps(driver: Driver, looping: Looping) -> None:
    """Its command lines one after the other, pass after pass until asked to end."""

    def work() -> None:
        for argv in looping.steps(driver):
            run(argv)

    play(driver, work)


def run(argv: Argv) -> None:
    """One command line, its output dropped; ends the driver when it fails."""
    code = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
    if code != 0:
        fail(f"{' '.join(argv)[:200]} ended with code {code}")


def version_of(*argv: str) -> str:
    """The first in what a program says that looks like a version, if possible of three numbers."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    said = done.stdout + done.stderr
    found = re.search(r"\d+(\.\d+){2,}", said) or re.search(r"\d+\.\d+", said)
    return found[0] if found else "unknown"


def find(module: str, name: str) -> Looping:
    """Of a module's `PROGRAMS`."""
    found: Looping = next(one for one in importlib.import_module(module).PROGRAMS if one.name == name)
    return found


def main() -> None:
    """Make the input, then run until asked to end."""
    driver = Driver.begin(interrupt=True)
    looping = find(*sys.argv[1:3])
    try:
        looping.make(driver)
    except OSError as error:
        fail(str(error))
    first = looping.programs[0]
    driver.ready({first: version_of(first, *looping.version)})
    play_steps(driver, looping)


if __name__ == "__main__":
    main()
