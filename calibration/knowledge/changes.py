# SPDX-License-Identifier: GPL-2.0-only
"""Change points that were tried beside the coming and going of known programs: CUSUM (Page, Biometrika 41, 1954). Pure.

By rates: PANDEMONIUM 5.3.1 watches for bursts with a slack of 25 % and a threshold of two running means. By classes:
the evidence of each class against the one that a tick named when the sum began, as `calibration.voting.filters` has it.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

from asa.core.decision import Probabilities, Workload

SLACK = 0.25
THRESHOLD = 2.0
"""Running means."""
_NEW = 0.25  # of a running mean, that a value more is

BOUND, DRIFT, LEAST = 3.0, 0.5, 0.01
"""Nats until a class counts as another use, what is taken off a tick, and the smallest probability that is believed."""
SURE = 6.0
"""Nats that a single tick cannot have. Chosen beside 3 on the first three sequences; the other three said the same."""


def of_rates(rates: Iterable[float | None]) -> Iterator[tuple[bool, bool]]:
    """Of each value: is it a change, up or down; and does a burst go on that began with a change up? It is over where
    the value is back within the slack of what was before."""
    mean: float | None = None
    up = down = 0.0
    calm: float | None = None  # the mean before the burst that goes on
    for rate in rates:
        if rate is None or mean is None:
            mean, up, down, calm = rate, 0.0, 0.0, None
            yield False, False
            continue
        up = max(0.0, up + rate - mean * (1.0 + SLACK))
        down = max(0.0, down + mean * (1.0 - SLACK) - rate)
        more, fewer = up > THRESHOLD * mean, down > THRESHOLD * mean
        if more and calm is None:
            calm = mean
        if calm is not None and rate <= calm * (1.0 + SLACK):
            calm = None
        if more or fewer:
            mean, up, down = rate, 0.0, 0.0
        else:
            mean += _NEW * (rate - mean)
        yield more or fewer, calm is not None


def of_classes(ticks: Sequence[Probabilities | None], bound: float = BOUND) -> Iterator[bool]:
    """Of each tick: is another class there than the one that stood when the sums began? By so many nats."""
    sums: dict[Workload, float] = {}
    standing: Workload | None = None
    for one in ticks:
        if one is None:
            sums, standing = {}, None
            yield False
            continue
        if standing is None:
            standing = _first(one)
        against = max(LEAST, one.of(standing))
        for name, value in zip(one.classes, one.values, strict=True):
            if name != standing:
                sums[name] = max(0.0, sums.get(name, 0.0) + math.log(max(LEAST, value) / against) - DRIFT)
        changed = max(sums.values(), default=0.0) >= bound
        if changed:
            sums, standing = {}, _first(one)
        yield changed


def _first(one: Probabilities) -> Workload:
    return one.classes[one.values.index(max(one.values))]
