# SPDX-License-Identifier: GPL-2.0-only
"""What confirmed policies add to the portfolio: the best static choice with them, against the best one without.

All of the portfolio that is installed, the kernel's own and the policies take turns in one guest, by figures of the
scale benchmark. Odd rounds choose the best of each figure, with and without policies; even rounds say what each choice
is worth, and the other way round. So a lucky round does not choose and judge.
"""

import statistics
from collections.abc import Callable, Sequence

from asa.core.errors import AsaError
from calibration.policies import playing
from calibration.policies.played import Orders, Played
from calibration.policies.playing import Bench, Tell
from calibration.scale.samples import METRICS, Metric
from calibration.tuning.outcome import Outcome

_NAME = "portfolio"
_ROUNDS, _SEED, _SECONDS = 4, 4, 0.3
_WANTED = ("throughput", "burst_p99", "pipe_p50", "futex_p50", "launch_p50", "messages", "requests", "request_p99")


def metrics(kept: Sequence[Outcome]) -> list[Metric]:
    """One figure of each kind of load, and those that the policies are for."""
    return [one for one in METRICS if one.name in {*_WANTED, *(policy.workload for policy in kept)}]


def orders(bench: Bench, policies: Sequence[Outcome]) -> Orders:
    """Of the guest."""
    subjects = [bench.own(), *bench.portfolio()]
    subjects += [bench.known(one.scheduler, _name(one), one.arguments) for one in policies]
    modes = dict.fromkeys(one.mode for one in metrics(policies))
    return Orders(
        subjects=tuple(subjects),
        measures=tuple(bench.scale(mode, _SECONDS) for mode in modes),
        rounds=_ROUNDS,
        seed=_SEED,
    )


def gain(policies: Sequence[Outcome], tell: Tell) -> tuple[float, str]:
    """The mean over figures, in per cent; `policies` are the confirmed ones. Raises AsaError."""
    if not policies:
        raise AsaError("no policy was confirmed on another machine: the portfolio is as it was")
    found = playing.played(_NAME, lambda bench: orders(bench, policies), tell)
    added = {_name(one) for one in policies}
    if missing := added.difference(found.names):
        raise AsaError(
            f"{', '.join(sorted(missing))}: not played; remove {playing.KEPT / _NAME}.json and measure again"
        )
    gains = {one.name: _gain(found, one, added) for one in metrics(policies)}
    shown = ", ".join(f"{name} {value:+.1f} %" for name, value in gains.items())
    return statistics.fmean(gains.values()), f"{shown} ({len(added)} policies, {_ROUNDS} rounds)"


def _gain(found: Played, metric: Metric, added: set[str]) -> float:
    values = {name: _by_round(found, name, metric) for name in found.names}
    halves = [{number for number in range(1, _ROUNDS + 1) if number % 2 == half} for half in (0, 1)]
    gains = []
    for chosen_by, judged_by in (halves, halves[::-1]):
        without = _best({name: one for name, one in values.items() if name not in added}, metric, chosen_by)
        with_ = _best(values, metric, chosen_by)
        before, after = (_mean(values[name], judged_by) for name in (without, with_))
        if before is None or after is None:
            raise AsaError(f"{metric.name}: too few rounds have it; remove {playing.KEPT / _NAME}.json, measure again")
        gains.append(100.0 * (after - before) / before * (1.0 if metric.more_is_better else -1.0))
    return statistics.fmean(gains)


def _best(values: dict[str, dict[int, float]], metric: Metric, rounds: set[int]) -> str:
    told = {name: mean for name, one in values.items() if (mean := _mean(one, rounds)) is not None}
    if not told:
        raise AsaError(f"{metric.name}: nobody has it; remove {playing.KEPT / _NAME}.json and measure again")
    pick: Callable[..., str] = max if metric.more_is_better else min
    return pick(told, key=lambda name: told[name])


def _mean(values: dict[int, float], rounds: set[int]) -> float | None:
    told = [value for number, value in values.items() if number in rounds]
    return statistics.fmean(told) if told else None


def _by_round(found: Played, subject: str, metric: Metric) -> dict[int, float]:
    return {
        one.round: value
        for one in found.readings
        if (one.subject, one.label) == (subject, metric.mode) and (value := metric.value(one.values)) is not None
    }


def _name(one: Outcome) -> str:
    return str(one.policy)
