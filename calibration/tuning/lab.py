# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory's objectives: candidates, the untuned scheduler and the kernel's own take turns in one guest.

`Pair`: a switchback run (`calibration.switchback`) of a scenario, one load, started once. A gain is the mean over
rounds, by the scenario's score, or by power where the score stays. `Bench`: one figure of the scale benchmark, which is
quicker, but no use of a machine.
"""

import hashlib
import socket
import statistics
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from random import Random

from asa import paths, wire
from asa.act.policies import Own, Policy
from asa.core.decision import EEVDF, SchedulerName
from asa.core.errors import AsaError
from calibration.fleet.task import make_ready
from calibration.hosts import Where, in_parallel
from calibration.scale import benchmark
from calibration.scale.samples import Found, Metric
from calibration.switchback import play, samples
from calibration.switchback.figures import change_pct, pair_score, power_w
from calibration.switchback.samples import Block, Run
from calibration.tuning.space import Flags
from calibration.tuning.swarm import PARTICLES
from calibration.tuning.tpe import TOGETHER
from calibration.tuning.trials import Gain, Seeded
from calibration.tuning.tune import WORST_PCT
from scenarios.catalogue import Scenario
from scenarios.lab.machines import Machine

FOLDER = "tuning"
"""Below asa's state, on a worker of a cluster."""

_PLAYS, _SECONDS = 2, 0.5  # a round, each of so many seconds of the guest's clock


class Aim(StrEnum):
    """What a pair is tuned for. Of energy, the score may be WORST_PCT behind the kernel's own."""

    SCORE = "score"
    ENERGY = "energy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one guest plays: candidates, all with one seed."""

    number: int
    candidates: tuple[Flags, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of it, a gain for each candidate."""

    number: int
    gains: tuple[Gain | None, ...]
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Use(ABC):
    """What candidates are judged by. `together`: how many share a guest, with those that they are compared with."""

    base: SchedulerName
    machine: Machine
    rounds: int
    together: int

    @abstractmethod
    def in_guest(self, piece: Piece, out: Path, places: paths.Places, tell: play.Tell) -> Told:
        """One guest; its records go below `out`. Raises AsaError where the lab is not there."""

    @property
    def programs(self) -> tuple[str, ...]:
        """Applications that have to be prepared for it."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair(Use):
    """By a scenario's score or power. Each candidate loads in every round."""

    scenario: Scenario
    aim: Aim = Aim.SCORE
    together: int = TOGETHER

    def in_guest(self, piece: Piece, out: Path, places: paths.Places, tell: play.Tell) -> Told:
        """As of Use."""
        policies, digest = _policies(self.base, piece.candidates)
        names = tuple(policy.name for policy in policies)
        options = play.Options(
            machines=(self.machine,),
            scenarios=(self.scenario,),
            schedulers=(self.base, *names),
            policies=policies,
            rounds=self.rounds,
            seed=piece.seed,
        )
        out = out / f"{piece.seed}-{digest}"
        out.mkdir(parents=True, exist_ok=True)
        troubles = play.play(options, out, places, tell)
        runs = samples.files(out)
        if not runs:
            return Told(number=piece.number, gains=(None,) * len(names), troubles=tuple(troubles))
        troubles += [f"{block.scheduler}: {block.trouble}" for block in runs[0].blocks if block.trouble]
        gains = tuple(gain(runs[0], self.base, name, self.aim) for name in names)
        return Told(number=piece.number, gains=gains, troubles=tuple(troubles))

    @property
    def programs(self) -> tuple[str, ...]:
        """As of Use."""
        return tuple(name for name in (self.scenario.interactive, self.scenario.background) if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(Use):
    """By a figure of the scale benchmark, which takes seconds of each. Its seeds are orders of the turns."""

    metric: Metric
    together: int = PARTICLES

    def in_guest(self, piece: Piece, out: Path, places: paths.Places, tell: play.Tell) -> Told:
        """As of Use."""
        policies, digest = _policies(self.base, piece.candidates)
        names = [policy.name for policy in policies]
        everyone = [EEVDF, self.base, *names]
        options = benchmark.Options(
            machines=(self.machine,),
            schedulers=tuple(Random(f"{piece.seed} {digest}").sample(everyone, len(everyone))),  # noqa: S311
            repeats=self.rounds,
            plays=_PLAYS,
            seconds=_SECONDS,
            modes=(self.metric.mode,),
            policies=policies,
            folder=out / f"{piece.seed}-{digest}",
        )
        result = benchmark.measure(options, places, tell)
        (found,) = result.found
        gains = tuple(bench_gain(found, self.metric, self.base, name) for name in names)
        return Told(number=piece.number, gains=gains, troubles=(*result.troubles, *found.troubles))


@dataclass(slots=True, kw_only=True)
class InGuests:
    """An `Objective` whose candidates are played in guests, several at once. What went wrong is in `troubles`.

    Which candidates share a guest depends on the use alone, so that gains do not depend on who plays.
    """

    use: Use
    out: Path
    places: paths.Places
    tell: play.Tell
    where: Where = field(default_factory=Where)
    troubles: list[str] = field(default_factory=list)

    def gains(self, pairs: Sequence[Seeded]) -> list[Gain | None]:
        """As of `Objective`. Raises AsaError where the lab is not there."""
        pieces = _pieces(pairs, self.use.together)
        told: dict[int, Told] = {}
        if self.where.jobs > 1 and len(pieces) > 1:  # two that make the same ready would be in each other's way
            make_ready(self.use.programs, self.use.machine, self.places, lambda line: self.tell(line, 0.0))
        shares = dict.fromkeys(range(len(pieces)), 0.0)

        def here(piece: Piece) -> Told:
            def tell(line: str, share: float) -> None:
                shares[piece.number] = share
                self.tell(line, sum(shares.values()) / len(shares))

            return self.use.in_guest(piece, self.out, self.places, tell)

        with in_parallel(self.where) as together:
            for one in together(partial(_there, self.use) if self.where.cluster else here, pieces):
                told[one.number] = one
                shares[one.number] = 1.0
                self.tell(f"guest {len(told)} of {len(pieces)} is done", sum(shares.values()) / len(shares))
        self.troubles += [words for _, one in sorted(told.items()) for words in one.troubles]
        return [gain for _, one in sorted(told.items()) for gain in one.gains]


def _there(use: Use, piece: Piece) -> Told:
    """On a worker of a cluster: nothing but values goes there and comes back."""
    places = paths.default()
    try:
        return use.in_guest(piece, places.state / FOLDER, places, lambda *_: None)
    except AsaError as error:
        raise AsaError(f"{socket.gethostname()}: {error}") from None  # of a class that can be sent


def _pieces(pairs: Sequence[Seeded], most: int) -> list[Piece]:
    """In their order."""
    found: list[Piece] = []
    for flags, seed in pairs:
        if found and found[-1].seed == seed and len(found[-1].candidates) < most:
            found[-1] = replace(found[-1], candidates=(*found[-1].candidates, flags))
        else:
            found.append(Piece(number=len(found), candidates=(flags,), seed=seed))
    return found


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
