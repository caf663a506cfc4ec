# SPDX-License-Identifier: GPL-2.0-only
"""The scale benchmark: boots a guest for each core count, and takes back what its turns recorded.

Compiles scale.c on the host, then runs `calibration.scale.guest` under the parallel clock in one guest after another.
Judges nothing: `calibration.scale.figures`.
"""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from asa import paths
from asa.act.forcing import check_startable
from asa.act.portfolio import Available, Portfolio
from asa.core.errors import AsaError
from calibration import programs
from calibration.scale import samples as scale_samples
from calibration.scale.samples import Found, Mode
from scenarios.lab import guest
from scenarios.lab.emulator import Clock

Tell = Callable[[str, float], None]
"""Takes what is being done now, and the share of the whole that is done, 0.0 to 1.0."""

CPUS = (2, 4, 8, 12)
_SOURCE = Path(__file__).with_name("scale.c")
# -P: root imports nothing from the current folder
_COMMAND = (sys.executable, "-P", "-m", "calibration.scale.guest")
_MEMORY_MB = 3072
_LIMIT_S = 600.0  # of one guest, beyond its turns
_TURN_LIMIT_S = 150.0  # of a turn, beyond its modes' own time: a scheduler comes and goes
_SLOWEST = 10.0  # times slower than its clock, on a host that others use; 1.2 alone
_TURN = re.compile(r"round (\d+) of (\d+): ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which core counts and schedulers, how many turns of each, and the seconds of each mode."""

    cpus: tuple[int, ...] = CPUS
    schedulers: tuple[str, ...] = ()  # none: all that can be used here
    repeats: int = 5
    seconds: float = 2.0


@dataclass(slots=True, kw_only=True)
class Result:
    """What was measured, by guest."""

    began_s: float  # seconds since the epoch
    options: Options
    emulator: str
    found: list[Found] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)  # guests that gave nothing
    took_s: float = 0.0


def build(folder: Path) -> Path:
    """The compiled program, in `folder`. Raises AsaError."""
    return programs.compiled(_SOURCE, folder, programs.STATIC)


def usable(portfolio: Portfolio, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The wanted ones, each checked; without any all that are installed. Raises AsaError, naming one that is not."""
    if not wanted:
        return tuple(name for name in portfolio.names() if isinstance(portfolio.look(name), Available))
    if len(set(wanted)) < len(wanted):
        raise AsaError(f"a scheduler is named twice: {', '.join(wanted)}")
    check_startable(wanted, portfolio)
    return wanted


def measure(options: Options, places: paths.Places, tell: Tell) -> Result:
    """Boot a guest for each core count; one that gives nothing is a trouble, all of them AsaError."""
    began_s = time.monotonic()
    wanted = usable(Portfolio.load(paths.manifest(), places.schedulers), options.schedulers)
    tell("the lab is made ready", 0.0)
    lab = guest.ready(places.cache, lambda line: tell(line, 0.0), measuring=True)
    version = ".".join(map(str, lab.emulator.version))
    result = Result(began_s=time.time(), options=options, emulator=f"QEMU {version}, emulation")
    out = places.state / "bench-scale"
    out.mkdir(parents=True, exist_ok=True)
    build(out)
    for number, cpus in enumerate(options.cpus):
        steps = _Steps(tell, cpus, len(wanted), number, len(options.cpus))
        try:
            result.found.append(_in_guest(lab, cpus, wanted, options, out, steps))
        except AsaError as error:  # the hour of the others is not lost
            result.troubles.append(f"{cpus} CPUs: {error}")
    if not result.found:
        raise AsaError("; ".join(result.troubles))
    result.took_s = time.monotonic() - began_s
    return result


class _Steps:
    """What a guest says, as progress."""

    def __init__(self, tell: Tell, cpus: int, schedulers: int, number: int, guests: int) -> None:
        self._tell = tell
        self._cpus = cpus
        self._schedulers = schedulers
        self._base, self._part = number / guests, 1.0 / guests
        self._turns, self._share = 0, 0.0

    def said(self, line: str) -> None:
        match = _TURN.search(line)
        if match:
            self._share = self._turns / (self._schedulers * int(match[2]))
            self._turns += 1
        self._tell(f"{self._cpus} CPUs: {line}", self._base + self._part * self._share)


def _in_guest(
    lab: guest.Lab, cpus: int, schedulers: tuple[str, ...], options: Options, out: Path, steps: _Steps
) -> Found:
    path = out / f"turns-{cpus}.json"
    path.unlink(missing_ok=True)
    words: list[str] = []
    turns = len(schedulers) * options.repeats
    command = (
        *(*_COMMAND, "--program", str(out / _SOURCE.stem), "--json", str(path)),
        *("--scheduler", ",".join(schedulers), "--repeat", str(options.repeats)),
        *("--seconds", f"{options.seconds:g}"),
    )
    steps.said("the guest boots")
    result = guest.run(
        command,
        lab=lab,
        out=out,
        on_output=steps.said,
        on_error=words.append,
        cpus=cpus,
        memory_mb=_MEMORY_MB,
        clock=Clock.PARALLEL,
        limit_s=_LIMIT_S + turns * (_TURN_LIMIT_S + len(Mode) * options.seconds * _SLOWEST),
    )
    if result.exit_code != 0:
        said = words[-1] if words else "no word on stderr"
        raise AsaError(f"the guest's part ended with code {result.exit_code}: {said!r}; see {result.console}")
    return scale_samples.read(path)
