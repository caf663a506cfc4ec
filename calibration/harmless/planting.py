# SPDX-License-Identifier: GPL-2.0-only
"""Plays what is not kept yet of `calibration.harmless.plants`, in guests under the parallel clock, one at a time.

A guest plays one load and the plants that belong to it. Each play is kept as soon as it ends, so an interruption costs
the one under way. Judges nothing.
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from asa import paths, wire
from asa.core.decision import EEVDF
from asa.core.errors import AsaError, ModelError
from calibration.harmless import plants
from calibration.harmless.guest import Orders
from calibration.harmless.plants import Plant, Played, Sort
from scenarios.application import Tier
from scenarios.catalogue import applications
from scenarios.guests import ready
from scenarios.lab import guest, machines
from scenarios.lab.emulator import Clock
from scenarios.lab.guest import Lab
from scenarios.lab.starver import build
from scenarios.session import place_for
from scenarios.session import prepare as prepare_one

SCALE = Path(__file__).parents[2] / "docs/scale.prom"
"""Where the lab's scale benchmark keeps what it measured."""
_WAIT = re.compile(r'asa_scale_wakeup_p99_seconds\{scheduler="([^":]+)",cpus="(\d+)",guest="\2 CPUs"\} (\S+)')
_STARTS_S, _PLANT_S = 900.0, 1800.0  # limits, of the host's time: it may be busy
_COMMAND = (sys.executable, "-P", "-m", "calibration.harmless.guest")  # -P: root imports nothing from the folder


def worst(scale: str) -> dict[int, str]:
    """By CPUs, the scheduler under which a task that a timer wakes waits longest beside hogs (p99). Raises ModelError.

    `scale`: the scale benchmark's figures in Prometheus' text format. A scheduler's own modes are left out.
    """
    found: dict[int, tuple[float, str]] = {}
    for scheduler, cpus, seconds in _WAIT.findall(scale):
        if scheduler != EEVDF:
            found[int(cpus)] = max(found.get(int(cpus), (0.0, "")), (float(seconds), scheduler))
    if missing := [cpus for cpus in plants.CPUS if cpus not in found]:
        raise ModelError(f"{SCALE}: no wakeup_p99 with {missing[0]} CPUs; run `make bench-scale`")
    return {cpus: scheduler for cpus, (_, scheduler) in found.items()}


def every(sort: Sort) -> list[Plant]:
    """All of a sort. Raises ModelError."""
    if sort is Sort.STARVER:
        return plants.starving()
    try:
        return plants.bad(worst(SCALE.read_text(encoding="utf-8")))
    except OSError as error:
        raise ModelError(f"{SCALE}: {error.strerror}; run `make bench-scale`") from error


def play(sort: Sort, most: int | None, tell: Callable[[str], None]) -> list[Played]:
    """Play what is missing, `most` at most; gives all of the sort that is kept then. Raises AsaError.

    A guest that fails costs its own plants alone: those that are left are played the next time.
    """
    missing = plants.left(every(sort), plants.read())[:most]
    if missing:
        places = paths.default()
        lab = ready(places.cache, tell, machines.alike(missing[0].cpus))
        starver = build.ensure(places.cache, lab.kernel, tell)
        for name in sorted({name for one in missing for name in one.load.split("+") if name}):
            application = applications(Tier.LAB)[name]
            prepare_one(application, place_for(application, cache=places.cache, tier=Tier.LAB), tell)
        for number, part in enumerate(_guests(missing)):
            _play(part, lab, starver, places.state / f"bench-harmless/{number}", tell)
    return [one for one in plants.read() if one.plant.sort is sort]


def _guests(missing: Iterable[Plant]) -> Iterator[list[Plant]]:
    """What goes into one guest: one machine, one load."""

    def key(one: Plant) -> tuple[int, str]:
        return one.cpus, one.load

    for _, part in groupby(sorted(missing, key=key), key):
        yield list(part)


def _play(part: Sequence[Plant], lab: Lab, starver: Path, out: Path, tell: Callable[[str], None]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    orders = out / "orders"
    orders.write_bytes(wire.json_bytes(Orders(plants=tuple(part), out=str(out), starver=str(starver))))
    errors: list[str] = []
    begun_s = time.monotonic()

    def hear(line: str) -> None:
        word, _, name = line.partition(" ")
        if word == "end":
            played = _read(out / f"{name}.json")
            plants.keep(played)
            told = f"gone after {played.seconds} s" if played.seconds is not None else "missed"
            line = f"{name}: {told}; {played.said}"
        tell(f"{time.monotonic() - begun_s:4.0f} s  {line}")

    tell(f"{part[0].cpus} CPUs, {part[0].load or 'alone'}: a guest boots for {len(part)} plants")
    result = guest.run(
        (*_COMMAND, str(orders)),
        lab=lab,
        out=out,
        on_output=hear,
        on_error=errors.append,
        machine=machines.alike(part[0].cpus),
        clock=Clock.PARALLEL,
        env={"PYTHONPATH": str(SCALE.parents[1])},  # this code, wherever the interpreter's own is
        limit_s=_STARTS_S + _PLANT_S * len(part),
    )
    if result.exit_code != 0:
        said = errors[-1] if errors else "no word on stderr"
        raise AsaError(f"{part[0].id}: the guest's part ended with code {result.exit_code}: {said!r}")


def _read(path: Path) -> Played:
    try:
        return wire.from_json(path.read_bytes(), Played)
    except (OSError, msgspec.DecodeError) as error:
        raise AsaError(f"{path}: not what a guest writes: {error}") from error
