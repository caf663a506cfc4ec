# SPDX-License-Identifier: GPL-2.0-only
"""What switchback runs are worth, as figures with goals: noise, carry-over, scenarios that tell, evidence an hour; what
there is to gain by choosing, and what the agent takes of it.

Of the runs that `asa lab bench matrix` has kept as tables. Measures nothing itself.
"""

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from asa.core.errors import ModelError
from calibration.controllers.columns import FRESH, LEARNT
from calibration.goals import Named
from calibration.kept import Count
from calibration.oracle import agents, gains, rivals, rounds
from calibration.oracle.choices import Rule
from calibration.oracle.enough import Enough, enough
from calibration.paired import LEVEL, holm
from calibration.scenarios import tables as classic_tables
from calibration.switchback import classic, evidence, tables
from calibration.switchback.carry import CarryOver, carry_over
from calibration.switchback.figures import (
    DIFFERENCE_PCT,
    SCORE,
    Change,
    block_figure,
    changes,
    own_score,
    repeats_for,
)
from calibration.switchback.intensity import HIGH, LOW, tells
from calibration.switchback.probes import MAIN_PROBE
from calibration.switchback.samples import Run

RESULTS = Path(__file__).parents[1] / "results"
FOLDER = RESULTS / "switchback"
KEPT = RESULTS / "evaluation.json"
COMMAND = "python -m calibration.switchback --measure"
_PAIRS, _FLEETS = "pairs", "fleet"
_PARALLEL = "parallel"  # what `make evaluate-fleet` plays; what lies beside it is of the serial clock
_JOBS = 2  # guests at once when the classic runs were recorded (Makefile)


class EvaluationFigure(Named):
    """The figures, each with its goal."""

    EVIDENCE = (
        "evidence_per_hour_ratio",
        "",
        "inverse variance of EEVDF against itself for an hour of a host's CPU, beside the kept evaluation; the median",
        ">=",
        10.0,
    )
    SCATTER = (
        "aa_scatter_pct",
        "%",
        "EEVDF against itself: standard deviation of one round's change of the main figures and the score; the median",
    )
    REPEATS = (
        "aa_repeats",
        "rounds",
        f"that a difference of {DIFFERENCE_PCT:g} % in the score needs; nothing is judged with fewer",
    )
    FALSE = (
        "aa_significant_pct",
        "%",
        "of EEVDF's changes against itself, main figures and score, whose 95 % interval leaves out 0",
        "<=",
        10.0,
    )
    SATURATED = (
        "saturated_pairs_pct",
        "%",
        f"of pairs of machine and scenario in which EEVDF scores less than {LOW:g} or more than {HIGH:g}",
        "<=",
        33.0,
    )
    CARRY = (
        "carry_over_pct",
        "%",
        "of runs whose main figure depends on the scheduler before (F test, Holm over all runs)",
        "<=",
        0.0,
    )
    CLASSIC = (
        "classic_confirmed_pct",
        "%",
        "of a sample of differences: in classic runs, one scheduler a guest, of the same sign and within the interval",
    )
    ORACLE = (
        "oracle_gain_pct",
        "%",
        "Static-Oracle's score over EEVDF's, the oracle chosen by one half of the rounds and judged by the other",
    )
    OVER_STATIC = "oracle_over_best_static_pct", "%", "the same over the best single scheduler, chosen likewise"
    TABLE = "table_share_of_oracle_pct", "%", "of that gain: what a table by class takes that is one for all machines"
    ENERGY = (
        "energy_gain_pct",
        "%",
        "power saved by the most frugal scheduler whose score is not worse by 1 %, chosen likewise",
        ">",
        0.0,
    )
    ROUTED = "routed_share_of_oracle_pct", "%", "of that gain: what the agent takes", ">=", 70.0
    NOT_WORSE = "not_worse_pct", "%", "of the agent's runs: not behind EEVDF's by more than 0.02", ">=", 97.0
    BETTER = (
        "significantly_better_pct",
        "%",
        "of the agent's runs in blocks in which the oracle is better by 5 %: in those that are ahead of EEVDF at 5 %",
        ">=",
        80.0,
    )
    WORSE = "significantly_worse_pct", "%", "of the agent's runs: in blocks that are behind EEVDF at 5 %", "<=", 0.0
    BEST_STATIC = "gain_over_best_static_pct", "%", "the agent's score over the best single scheduler's", ">", 0.0
    LOADER_RULE = "gain_over_loader_rule_pct", "%", "the agent's score over that of scx_loader's --auto rule"
    FRESH = "fresh_install_not_worse_pct", "%", "not_worse_pct of a fresh installation", ">=", 97.0
    FRESH_SHARE = "fresh_install_share_of_oracle_pct", "%", "what it takes of the gain after three hours", ">=", 50.0
    TOP1 = "top1_pct", "%", "of the agent's runs: it held the best scheduler of the block, in hindsight", ">=", 60.0
    TOP3 = "top3_pct", "%", "the same: one of the best three", ">=", 95.0
    UNSEEN = "unseen_gap_points", "points", "gain (%) on prototypes less that on unseen machines", "<=", 3.0
    ADAPT = "adapt_minutes", "min", "machine time of `asa adapt`, the longest of the unseen machines", "<=", 30.0
    BURDEN = "agent_burden_points", "points", "the agent less the scheduler that it held, hundredths", ">=", -0.3


