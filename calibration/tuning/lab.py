# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory's objectives: candidates, the untuned scheduler and the kernel's own take turns in one guest.

`Pair`: a switchback run (`calibration.switchback`) of a scenario, one load, started once. A gain is the mean over
rounds, by the scenario's score, or by power where the score stays. `Bench`: one figure of the scale benchmark, which is
quicker, but no use of a machine.
"""

import hashlib
import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import ClassVar

from asa import paths, wire
from asa.act.policies import Own, Policy
from asa.core.decision import EEVDF, SchedulerName
from calibration.scale import benchmark
from calibration.scale.samples import Found, Metric
from calibration.switchback import play, samples
from calibration.switchback.figures import change_pct, pair_score, power_w
from calibration.switchback.samples import Block, Run
from calibration.tuning.space import Flags
from calibration.tuning.swarm import PARTICLES
from calibration.tuning.tpe import TOGETHER
from calibration.tuning.trials import Gain
from calibration.tuning.tune import WORST_PCT
from scenarios.catalogue import Scenario
from scenarios.lab.machines import Machine

_PLAYS, _SECONDS = 2, 0.5  # a round, each of so many seconds of the guest's clock


class Aim(StrEnum):
    """What a pair is tuned for. Of energy, the score may be WORST_PCT behind the kernel's own."""

    SCORE = "score"
    ENERGY = "energy"


@dataclass(slots=True, kw_only=True)
class InGuests(ABC):
    """An `Objective` whose candidates are played in guests. What went wrong is in `troubles`."""

    base: SchedulerName
    machine: Machine
    rounds: int
    out: Path
    places: paths.Places
    tell: play.Tell
    troubles: list[str] = field(default_factory=list)
    at_once: ClassVar[int]

    def gains(self, candidates: Sequence[Flags], seed: int) -> list[Gain | None]:
        """As of `Objective`. Raises AsaError where the lab is not there."""
        found: list[Gain | None] = []
        for first in range(0, len(candidates), self.at_once):
            found += self._guest(candidates[first : first + self.at_once], seed)
        return found

    @abstractmethod
    def _guest(self, candidates: Sequence[Flags], seed: int) -> list[Gain | None]: ...


@dataclass(slots=True, kw_only=True)
class Pair(InGuests):
    """By a scenario's score or power. Each candidate loads in every round."""

    scenario: Scenario
    aim: Aim = Aim.SCORE
    at_once = TOGETHER

    def _guest(self, candidates: Sequence[Flags], seed: int) -> list[Gain | None]:
        policies, digest = _policies(self.base, candidates)
        names = tuple(policy.name for policy in policies)
        options = play.Options(
            machines=(self.machine,),
            scenarios=(self.scenario,),
            schedulers=(self.base, *names),
            policies=policies,
            rounds=self.rounds,
            seed=seed,
        )
        out = self.out / f"{seed}-{digest}"
        out.mkdir(parents=True, exist_ok=True)
        self.troubles += play.play(options, out, self.places, self.tell)
        runs = samples.files(out)
        if not runs:
            return [None] * len(names)
        self.troubles += [f"{block.scheduler}: {block.trouble}" for block in runs[0].blocks if block.trouble]
        return [gain(runs[0], self.base, name, self.aim) for name in names]


@dataclass(slots=True, kw_only=True)
class Bench(InGuests):
    """By a figure of the scale benchmark, which takes seconds of each. Its seeds are orders of the turns."""

    metric: Metric
    at_once = PARTICLES

    def _guest(self, candidates: Sequence[Flags], seed: int) -> list[Gain | None]:
        policies, digest = _policies(self.base, candidates)
        names = [policy.name for policy in policies]
        everyone = [EEVDF, self.base, *names]
        options = benchmark.Options(
            machines=(self.machine,),
            schedulers=tuple(Random(f"{seed} {digest}").sample(everyone, len(everyone))),  # noqa: S311
            repeats=self.rounds,
            plays=_PLAYS,
            seconds=_SECONDS,
            modes=(self.metric.mode,),
            policies=policies,
            folder=self.out / f"{seed}-{digest}",
        )
        result = benchmark.measure(options, self.places, self.tell)
        (found,) = result.found
        self.troubles += [*result.troubles, *found.troubles]
        return [bench_gain(found, self.metric, self.base, name) for name in names]


def bench_gain(found: Found, metric: Metric, base: SchedulerName, candidate: SchedulerName) -> Gain | None:
    """By the means of a figure; None where one of the three has none."""

    def mean(name: SchedulerName) -> float | None:
        readings = [turn.readings[metric.mode] for turn in found.turns if turn.scheduler == name]
        told = [value for reading in readings if (value := metric.value(reading)) is not None]
        return statistics.fmean(told) if told else None

    own, before, after = mean(EEVDF), mean(base), mean(candidate)
    if own is None or before is None or after is None:
        return None
    sign = 1.0 if metric.more_is_better else -1.0
    return Gain(pct=sign * change_pct(before, after), over_eevdf_pct=sign * change_pct(own, after))


def gain(run: Run, base: SchedulerName, candidate: SchedulerName, aim: Aim = Aim.SCORE) -> Gain | None:
    """The mean over rounds, against both; None without a round that has all three.

    By energy `pct` is what is saved over the scheduler without flags, and `over_eevdf_pct` is the score's. Where the
    score is further behind than WORST_PCT, `pct` is below 0 by as much.
    """
    rounds: dict[int, dict[str, list[Block]]] = {}
    for block in run.blocks:
        if not block.trouble:
            rounds.setdefault(block.round, {}).setdefault(block.scheduler, []).append(block)
    over_base, over_own, saved = [], [], []
    for _, turns in sorted(rounds.items()):
        own, before, after = (turns.get(name, []) for name in (EEVDF, base, candidate))
        if own and before and after:
            pairs = pair_score(run, before, after), pair_score(run, own, after)
            if pairs[0] is not None and pairs[1] is not None:
                over_base.append(change_pct(*pairs[0]))
                over_own.append(change_pct(*pairs[1]))
            drawn = power_w(before), power_w(after)
            if drawn[0] is not None and drawn[1] is not None:
                saved.append(change_pct(drawn[1], drawn[0]))
    gains = saved if aim is Aim.ENERGY else over_base
    if not gains or not over_own:
        return None
    pct, over_eevdf_pct = statistics.fmean(gains), statistics.fmean(over_own)
    if aim is Aim.ENERGY and over_eevdf_pct < WORST_PCT:
        pct = over_eevdf_pct - WORST_PCT
    return Gain(pct=pct, over_eevdf_pct=over_eevdf_pct)


def _policies(base: SchedulerName, candidates: Sequence[Flags]) -> tuple[tuple[Policy, ...], str]:
    """With a word for all of them."""
    made = tuple(
        Policy(
            id=SchedulerName.of(base.bare, f"candidate_{number}"),
            version="-",
            purpose="a candidate of a tuning",
            flags=dict(flags),
            provenance=Own(),
        )
        for number, flags in enumerate(candidates, 1)
    )
    return made, hashlib.sha256(wire.json_bytes(made)).hexdigest()[:12]
