# SPDX-License-Identifier: GPL-2.0-only
"""The figures of policies, and how each is measured. Those that nothing measures yet are unknown."""

from collections.abc import Mapping
from pathlib import Path

from asa.core.errors import AsaError
from calibration.goals import Named
from calibration.kept import Count
from calibration.policies import verifying

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


def counts() -> Mapping[Named, Count]:
    """How each figure is measured."""
    return {
        **dict.fromkeys(PoliciesFigure, _not_yet),
        PoliciesFigure.CAUGHT: verifying.caught,
        PoliciesFigure.ALARMS: verifying.false_alarms,
        PoliciesFigure.SECONDS: verifying.seconds,
    }


def _not_yet() -> tuple[float, str]:
    raise AsaError("nothing measures this yet")