_OF_FLEET = (EvaluationFigure.UNSEEN, EvaluationFigure.ADAPT)


def counts(folder: Path = FOLDER, results: Path = RESULTS) -> Mapping[Named, Count]:
    """How each figure is measured, of the runs in a folder and of classic runs in another."""

    @cache
    def every() -> Sequence[Run]:
        found = tables.known(folder)
        if not found:
            raise ModelError("no switchback run is kept; run `make bench-evaluation` (`asa lab bench matrix`)")
        return [one for one in found if one.blocks]

    @cache
    def runs() -> Sequence[Run]:
        return [one for one in every() if one.orders.in_turns]

    @cache
    def rows() -> Sequence[rounds.Round]:
        return rounds.of_runs(runs())

    return {
        EvaluationFigure.EVIDENCE: lambda: evidence_ratio(runs(), results),
        EvaluationFigure.SCATTER: lambda: scatter(_itself(runs())),
        EvaluationFigure.REPEATS: lambda: repeats(_itself(runs()), enough(rows())),
        EvaluationFigure.FALSE: lambda: significant(_itself(runs())),
        EvaluationFigure.SATURATED: lambda: saturated(runs()),
        EvaluationFigure.CARRY: lambda: carried(runs()),
        EvaluationFigure.CLASSIC: lambda: classic.confirmed(every()),
        EvaluationFigure.ORACLE: lambda: gains.oracle_gain(rows),
        EvaluationFigure.OVER_STATIC: lambda: gains.over_best_static(rows),
        EvaluationFigure.TABLE: lambda: gains.table_share(rows),
        EvaluationFigure.ENERGY: lambda: gains.energy(rows),
        EvaluationFigure.ROUTED: lambda: agents.share_of_oracle(rows),
        EvaluationFigure.NOT_WORSE: lambda: agents.not_worse(rows),
        EvaluationFigure.BETTER: lambda: agents.better(rows),
        EvaluationFigure.WORSE: lambda: agents.worse(rows),
        EvaluationFigure.BEST_STATIC: lambda: agents.over(rows, rivals.TABLES[Rule.STATIC]),
        EvaluationFigure.LOADER_RULE: lambda: agents.over(rows, rivals.LOADER_RULE),
        EvaluationFigure.FRESH: lambda: agents.not_worse(rows, FRESH),
        EvaluationFigure.FRESH_SHARE: lambda: agents.share_of_oracle(rows, LEARNT),
        EvaluationFigure.TOP1: lambda: agents.among_best(rows, 1),
        EvaluationFigure.TOP3: lambda: agents.among_best(rows, 3),
        EvaluationFigure.BURDEN: lambda: agents.burden(rows),
        **{name: gains.of_agent(name, results / _PARALLEL / _FLEETS) for name in _OF_FLEET},
    }


def main_changes(found: Sequence[Change]) -> list[Change]:
    """Those of the score and of the figure that an interactive application is judged by."""
    return [one for one in found if one.probe in (SCORE, *MAIN_PROBE.values())]


def scatter(found: Sequence[Change]) -> tuple[float, str]:
    """Of the kernel's own against itself; and by figure."""
    by_probe: dict[str, list[float]] = {}
    for one in main_changes(found):
        if one.scatter_pct is not None:
            by_probe.setdefault(one.probe, []).append(one.scatter_pct)
    every = [value for values in by_probe.values() for value in values]
    told = ", ".join(f"{name} {statistics.median(values):.2g} %" for name, values in sorted(by_probe.items()))
    return statistics.median(every), f"{len(every)} figures of {_runs(found)} runs: {told}"


