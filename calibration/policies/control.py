# SPDX-License-Identifier: GPL-2.0-only
"""The control of compositions: does the preset `vtime` do what `scx_simple` does?

Both take turns in one guest, by figures of the scale benchmark. Each figure is judged by its own noise.
"""

import statistics

from asa.core.errors import AsaError
from calibration.paired import Paired, paired
from calibration.policies import playing
from calibration.policies.played import Orders, Played
from calibration.policies.playing import Bench, Tell
from calibration.scale.samples import METRICS, Metric

_NAME = "control"
_ROUNDS, _SEED, _SECONDS = 4, 2, 0.3
_WANTED = ("throughput", "wakeup_p50", "pipe_p50", "futex_p50", "launch_p50", "messages", "requests")
_FLOOR_PCT = 0.1  # the smallest scatter that means anything
_CONTROL, _SIMPLE = "vtime", "scx_simple"


def metrics() -> list[Metric]:
    """Those that are compared."""
    return [one for one in METRICS if one.name in _WANTED]


def orders(bench: Bench) -> Orders:
    """Of the guest."""
    modes = dict.fromkeys(one.mode for one in metrics())
    return Orders(
        subjects=(bench.composed(_CONTROL), bench.known(_SIMPLE)),
        measures=tuple(bench.scale(mode, _SECONDS, plays=1) for mode in modes),
        rounds=_ROUNDS,
        seed=_SEED,
    )


def difference(tell: Tell) -> tuple[float, str]:
    """Median of the figures' differences without their signs, in per cent. Raises AsaError."""
    found = playing.played(_NAME, orders, tell)
    shown, sizes = [], []
    for metric in metrics():
        one = _difference(found, metric)
        sizes.append(abs(one.mean))
        shown.append(f"{metric.name} {one.mean:+.1f} ({one.low:+.1f} to {one.high:+.1f}) %")
    return statistics.median(sizes), f"{', '.join(shown)} ({_ROUNDS} rounds)"


def _difference(found: Played, metric: Metric) -> Paired:
    ours, theirs = (_by_round(found, subject, metric) for subject in (_CONTROL, _SIMPLE))
    made = paired([100.0 * (ours[one] - theirs[one]) / theirs[one] for one in ours if one in theirs], _FLOOR_PCT)
    if made is None or made.low is None:
        raise AsaError(f"{metric.name}: too few rounds have it; remove {playing.KEPT / _NAME}.json and measure again")
    return made


def _by_round(found: Played, subject: str, metric: Metric) -> dict[int, float]:
    told: dict[int, list[float]] = {}
    for one in found.readings:
        if (one.subject, one.label) == (subject, metric.mode) and (value := metric.value(one.values)) is not None:
            told.setdefault(one.round, []).append(value)
    return {number: statistics.fmean(values) for number, values in told.items()}
