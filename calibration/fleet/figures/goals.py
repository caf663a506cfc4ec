# SPDX-License-Identifier: GPL-2.0-only
"""The evaluation's figures by name: what each is, its unit, and the goal that it has to meet. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from calibration.fleet.figures.pairs import MARGIN


class Name(StrEnum):
    """The figures, by the names that issue trackers and JSON lines use."""

    NOT_WORSE = "not_worse_pct"
    BETTER = "significantly_better_pct"
    IMPROVEMENT = "mean_improvement_pct"
    TOP1 = "top1_pct"
    TOP3 = "top3_pct"
    REGRET = "regret_pct"
    BEST_STATIC = "gain_over_best_static_pct"
    LOADER_RULE = "gain_over_loader_rule_pct"
    UNSEEN = "unseen_gap_points"
    ADAPT = "adapt_minutes"
    SCORE1 = "top1_by_score_pct"
    SCORE3 = "top3_by_score_pct"
    WIN = "win_pct"
    LOSS = "loss_pct"
    WORSE = "significantly_worse_pct"
    CHOICE = "choice_improvement_pct"
    BURDEN = "agent_burden_points"
    GEOMETRIC = "geometric_improvement_pct"
    POINTS = "mean_difference_points"
    FORESIGHT = "regret_foresight_pct"
    RANDOM_ROUTER = "gain_over_random_pct"
    PHASED_EEVDF = "phases_improvement_pct"
    PHASED_ORACLE = "phases_gain_over_static_oracle_pct"
    ITSELF = "eevdf_not_worse_than_itself_pct"
    CPU = "agent_cpu_pct"
    RESIDENT = "agent_resident_mb"
    TOTAL = "agent_latency_p99_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure is and the bound that it has to meet; without a bound it has none."""

    unit: str
    what: str
    sign: str = ""
    bound: float | None = None


_RUNS = "of the agent's runs against EEVDF's of the same machine, scenario and repeat"
GOALS: Mapping[Name, Goal] = {
    Name.NOT_WORSE: Goal(
        unit="%", what=f"{_RUNS}: behind by no more than {MARGIN:g} of the score", sign=">=", bound=95.0
    ),
    Name.BETTER: Goal(
        unit="%",
        what="of the agent's runs: in blocks that are ahead of EEVDF at 5 % (t test of pairs, Holm over all blocks)",
        sign=">=",
        bound=60.0,
    ),
    Name.IMPROVEMENT: Goal(
        unit="%", what="the agent's mean score above EEVDF's, every block counted once", sign=">=", bound=10.0
    ),
    Name.TOP1: Goal(
        unit="%",
        what="of the agent's runs: it held the best scheduler of the block, in hindsight",
        sign=">=",
        bound=60.0,
    ),
    Name.TOP3: Goal(unit="%", what="the same: one of the best three", sign=">=", bound=95.0),
    Name.REGRET: Goal(
        unit="%",
        what="mean score below Static-Oracle's, the best scheduler of each block by the very runs it is judged by",
        sign="<=",
        bound=2.0,
    ),
    Name.BEST_STATIC: Goal(
        unit="%", what="mean score above that of the one scheduler that comes nearest to it", sign=">", bound=0.0
    ),
    Name.LOADER_RULE: Goal(
        unit="%",
        what="mean score above that of scx_loader's --auto rule (scx_lavd above 90 % CPU)",
        sign=">",
        bound=0.0,
    ),
    Name.UNSEEN: Goal(
        unit="points", what="improvement (%) on prototypes less that on unseen machines", sign="<=", bound=3.0
    ),
    Name.ADAPT: Goal(
        unit="min", what="machine time of `asa adapt`, the longest of the unseen machines", sign="<=", bound=30.0
    ),
    Name.SCORE1: Goal(
        unit="%",
        what="of the agent's runs: no scheduler scored more in that repeat (the paper's Top-1, by performance)",
        sign=">=",
        bound=60.0,
    ),
    Name.SCORE3: Goal(unit="%", what="the same: at most two did (the paper's Top-3)", sign=">=", bound=95.0),
    Name.WIN: Goal(unit="%", what=f"{_RUNS}: ahead by more than {MARGIN:g}"),
    Name.LOSS: Goal(unit="%", what=f"{_RUNS}: behind by more than {MARGIN:g}, or failed"),
    Name.WORSE: Goal(unit="%", what="of the agent's runs: in blocks that are behind EEVDF at 5 %"),
    Name.CHOICE: Goal(
        unit="%", what="the scheduler that the agent held, played without it, above EEVDF: what choosing is worth"
    ),
    Name.BURDEN: Goal(
        unit="points", what="the agent less that scheduler, hundredths: what its work and its switches cost"
    ),
    Name.GEOMETRIC: Goal(unit="%", what="geometric mean of the blocks' ratios agent to EEVDF, above 1"),
    Name.POINTS: Goal(unit="points", what="the agent's score less EEVDF's, mean, hundredths"),
    Name.FORESIGHT: Goal(
        unit="%", what="mean score below that of the scheduler that is best in the block's other repeats"
    ),
    Name.RANDOM_ROUTER: Goal(unit="%", what="mean score above what a scheduler drawn for each run is expected to have"),
    Name.PHASED_EEVDF: Goal(unit="%", what="changing phases: the agent's mean score above EEVDF's"),
    Name.PHASED_ORACLE: Goal(unit="%", what="changing phases: mean score above Static-Oracle's, as in regret_pct"),
    Name.ITSELF: Goal(
        unit="%", what="EEVDF's second copy against its first: what noise alone leaves of the first figure"
    ),
    Name.CPU: Goal(unit="%", what="of one CPU that the agent used, mean of its runs"),
    Name.RESIDENT: Goal(unit="MB", what="the agent's resident memory, mean of its runs"),
    Name.TOTAL: Goal(unit="ms", what="inference and decision together, 99th percentile"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number; `low` to `high` hold it with 95 % confidence. `value` is None when not known, `reason` says why."""

    name: Name
    value: float | None
    low: float | None = None
    high: float | None = None
    detail: str = ""
    reason: str = ""

    @property
    def ok(self) -> bool | None:
        """Does it meet its goal? None where it has none."""
        goal = GOALS[self.name]
        if goal.bound is None:
            return None
        return self.value is not None and _meets(goal, self.value)

    @property
    def sure(self) -> bool | None:
        """Does its whole interval say the same as the value? None where there is no goal, or no interval."""
        goal = GOALS[self.name]
        if goal.bound is None or self.low is None or self.high is None:
            return None
        return all(_meets(goal, end) is self.ok for end in (self.low, self.high))


def _meets(goal: Goal, value: float) -> bool:
    assert goal.bound is not None  # noqa: S101  # both callers have asked
    return {"<=": value <= goal.bound, ">=": value >= goal.bound, ">": value > goal.bound}[goal.sign]