def repeats(found: Sequence[Change], needed: Enough) -> tuple[float, str]:
    """Of the score over all scenarios, by which all is judged; and by figure in the median scenario."""
    by_probe: dict[str, list[int | None]] = {}
    for one in main_changes(found):
        if one.scatter_pct is not None:
            by_probe.setdefault(one.probe, []).append(repeats_for(one.scatter_pct))
    medians = {name: _middle(values) for name, values in by_probe.items()}
    told = ", ".join(f"{name} {'too many' if one is None else one}" for name, one in sorted(medians.items()))
    if needed.whole is None:
        raise ModelError("the score's scatter is not known, or too large; play more rounds")
    known = [one for one in needed.by_label.values() if one is not None]
    spread = f"; single scenarios {min(known)} to {max(known)}" if known else ""
    return float(needed.whole), f"at 5 %, seen in four of five runs{spread}; medians of runs: {told}"


def significant(found: Sequence[Change]) -> tuple[float, str]:
    """How often noise alone was taken for a difference."""
    told = [one for one in main_changes(found) if one.low is not None]
    wrong = [one for one in told if one.verdict]
    return 100.0 * len(wrong) / len(told), f"{len(wrong)} of {len(told)}; by chance alone it is 5 % in the mean"


def saturated(runs: Sequence[Run]) -> tuple[float, str]:
    """By the score of EEVDF's blocks together."""
    scores = {(one.machine, one.orders.label): score for one in runs if (score := own_score(one)) is not None}
    out = {key: score for key, score in scores.items() if not tells(score)}
    named = "".join(f"; {label} {score:.2f}" for (_, label), score in sorted(out.items()))
    machines = ", ".join(sorted({machine for machine, _ in scores}))
    return 100.0 * len(out) / len(scores), f"{len(out)} of {len(scores)} pairs on {machines}{named}"


def carried(runs: Sequence[Run]) -> tuple[float, str]:
    """By the main figure of each block."""
    found = [(one, carry_over(one.blocks, block_figure(one))) for one in runs]
    told = [(one, carry) for one, carry in found if carry.p is not None]
    adjusted = holm([carry.p or 0.0 for _, carry in told])
    wrong = [one for one, p in zip(told, adjusted, strict=True) if p < LEVEL]
    largest = max((carry for _, carry in told), key=lambda carry: abs(carry.pct or 0.0), default=CarryOver(blocks=0))
    words = "" if largest.pct is None else f"; the largest effect {largest.pct:+.1f} %, after {largest.after}"
    named = "".join(f"; {one.id} {carry.pct:+.1f} % after {carry.after}" for one, carry in wrong)
    return 100.0 * len(wrong) / len(told), f"{len(wrong)} of {len(told)} runs{named}{words}"


def evidence_ratio(runs: Sequence[Run], results: Path = RESULTS) -> tuple[float, str]:
    """Against a trial of the kept evaluation; the detail has it against one of the kept pairs, too."""
    ours = evidence.of_switchback(runs)
    played = classic_tables.read(results / _PAIRS)
    pairs_s = evidence.trial_s(_starts([results / _PAIRS]), _JOBS)
    fleets_s = min(evidence.trial_s(_starts(sorted(one.iterdir())), _JOBS) for one in _evaluations(results))
    found = {
        name: evidence.ratio(ours, evidence.of_classic(played, trial_s))
        for name, trial_s in ((_FLEETS, fleets_s), (_PAIRS, pairs_s))
    }
    whole, cheap = found[_FLEETS], found[_PAIRS]
    if whole is None or cheap is None:
        raise ModelError("switchback runs and classic ones share no figure; play `eevdf` among the schedulers")
    detail = (
        f"{whole[1]} figures of {len(runs)} runs; {ours.pair_s:.0f} s of a CPU for a pair here, {2 * fleets_s:.0f} s "
        f"in the kept evaluation; {cheap[0]:.3g} beside the kept runs of EEVDF twice, {2 * pairs_s:.0f} s for a pair; "
        "these are of the serial clock"
    )
    return whole[0], detail


def _itself(runs: Sequence[Run]) -> list[Change]:
    found = [one for run in runs for one in changes(run) if one.against_itself]
    if not any(one.scatter_pct is not None for one in main_changes(found)):
        raise ModelError("no run has EEVDF against itself in three rounds; play `eevdf` among the schedulers")
    return found


def _evaluations(results: Path) -> list[Path]:
    found = sorted((results / _FLEETS).glob("seed-*"))
    if not found:
        raise ModelError(f"{results / _FLEETS}: no evaluation is kept; run `make evaluate-fleet`")
    return found


def _starts(folders: Sequence[Path]) -> list[int]:
    return [row["started_ns"] for folder in folders for row in classic_tables.rows(folder)]


def _middle(values: Sequence[int | None]) -> int | None:
    ordered = sorted(values, key=lambda one: (one is None, one))
    return ordered[len(ordered) // 2]


def _runs(found: Sequence[Change]) -> int:
    return len({one.run for one in found})
