# SPDX-License-Identifier: GPL-2.0-only
"""The design of a switchback run: who plays when, how long a block is, and which samples are a block's. Pure.

Standard library alone: the guest's part uses it.
"""

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asa.core.decision import EEVDF

LEAST_S, MOST_S = 5.0, 20.0
"""Of a block's window, seconds of the guest."""

INDEPENDENT = 8
"""Values of the main metric that a window is to hold, as if they were independent. Our choice."""

_FEWEST = 8  # samples of which an autocorrelation is told
_RATE_NS = 1_000_000_000  # stand-ins measure rates each second
_RATES = ("_per_s", "_per_min", "fps", "iops")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One block of a round. `copy` tells blocks of one scheduler in a round apart, from 1."""

    scheduler: str
    copy: int


def orders(schedulers: Sequence[str], rounds: int, seed: int) -> tuple[tuple[Turn, ...], ...]:
    """The turns of each round: the kernel's own first and last, all `schedulers` between, in an order drawn anew.

    The kernel's own among `schedulers` is compared with itself: copies 1 and 2 are the first and the last block.
    """
    rng = random.Random(f"switchback {seed}")  # noqa: S311
    first = {str(EEVDF): 3}
    between = []
    for place, name in enumerate(schedulers):
        copy = first.get(name, 1) + list(schedulers[:place]).count(name)
        between.append(Turn(scheduler=name, copy=copy))
    ends = (Turn(scheduler=EEVDF, copy=1), Turn(scheduler=EEVDF, copy=2))
    return tuple((ends[0], *rng.sample(between, len(between)), ends[1]) for _ in range(rounds))


def throughout(scheduler: str, windows: int) -> tuple[tuple[Turn, ...], ...]:
    """One round in which a scheduler has all turns: nobody else is in force between them."""
    return (tuple(Turn(scheduler=scheduler, copy=copy) for copy in range(1, windows + 1)),)


def correlation_time(values: Sequence[float]) -> float | None:
    """Samples between two that are as good as independent: 1 of white noise, more the longer a value is remembered.

    The integrated autocorrelation time, 1 + 2 sum rho_k up to the first rho_k that is not positive (Geyer, 1992). None
    of fewer than eight values. 1 where they are all equal.
    """
    count = len(values)
    if count < _FEWEST:
        return None
    mean = statistics.fmean(values)
    away = [value - mean for value in values]
    variance = sum(one * one for one in away)
    if variance == 0.0:
        return 1.0
    total = 1.0
    for lag in range(1, count // 2):
        rho = sum(away[at] * away[at + lag] for at in range(count - lag)) / variance
        if rho <= 0.0:
            break
        total += 2.0 * rho
    return total


def memory_s(metric: str, at_s: Sequence[float], values: Sequence[float]) -> float | None:
    """The same in seconds, by the samples' mean distance. Of a rate, which leaves out nothing, what is beyond it."""
    samples = correlation_time(values)
    if samples is None:
        return None
    apart_s = (max(at_s) - min(at_s)) / (len(at_s) - 1)
    return (samples - (1.0 if is_rate(metric) else 0.0)) * apart_s


def window_s(memories_s: Mapping[str, float | None]) -> float:
    """Seconds of a window that holds INDEPENDENT values of the metric that remembers longest, within the bounds."""
    longest = max((one for one in memories_s.values() if one is not None), default=MOST_S / INDEPENDENT)
    return round(min(max(LEAST_S, INDEPENDENT * longest), MOST_S), 1)


def is_rate(metric: str) -> bool:
    """Is it work done in a time, measured each second?"""
    return metric.endswith(_RATES)


def of_block(metric: str) -> bool:
    """Can a block tell it? The time of a whole film or build is longer than a block; their rates tell the same."""
    return metric.endswith("_per_s") or not metric.endswith("_s")


def began_ns(metric: str, at_ns: int, value: float) -> int:
    """When what a sample tells began: a wait that began in a block is that block's, however late it ended."""
    if is_rate(metric):
        return at_ns - _RATE_NS
    return at_ns - int(value * 1e6) if metric.endswith("_ms") else at_ns
