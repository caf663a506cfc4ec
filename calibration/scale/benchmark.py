# SPDX-License-Identifier: GPL-2.0-only
"""The scale benchmark: boots guests, two at a time, and takes back what their turns recorded.

Compiles scale.c on the host, then runs `calibration.scale.guest` under the measuring clock in a guest for each machine.
What a guest has recorded stays beside its folder until all are done: an interrupted run goes on from there. Judges
nothing: `calibration.scale.figures`.
"""

import hashlib
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from asa import paths, wire
from asa.act.forcing import check_startable
from asa.act.policies import Policy
from asa.act.portfolio import Available, Portfolio
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from calibration import programs
from calibration.scale import samples as scale_samples
from calibration.scale.samples import FOREIGN, USUAL, USUAL_HZ, Found, Mode
from scenarios import guests
from scenarios.guests import AtWork
from scenarios.lab import machines
from scenarios.lab.guest import GuestResult, Lab
from scenarios.lab.machines import Machine

Tell = Callable[[str, float], None]
"""Takes what is being done now, and the share of the whole that is done, 0.0 to 1.0."""

CPUS = (2, 4, 8, 12, 16)
MACHINES = ("laptop-hybrid",)
SECOND_HZ = 250
SECOND_CPUS = (2, 4, 8)  # at the second tick
FOREIGN_CPUS = (2, 4, 8, 12)
AT_ONCE = 2
_SOURCE = Path(__file__).with_name("scale.c")
# -P: root imports nothing from the current folder
_COMMAND = (sys.executable, "-P", "-m", "calibration.scale.guest")
_LIMIT_S = 600.0  # of one guest, beyond its turns
_TURN_LIMIT_S = 150.0  # of a turn, beyond its modes' own time: a scheduler comes and goes
_SLOWEST = 60.0  # times slower than its clock: 16 busy CPUs on a host of two that others use
_TURN = re.compile(r"round (\d+) of (\d+): ")
_TURNS, _POLICIES = "turns.json", "policies.json"


def planned() -> tuple[Machine, ...]:
    """The guests of a whole run: CPUs alike, described machines, and fewer CPUs at the second tick."""
    first = [*(machines.alike(cpus) for cpus in CPUS), *(machines.load(name) for name in MACHINES)]
    return (*(ticking(one, USUAL_HZ) for one in first), *(ticking(machines.alike(n), SECOND_HZ) for n in SECOND_CPUS))


def planned_foreign() -> tuple[Machine, ...]:
    """The same of foreign measures: CPUs alike, so many as the published figures have."""
    return tuple(ticking(machines.alike(cpus), USUAL_HZ) for cpus in FOREIGN_CPUS)


