# SPDX-License-Identifier: GPL-2.0-only
"""The laboratory's objective: candidates and the untuned scheduler take turns in one guest, by the scenario's score.

A switchback run (`calibration.switchback`) for some candidates at once: one load, started once. A candidate's gain is
the mean over rounds of its score against the untuned scheduler's, and the kernel's own, in the same round.
"""

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from asa import paths, wire
from asa.act.policies import Own, Policy
from asa.core.decision import EEVDF, SchedulerName
from calibration.switchback import play, samples
from calibration.switchback.figures import change_pct, pair_score
from calibration.switchback.samples import Block, Run
from calibration.tuning.space import Flags
from calibration.tuning.tpe import TOGETHER
from calibration.tuning.trials import Gain
from scenarios.catalogue import Scenario
from scenarios.lab.machines import Machine

IN_A_GUEST = TOGETHER
"""Candidates that take turns in one guest: each loads in every round."""


@dataclass(slots=True, kw_only=True)
class Lab:
    """An `Objective`. What went wrong is in `troubles`."""

    base: SchedulerName
    machine: Machine
    scenario: Scenario
    rounds: int
    out: Path
    places: paths.Places
    tell: play.Tell
    troubles: list[str] = field(default_factory=list)

    def gains(self, candidates: Sequence[Flags], seed: int) -> list[Gain | None]:
        """As of `Objective`. Raises AsaError where the lab is not there."""
        found: list[Gain | None] = []
        for first in range(0, len(candidates), IN_A_GUEST):
            found += self._guest(candidates[first : first + IN_A_GUEST], seed)
        return found

    def _guest(self, candidates: Sequence[Flags], seed: int) -> list[Gain | None]:
        policies = tuple(_policy(self.base, number, flags) for number, flags in enumerate(candidates, 1))
        names = tuple(policy.name for policy in policies)
        digest = hashlib.sha256(wire.json_bytes(policies)).hexdigest()[:12]
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
        return [gain(runs[0], self.base, name) for name in names]


def gain(run: Run, base: SchedulerName, candidate: SchedulerName) -> Gain | None:
    """The mean over rounds, by the score, against both; None without a round that has all three."""
    rounds: dict[int, dict[str, list[Block]]] = {}
    for block in run.blocks:
        if not block.trouble:
            rounds.setdefault(block.round, {}).setdefault(block.scheduler, []).append(block)
    over_base, over_own = [], []
    for _, turns in sorted(rounds.items()):
        own, before, after = (turns.get(name, []) for name in (EEVDF, base, candidate))
        if own and before and after:
            pairs = pair_score(run, before, after), pair_score(run, own, after)
            if pairs[0] is not None and pairs[1] is not None:
                over_base.append(change_pct(*pairs[0]))
                over_own.append(change_pct(*pairs[1]))
    if not over_base:
        return None
    return Gain(pct=statistics.fmean(over_base), over_eevdf_pct=statistics.fmean(over_own))


def _policy(base: SchedulerName, number: int, flags: Flags) -> Policy:
    return Policy(
        id=SchedulerName.of(base.bare, f"candidate_{number}"),
        version="-",
        purpose="a candidate of a tuning",
        flags=dict(flags),
        provenance=Own(),
    )
