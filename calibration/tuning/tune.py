# SPDX-License-Identifier: GPL-2.0-only
"""A tuning: a method searches with one seed, the best is raced on others, and what won becomes a policy.

The best of many noisy trials looks better than it is. So it is raced anew on seeds that nobody searched with, and by
how much its gain falls there is told. Pure but for the trials.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import yaml

from asa import wire
from asa.act.knobs import Knobs, Value
from asa.act.policies import Policy, Tuned
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from calibration.tuning import golden, screening, space, swarm, tpe
from calibration.tuning.racing import LEAST, Race, Verdict, race
from calibration.tuning.screening import Effect
from calibration.tuning.space import Flags, Point
from calibration.tuning.swarm import Coefficients
from calibration.tuning.trials import Gain, Trials

FLOOR_PCT = 0.5
"""The smallest scatter of a gain that means anything."""

WORST_PCT = -2.0
"""Against the kernel's own a policy may be so much worse at most, in the use it is for and in others."""

_SHOWN = 3  # decimals of a gain in a policy


class Method(StrEnum):
    """How flags are searched."""

    GOLDEN = "golden"
    PSO = "pso"
    TPE = "tpe"
    SCREEN = "screen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be tuned. `flags`: of which alone, none for all numbers; golden section has its own.

    `coefficients` are the swarm's; None for the study's.
    """

    scheduler: SchedulerName
    knobs: Knobs
    method: Method
    trials: int
    seed: int
    flags: tuple[str, ...] = ()
    coefficients: Coefficients | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The best flags, their gain with the seed of the search, and how many trials it took.

    `gains_pct` are those of all candidates in the order in which they were asked for; None for one that failed. Of a
    screening `gain_pct` is what its effects add up to: these flags together were not played.
    """

    flags: Flags
    gain_pct: float
    trials: int
    gains_pct: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """The race on fresh seeds. `regression_pct`: by how much the gain of the search was too good.

    `over_eevdf_pct` is the mean over these seeds.
    """

    race: Race
    seeds: tuple[int, ...]
    regression_pct: float
    over_eevdf_pct: float

    @property
    def wanted(self) -> bool:
        """Is it surely better than without the flags, and not worse than the kernel's own?"""
        return self.race.verdict is Verdict.BETTER and self.over_eevdf_pct >= WORST_PCT


