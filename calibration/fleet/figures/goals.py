# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation's figures by name: what each is, its unit, and the goal that it has to meet. Pure."""

from calibration.fleet.figures.pairs import MARGIN
from calibration.goals import Named

_RUNS = "of the agent's runs against EEVDF's of the same machine, scenario and repeat"


class FleetFigure(Named):
    """The figures, each with its goal."""

    NOT_WORSE = "not_worse_pct", "%", f"{_RUNS}: behind by no more than {MARGIN:g} of the score", ">=", 95.0
    BETTER = (
        "significantly_better_pct",
        "%",
        "of the agent's runs: in blocks that are ahead of EEVDF at 5 % (t test of pairs, Holm over all blocks)",
        ">=",
        60.0,
    )
    IMPROVEMENT = (
        "mean_improvement_pct",
        "%",
        "the agent's mean score above EEVDF's, every block counted once",
        ">=",
        10.0,
    )
    TOP1 = "top1_pct", "%", "of the agent's runs: it held the best scheduler of the block, in hindsight", ">=", 60.0
    TOP3 = "top3_pct", "%", "the same: one of the best three", ">=", 95.0
    REGRET = (
        "regret_pct",
        "%",
        "mean score below Static-Oracle's, the best scheduler of each block by the very runs it is judged by",
        "<=",
        2.0,
    )
    BEST_STATIC = (
        "gain_over_best_static_pct",
        "%",
        "mean score above that of the one scheduler that comes nearest to it",
        ">",
        0.0,
    )
    LOADER_RULE = (
        "gain_over_loader_rule_pct",
        "%",
        "mean score above that of scx_loader's --auto rule (scx_lavd above 90 % CPU)",
        ">",
        0.0,
    )
    UNSEEN = "unseen_gap_points", "points", "improvement (%) on prototypes less that on unseen machines", "<=", 3.0
    ADAPT = "adapt_minutes", "min", "machine time of `asa adapt`, the longest of the unseen machines", "<=", 30.0
    SCORE1 = (
        "top1_by_score_pct",
        "%",
        "of the agent's runs: no scheduler scored more in that repeat (the paper's Top-1, by performance)",
        ">=",
        60.0,
    )
    SCORE3 = "top3_by_score_pct", "%", "the same: at most two did (the paper's Top-3)", ">=", 95.0
    WIN = "win_pct", "%", f"{_RUNS}: ahead by more than {MARGIN:g}"
    LOSS = "loss_pct", "%", f"{_RUNS}: behind by more than {MARGIN:g}, or failed"
    WORSE = "significantly_worse_pct", "%", "of the agent's runs: in blocks that are behind EEVDF at 5 %"
    CHOICE = (
        "choice_improvement_pct",
        "%",
        "the scheduler that the agent held, played without it, above EEVDF: what choosing is worth",
    )
    BURDEN = (
        "agent_burden_points",
        "points",
        "the agent less that scheduler, hundredths: what its work and its switches cost",
    )
    GEOMETRIC = "geometric_improvement_pct", "%", "geometric mean of the blocks' ratios agent to EEVDF, above 1"
    POINTS = "mean_difference_points", "points", "the agent's score less EEVDF's, mean, hundredths"
    FORESIGHT = (
        "regret_foresight_pct",
        "%",
        "mean score below that of the scheduler that is best in the block's other repeats",
    )
    RANDOM_ROUTER = (
        "gain_over_random_pct",
        "%",
        "mean score above what a scheduler drawn for each run is expected to have",
    )
    PHASED_EEVDF = "phases_improvement_pct", "%", "changing phases: the agent's mean score above EEVDF's"
    PHASED_ORACLE = (
        "phases_gain_over_static_oracle_pct",
        "%",
        "changing phases: mean score above Static-Oracle's, as in regret_pct",
    )
    ITSELF = (
        "eevdf_not_worse_than_itself_pct",
        "%",
        "EEVDF's second copy against its first: what noise alone leaves of the first figure",
    )
    CPU = "agent_cpu_pct", "%", "of one CPU that the agent used, mean of its runs"
    RESIDENT = "agent_resident_mb", "MB", "the agent's resident memory, mean of its runs"
    TOTAL = "agent_latency_p99_ms", "ms", "inference and decision together, 99th percentile"
