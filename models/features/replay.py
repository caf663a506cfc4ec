# SPDX-License-Identifier: GPL-2.0-only
"""From samples to what the model sees, one after the other: the agent's own step, and a whole recording by it.

What takes recordings (training, the sweep of the filters, fine-tuning, explanations) goes through `ticks`, so that all
of them see gaps and missing counters as the agent does.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from asa.core.sample import RawSample
from collectors import rates
from collectors.rates import Plan, Rates
from models.features.tick import FIELDS
from models.features.window import Window, push

_PLAN = Plan(FIELDS)


class Tick(NamedTuple):
    """What is known after a sample (CLOCK_MONOTONIC, ns). `window` is None where there is nothing to judge by."""

    since_ns: int  # the sample before
    at_ns: int
    wall_ns: int  # CLOCK_REALTIME at `at_ns`: a suspend or a set clock moves the two apart
    window: Window | None


def take(before: Window, derived: Rates | None, sample: RawSample) -> Window:
    """The window after a sample: a new one after a gap (`derived` is None), as it was without the cores' counters."""
    if derived is None:
        return Window()  # CLOCK_MONOTONIC stood still while the machine slept: what was seen before looks young
    if sample.cpu is None:
        return before
    return push(before, sample.monotonic_ns, derived, len(sample.cpu.cores))


def is_new(window: Window, sample: RawSample) -> bool:
    """Whether the sample was taken in: only then there is something to judge."""
    return bool(window.times_ns) and window.times_ns[-1] == sample.monotonic_ns


def ticks(samples: Iterable[RawSample]) -> Iterator[Tick]:
    """One for each sample but the first."""
    window = Window()
    for previous, sample in pairwise(samples):
        window = take(window, rates.derive(previous, sample, _PLAN), sample)
        seen = window if is_new(window, sample) else None
        yield Tick(previous.monotonic_ns, sample.monotonic_ns, sample.wall_ns, seen)