def search(asked: Asked, trials: Trials) -> Found:
    """By golden section, the swarm, or Parzen estimators. Raises AsaError, also where no candidate could be played."""
    best: dict[str, float | None] = {}
    kept: dict[str, Flags] = {}

    def costs(candidates: Sequence[Flags]) -> list[float]:
        gains = trials.gains(candidates, asked.seed)
        for flags, gain in zip(candidates, gains, strict=True):
            best[str(flags)], kept[str(flags)] = None if gain is None else gain.pct, flags
        return [math.inf if gain is None else -gain.pct for gain in gains]

    if asked.method is Method.GOLDEN:
        golden.search(
            lambda shares: costs([space.derived(asked.scheduler.bare, asked.knobs, share) for share in shares]),
            max(2, asked.trials),
        )
    else:
        places = space.space(asked.scheduler.bare, asked.knobs, asked.flags)

        def together(points: Sequence[Point]) -> list[float]:
            return costs([places.flags(point) for point in points])

        if asked.method is Method.PSO:
            swarm.search(together, len(places.names), asked.trials, asked.seed, asked.coefficients)
        else:
            tpe.search(together, len(places.names), asked.trials, asked.seed)
    told = {one: gain for one, gain in best.items() if gain is not None}
    if not told:
        raise AsaError(f"{asked.scheduler}: no candidate could be played; what went wrong is said above")
    winner = max(told, key=lambda one: told[one])
    return Found(flags=kept[winner], gain_pct=told[winner], trials=len(trials.asked), gains_pct=tuple(best.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """Which flags matter, the largest effect first, in per cent, and those of them set as they help.

    `found` is None where no flag matters, or all that matter help as they are without being set.
    """

    effects: tuple[Effect, ...]
    gains_pct: tuple[float, ...]
    found: Found | None


def screen(asked: Asked, trials: Trials) -> Screened:
    """By the twelve trials of a design, and what they add up to. Raises AsaError."""
    names = asked.flags or asked.knobs.flags()
    if len(names) > screening.MOST:
        raise AsaError(
            f"{asked.scheduler} has {len(names)} flags, a screening takes {screening.MOST}; name some of "
            f"{', '.join(names)}"
        )
    levels = [space.levels(asked.knobs, name) for name in names]
    candidates = []
    for row in screening.design():
        chosen: dict[str, int | float | str | bool] = {}
        for (low, high), sign in zip(levels, row, strict=False):
            chosen |= high if sign > 0 else low
        candidates.append(space.bounded(asked.knobs, chosen))
    gains = trials.gains(candidates, asked.seed)
    told = [gain.pct for gain in gains if gain is not None]
    if len(told) < len(gains):
        raise AsaError(
            f"{asked.scheduler}: {len(gains) - len(told)} of {len(gains)} trials failed; a screening needs all"
        )
    effects = screening.effects(names, told)
    winning: dict[str, Value] = {}
    for one in effects:
        if one.matters:
            winning |= space.levels(asked.knobs, one.flag)[one.effect > 0.0]
    found = None
    if winning:
        found = Found(
            flags=space.bounded(asked.knobs, winning),
            gain_pct=statistics.fmean(told) + sum(abs(one.effect) for one in effects if one.matters) / 2.0,
            trials=len(trials.asked),
            gains_pct=tuple(told),
        )
    return Screened(effects=tuple(effects), gains_pct=tuple(told), found=found)


def confirm(found: Found, trials: Trials, seeds: Sequence[int]) -> Confirmed:
    """Race the best against the scheduler without flags, a fresh seed a pair. Raises AsaError for one that fails.

    The first pairs, which any race has, are played at once.
    """
    trials.pairs([(found.flags, seed) for seed in seeds[:LEAST]])
    played: list[Gain] = []

    def difference(pair: int) -> float:
        played.append(_played(found, trials, seeds[pair]))
        return played[-1].pct

    raced = race(difference, FLOOR_PCT)
    return Confirmed(
        race=raced,
        seeds=tuple(seeds[: raced.pairs]),
        regression_pct=found.gain_pct - raced.mean,
        over_eevdf_pct=statistics.fmean(one.over_eevdf_pct for one in played),
    )


def elsewhere(found: Found, trials: Trials, seeds: Sequence[int]) -> float:
    """The mean gain over the kernel's own, in per cent, in a use that it is not for. Raises AsaError."""
    trials.pairs([(found.flags, seed) for seed in seeds])
    return statistics.fmean(_played(found, trials, seed).over_eevdf_pct for seed in seeds)


def _played(found: Found, trials: Trials, seed: int) -> Gain:
    (gain,) = trials.gains([found.flags], seed)
    if gain is None:
        raise AsaError(f"seed {seed}: the winner could not be played; it is not confirmed")
    return gain


def policy(
    asked: Asked, found: Found, confirmed: Confirmed, *, version: str, machine: str, workload: str, day: str
) -> Policy | None:
    """What won, as a policy `SCHEDULER:tuned_WORKLOAD`; None for what is not confirmed. `day` is ISO 8601."""
    if not confirmed.wanted:
        return None
    mode = "tuned_" + "".join(letter if letter.isalnum() else "_" for letter in workload.lower())
    low, mean, high = (round(one, _SHOWN) for one in (confirmed.race.low, confirmed.race.mean, confirmed.race.high))
    return Policy(
        id=SchedulerName.of(asked.scheduler.bare, mode),
        version=version,
        purpose=f"{workload}, tuned on {machine}",
        flags=dict(found.flags),
        provenance=Tuned(
            method=asked.method,
            machine=machine,
            workload=workload,
            effect_pct=mean,
            interval_pct=(low, high),
            date=day,
            seeds=confirmed.seeds,
            trials=found.trials,
        ),
    )


def written(made: Policy) -> bytes:
    """As a policy's file has it."""
    return yaml.safe_dump(wire.plain(made), sort_keys=False).encode()
