# SPDX-License-Identifier: GPL-2.0-only
"""A foreign optimiser on the same budget: tree-structured Parzen estimators (Bergstra et al. 2011), as Optuna has them.

Candidates are asked for in groups that one guest plays; those of a group do not know of each other.
"""

from collections.abc import Callable, Sequence

import optuna

from calibration.tuning.swarm import Swarmed

TOGETHER = 4
"""Candidates of a group."""


def search(
    costs: Callable[[Sequence[Sequence[float]]], Sequence[float]], dimensions: int, evaluations: int, seed: int
) -> Swarmed:
    """As `swarm.search`: the smallest cost in the cube 0..1. What cannot be evaluated costs infinity."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True))
    ranges: dict[str, optuna.distributions.BaseDistribution] = {
        f"x{number}": optuna.distributions.FloatDistribution(0.0, 1.0) for number in range(dimensions)
    }
    done = 0
    while done < evaluations:
        asked = [study.ask(ranges) for _ in range(min(TOGETHER, evaluations - done))]
        for trial, cost in zip(asked, costs([tuple(one.params.values()) for one in asked]), strict=True):
            study.tell(trial, cost)
        done += len(asked)
    best = study.best_trial
    return Swarmed(
        best=tuple(best.params.values()), cost=float(best.value or 0.0), found_after=best.number + 1, evaluations=done
    )