def ticking(machine: Machine, tick_hz: int) -> Machine:
    """The same with another tick."""
    return msgspec.structs.replace(machine, tick_hz=tick_hz)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Which guests and schedulers, how often each comes into force and plays then, and the seconds of each mode.

    `policies` are of `schedulers`, besides those that are shipped. What guests record goes into `folder`.
    """

    machines: tuple[Machine, ...] = field(default_factory=planned)
    schedulers: tuple[str, ...] = ()  # none: all that can be used here
    repeats: int = 2
    plays: int = 2
    seconds: float = 0.5
    at_once: int = AT_ONCE
    modes: tuple[Mode, ...] = USUAL
    policies: tuple[Policy, ...] = ()
    folder: Path | None = None  # None: the benchmark's own

    def records(self, places: paths.Places) -> Path:
        """Where guests record. Foreign measures are another run than the usual ones."""
        return self.folder or places.state / ("bench-foreign" if self.modes == FOREIGN else "bench-scale")


@dataclass(slots=True, kw_only=True)
class Result:
    """What was measured, by guest."""

    began_s: float  # seconds since the epoch
    options: Options
    emulator: str
    found: list[Found] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)  # guests that gave nothing
    took_s: float | None = None  # None: it was not one run


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


def playing(portfolio: Portfolio, wanted: tuple[str, ...], machine: Machine) -> tuple[str, ...]:
    """Who plays on a machine: the wanted, else all. Where its cores differ so do modes, which choose among them.

    What was tuned or composed plays where it is wanted.
    """
    names = usable(portfolio, wanted)
    if wanted or len(set(machine.speeds)) == 1:
        return names
    modes = portfolio.modes()
    every = (SchedulerName.of(name, mode) for name in names for mode in modes[name])
    return tuple(name for name in every if not portfolio.guarded(name))


def measure(options: Options, places: paths.Places, tell: Tell) -> Result:
    """Boot a guest for each machine; one that gives nothing is a trouble, all of them AsaError."""
    began_s = time.monotonic()
    portfolio = Portfolio.load(paths.manifest(), places.schedulers)
    portfolio.add(options.policies)
    wanted = {_key(one): playing(portfolio, options.schedulers, one) for one in options.machines}
    tell("the lab is made ready", 0.0)
    by_tick = {one.tick_hz: one for one in options.machines}
    labs: dict[int, Lab] = {
        tick: guests.ready(places.cache, lambda line: tell(line, 0.0), one) for tick, one in by_tick.items()
    }
    version = ".".join(map(str, next(iter(labs.values())).emulator.version))
    result = Result(began_s=time.time(), options=options, emulator=f"QEMU {version}, emulation")
    with _Guests(labs, wanted, options, options.records(places), tell) as running:
        running.play()
    for one in options.machines:
        try:
            result.found.append(scale_samples.read(running.folder(one) / _TURNS))
        except AsaError as error:  # the hour of the others is not lost
            result.troubles.append(f"{one.name}, {one.tick_hz} Hz: {running.troubles.get(_key(one), str(error))}")
        else:
            result.troubles += [f"{one.name}: {words}" for words in [running.troubles.get(_key(one))] if words]
    if not result.found:
        raise AsaError("; ".join(result.troubles))
    result.took_s = time.monotonic() - began_s
    return result


def of_kept(folder: Path) -> Result:
    """What earlier runs recorded. Raises AsaError where they cannot be one run, or there are none."""
    found = scale_samples.kept(folder)
    for one in found:
        if (one.program, one.seconds) != (found[0].program, found[0].seconds):
            words = f"{one.label} and {found[0].label} were not measured alike; measure one of them anew"
            raise AsaError(f"{folder}: {words}")
    turns = [turn for one in found for turn in one.turns]
    options = Options(
        machines=(),
        repeats=max((turn.round for turn in turns), default=0),
        plays=max((turn.play for turn in turns), default=0),
        seconds=found[0].seconds,
        modes=tuple(mode for mode in Mode if any(mode in turn.readings for turn in turns)),
    )
    began_s = max(path.stat().st_mtime for path in folder.glob("*.json"))
    return Result(began_s=began_s, options=options, emulator="QEMU, emulation", found=found)


def forget(options: Options, places: paths.Places) -> None:
    """What guests recorded: the next such run measures anew."""
    shutil.rmtree(options.records(places), ignore_errors=True)


def _key(machine: Machine) -> str:
    return f"{machine.name}-{machine.tick_hz}"


class _Guests(guests.Loop[Machine]):
    """All guests of a run."""

    def __init__(
        self, labs: dict[int, Lab], wanted: Mapping[str, Sequence[str]], options: Options, out: Path, tell: Tell
    ) -> None:
        super().__init__()
        self.troubles: dict[str, str] = {}
        self._labs = labs
        self._wanted = wanted
        self._options = options
        self._out = out
        self._tell = tell
        self._turns = 0
        # the largest first: none is waited for at the end alone
        self._queue.extend(one for one in reversed(options.machines) if not self._recorded(one))

    def play(self) -> None:
        """Until all have ended."""
        self.follow(self._options.at_once)

    def folder(self, machine: Machine) -> Path:
        """Of a guest."""
        return self._out / _key(machine)

    def _recorded(self, machine: Machine) -> bool:
        """Has an interrupted run recorded all of it?"""
        folder = self.folder(machine)
        try:
            found = scale_samples.read(folder / _TURNS)
        except AsaError:
            return False
        program = hashlib.sha256(build(folder).read_bytes()).hexdigest()
        names = self._wanted[_key(machine)]
        turns = self._options.plays * self._options.repeats * len(names)
        same = (program, self._options.seconds, guests.conditions(machine), set(names))
        whole = len(found.turns) == turns and found.played(self._options.modes)
        return whole and same == (found.program, found.seconds, found.under, set(found.versions))

    def _start(self, work: Machine) -> AtWork[Machine]:
        out = self.folder(work)
        out.mkdir(parents=True, exist_ok=True)
        options = self._options
        names = self._wanted[_key(work)]
        command: tuple[str, ...] = (
            *(*_COMMAND, "--program", str(build(out)), "--json", str(out / _TURNS)),
            *("--scheduler", ",".join(names), "--repeat", str(options.repeats)),
            *("--plays", str(options.plays), "--seconds", f"{options.seconds:g}"),
            *("--modes", ",".join(options.modes)),
        )
        if options.policies:
            (out / _POLICIES).write_bytes(wire.json_bytes(options.policies))
            command = (*command, "--policies", str(out / _POLICIES))
        played_s = options.plays * len(options.modes) * options.seconds * _SLOWEST
        limit_s = _LIMIT_S + len(names) * options.repeats * (_TURN_LIMIT_S + played_s)
        self._say(work, "the guest boots")
        boot = guests.booter(self._labs[work.tick_hz], work)
        return AtWork(guest=boot(command, out, limit_s), work=work, out=out)

    def _hear(self, one: AtWork[Machine], line: str) -> None:
        self._turns += _TURN.search(line) is not None
        self._say(one.work, line)

    def _ended(self, one: AtWork[Machine], result: GuestResult | None, trouble: str) -> None:
        if result is not None and result.exit_code == 0:
            return
        said = trouble or f"the guest's part ended with code {result.exit_code if result else '?'}: {one.words!r}"
        self.troubles[_key(one.work)] = f"{said}; see {one.out}"
        self._say(one.work, said)

    def _say(self, machine: Machine, line: str) -> None:
        whole = sum(map(len, self._wanted.values())) * self._options.repeats
        self._tell(f"{machine.name}, {machine.tick_hz} Hz: {line}", min(1.0, self._turns / whole))
