# SPDX-License-Identifier: GPL-2.0-only
"""How hard a scenario's load is, so that the kernel's own scheduler neither does all well nor fails.

`search` finds it along a ladder, by whatever plays a rung; what was found is kept in intensities.yaml, by machine and
scenario, with the seed that it was found with. Seeds that are judged are others.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec
import yaml

from asa import files, wire
from asa.core.errors import AsaError
from asa.yamlfile import load
from calibration.switchback.samples import Run
from scenarios.lab import machines
from scenarios.lab.machines import Machine

LOW, HIGH = 0.3, 0.9
"""Between these the kernel's own scheduler is to score: outside nobody can be told better, or worse."""

SEED = 7001
"""Of the search alone."""

KEPT = Path(__file__).with_name("intensities.yaml")
_MIDDLE = (LOW + HIGH) / 2.0
_NEAR = 0.15  # of the middle: near enough

Level: TypeAlias = tuple[float, float]
"""Crowd and effort: times the threads of the background load, times the work of the interactive application."""

LADDER: tuple[Level, ...] = (
    *((0.5, 0.5), (0.5, 1.0), (1.0, 1.0), (2.0, 1.5), (2.0, 2.0)),
    *((4.0, 3.0), (4.0, 4.0), (8.0, 6.0), (8.0, 8.0)),
)
"""From easy to hard. A crowd alone does little under the kernel's own scheduler, which gives each session its share."""

_START = LADDER.index((1.0, 1.0))


class Intensity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was found for a scenario. `score` is the kernel's own scheduler's, with the search's seed."""

    crowd: float
    effort: float
    score: float


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a machine. `speed_pct` is the sum over its CPUs: 400 of four of full speed."""

    cpus: int
    speed_pct: int
    scenarios: dict[str, Intensity]  # by label


class Found(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is kept: by the machine's name."""

    seed: int
    command: str
    machines: dict[str, Known]


def search(score_of: Callable[[Level], float | None]) -> dict[Level, float | None]:
    """Score rungs until one lies near the middle, or no rung is left between one too easy and one too hard.

    `score_of` plays a rung and gives its score, None where too little was measured, which is taken for too hard.
    Gives all that were played, in their order.
    """
    played: dict[Level, float | None] = {}
    easy, hard, at = -1, len(LADDER), _START
    while easy < at < hard:
        score = played[LADDER[at]] = score_of(LADDER[at])
        if score is not None and abs(score - _MIDDLE) <= _NEAR:
            break
        if score is not None and score > _MIDDLE:
            easy = at
        else:
            hard = at
        at = (easy + hard) // 2
    return played


def best(played: Mapping[Level, float | None]) -> tuple[Level, float] | None:
    """The rung whose score is nearest to the middle; None where none has a score."""
    known = [(abs(score - _MIDDLE), level, score) for level, score in played.items() if score is not None]
    return min(known)[1:] if known else None


def tells(score: float) -> bool:
    """Can such a score rise, and fall?"""
    return LOW <= score <= HIGH


@cache
def kept(path: Path = KEPT) -> Found:
    """Raises InputError."""
    return load(path, Found)


def of(machine: Machine, label: str, found: Found | None = None) -> Level:
    """What is kept for a scenario on the machine, else on the known one that is most alike; (1, 1) without any."""
    every = (found or kept()).machines
    names = [name for name, known in every.items() if label in known.scenarios]
    if not names:
        return 1.0, 1.0

    def unlike(name: str) -> tuple[bool, float, str]:
        known = every[name]
        speed = abs(known.speed_pct - sum(machine.speeds)) / 100.0
        return name != machine.name, abs(known.cpus - machine.cpus) + speed, name

    one = every[min(names, key=unlike)].scenarios[label]
    return one.crowd, one.effort


def of_runs(runs: Sequence[Run]) -> dict[str, Known]:
    """What searches have found, by machine; a scenario without any score is left out."""
    found: dict[str, Known] = {}
    for run in runs:
        chosen = best({(one.crowd, one.effort): one.score for one in run.rungs})
        if chosen is not None:
            (crowd, effort), score = chosen
            made = Intensity(crowd=crowd, effort=effort, score=round(score, 3))
            machine = machines.load(run.machine)
            known = found.get(run.machine) or Known(cpus=machine.cpus, speed_pct=sum(machine.speeds), scenarios={})
            scenarios = known.scenarios | {run.orders.label: made}
            found[run.machine] = msgspec.structs.replace(known, scenarios=scenarios)
    return found


def keep(path: Path, known: Mapping[str, Known], command: str) -> None:
    """Add these to a file of intensities, in place of what it has of the same scenarios.

    Raises InputError, AsaError.
    """
    before = load(path, Found).machines if path.exists() else {}
    every = dict(before)
    for name, one in known.items():
        kept_before = before[name].scenarios if name in before else {}
        scenarios = dict(sorted((kept_before | one.scenarios).items()))
        every[name] = msgspec.structs.replace(one, scenarios=scenarios)
    found = Found(seed=SEED, command=command, machines=dict(sorted(every.items())))
    text = yaml.safe_dump(wire.plain(found), sort_keys=False, width=120, default_flow_style=None)
    try:
        files.replace(path, text.encode())
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror}; name another file by --keep") from error
