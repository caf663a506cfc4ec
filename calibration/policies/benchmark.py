# SPDX-License-Identifier: GPL-2.0-only
"""The figures of policies, and how each is measured. Those that nothing measures yet are unknown."""

import sys
from collections.abc import Mapping
from pathlib import Path

from asa.core.errors import AsaError
from calibration.goals import Named
from calibration.kept import Count
from calibration.policies import agreement, control, longtail, portfolio, tuned, verifying
from calibration.tuning import outcome
from calibration.tuning.outcome import Outcome
from calibration.tuning.tune import Method

KEPT = Path(__file__).parents[1] / "results" / "policies.json"


class PoliciesFigure(Named):
    """The figures, each with its goal."""

    CONFIRMED = (
        "tuned_policies_confirmed",
        "policies",
        "tuned, and surely better on fresh seeds and on another machine",
        ">=",
        6.0,
    )
    TUNED = "tuned_gain_median_pct", "%", "gain of the confirmed policies over their scheduler without flags"
    PSO = "pso_trials", "trials", "that the particle swarm needed"
    GOLDEN = "golden_trials", "trials", "that the golden section needed"
    SCREEN = "screen_agreement", "%", "of knobs that screening and search agree on"
    PORTFOLIO = "portfolio_gain_pct", "%", "gain of the best static choice by policies"
    LJF = "ljf_gain_pct", "%", "makespan of a long-tail batch against EEVDF, longest job first without names"
    ORACLE = "ljf_oracle_gain_pct", "%", "the same, with names"
    CAUGHT = (
        "verifier_caught_pct",
        "%",
        "of schedulers with a planted fault that the verifier fails",
        ">=",
        95.0,
    )
    ALARMS = "verifier_false_alarms", "schedulers", "without a known fault that it fails", "<=", 0.0
    SECONDS = "verify_s", "s", "for one scheduler through all stages, with a minute of soak"
    CONTROL = (
        "vtime_control_diff_pct",
        "%",
        "between the composed virtual-time scheduler and scx_simple",
        "<=",
        2.0,
    )
    MODEL = (
        "model_rank_agreement",
        "",
        "of the model of compositions with the lab, Kendall's tau; below it no tuning by the model",
        ">=",
        agreement.LEAST_TAU,
    )


def counts() -> Mapping[Named, Count]:
    """How each figure is measured."""
    return {
        PoliciesFigure.CONFIRMED: lambda: tuned.confirmed(_kept()),
        PoliciesFigure.TUNED: lambda: tuned.gain_median_pct(_kept()),
        PoliciesFigure.PSO: lambda: tuned.trials(_kept(), Method.PSO),
        PoliciesFigure.GOLDEN: lambda: tuned.trials(_kept(), Method.GOLDEN),
        PoliciesFigure.SCREEN: lambda: tuned.screen_agreement(_kept()),
        PoliciesFigure.PORTFOLIO: lambda: portfolio.gain(tuned.wanted(_kept()), _tell),
        PoliciesFigure.CAUGHT: verifying.caught,
        PoliciesFigure.ALARMS: verifying.false_alarms,
        PoliciesFigure.SECONDS: verifying.seconds,
        PoliciesFigure.LJF: lambda: longtail.ljf(_tell),
        PoliciesFigure.ORACLE: lambda: longtail.oracle(_tell),
        PoliciesFigure.CONTROL: lambda: control.difference(_tell),
        PoliciesFigure.MODEL: lambda: agreement.tau(_tell),
    }


def _kept() -> list[Outcome]:
    found = outcome.all_of(tuned.KEPT)
    if not found:
        raise AsaError(f"no search is kept in {tuned.KEPT.name}; `asa lab tune` writes outcome.json, copy it there")
    return found


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
